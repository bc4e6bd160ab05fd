"""`web_search` for models whose provider has none: a search backend of yours, with the client's filters."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.hosted import HostedResult, pages_in_words
from dragoman.core.jsontext import is_object
from dragoman.core.model import HostedKind, HostedTool, Text, ToolCall, ToolDeclaration
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.search.backend import SearchBackend, SearchFailed, SearchQuery, is_address, is_wanted
from dragoman.hosted.settings import WebSearchSettings

LONGEST_QUERY = 1000  # characters
SEARCH = ToolDeclaration(
    "web_search",
    "Search the web. Returns titles, addresses and excerpts of pages. Cite the addresses that you use.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for"}},
        "required": ["query"],
    },
)
_COUNTS = {"low": 0.5, "medium": 1.0, "high": 2.0}  # OpenAI's search_context_size


class WebSearchExecutor:
    kind: HostedKind = "web_search"

    def __init__(self, settings: WebSearchSettings, backend: SearchBackend) -> None:
        self._settings, self._backend = settings, backend

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        place = _place(tool.settings)
        named = ", ".join(str(place[key]) for key in ("city", "region", "country") if place.get(key))
        if not named:
            return DeclaredFunctions((SEARCH,))
        told = f"{SEARCH.description} The user is in {named}."
        return DeclaredFunctions((replace(SEARCH, description=told),))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        text = read_argument(call, "query")
        if not text:
            return failure("invalid_input", "web_search needs a query")
        if len(text) > LONGEST_QUERY:
            return failure("query_too_long", f"a query has at most {LONGEST_QUERY} characters")
        query = self._query(text, tool.settings)
        try:
            found = await self._backend.search(query)
        except SearchFailed as error:
            return failure(error.error, str(error))
        ours = self._settings.allowed_domains
        wanted = [
            source
            for source in found
            if (is_address(source.url) or not source.url)
            and is_wanted(source.url, query.allowed, query.blocked)
            and is_wanted(source.url, ours, ())
        ]
        wanted = wanted[: query.count]
        return HostedResult((Text(pages_in_words(wanted)),), tuple(wanted))

    async def close(self) -> None:
        """Its connections are the gateway's."""

    def _query(self, text: str, settings: dict[str, Any]) -> SearchQuery:
        count = self._settings.count * _COUNTS.get(str(settings.get("context_size")), 1.0)
        return SearchQuery(
            text,
            max(int(count), 1),
            tuple(settings.get("allowed_domains") or self._settings.allowed_domains),
            tuple(settings.get("blocked_domains") or ()),
            str(_place(settings).get("country") or ""),
        )


def _place(settings: dict[str, Any]) -> dict[str, Any]:
    location = settings.get("location")
    return location if is_object(location) else {}


def read_argument(call: ToolCall, name: str) -> str:
    """A text of the arguments; empty where it is missing or the arguments are no object."""
    try:
        arguments = jsontext.decode(call.arguments)
    except ValueError:
        return ""
    value = arguments.get(name) if is_object(arguments) else None
    return value.strip() if isinstance(value, str) else ""
