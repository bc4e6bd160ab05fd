"""The tools that a conversation repeats, and what was made of them before.

An agent declares the same tools in every request, and what they become depends on little else. So
declarations that say the same are one `Repeated` list, and a function under `remembered` keeps its answers,
with the losses that it told, beside the tools it was given. Requests share all of this: nobody writes into
it, and no caller of the library gets hold of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec

from dragoman.core import jsontext
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import AnyTool, HostedTool, Wire

P = ParamSpec("P")
T = TypeVar("T")
Answer = tuple[object, Any, tuple[Loss, ...]]  # of which tools, so that nobody else gets their id; losses
Answers = dict[tuple[Any, ...], Answer]  # (function, id of the tools, whatever else it depends on)

_LONGEST = 250_000  # bytes of one list; what is longer is translated anew each time
_ROOM, _MOST = 1_000_000, 256  # bytes and lists of one generation
_MET = 4096  # lists that came before
_ANSWERS = 32  # of one list: several upstreams, models, names in the history
_SECRETIVE = frozenset({"mcp", "other"})  # hosted tools that may hold a key


class Repeated(list[Any]):
    """The declarations of a request as its wire says them. `text` tells them from all others."""

    def __init__(self, tools: list[Any], text: bytes) -> None:
        super().__init__(jsontext.decode(jsontext.encode(tools)))  # those may be somebody else's
        self.text, self.kept = text, False
        self.answers: Answers = {}


class Tools(tuple[AnyTool, ...]):
    """The same in neutral form."""

    answers: Answers


def recall(body: Wire) -> Wire:
    """`body` with its declarations as they were kept, or, where they come again, ready to be kept."""
    tools = body.get("tools")
    if not tools or not jsontext.is_array(tools):
        return body
    try:
        text = _text(tools)
    except (ValueError, TypeError, OverflowError, RecursionError):  # a huge number, endless nesting
        return body
    if len(text) > _LONGEST:
        return body
    found = _shelf.get(text) or (Repeated(tools, text) if _shelf.wants(text) else None)
    return {**body, "tools": found} if found else body


def keep(body: Wire, tools: Iterable[AnyTool]) -> None:
    """For the next request, once this one is translated. `tools`: what the declarations say."""
    declared = body.get("tools")
    if type(declared) is not Repeated or declared.kept:
        return
    if any(type(tool) is HostedTool and tool.kind in _SECRETIVE for tool in tools):
        declared.answers.clear()
        _shelf.refuse(declared.text)
    else:
        declared.kept = True
        _shelf.put(declared)


def remembered(
    function: Callable[Concatenate[Any, Losses, P], T],
) -> Callable[Concatenate[Any, Losses, P], T]:
    """`function`, which depends on nothing but its arguments; a tuple that it answers is tools again."""

    @wraps(function)
    def answered(tools: Any, losses: Losses, /, *about: P.args, **_: P.kwargs) -> T:
        answers: Answers | None = getattr(tools, "answers", None)
        if answers is None:
            return function(tools, losses, *about)  # pyright: ignore[reportCallIssue] - all by place
        found = answers.get((function, id(tools), *about))
        if found is None:
            told = Losses()
            answer: Any = function(tools, told, *about)  # pyright: ignore[reportCallIssue] - all by place
            if type(answer) is tuple:
                answer = Tools(cast(tuple[AnyTool, ...], answer))
                answer.answers = answers
            found = _noted(answers, (function, id(tools), *about), (tools, answer, tuple(told)))
        if found[2]:
            losses.extend(found[2])
        return found[1]

    return answered


def printed(body: Wire, tools: object) -> Wire:
    """`body` ready to be encoded: what was made of `tools` stands in it as text that was printed before."""
    answers: Answers | None = getattr(tools, "answers", None)
    made = body.get("tools")
    if answers is None or made is None:
        return body
    found = answers.get((printed, id(made)))
    if found is None:
        found = _noted(answers, (printed, id(made)), (made, msgspec.Raw(jsontext.encode(made)), ()))
    return {**body, "tools": found[1]}


def private(value: T, tools: object) -> T:
    """What was made of `tools`, for a caller who may write into it."""
    return jsontext.decode(jsontext.encode(value)) if type(tools) is Tools else value


def _noted(answers: Answers, key: tuple[Any, ...], answer: Answer) -> Answer:
    if len(answers) >= _ANSWERS:
        answers.clear()
    answers[key] = answer
    return answer


def _spelled(value: Any) -> msgspec.msgpack.Ext:
    if isinstance(value, jsontext.Number):
        return msgspec.msgpack.Ext(1, value.text.encode())
    raise TypeError(f"{type(value).__name__} is not JSON")


_text = msgspec.msgpack.Encoder(enc_hook=_spelled).encode  # as exact as JSON, and printed twice as fast


class _Shelf:
    """Two generations: what is asked for moves to the young one, and the old one goes when that is full.

    To keep a list costs half as much as to translate it, so it must come twice.
    """

    def __init__(self) -> None:
        self._young: dict[bytes, Repeated] = {}
        self._old: dict[bytes, Repeated] = {}
        self._size = 0
        self._met: dict[int, bool] = {}  # hash -> whether it is wanted when it comes again
        self._lock = Lock()

    def get(self, text: bytes) -> Repeated | None:
        found = self._young.get(text)
        if found is None:
            found = self._old.get(text)
            if found is not None:
                self.put(found)
        return found

    def wants(self, text: bytes) -> bool:
        met = self._met.get(hash(text))
        if met is None:
            if len(self._met) >= _MET:
                self._met.clear()
            self._met[hash(text)] = True
        return met or False

    def refuse(self, text: bytes) -> None:
        self._met[hash(text)] = False

    def put(self, tools: Repeated) -> None:
        with self._lock:
            self._young[tools.text] = tools
            self._size += len(tools.text)
            if self._size > _ROOM or len(self._young) > _MOST:
                self._old, self._young, self._size = self._young, {}, 0


_shelf = _Shelf()
