"""Brave Search (https://api-dashboard.search.brave.com/app/documentation/web-search)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.core.hosted import FoundSource
from dragoman.core.jsontext import is_object
from dragoman.core.transport import Transport
from dragoman.hosted.search.backend import SearchQuery, fetch_json, read_sources, with_sites

if TYPE_CHECKING:
    from dragoman.hosted.settings import WebSearchSettings

_MOST = 20  # Brave answers 422 above


class Brave(Struct, frozen=True):
    url: str
    api_key: str
    transport: Transport

    async def search(self, query: SearchQuery) -> list[FoundSource]:
        asked = {"q": with_sites(query), "count": min(query.count, _MOST), "country": query.country}
        headers = {"x-subscription-token": self.api_key}
        found = (await fetch_json(self.transport, self.url, headers, asked)).get("web")
        return read_sources(found.get("results") if is_object(found) else None, text="description", age="age")


def make(settings: WebSearchSettings, transport: Transport) -> Brave:
    if not settings.api_key:
        raise ConfigError('Brave needs api_key, such as "env:BRAVE_API_KEY"')
    address = settings.url.rstrip("/") or "https://api.search.brave.com"
    return Brave(f"{address}/res/v1/web/search", settings.api_key, transport)
