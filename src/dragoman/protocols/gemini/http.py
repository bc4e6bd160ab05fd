"""Paths and headers of an upstream: the model and the method are in the URL."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from dragoman.core.codec import Http

_RESOURCES = ("tunedModels/", "publishers/", "projects/")  # names of models that are paths already


def path(model: str, stream: bool) -> str:
    return method_path(model, "streamGenerateContent?alt=sse" if stream else "generateContent")


@lru_cache(1024)
def method_path(model: str, method: str) -> str:
    name = model.removeprefix("models/")
    if name.startswith(_RESOURCES) and ".." not in name.split("/"):  # a name must not leave the path
        resource = quote(name, safe="/")  # `%` is escaped too: a server might decode `%2e%2e`
    else:
        resource = f"models/{quote(name, safe='')}"
    return f"/v1beta/{resource}:{method}"


def _resource(model: str) -> str:
    return model if model.startswith(("models/", *_RESOURCES)) else f"models/{model}"


HTTP = Http(
    path=path,
    authenticate=lambda credential, request: {"x-goog-api-key": credential.key},
    signs=False,
    model_in_body=False,
    resource=_resource,
)
