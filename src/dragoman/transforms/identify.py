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
from dragoman.transforms.content import settle_part, settle_result
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
        return IdentifyRun(self, state, state.used, state.calls, state.marks, set(), {}, (), False)


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
    stands beside it, so that a long conversation is not copied. Of the message under way, `passed` are ids
    that a gateway behind this one made, and `is_rearranged` tells that parts may move or change once more.
    """

    fold: Identify
    before: IdentifyState
    used: dict[str, None]
    calls: int
    marks: int
    ids: set[str]
    called: dict[str, str]
    passed: tuple[str, ...]
    is_rearranged: bool

    def state(self) -> IdentifyState:
        ids, called = self.before.client_ids | self.ids, {**self.before.called, **self.called}
        return IdentifyState(ids, self.used.copy(), called, self.calls, self.marks)

    def feed(self, items: Sequence[Message], /) -> list[MessageFacts]:
        """Most messages have one part."""
        facts: list[MessageFacts] = []
        for message in items:
            parts = message.parts
            only = parts[0] if len(parts) == 1 else None
            if type(only) is Text and only.state is None and not only.cache:
                facts.append(MessageFacts(message))
            elif type(only) is ToolResult and only.state is None and not only.cache:
                result = self._result(only)
                if result is not only:
                    message = replace(message, parts=(result,))
                facts.append(MessageFacts(message, (), (result,)))
            else:
                facts.append(self._parts(message))
        return facts

    def _parts(self, message: Message) -> MessageFacts:
        parts = message.parts
        marks, self.passed, self.is_rearranged = self.marks, (), False
        out: list[AnyPart] = []
        calls: list[ToolCall] = []
        results: list[ToolResult] = []
        for part in parts:
            kind = type(part)
            if kind is ToolCall:
                made = self._call(part, out)  # pyright: ignore[reportArgumentType] - by its type
                calls.append(made)
            elif kind is ToolResult:
                made = self._result(part)  # pyright: ignore[reportArgumentType] - by its type
                results.append(made)
            elif (made := self._content(part)) is None:
                continue
            if made.state is not None or made.cache:
                made = self._mark(made)
            out.append(made)
        if len(out) != len(parts) or not all(map(is_, out, parts)):
            message = replace(message, parts=tuple(out))
        if self.is_rearranged:
            message = return_states(message, self.fold.origin, self.fold.own, self.losses)
            return facts_of(message, self.fold.upstream, self.marks - marks, self.passed)
        return MessageFacts(
            message,
            tuple(calls),
            tuple(results),
            not results or all(map(is_, results, out)),
            not calls or call_ids.are_legal(calls, self.fold.upstream),
        )

    def _content(self, part: AnyPart) -> AnyPart | None:
        if type(part) is Media or type(part) is Foreign:
            return settle_part(part, self.fold.own, self.fold.summarise, self.losses)
        return part

    def _mark(self, part: AnyPart) -> AnyPart:
        """A part with state, which may not stay where it is, or with a cache breakpoint."""
        self.is_rearranged = True
        if not part.cache or not self.fold.is_foreign:
            return part
        self.marks += 1
        if self.fold.most_marks is not None and self.marks > self.fold.most_marks:
            raise Restart
        return breakpoints.settle(part, self.fold.upstream, self.losses)

    def _call(self, call: ToolCall, before: list[AnyPart]) -> ToolCall:
        id = call.id
        self.ids.add(id)
        if call.state is not None or not call_ids.is_bare(id):
            call = self._open(call, before)
            id = call.id
        if call.kind != "function":
            call = _with_arguments(call, arguments.unwrap_raw(call.arguments))
            call = flatten_call(call, self.fold.upstream, self.fold.declared)
        elif call.namespace or not arguments.is_plain(call.arguments):
            call = _with_arguments(call, arguments.settle(call, self.losses))
            if call.namespace:
                call = flatten_call(call, self.fold.upstream, self.fold.declared)
        self.calls = max(self.calls + 1, call_ids.invented(id) or 0)
        if call.name not in self.used:
            if self.used is self.before.used:
                self.used = self.used.copy()
            self.used[call.name] = None
        if id:
            self.called[id] = call.name
        return call

    def _open(self, call: ToolCall, before: list[AnyPart]) -> ToolCall:
        """The id as the upstream gave it; state and reasoning that travelled inside go to their places."""
        opened = self._unwrap(call)
        if opened is None:
            return call
        state, origin = opened.state, self.fold.origin
        if state and MAGIC in opened.id and state.origin in (origin, tag(origin)):
            self.passed += (opened.id,)
        self.is_rearranged = True
        if opened.carries:
            before[:] = call_ids.with_thoughts(before, opened, call.where)
        return replace(call, id=opened.id, state=(state if state and state.data else None) or call.state)

    def _unwrap(self, call: ToolCall) -> call_ids.CallId | None:
        """What the id of a call holds, or that in its signature."""
        opened = call_ids.unwrap(call.id, self.fold.client)
        if opened is None and MAGIC in call.id:  # Kimi Code cuts ids to 64 characters
            why = "The client changed the id, which carried opaque state. The state is gone."
            self.losses.dropped(f"{call.where or call.name}.id", why, "call.id")
        if call.state and not call.state.data and call.state.id and (opened is None or not opened.carries):
            return call_ids.unwrap(call.state.id, self.fold.client) or opened
        return opened

    def _result(self, result: ToolResult) -> ToolResult:
        id = result.call_id
        if not call_ids.is_bare(id) and (opened := call_ids.unwrap(id, self.fold.client)):
            id = opened.id
        name = self.called.get(id) or self.before.called.get(id) or result.name
        if id != result.call_id or name != result.name:
            result = replace(result, call_id=id, name=name)
        if result.kind != "function":
            result = flatten_result(result, self.fold.upstream)
        if len(result.content) == 1 and type(result.content[0]) is Text:
            return result
        return settle_result(result, self.fold.own, self.fold.summarise, self.losses)


def _with_arguments(call: ToolCall, text: str) -> ToolCall:
    return call if text is call.arguments else replace(call, arguments=text)
