"""The standard tools of coding agents, rooted in a directory, with their usual names and result texts.

tools = standard_tools("project")
run("What does this project do?", model, tools)
"""

from __future__ import annotations

import os

from dragoman.client.tools import Tool
from dragoman.fetch import is_public
from dragoman.toolkit.files import file_tools, image_tools
from dragoman.toolkit.limits import Limits
from dragoman.toolkit.root import Refused, Root
from dragoman.toolkit.search import search_tools
from dragoman.toolkit.shell import shell_tools
from dragoman.toolkit.web import Allowed, Hit, Search, web_tools

READING = frozenset(
    ("read_file", "read_many_files", "search_file_content", "google_web_search", "view_image")
)  # the tools that neither change anything nor reach an address of the model's choice


def standard_tools(
    root: str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    search: Search | None = None,
    ripgrep: str | None = None,
    allowed: Allowed = is_public,
) -> list[Tool]:
    """All of them; choose by name.

    `search` answers `google_web_search`. `ripgrep` is its path, "" for none, None to look for it.
    `allowed` says which addresses `web_fetch` may connect to: default: public ones.
    """
    place, bounds = Root(root), limits or Limits()
    return [
        *shell_tools(place, bounds),
        *file_tools(place, bounds),
        *search_tools(place, bounds, ripgrep),
        *web_tools(bounds, search, allowed),
        *image_tools(place, bounds),
    ]


__all__ = ["READING", "Hit", "Limits", "Refused", "Root", "standard_tools"]
