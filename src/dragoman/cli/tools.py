"""The standard tools that a command selects, by name, restricted to a directory."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dragoman.client import Tool
from dragoman.toolkit import READING, standard_tools


def chosen(root: str, names: Sequence[str], read_only: bool = False) -> list[Tool]:
    """The tools with these names, or all of them."""
    known = {tool.name: tool for tool in standard_tools(root)}
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no tool {name!r}; the tools are: {', '.join(known)}")
    wanted = names or known
    return [tool for name, tool in known.items() if name in wanted and (not read_only or name in READING)]
