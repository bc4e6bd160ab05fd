"""Tavily (https://docs.tavily.com/documentation/api-reference/endpoint/search). It filters domains itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.hosted import FoundSource
from dragoman.core.transport import Transport
from dragoman.hosted.search.backend import SearchQuery, fetch_json, read_sources

if TYPE_CHECKING:
    from dragoman.hosted.settings import WebSearchSettings

_MOST = 20


class Tavily(Struct, frozen=True):
    url: str
    api_key: str
    transport: Transport

    async def search(self, query: SearchQuery) -> list[FoundSource]:
        asked: dict[str, Any] = {"query": query.text, "max_results": min(query.count, _MOST)}
        if query.allowed:
            asked["include_domains"] = query.allowed
        if query.blocked:
            asked["exclude_domains"] = query.blocked
        headers = {"authorization": f"Bearer {self.api_key}"}
        found = await fetch_json(self.transport, self.url, headers, asked, post=True)
        return read_sources(found.get("results"), text="content", age="published_date")


def make(settings: WebSearchSettings, transport: Transport) -> Tavily:
    if not settings.api_key:
        raise ConfigError('Tavily needs api_key, such as "env:TAVILY_API_KEY"')
    return Tavily(
        f"{settings.url.rstrip('/') or 'https://api.tavily.com'}/search", settings.api_key, transport
    )
