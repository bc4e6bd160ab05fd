"""Every call is answered right after it: results first, in call order, in one message.

Clients interrupt, compact and retry, so a history may hold calls without results, results without
calls, the same result twice, ids used again in a later turn, or no ids at all. What cannot be
paired is repaired and reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import is_

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Text, ToolCall, ToolResult
from dragoman.transforms.call_ids import invent

NO_RESULT = "No result was recorded for this call."


class MessageFacts(Struct, gc=False):
    """A message with what pairing looks at. `results_first`: no other part stands before a result.

    `is_legal`: the upstream takes the ids of the calls as they are.
    """

    message: Message
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    results_first: bool = True
    is_legal: bool = True


def facts_of(message: Message, legal: Callable[[str], str]) -> MessageFacts:
    calls = tuple([part for part in message.parts if type(part) is ToolCall])
    results = tuple([part for part in message.parts if type(part) is ToolResult])
    first = all(type(part) is ToolResult for part in message.parts[: len(results)])
    return MessageFacts(message, calls, results, first, all(legal(call.id) == call.id for call in calls))


def gathered(messages: list[MessageFacts]) -> list[MessageFacts]:
    """`messages` with the results of one turn in one message: Chat has a message for each of them."""
    if len(messages) < 3:  # a call and two results
        return messages
    out: list[MessageFacts] = []
    for facts in messages:
        last = out[-1] if out else None
        if last and facts.results and _is_results(facts) and _is_results(last) and len(out) > 1:
            caller, results = out[-2], last.results + facts.results
            if len(results) <= len(caller.calls) and all(map(_answers, results, caller.calls)):
                message = Message(
                    "user", last.message.parts + facts.message.parts, where=caller.message.where
                )
                out[-1] = MessageFacts(message, (), results)
                continue
        out.append(facts)
    return out


def _is_results(facts: MessageFacts) -> bool:
    return bool(facts.results) and len(facts.results) == len(facts.message.parts)


def ends_among_results(messages: Sequence[Message]) -> int:
    """How many messages there are up to the last turn of the assistant, where some of its calls, but not all,
    are answered behind it; else all of them."""
    answered = 0
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role == "assistant":
            calls = len([part for part in message.parts if type(part) is ToolCall])
            return place if 0 < answered < calls else len(messages)
        results = len([part for part in message.parts if type(part) is ToolResult])
        if not results or results < len(message.parts):
            break
        answered += results
    return len(messages)


class CallOrder(Struct, frozen=True, gc=False):
    """Of the messages so far: whether each call is answered right after it, and what the next one must do."""

    holds: bool = True
    used: frozenset[str] = frozenset()  # ids of calls
    waiting: tuple[ToolCall, ...] = ()  # the calls that the next message must answer first
    role: str = ""

    @property
    def is_settled(self) -> bool:
        return self.holds and not self.waiting

    def after(self, messages: Sequence[MessageFacts]) -> CallOrder:
        if not self.holds or not messages:
            return self
        used, waiting, turn = self.used, self.waiting, self.role
        ids: set[str] = set()
        for facts in messages:
            results, role = facts.results, facts.message.role
            if len(results) != len(waiting) or turn == role == "assistant":
                return _OUT_OF_ORDER
            if results and not (facts.results_first and all(map(_answers, results, waiting))):
                return _OUT_OF_ORDER
            waiting, turn = facts.calls, role
            for call in waiting:
                if not call.id or call.id in ids or call.id in used or not facts.is_legal:
                    return _OUT_OF_ORDER
                ids.add(call.id)
        return CallOrder(True, used | ids if ids else used, waiting, turn)


NO_CALLS = CallOrder()
_OUT_OF_ORDER = CallOrder(False)


def pair(
    messages: Sequence[MessageFacts], order: CallOrder, legal: Callable[[str], str], losses: Losses
) -> tuple[Message, ...]:
    """The messages in the order every upstream accepts; `order` is theirs, as they are.

    `legal` spells an id as the upstream takes it.
    """
    if order.is_settled:
        return tuple([facts.message for facts in messages])
    pairing = _Pairing(losses)
    for facts in messages:
        pairing.add(facts.message)
    return pairing.settled(legal)


def _answers(result: ToolResult, call: ToolCall) -> bool:
    return result.call_id == call.id and result.name == call.name and result.kind == call.kind


class _Slot:
    """One call and the result that answers it."""

    __slots__ = ("call", "result", "turn")

    def __init__(self, call: ToolCall, turn: _Turn) -> None:
        self.call, self.turn = call, turn
        self.result: ToolResult | None = None


class _Turn:
    """A message under way. `answered_by` is the message in which its results stood."""

    __slots__ = ("answered_by", "message", "parts", "slots")

    def __init__(self, message: Message, parts: list[AnyPart]) -> None:
        self.message, self.parts = message, parts
        self.slots: list[_Slot] = []
        self.answered_by: Message | None = None


class _Open:
    """The calls that wait for their results: found by id, by name or by order, never by a search."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[deque[_Slot]]] = {}  # for each id a queue of every turn that used it
        self._by_name: dict[tuple[bool, str], deque[_Slot]] = {}  # (only calls without an id, name or any)

    def add(self, slot: _Slot) -> None:
        call = slot.call
        for key in ((False, ""), (False, call.name), *(() if call.id else ((True, call.name),))):
            self._by_name.setdefault(key, deque()).append(slot)
        if call.id:
            turns = self._by_id.setdefault(call.id, [])
            if not turns or turns[-1][-1].turn is not slot.turn:
                turns.append(deque())
            turns[-1].append(slot)

    def with_id(self, id: str) -> _Slot | None:
        """The first in the latest turn that is still waiting."""
        turns = self._by_id.get(id, [])
        while turns:
            if slot := _first_waiting(turns[-1]):
                return slot
            turns.pop()
        return None

    def named(self, name: str, without_id: bool) -> _Slot | None:
        """The first of that name, or of all where there is none."""
        return _first_waiting(self._by_name.get((without_id, name)))


def _first_waiting(slots: deque[_Slot] | None) -> _Slot | None:
    while slots:
        if slots[0].result is None:
            return slots[0]
        slots.popleft()
    return None


class _Pairing:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[_Turn] = []
        self._open = _Open()
        self._seen: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._add_assistant(message)
        elif ToolResult in map(type, message.parts):
            self._add_results(message)
        else:
            self._turns.append(_Turn(message, list(message.parts)))

    def _add_assistant(self, message: Message) -> None:
        """Consecutive assistant messages are one turn, unless results came in between."""
        last = self._turns[-1] if self._turns else None
        if last and last.message.role == "assistant" and last.answered_by is None:
            last.parts += message.parts
            turn = last
        else:
            turn = _Turn(message, list(message.parts))
            self._turns.append(turn)
        for part in message.parts:
            if type(part) is ToolCall:
                slot = _Slot(part, turn)
                turn.slots.append(slot)
                self._open.add(slot)
                if part.id:
                    self._seen.add(part.id)

    def _add_results(self, message: Message) -> None:
        rest: list[AnyPart] = []
        for part in message.parts:
            if type(part) is not ToolResult:
                rest.append(part)
            elif slot := self._find(part):
                slot.result, slot.turn.answered_by = part, message
            else:
                rest += self._orphan(part)
        if rest:
            self._turns.append(_Turn(message, rest))

    def _find(self, result: ToolResult) -> _Slot | None:
        """By id, in the latest turn that is still waiting; without ids by name, else by order."""
        if not result.call_id:
            return self._open.named(result.name, without_id=False)
        if (slot := self._open.with_id(result.call_id)) or result.call_id in self._seen:
            return slot
        return self._open.named(result.name, without_id=True) if result.name else None

    def _orphan(self, result: ToolResult) -> list[AnyPart]:
        if result.call_id in self._seen:
            why = f"a second result for call {result.call_id}; the first is sent"
            self._losses.dropped(result.where, why, "result.orphan")
            return []
        self._losses.changed(result.where, "a result without its call: sent as text", "result.orphan")
        label = Text(
            f"Result of a tool call that is no longer in the conversation ({result.name or result.call_id}):"
        )
        return [label, *result.content]

    def settled(self, legal: Callable[[str], str]) -> tuple[Message, ...]:
        used: dict[str, int] = {}
        messages: list[Message] = []
        after: Message | None = None  # the message that held the results just written
        number = 0
        for turn in self._turns:
            if turn.slots:
                ids = [legal(slot.call.id or invent(number + i)) for i, slot in enumerate(turn.slots, 1)]
                number += len(ids)
                ids = [_unused(id, used, legal) for id in ids]
                messages += self._answered(turn, ids)
                after = turn.answered_by
                turn.slots.clear()  # they refer to their turn: a cycle would wait for the garbage collector
                continue
            if after is turn.message and messages[-1].role == turn.message.role:
                messages[-1] = replace(messages[-1], parts=(*messages[-1].parts, *turn.parts))
            else:
                messages.append(_with(turn.message, turn.parts))
            after = None
        return tuple(messages)

    def _answered(self, turn: _Turn, ids: list[str]) -> tuple[Message, Message]:
        """The turn with its calls, and the message that answers them."""
        parts = turn.parts
        if any(slot.call.id != id for slot, id in zip(turn.slots, ids, strict=True)):
            names = iter(ids)
            parts = [replace(part, id=next(names)) if type(part) is ToolCall else part for part in parts]
        results = [self._result(slot, id) for slot, id in zip(turn.slots, ids, strict=True)]
        return _with(turn.message, parts), Message("user", tuple(results), where=turn.message.where)

    def _result(self, slot: _Slot, call_id: str) -> ToolResult:
        call, result = slot.call, slot.result
        if result is None:
            why = "the call has no result in the conversation"
            self._losses.invented(call.where or "tool result", why, "result.missing")
            return ToolResult(call_id, call.name, (Text(NO_RESULT),), kind=call.kind)
        if call_id == call.id and _answers(result, call):
            return result
        return replace(result, call_id=call_id, name=call.name, kind=call.kind)


def _with(message: Message, parts: list[AnyPart]) -> Message:
    same = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if same else replace(message, parts=tuple(parts))


def _unused(id: str, used: dict[str, int], legal: Callable[[str], str]) -> str:
    """An id that a later turn uses again gets a number of its own; `used` counts how often each came."""
    name = id
    while name in used:
        used[id] += 1
        name = legal(f"{id}_{used[id]}")
    used[name] = 1
    return name
