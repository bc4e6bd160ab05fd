"""What is remembered across requests: an agent sends the same tools and schemas in every one of them.

The tool cache holds, for a list of declarations, what functions made of it before, with the losses that they
reported. States of a list, identified by its exact content:

    unseen → seen once → candidate → cached → old → dropped
                                   → refused

- seen once: only its hash is remembered. To cache a list costs half as much as to translate it, so it must
  come twice.
- candidate: the request carries a copy of the list with an empty `ToolCache`, which functions under
  `cached_by_tools` fill.
- cached: the translation succeeded, and later requests get the same list with its cache. A list that is used
  stays; when the young generation is full it becomes the old one, and the old one is dropped.
- refused: a hosted tool in it may hold a key, so nothing of it is kept.

Requests share what is cached: nobody writes into it, and no caller of the library gets hold of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from dragoman.core import jsontext
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import AnyTool, HostedTool, Wire

_LONGEST_WAIT = 1_024  # requests

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", str, bytes)

MOST_TEXTS, LONGEST_TEXT = 512, 20_000  # memory stays small whatever clients send
_LONGEST = 250_000  # bytes of one list; a longer one is translated each time
_GENERATION_BYTES, _GENERATION_LISTS = 1_000_000, 256
_MOST_SEEN = 4096  # hashes of lists that came once
_MOST_RESULTS = 32  # of one list: several upstreams, models, names in the history
_MAY_HOLD_KEYS = frozenset({"mcp", "other"})

# (tools that a function was given: they stay alive, so that no others get their id; result; losses)
CachedResult = tuple[object, Any, tuple[Loss, ...]]


class LearningPace(msgspec.Struct):
    """How often something unknown is learnt, where that takes longer than to do without.

    `missed` were unknown since one was to be learnt; the next is after `wait`, which doubles until a known
    one comes: some clients send something new in every request.
    """

    missed: int = 0
    wait: int = 1

    def is_due(self) -> bool:
        """Whether this unknown one is to be learnt."""
        self.missed += 1
        if self.missed <= self.wait:
            return False
        self.missed, self.wait = 0, min(2 * self.wait, _LONGEST_WAIT)
        return True

    def found(self) -> None:
        self.wait = 1


class ToolCache(dict[tuple[Any, ...], CachedResult]):
    """Results by (function, id of the tools it was given, its other arguments)."""

    def put(self, key: tuple[Any, ...], result: CachedResult) -> CachedResult:
        if len(self) >= _MOST_RESULTS:
            self.clear()
        self[key] = result
        return result


class CachedDeclarations(list[Any]):
    """The declarations of a request, as on its wire, with their cache. `content` identifies them."""

    def __init__(self, tools: list[Any], content: bytes) -> None:
        super().__init__(jsontext.decode(jsontext.encode(tools)))  # a copy: the caller may change its own
        self.content, self.is_cached = content, False
        self.cache = ToolCache()


class CachedTools(tuple[AnyTool, ...]):
    """Tools that a cached function made of declarations or of other tools; they share one cache."""

    cache: ToolCache


WITH_CACHE = (CachedDeclarations, CachedTools)  # every other list or tuple of tools has none


def with_cached_tools(body: Wire) -> Wire:
    """`body` with its declarations from the cache, or as a candidate for it, or as it is."""
    tools = body.get("tools")
    found = cached_declarations(tools)
    return body if found is tools else {**body, "tools": found}


def cached_declarations(tools: Any) -> Any:
    """`tools` from the cache, or as a candidate for it, or as they are."""
    if type(tools) is CachedDeclarations or not tools or not jsontext.is_array(tools):
        return tools
    try:
        content = _encode(tools)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a huge number, endless nesting
        return tools
    if len(content) > _LONGEST:
        return tools
    found = _lists.get(content)
    if found is None and _lists.came_before(content):
        found = CachedDeclarations(tools, content)
    return found or tools


def cache_tools(body: Wire, tools: Sequence[AnyTool]) -> None:
    """Once a request is translated: cache its candidate. `tools` are its declarations, decoded."""
    declared = body.get("tools")
    if type(declared) is not CachedDeclarations or declared.is_cached:
        return
    if may_hold_key(tools):
        declared.cache.clear()
        _lists.refuse(declared.content)
    else:
        declared.is_cached = True
        _lists.put(declared)


def may_hold_key(tools: Sequence[AnyTool]) -> bool:
    if HostedTool not in map(type, tools):
        return False
    return any(type(tool) is HostedTool and tool.kind in _MAY_HOLD_KEYS for tool in tools)


def cached_by_tools(
    function: Callable[Concatenate[Any, Losses, P], T],
) -> Callable[Concatenate[Any, Losses, P], T]:
    """Caches `function`, which depends on its arguments alone; a tuple that it returns is tools again."""

    @wraps(function)
    def cached(tools: Any, losses: Losses, /, *others: P.args, **_: P.kwargs) -> T:
        if not isinstance(tools, WITH_CACHE):
            return function(tools, losses, *others)  # pyright: ignore[reportCallIssue] - all positional
        cache = tools.cache
        found = cache.get((function, id(tools), *others))
        if found is None:
            reported = Losses()
            result: Any = function(tools, reported, *others)  # pyright: ignore[reportCallIssue] - as above
            if type(result) is tuple:
                result = CachedTools(cast(tuple[AnyTool, ...], result))
                result.cache = cache
            found = cache.put((function, id(tools), *others), (tools, result, tuple(reported.items)))
        if found[2]:
            losses.extend(found[2])
        return found[1]

    return cached


def with_encoded_tools(body: Wire, tools: object) -> Wire:
    """`body` ready to be encoded: what was made of cached `tools` stands in it as text encoded before."""
    made = body.get("tools")
    if made is None or not isinstance(tools, WITH_CACHE):
        return body
    cache = tools.cache
    found = cache.get((with_encoded_tools, id(made)))
    if found is None:
        text = msgspec.Raw(jsontext.encode(made))
        found = cache.put((with_encoded_tools, id(made)), (made, text, ()))
    return {**body, "tools": found[1]}


def copied_if_cached(value: T, tools: object) -> T:
    """What was made of `tools`, for a caller who may write into it."""
    return jsontext.decode(jsontext.encode(value)) if type(tools) is CachedTools else value


def _encode_number(value: Any) -> msgspec.msgpack.Ext:
    if isinstance(value, jsontext.Number):
        return msgspec.msgpack.Ext(1, value.text.encode())
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode = msgspec.msgpack.Encoder(enc_hook=_encode_number).encode  # as exact as JSON, and twice as fast


class _Lists:
    """The cached lists, in two generations, and the hashes of lists that came once."""

    def __init__(self) -> None:
        self._young: dict[bytes, CachedDeclarations] = {}
        self._old: dict[bytes, CachedDeclarations] = {}
        self._size = 0
        self._seen: dict[int, bool] = {}  # hash → whether it may become a candidate
        self._lock = Lock()

    def get(self, content: bytes) -> CachedDeclarations | None:
        found = self._young.get(content)
        if found is None:
            found = self._old.get(content)
            if found is not None:
                self.put(found)
        return found

    def came_before(self, content: bytes) -> bool:
        seen = self._seen.get(hash(content))
        if seen is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[hash(content)] = True
        return seen or False

    def refuse(self, content: bytes) -> None:
        self._seen[hash(content)] = False

    def put(self, tools: CachedDeclarations) -> None:
        with self._lock:
            self._young[tools.content] = tools
            self._size += len(tools.content)
            if self._size > _GENERATION_BYTES or len(self._young) > _GENERATION_LISTS:
                self._old, self._young, self._size = self._young, {}, 0


_lists = _Lists()


def cached_by_text(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Like lru_cache, for a function of a text; what a long text becomes is not kept."""
    cached = lru_cache(MOST_TEXTS)(function)

    @wraps(function)
    def call(text: S, *others: P.args, **named: P.kwargs) -> R:
        return (cached if len(text) <= LONGEST_TEXT else function)(text, *others, **named)

    return call
