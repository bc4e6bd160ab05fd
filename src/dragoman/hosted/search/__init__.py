"""Search backends: one small module each, found by name. A package adds one by an entry point of the group
`dragoman.search_backends`, a function of the settings and a transport.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.core.transport import Transport
from dragoman.hosted.search.backend import SearchBackend

if TYPE_CHECKING:
    from dragoman.hosted.mcp_tools import McpExecutor
    from dragoman.hosted.settings import WebSearchSettings

BUILT_IN = ("brave", "searxng", "tavily")
MCP = "mcp:"


def find_backend(settings: WebSearchSettings, transport: Transport, servers: McpExecutor) -> SearchBackend:
    name = settings.backend
    if name.startswith(MCP):
        from dragoman.hosted.search.mcp_server import McpSearch

        servers.require_configured(server := name.removeprefix(MCP))
        return McpSearch(settings, servers, server)
    if name in BUILT_IN:
        return import_module(f"dragoman.hosted.search.{name}").make(settings, transport)
    added = {entry.name: entry for entry in entry_points(group="dragoman.search_backends")}
    if name not in added:
        raise ConfigError(
            describe_unknown("search backend", name, [*sorted({*BUILT_IN, *added}), "mcp:SERVER"])
        )
    make: Callable[[WebSearchSettings, Transport], SearchBackend] = added[name].load()
    return make(settings, transport)
