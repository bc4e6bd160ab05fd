"""Routes of protocols: one method and path each, and the table that finds the one that is asked for.

Protocols share paths (`/v1/models` is a list in three of them), so precedence is a property of the route:
one that requires a header is tried before one that does not, then the one with more literal characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import Framing

Owner = TypeVar("Owner")
_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_NAMED = ("model", "id", "item")  # parameters that become fields of the RouteMatch
_VERSION = "/v1"
_REPEATED = re.compile(r"/{2,}")
_TWO_VERSIONS = re.compile(r"^(?:/v1){2,}(?=/|$)")
_PREFIX = re.compile(r"^(?:/v1)?/(?:openai|anthropic|api|v1beta/openai)(?=/)")


class RouteMatch(Struct, frozen=True):
    """What a URL asks for. `model` and `stream` are set where the URL names them; `framing`: of a streamed
    answer, where it is not that of its protocol. `id` names a stored response or conversation, `item` one of
    its items. `variant` is that of the route.
    """

    action: str
    model: str = ""
    stream: bool | None = None
    framing: Framing | None = None
    id: str = ""
    variant: str = ""
    item: str = ""


class Route(Struct, frozen=True):
    """One method and path, and the action that answers it.

    In `path`, `{name}` matches one segment and `{name:path}` any number of them; the first segment is
    literal. `model`, `id` and `item` become fields of the RouteMatch. `requires` names headers of which one
    must be present, or, as `?name`, query parameters. `query` reads more fields of the RouteMatch from the
    query. `variant` tells apart what several routes with one action do differently. `framing` is that of its
    streamed answers.
    """

    method: str
    path: str
    action: str
    requires: tuple[str, ...] = ()
    stream: bool | None = None
    query: Callable[[Mapping[str, str]], dict[str, Any]] | None = None
    variant: str = ""
    framing: Framing | None = None

    def admits(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        if not self.requires:
            return True
        return any(name[1:] in query if name[0] == "?" else name in headers for name in self.requires)

    @property
    def literal(self) -> str:
        """The path up to its first parameter."""
        return self.path.partition("{")[0]


class _RouteRow(Struct, Generic[Owner], frozen=True):
    route: Route
    owner: Owner
    match: RouteMatch
    pattern: re.Pattern[str] | None

    def match_path(self, path: str) -> RouteMatch | None:
        if self.pattern is None:
            return self.match if self.route.path == path else None
        found = self.pattern.fullmatch(path)
        if not found:
            return None
        named = {name: unquote(text) for name, text in found.groupdict().items() if name in _NAMED}
        return replace(self.match, **named)


_MOST_PATHS, _LONGEST_PATH = 256, 256  # that are remembered


class RouteTable(Generic[Owner]):
    """Rows of (route, owner), compiled once. Rows of equal precedence keep their order."""

    def __init__(self, rows: Iterable[tuple[Route, Owner]]) -> None:
        self._rows: list[_RouteRow[Owner]] = []
        for route, owner in rows:
            match = RouteMatch(
                route.action, stream=route.stream, variant=route.variant, framing=route.framing
            )
            self._rows.append(_RouteRow(route, owner, match, _compile(route.path)))
        self._exact = [row for row in self._rows if ":path}" not in row.route.path]
        self._literal: dict[tuple[str, str], list[_RouteRow[Owner]]] = {}
        self._patterns: dict[tuple[str, str], list[_RouteRow[Owner]]] = {}  # by method and first segment
        for row in sorted(self._rows, key=_precedence):
            if row.pattern is None:
                self._literal.setdefault((row.route.method, row.route.path), []).append(row)
            else:
                self._patterns.setdefault((row.route.method, _first(row.route.path)), []).append(row)
        self._known_candidates = lru_cache(_MOST_PATHS)(self._candidates)

    def find(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[RouteMatch, Owner] | None:
        rows = self._literal.get((method, path))
        if rows and (row := rows[0]) and not row.route.requires and not row.route.query:
            return row.match, row.owner  # nearly always
        candidates = self._known_candidates if len(path) <= _LONGEST_PATH else self._candidates
        for row, match in candidates(method, path):
            if row.route.admits(query, headers):
                more = row.route.query
                return (replace(match, **more(query)) if more else match), row.owner
        return None

    def _candidates(self, method: str, path: str) -> list[tuple[_RouteRow[Owner], RouteMatch]]:
        """The rows that match, in their order, before query and headers decide.

        Paths of Gemini name the model, and an agent sends the same one each time.
        """
        found: list[tuple[_RouteRow[Owner], RouteMatch]] = []
        for spelling in _spellings(path):
            rows = self._literal.get((method, spelling)) or self._patterns.get((method, _first(spelling)), ())
            found += [(row, match) for row in rows if (match := row.match_path(spelling))]
        return found

    def methods(self, path: str) -> dict[str, Owner]:
        """The methods that `path` has, each with its owner, whatever headers they require.

        Routes with `{name:path}` match too much to say that a path exists.
        """
        found: dict[str, Owner] = {}
        for spelling in _spellings(path):
            for row in self._exact:
                if row.match_path(spelling):
                    found.setdefault(row.route.method, row.owner)
        return found

    def nearest(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[Route, Owner]:
        """The route most like an unknown `path`; of several, one of the protocol that a header identifies,
        then one with this method."""
        owners = [row.owner for row in self._rows if row.route.requires and row.route.admits({}, headers)]
        spellings = {*_spellings(path)}

        def likeness(row: _RouteRow[Owner]) -> tuple[int, bool, bool]:
            begins = max(_common(row.route.literal, each) for each in spellings)
            return begins, row.owner in owners, row.route.method == method

        best = max(self._rows, key=likeness)
        return best.route, best.owner


def _precedence(row: _RouteRow[Any]) -> tuple[bool, int]:
    return not row.route.requires, -len(_PARAMETER.sub("", row.route.path))


def _first(path: str) -> str:
    """The first segment."""
    return path[1:].partition("/")[0]


def _spellings(path: str) -> Iterator[str]:
    """`path` as it is, then as clients spell it whose base URL has too much or too little in it.

    Doubled slashes and a slash at the end, the version twice or not at all, and the prefixes by which other
    gateways tell protocols apart (LiteLLM and Azure `/openai`, Bifrost and DeepSeek `/anthropic`, OpenRouter
    `/api`, Google's `/v1beta/openai`).
    """
    yield path
    tidy = _REPEATED.sub("/", path).rstrip("/") or "/"
    tidy = _TWO_VERSIONS.sub("/v1", tidy)
    yield tidy
    bare = _PREFIX.sub("", tidy)
    if bare != tidy:
        bare = _TWO_VERSIONS.sub("/v1", bare)
        yield bare
    if not bare.startswith(_VERSION):
        yield _VERSION + bare


def _common(literal: str, path: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(literal, path, strict=False)))


def _compile(path: str) -> re.Pattern[str] | None:
    if "{" not in path:
        return None
    pieces: list[str] = []
    end = 0
    for found in _PARAMETER.finditer(path):
        pieces += [re.escape(path[end : found.start()]), f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})"]
        end = found.end()
    return re.compile("".join([*pieces, re.escape(path[end:])]))
