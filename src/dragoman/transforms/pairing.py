"""Every call is answered right after it: results first, in call order, in one message.

Clients interrupt, compact and retry, so a history may hold calls without results, results without
calls, the same result twice, ids used again in a later turn, or no ids at all. What cannot be
paired is mended and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Text, ToolCall, ToolResult
from dragoman.transforms.call_ids import invent

NO_RESULT = "No result was recorded for this call."


def pair(messages: Iterable[Message], legal: Callable[[str], str], losses: Losses) -> tuple[Message, ...]:
    """`messages` in the order every upstream accepts; `legal` spells an id as the upstream takes it."""
    pairing = _Pairing(losses)
    for message in messages:
        pairing.add(message)
    return pairing.settled(legal)


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


class _Pairing:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[_Turn] = []
        self._open: list[_Slot] = []
        self._seen: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._add_assistant(message)
        elif any(type(part) is ToolResult for part in message.parts):
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
                self._open.append(slot)
                if part.id:
                    self._seen.add(part.id)

    def _add_results(self, message: Message) -> None:
        rest: list[AnyPart] = []
        for part in message.parts:
            if type(part) is not ToolResult:
                rest.append(part)
            elif slot := self._find(part):
                slot.result, slot.turn.answered_by = part, message
                self._open.remove(slot)
            else:
                rest += self._orphan(part)
        if rest:
            self._turns.append(_Turn(message, rest))

    def _find(self, result: ToolResult) -> _Slot | None:
        """By id, in the latest turn that is still waiting; without ids by name, else by order."""
        if result.call_id:
            named = [slot for slot in self._open if slot.call.id == result.call_id]
            if named:
                return next(slot for slot in named if slot.turn is named[-1].turn)
            if result.call_id in self._seen:
                return None
        waiting = [slot for slot in self._open if not slot.call.id or not result.call_id]
        if result.name:
            waiting = [slot for slot in waiting if slot.call.name == result.name]
        elif result.call_id:
            return None
        return waiting[0] if waiting else None

    def _orphan(self, result: ToolResult) -> list[AnyPart]:
        if result.call_id in self._seen:
            self._losses.dropped(result.where, f"a second result for call {result.call_id}; the first stands")
            return []
        self._losses.changed(result.where, "a result without its call: sent as text")
        label = Text(
            f"Result of a tool call that is no longer in the conversation ({result.name or result.call_id}):"
        )
        return [label, *result.content]

    def settled(self, legal: Callable[[str], str]) -> tuple[Message, ...]:
        used: set[str] = set()
        number = 0
        messages: list[Message] = []
        after: Message | None = None
        for turn in self._turns:
            if not turn.slots:
                if after is turn.message and messages and messages[-1].role == turn.message.role:
                    messages[-1] = replace(messages[-1], parts=messages[-1].parts + tuple(turn.parts))
                else:
                    messages.append(_with(turn.message, turn.parts))
                after = None
                continue
            ids: dict[int, str] = {}
            for slot in turn.slots:
                number += 1
                ids[id(slot.call)] = _unused(legal(slot.call.id or invent(number)), used)
            calls = [
                replace(part, id=ids[id(part)]) if type(part) is ToolCall else part for part in turn.parts
            ]
            results = [self._result(slot, ids[id(slot.call)]) for slot in turn.slots]
            messages.append(_with(turn.message, calls))
            messages.append(Message("user", tuple(results), where=turn.message.where))
            after = turn.answered_by
        return tuple(messages)

    def _result(self, slot: _Slot, call_id: str) -> ToolResult:
        call, result = slot.call, slot.result
        if result is None:
            self._losses.invented(call.where or "tool result", "the call has no result in the conversation")
            return ToolResult(call_id, call.name, (Text(NO_RESULT),), kind=call.kind)
        return replace(result, call_id=call_id, name=call.name, kind=call.kind)


def _with(message: Message, parts: list[AnyPart]) -> Message:
    return (
        message
        if len(parts) == len(message.parts) and all(map(_same, parts, message.parts))
        else replace(message, parts=tuple(parts))
    )


def _same(first: object, second: object) -> bool:
    return first is second


def _unused(id: str, used: set[str]) -> str:
    """An id that a later turn uses again gets a number of its own."""
    name, count = id, 1
    while name in used:
        count += 1
        name = f"{id}_{count}"
    used.add(name)
    return name
