"""`web_search` for models whose provider has none: a search backend of yours, with the client's filters."""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.jsontext import is_object
from dragoman.core.model import HostedKind, HostedTool, Text, ToolCall, ToolDeclaration
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.search.backend import SearchBackend, SearchFailed, SearchQuery, is_wanted
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
        return DeclaredFunctions((SEARCH,))

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
            if not source.url
            or (is_wanted(source.url, query.allowed, query.blocked) and is_wanted(source.url, ours, ()))
        ]
        return describe_sources(text, wanted[: query.count])

    async def close(self) -> None:
        """Its connections are the gateway's."""

    def _query(self, text: str, settings: dict[str, Any]) -> SearchQuery:
        place: dict[str, Any] = settings["location"] if is_object(settings.get("location")) else {}
        count = self._settings.count * _COUNTS.get(str(settings.get("context_size")), 1.0)
        return SearchQuery(
            text,
            max(int(count), 1),
            tuple(settings.get("allowed_domains") or self._settings.allowed_domains),
            tuple(settings.get("blocked_domains") or ()),
            str(place.get("country") or ""),
        )


def describe_sources(query: str, sources: list[FoundSource]) -> HostedResult:
    """What the model reads: numbered results, each with its address."""
    if not sources:
        return HostedResult((Text(f"No results for {query!r}."),))
    lines = [
        "\n".join(
            part for part in (f"[{number}] {source.title}", source.url, source.age, source.text) if part
        )
        for number, source in enumerate(sources, 1)
    ]
    return HostedResult((Text("\n\n".join(lines)),), tuple(sources))


def read_argument(call: ToolCall, name: str) -> str:
    """A text of the arguments; empty where it is missing or the arguments are no object."""
    try:
        arguments = jsontext.decode(call.arguments)
    except ValueError:
        return ""
    value = arguments.get(name) if is_object(arguments) else None
    return value.strip() if isinstance(value, str) else ""
