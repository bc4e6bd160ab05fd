"""Every call is answered right after it: results first, in call order, in one message.

Clients interrupt, compact and retry, so a history may hold calls without results, results without
calls, the same result twice, ids used again in a later turn, or no ids at all. What cannot be
paired is repaired and reported.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Callable, Collection, MutableMapping, Sequence
from functools import partial
from operator import is_
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import Fold, FoldRun, Restart
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Text, ToolCall, ToolResult
from dragoman.transforms.call_ids import are_legal, invent, legal

NO_RESULT = "No result was recorded for this call."


class MessageFacts(Struct, gc=False):
    """A message with what pairing looks at. `results_first`: no other part stands before a result.

    `is_legal`: the upstream takes the ids of the calls as they are. `marks`: how many cache breakpoints the
    client set in it. `passed` are ids that a gateway behind this one made, of whatever length.
    """

    message: Message
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    results_first: bool = True
    is_legal: bool = True
    marks: int = 0
    passed: tuple[str, ...] = ()


def facts_of(
    message: Message, limits: ProtocolLimits, marks: int = 0, passed: Collection[str] = ()
) -> MessageFacts:
    calls = tuple([part for part in message.parts if type(part) is ToolCall])
    results = tuple([part for part in message.parts if type(part) is ToolResult])
    first = all(map(is_, results, message.parts))
    is_legal = are_legal([call for call in calls if call.id not in passed], limits)
    return MessageFacts(message, calls, results, first, is_legal, marks, tuple(passed))


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


class Pair(Fold, frozen=True):
    """Every call is answered right after it; `limits` are those of the upstream.

    A window begins with a turn of the assistant and closes once its calls are answered, or at the next turn:
    then they never will be. `whole`: all of the conversation is one window, for what has to be looked at
    together. `holds`: nothing of a window goes on before it closes; else a turn with calls does, which is
    nearly always answered as it stands.
    """

    limits: ProtocolLimits
    whole: bool = False
    holds: bool = False

    def begin(self, state: PairState | None = None) -> PairRun:
        if state is None:
            return PairRun(self, _NOTHING, 0, False, False, [], False, {}, set(), ())
        window, number, broken, extras = [*state.window], state.number, state.is_broken, state.has_extras
        return PairRun(self, state, number, broken, extras, window, state.is_sent, {}, set(), ())


class PairState(Struct, frozen=True, gc=False):
    """`used` are the ids that were sent, and how often each came; `seen` those that the client used.

    `lost` are calls (id, name) of closed windows that nobody answered. `is_broken`: something was mended;
    `has_extras`: a message with results was sent with fields of its own, which a mended one loses.
    `is_sent`: the first message of the window went on already.
    """

    window: tuple[MessageFacts, ...] = ()
    is_sent: bool = False
    used: dict[str, int] = {}
    seen: frozenset[str] = frozenset()
    lost: tuple[tuple[str, str], ...] = ()
    number: int = 0
    is_broken: bool = False
    has_extras: bool = False


_NOTHING = PairState()


class PairRun(FoldRun):
    """MessageFacts → messages in the order that every upstream accepts.

    `before` is where the run began: what it adds to ids and calls stands beside it, so that a long
    conversation is not copied. `losses` are of results without calls, `more` of calls without results.
    """

    fold: Pair
    before: PairState
    number: int
    is_broken: bool
    has_extras: bool
    window: list[MessageFacts]
    is_sent: bool
    used: dict[str, int]
    seen: set[str]
    lost: tuple[tuple[str, str], ...]

    @property
    def phases(self) -> tuple[Losses, ...]:
        if not self.more:
            self.more = (Losses(),)
        return (self.losses, *self.more)

    def state(self) -> PairState:
        before = self.before
        return PairState(
            tuple(self.window),
            self.is_sent,
            {**before.used, **self.used},
            before.seen | self.seen,
            before.lost + self.lost,
            self.number,
            self.is_broken,
            self.has_extras,
        )

    def feed(self, items: Sequence[MessageFacts], /) -> Sequence[Message]:
        if self.fold.whole:
            self.window += items
            return ()
        out: list[Message] = []
        for facts in items:
            if facts.message.role == "assistant":
                self._add_turn(facts, out)
            elif not self.window and not facts.results:
                out.append(facts.message)
            elif len(self.window) == 1 and self._is_answer(self.window[0], facts):
                if not self.is_sent:
                    out.append(self.window[0].message)
                out.append(facts.message)
                self.window.clear()
                self.is_sent = False
            else:
                self.window.append(facts)
                if self._is_answered():
                    out += self._settle("answered")
        return out

    def _add_turn(self, turn: MessageFacts, out: list[Message]) -> None:
        window = self.window
        if window and window[-1].message.role != "assistant":
            out += self._settle("turn")
        if not window and turn.calls and not self.fold.holds and self._is_fresh(turn):
            out.append(turn.message)
            self.is_sent = True
        window.append(turn)

    def _is_fresh(self, turn: MessageFacts) -> bool:
        """Whether a turn with calls stays as it is, unless the next message is of the assistant again."""
        if turn.results or turn.passed or not turn.is_legal:
            return False
        used, before = self.used, self.before.used
        for call in turn.calls:
            if not call.id or call.id in used or call.id in before:
                return False
        return len(turn.calls) == 1 or len({call.id for call in turn.calls}) == len(turn.calls)

    def _is_answer(self, turn: MessageFacts, facts: MessageFacts) -> bool:
        """Whether a message is all that a turn of the assistant waits for, in the usual order; then it is
        noted. A window with anything else is settled."""
        calls, results = turn.calls, facts.results
        if len(calls) != len(results) or not facts.results_first or facts.calls or facts.passed:
            return False
        if not self.is_sent:
            if turn.message.role != "assistant":
                return False
            if not calls:
                return not turn.results
            if not self._is_fresh(turn):
                return False
        for call, result in zip(calls, results, strict=True):
            if result.call_id != call.id or result.name != call.name or result.kind != call.kind:
                return False
        if facts.message.extras and _has_extras(facts.message):
            if self.is_broken:
                return False
            self.has_extras = True
        self._note_calls(calls)
        return True

    def _note_calls(self, calls: tuple[ToolCall, ...]) -> None:
        for call in calls:
            self.used[call.id] = 1
            self.seen.add(call.id)
        self.number += len(calls)

    def _is_answered(self) -> bool:
        """Whether there are as many results as calls; then nothing has to wait."""
        waiting = 0
        for facts in self.window:
            waiting += len(facts.calls) - len(facts.results)
        return waiting <= 0

    def close(self) -> Sequence[Message]:
        return self._settle("end") if self.window else ()

    def _settle(self, why: Literal["turn", "answered", "end"]) -> Sequence[Message]:
        """The messages of the window, if it is complete; then a new one begins."""
        window = self.window
        facts = gathered(window)
        if self._is_in_order(facts):
            self._note(facts)
            return self._close_window([one.message for one in facts])
        whole = self.fold.whole
        orphans = Losses()
        seen, lost = (self.before.seen, self.seen), () if whole else self.before.lost + self.lost
        pairing = _Pairing(orphans, self.phases[1], seen, lost, self.fold.limits.mends_calls)
        for one in facts:
            pairing.add(one.message)
        if why != "end" and pairing.is_open:  # the next turn of the assistant belongs to it
            return ()
        if why == "answered" and not pairing.is_answered:
            return ()
        if self.has_extras:
            raise Restart
        self.is_broken = True
        passed = frozenset([id for one in window for id in one.passed])
        messages = pairing.settled(
            partial(self._spell, passed), ChainMap(self.used, self.before.used), self.number
        )
        self.number += pairing.calls
        self.lost += tuple(pairing.unanswered)
        self.losses.extend(orphans)
        return self._close_window(messages)

    def _close_window(self, messages: list[Message]) -> list[Message]:
        """`messages` without the one that went on already."""
        if self.is_sent:
            if messages[0] is not self.window[0].message:
                raise Restart(holds=True)
            del messages[0]
        self.window.clear()
        self.is_sent = False
        return messages

    def _spell(self, passed: frozenset[str], id: str) -> str:
        """An id as the upstream takes it; those in `passed` it made itself."""
        return id if id in passed else legal(id, self.fold.limits)

    def _is_in_order(self, messages: Sequence[MessageFacts]) -> bool:
        """Whether each call is answered right after it, by ids that the upstream takes and that are new."""
        waiting: tuple[ToolCall, ...] = ()
        turn, used, before = "", self.used, self.before.used
        ids: set[str] = set()
        for facts in messages:
            results, role = facts.results, facts.message.role
            if len(results) != len(waiting) or turn == role == "assistant":
                return False
            if results and not (facts.results_first and all(map(_answers, results, waiting))):
                return False
            if results and self.is_broken and _has_extras(facts.message):
                return False
            waiting, turn = facts.calls, role
            for call in waiting:
                id = call.id
                if not id or id in ids or id in used or id in before or not facts.is_legal:
                    return False
                ids.add(id)
        return not waiting

    def _note(self, messages: Sequence[MessageFacts]) -> None:
        for facts in messages:
            if facts.calls:
                self._note_calls(facts.calls)
            if facts.results and not self.fold.whole and _has_extras(facts.message):
                self.has_extras = True


def _has_extras(message: Message) -> bool:
    return message.extras is not None and any(message.extras.values())


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


_Key = str | tuple[bool, str]  # an id, or a name; True: only calls without an id


class _Open:
    """The calls that wait for their results: found by id, by name or by order, never by a search."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, list[deque[_Slot]]] = {}  # a queue of every turn that has such calls

    def add(self, slot: _Slot) -> None:
        call = slot.call
        last: _Key = call.id or (True, call.name)
        for key in ((False, ""), (False, call.name), last):
            turns = self._waiting.setdefault(key, [])
            if not turns or turns[-1][-1].turn is not slot.turn:
                turns.append(deque())
            turns[-1].append(slot)

    def find(self, key: _Key) -> _Slot | None:
        """The first in the latest turn that is still waiting: one that was interrupted waits for ever."""
        turns = self._waiting.get(key, [])
        while turns:
            if slot := _first_waiting(turns[-1]):
                return slot
            turns.pop()
        return None


def _first_waiting(slots: deque[_Slot]) -> _Slot | None:
    while slots:
        if slots[0].result is None:
            return slots[0]
        slots.popleft()
    return None


class _Pairing:
    """The messages of a window. `seen` are the ids of calls so far, of which those of the window are added to
    the second set; `lost` are calls before the window that nobody answered: a result of one of them comes too
    late. Without `mends`, calls without a result, results without a call, and ids that come again stay as
    they are."""

    def __init__(
        self,
        orphans: Losses,
        missing: Losses,
        seen: tuple[frozenset[str], set[str]],
        lost: Collection[tuple[str, str]],
        mends: bool,
    ) -> None:
        self._losses, self._missing, self._seen, self._lost = orphans, missing, seen, lost
        self._mends = mends
        self._turns: list[_Turn] = []
        self._open = _Open()
        self.calls = 0
        self.unanswered: list[tuple[str, str]] = []

    @property
    def is_answered(self) -> bool:
        return all(slot.result for turn in self._turns for slot in turn.slots)

    @property
    def is_open(self) -> bool:
        """Whether a turn of the assistant that comes next is part of the last one."""
        last = self._turns[-1] if self._turns else None
        return last is not None and last.message.role == "assistant" and last.answered_by is None

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._add_assistant(message)
        elif ToolResult in map(type, message.parts):
            self._add_results(message)
        else:
            self._turns.append(_Turn(message, list(message.parts)))

    def _add_assistant(self, message: Message) -> None:
        """Consecutive assistant messages are one turn, unless results came in between."""
        if self.is_open:
            turn = self._turns[-1]
            turn.parts += message.parts
        else:
            turn = _Turn(message, list(message.parts))
            self._turns.append(turn)
        for part in message.parts:
            if type(part) is ToolCall:
                slot = _Slot(part, turn)
                turn.slots.append(slot)
                self._open.add(slot)
                if part.id:
                    self._seen[1].add(part.id)

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
        """By id; without ids by name, else by order."""
        id, name = result.call_id, result.name
        if id:
            slot, is_lost = self._open.find(id), any(id == lost for lost, _ in self._lost)
            if not (slot or is_lost or self._is_seen(id)) and name:
                slot, is_lost = self._open.find((True, name)), ("", name) in self._lost
        else:
            slot = self._open.find((False, name))
            is_lost = any(not name or name == lost for _, lost in self._lost)
        if slot is None and is_lost:
            raise Restart
        return slot

    def _is_seen(self, id: str) -> bool:
        return id in self._seen[1] or id in self._seen[0]

    def _orphan(self, result: ToolResult) -> list[AnyPart]:
        if not self._mends:
            return [result]
        if self._is_seen(result.call_id):
            why = f"This is a second result for the call {result.call_id}. The first one was sent."
            self._losses.dropped(result.where, why, "result.orphan")
            return []
        self._losses.changed(
            result.where,
            "The conversation has no call for this result. It was sent as text.",
            "result.orphan",
        )
        label = Text(
            f"Result of a tool call that is no longer in the conversation ({result.name or result.call_id}):"
        )
        return [label, *result.content]

    def settled(
        self, legal: Callable[[str], str], used: MutableMapping[str, int], number: int
    ) -> list[Message]:
        """In order; `used` are the ids that were sent before, `number` counts the calls before."""
        messages: list[Message] = []
        after: Message | None = None  # the message that held the results just written
        for turn in self._turns:
            if turn.slots:
                ids = [
                    legal(slot.call.id or invent(number + self.calls + i))
                    for i, slot in enumerate(turn.slots, 1)
                ]
                self.calls += len(ids)
                ids = [
                    id if slot.call.id and not self._mends else _unused(id, used, legal)
                    for slot, id in zip(turn.slots, ids, strict=True)
                ]
                messages += self._answered(turn, ids)
                after = turn.answered_by
                turn.slots.clear()  # they refer to their turn: a cycle would wait for the garbage collector
                continue
            if after is turn.message and messages[-1].role == turn.message.role:
                messages[-1] = replace(messages[-1], parts=(*messages[-1].parts, *turn.parts))
            else:
                messages.append(_with(turn.message, turn.parts))
            after = None
        return messages

    def _answered(self, turn: _Turn, ids: list[str]) -> list[Message]:
        """The turn with its calls, and the message that answers them."""
        parts = turn.parts
        if any(slot.call.id != id for slot, id in zip(turn.slots, ids, strict=True)):
            names = iter(ids)
            parts = [replace(part, id=next(names)) if type(part) is ToolCall else part for part in parts]
        made = [self._result(slot, id) for slot, id in zip(turn.slots, ids, strict=True)]
        results = tuple([result for result in made if result])
        answer = [Message("user", results, where=turn.message.where)] if results else []
        return [_with(turn.message, parts), *answer]

    def _result(self, slot: _Slot, call_id: str) -> ToolResult | None:
        call, result = slot.call, slot.result
        if result is None:
            self.unanswered.append((call.id, call.name))
            if not self._mends:
                return None
            why = "The conversation has no result for this call."
            self._missing.invented(call.where or "tool result", why, "result.missing")
            return ToolResult(call_id, call.name, (Text(NO_RESULT),), kind=call.kind)
        if call_id == call.id and _answers(result, call):
            return result
        return replace(result, call_id=call_id, name=call.name, kind=call.kind)


def _with(message: Message, parts: list[AnyPart]) -> Message:
    same = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if same else replace(message, parts=tuple(parts))


def _unused(id: str, used: MutableMapping[str, int], legal: Callable[[str], str]) -> str:
    """An id that a later turn uses again gets a number of its own; `used` counts how often each came."""
    name = id
    while name in used:
        used[id] += 1
        name = legal(f"{id}_{used[id]}")
    used[name] = 1
    return name
