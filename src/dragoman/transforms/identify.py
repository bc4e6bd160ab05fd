"""Calls and results in the upstream's terms: ids as it gave them, state where it belongs, flat names, and
content that it can read. Each part is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import Fold, FoldRun, Restart
from dragoman.core.model import AnyPart, Foreign, Media, Message, Text, ToolCall, ToolResult
from dragoman.core.seal import MAGIC, tag
from dragoman.transforms import arguments, breakpoints, call_ids
from dragoman.transforms.content import settle_part
from dragoman.transforms.pairing import MessageFacts, facts_of
from dragoman.transforms.states import return_states
from dragoman.transforms.tools import flatten_call, flatten_result


class Identify(Fold, frozen=True):
    """`origin` is who made the state that may go back, `own` the upstream's protocol.

    `declared` are the tools (namespace, name) that decide what a call in a namespace is named; empty where
    the client has no namespaces. `most_marks`: the conversation is looked at as a whole where it has more
    cache breakpoints.
    """

    client: ProtocolLimits
    upstream: ProtocolLimits
    origin: str
    own: str
    summarise: bool = False
    declared: frozenset[tuple[str, str]] = frozenset()
    most_marks: int | None = None

    @property
    def is_foreign(self) -> bool:
        return self.own != self.client.protocol

    def begin(self, state: IdentifyState | None = None) -> IdentifyRun:
        state = state or _NOTHING
        return IdentifyRun(self, state, state.used, state.calls, state.marks, set(), {}, ())


class IdentifyState(Struct, frozen=True, gc=False):
    client_ids: frozenset[str] = frozenset()
    used: dict[str, None] = {}
    called: dict[str, str] = {}
    calls: int = 0
    marks: int = 0


_NOTHING = IdentifyState()


class IdentifyRun(FoldRun):
    """Messages → MessageFacts.

    `used` are the names of the calls so far. `calls` counts them: an invented id counts on from there. The
    name of a call is found by its id, for results without one. `before` is where the run began: what it adds
    stands beside it, so that a long conversation is not copied. `passed` are ids of the message that a
    gateway behind this one made.
    """

    fold: Identify
    before: IdentifyState
    used: dict[str, None]
    calls: int
    marks: int
    ids: set[str]
    called: dict[str, str]
    passed: tuple[str, ...]

    def state(self) -> IdentifyState:
        ids, called = self.before.client_ids | self.ids, {**self.before.called, **self.called}
        return IdentifyState(ids, self.used.copy(), called, self.calls, self.marks)

    def client_ids(self) -> set[str]:
        """Ids of the calls so far, as the client sees them."""
        return self.ids.union(self.before.client_ids)

    def feed(self, items: Sequence[Message], /) -> list[MessageFacts]:
        return [self._message(message) for message in items]

    def _count_mark(self) -> None:
        self.marks += 1
        if self.fold.most_marks is not None and self.marks > self.fold.most_marks:
            raise Restart

    def _message(self, message: Message) -> MessageFacts:
        fold = self.fold
        own, summarise = fold.own, fold.summarise
        self.passed = ()
        parts: list[AnyPart] = []
        calls: list[ToolCall] = []
        results: list[ToolResult] = []
        changed = stateful = settled = False
        marks = self.marks
        for part in message.parts:
            kind = type(part)
            if kind is Text and part.state is None and not part.cache:
                parts.append(part)
                continue
            made: AnyPart | None = part
            if kind is ToolCall:
                made = self._call(part, parts)  # pyright: ignore[reportArgumentType] - by its type
                calls.append(made)
            elif kind is ToolResult:
                made = self._result(part)  # pyright: ignore[reportArgumentType] - by its type
                if type(made) is ToolResult:
                    results.append(made)
            elif kind is Media or kind is Foreign:
                made = settle_part(part, own, summarise, self.losses)
            if part.cache and made is not None and fold.is_foreign:
                self._count_mark()
                made, settled = breakpoints.settle(made, fold.upstream.cache_breakpoints, self.losses), True
            if made is not part:
                changed = True
            if made is not None:
                parts.append(made)
                if made.state is not None:
                    stateful = True
        if changed:  # thoughts with state may have come from inside an id, too
            message = replace(message, parts=tuple(parts))
        if stateful or changed:
            returned = return_states(message, fold.origin, own, self.losses)
            settled, message = settled or returned is not message, returned
        if not calls and not results:
            return MessageFacts(message, marks=self.marks - marks)
        if settled:
            return facts_of(message, fold.upstream, self.marks - marks, self.passed)
        legal = True
        for call in calls:
            legal = legal and call_ids.legal(call.id, fold.upstream) == call.id
        first = all(map(is_, results, parts))
        return MessageFacts(message, tuple(calls), tuple(results), first, legal, passed=self.passed)

    def _call(self, call: ToolCall, before: list[AnyPart]) -> ToolCall:
        """The id as the upstream gave it; state and reasoning that travelled inside go to their places."""
        self.ids.add(call.id)
        opened = call_ids.unwrap(call.id, self.fold.client)
        if opened is None and MAGIC in call.id:  # Kimi Code cuts ids to 64 characters
            why = "the client changed the id that carried state; the state is gone"
            self.losses.dropped(f"{call.where or call.name}.id", why, "call.id")
        if call.state and not call.state.data and call.state.id and (opened is None or not opened.carries):
            opened = call_ids.unwrap(call.state.id, self.fold.client) or opened
        if opened is not None:
            state, origin = opened.state, self.fold.origin
            if state and MAGIC in opened.id and state.origin in (origin, tag(origin)):
                self.passed += (opened.id,)
            call = replace(call, id=opened.id, state=(state if state and state.data else None) or call.state)
            if opened.reasoning or opened.opening:
                before[:] = call_ids.with_thoughts(before, opened, call.where)
        raw = arguments.unwrap_raw(call.arguments)
        if call.kind == "function" and raw[:1] == '"' and (once := arguments.decode_twice(raw)) is not raw:
            why = "the object was encoded twice"
            self.losses.changed(f"{call.where or call.name}.arguments", why, "call.arguments")
            raw = once
        elif call.kind == "function" and raw[:1] == "[" and arguments.is_empty_array(raw):
            where = f"{call.where or call.name}.arguments"
            self.losses.changed(where, arguments.EMPTY_ARRAY, "call.empty")
            raw = "{}"
        if raw is not call.arguments:
            call = replace(call, arguments=raw)
        if call.kind != "function" or call.namespace:
            call = flatten_call(call, self.fold.upstream, self.fold.declared)
        self.calls = max(self.calls + 1, call_ids.invented(call.id) or 0)
        if call.name not in self.used:
            if self.used is self.before.used:
                self.used = self.used.copy()
            self.used[call.name] = None
        if call.id:
            self.called[call.id] = call.name
        return call

    def _opened_id(self, result: ToolResult) -> str:
        opened = call_ids.unwrap(result.call_id, self.fold.client)
        return result.call_id if opened is None else opened.id

    def _result(self, result: ToolResult) -> AnyPart | None:
        id = self._opened_id(result)
        name = self.called.get(id) or self.before.called.get(id) or result.name
        if id != result.call_id or name != result.name:
            result = replace(result, call_id=id, name=name)
        if result.kind != "function":
            result = flatten_result(result, self.fold.upstream)
        if len(result.content) == 1 and type(result.content[0]) is Text:
            return result
        return settle_part(result, self.fold.own, self.fold.summarise, self.losses)
