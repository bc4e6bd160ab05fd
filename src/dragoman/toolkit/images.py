"""`view_image`: a local image, shown to the model."""

from __future__ import annotations

from dragoman.client.tools import Tool
from dragoman.core.model import Media, Text
from dragoman.toolkit.files import attached
from dragoman.toolkit.limits import Limits
from dragoman.toolkit.root import Refused, Root
from dragoman.toolkit.schema import parameters, string


def image_tools(root: Root, limits: Limits) -> list[Tool]:
    def view_image(path: str) -> list[Text | Media]:
        found = attached(root.read(path, limits.file))
        if found is None or found.kind != "image":
            raise Refused(f"{path} is not an image")
        return [Text(f"Image {path} ({found.media_type})"), found]

    return [
        Tool(
            name="view_image",
            description="Look at an image file",
            parameters=parameters(["path"], path=string("The image: PNG, JPEG, GIF or WebP")),
            function=view_image,
        )
    ]
