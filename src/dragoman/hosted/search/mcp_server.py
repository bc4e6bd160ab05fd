"""The search tool of an MCP server from the configuration as a search backend.

MCP says nothing of what a search gives: rows with an address are sources, and any other text is one source
that has only its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.core import jsontext
from dragoman.core.hosted import FoundSource
from dragoman.core.jsontext import is_array, is_object
from dragoman.hosted.search.backend import SearchFailed, SearchQuery, with_sites
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.session import McpError

if TYPE_CHECKING:
    from dragoman.hosted.mcp_tools import McpExecutor
    from dragoman.hosted.settings import WebSearchSettings

_TEXTS = ("content", "description", "snippet", "text")


class McpSearch:
    def __init__(self, settings: WebSearchSettings, servers: McpExecutor, server: str) -> None:
        self._servers, self._server, self._tool = servers, server, settings.tool

    async def search(self, query: SearchQuery) -> list[FoundSource]:
        try:
            session, tools = await self._servers.open_configured(self._server)
            name = self._tool or next((tool.name for tool in tools if "search" in tool.name.lower()), "")
            if name not in {tool.name for tool in tools}:
                raise SearchFailed("unavailable", f"the MCP server {self._server} has no search tool")
            result = await session.call(name, {"query": with_sites(query)})
        except McpError as error:
            raise SearchFailed("unavailable", str(error)) from None
        texts, _ = split_content(result)
        if result.is_error:
            raise SearchFailed("unavailable", "\n".join(texts)[:500])
        return [source for text in texts for source in _read(text)]


def _read(text: str) -> list[FoundSource]:
    try:
        value: Any = jsontext.decode(text)
    except ValueError:
        return [FoundSource("", text=text)]
    rows: Any = value.get("results") or value.get("result") or [value] if is_object(value) else value
    found = (
        [row for row in rows if is_object(row) and isinstance(row.get("url"), str)] if is_array(rows) else []
    )
    if not found:
        return [FoundSource("", text=text)]
    return [
        FoundSource(
            row["url"],
            str(row.get("title") or ""),
            next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), ""),
        )
        for row in found
    ]
