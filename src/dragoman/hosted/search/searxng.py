"""SearXNG, on your own machine: `formats: [html, json]` must stand in its settings.yml
(https://docs.searxng.org/dev/search_api.html)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.hosted import FoundSource
from dragoman.core.transport import Transport
from dragoman.hosted.search.backend import SearchQuery, fetch_json, read_sources, with_sites

if TYPE_CHECKING:
    from dragoman.hosted.settings import WebSearchSettings


class SearXng(Struct, frozen=True):
    url: str
    transport: Transport

    async def search(self, query: SearchQuery) -> list[FoundSource]:
        asked = {"q": with_sites(query), "format": "json"}
        found = await fetch_json(self.transport, self.url, {}, asked)
        return read_sources(found.get("results"), text="content", age="publishedDate")


def make(settings: WebSearchSettings, transport: Transport) -> SearXng:
    if not settings.url:
        raise ConfigError('SearXNG needs url, its address, such as "http://127.0.0.1:8888"')
    return SearXng(f"{settings.url.rstrip('/')}/search", transport)
