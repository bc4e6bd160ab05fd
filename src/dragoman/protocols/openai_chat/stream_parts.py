"""The parts of a reply while they arrive, and which call a piece of a stream belongs to.

At most one of text, reasoning and refusal is open; it ends where another kind begins. Calls stay open until
the end, because their pieces may be interleaved (G02).

OpenAI's rule for calls: `index` identifies the call, and id and name come once, with the first piece. Servers
leave the index out, send 0 for every call, count from 1 (G09: vercel/ai#18382, any-llm#1160), repeat id and
name (G08: CLIProxyAPI#2926), or send the name last (G07: vercel/ai#14760). States of a call:

    unnamed  --name--> named                        arguments are stored; nothing is emitted yet
    named    --first arguments, next call or end--> started    emits PartStart and the stored arguments
    started  --arguments--> started                 emits PartDelta
    started  --end of the reply--> ended            emits PartEnd; not earlier, partial JSON may parse (G10)
    unnamed  --end of the reply--> dropped          reported
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, CallKind, Citation, Reasoning, Refusal, State, Text, ToolCall, Wire
from dragoman.protocols.openai_chat.calls import decode_call_state
from dragoman.protocols.openai_chat.parts import details_text
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_CALL

_WHERE = "choices[0].delta.tool_calls"
_KNOWN_ENTRY = QUIET_CALL | {"id", "function", "custom"}
_KNOWN_INNER = QUIET_CALL | {"name", "input"}
TEXT, REASONING, REFUSAL = Text(), Reasoning(), Refusal()


class OpenParts:
    """The parts of the reply so far. `flow`: the open text, reasoning or refusal; `index`: its index."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._events: list[Event] = []
        self._count = 0
        self._sources: list[Citation] = []
        self.flow: AnyPart | None = None
        self.index = -1
        self.calls = CallAssembly(losses)
        self._details: dict[str, Wire] = {}  # entries of `reasoning_details`, by type and index
        self.refused = False

    def __bool__(self) -> bool:
        """Whether the reply has any content."""
        return self._count > 0 or bool(self.calls.calls)

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def say(self, kind: AnyPart, text: str) -> None:
        """Add text to the open part of this kind, or open one."""
        if not text:
            return
        if self.flow is not kind:
            self._close_flow(opening=kind)
            self._start(self.calls.waiting())
            self.flow, self.index = kind, self._open(kind)
            self.refused |= kind is REFUSAL
            if self._sources:
                self._emit_sources()
        self._events.append(PartDelta(self.index, text))

    def add_details(self, details: list[Any]) -> str:
        """Store pieces of `reasoning_details`, of which those with one type and index are joined, and return
        their readable text."""
        for piece in details:
            if is_object(piece):
                key = f"{piece.get('type')} {piece.get('index', len(self._details))}"
                entry = self._details.setdefault(key, {})
                for name, value in piece.items():
                    old = entry.get(name)
                    if name in ("text", "summary") and isinstance(old, str) and isinstance(value, str):
                        entry[name] = old + value
                    elif value is not None or old is None:
                        entry[name] = value
        return details_text(details)

    def whole(self, part: AnyPart) -> None:
        """A part that arrives in one piece."""
        self._close_flow()
        self._events.append(PartEnd(self._open(part)))

    def cite(self, source: Citation) -> None:
        """A citation belongs to the text that is open, or to the next one."""
        self._sources.append(source)
        if self.flow is TEXT:
            self._emit_sources()

    def call(self, piece: Piece) -> None:
        """A call starts with its first arguments: only then is its name sure to be whole (G07, G08)."""
        call, text, state = piece
        if call.part >= 0:
            if text:
                self._events.append(PartDelta(call.part, text))
            if state:
                self._events.append(PartDelta(call.part, state=state))
        elif call.name and call.pieces:
            self._start([*self.calls.waiting(before=call), call])

    def close(self, cut: bool) -> None:
        """End every part; `cut`: calls whose arguments are not whole JSON are incomplete."""
        self._close_flow()
        self._start(self.calls.waiting())
        for call in self.calls.calls:
            if call.part >= 0:
                self._events.append(PartEnd(call.part, not (cut and call.is_broken())))
            elif not call.name:
                self.calls.report_nameless(call)
        if self._sources:
            self._losses.dropped(
                "choices[0].delta.annotations", "The reply has no text that they could belong to.", "citation"
            )

    def _open(self, part: AnyPart) -> int:
        index, self._count = self._count, self._count + 1
        self._events.append(PartStart(index, part))
        return index

    def _start(self, calls: Iterable[AssembledCall]) -> None:
        for call in calls:
            self._close_flow()
            extras = {PROTOCOL_NAME: call.shape}
            call.part = self._open(ToolCall(call.id, call.name, kind=call.kind, where=_WHERE, extras=extras))
            if text := "".join(call.pieces):
                self._events.append(PartDelta(call.part, text))
            if call.state:
                self._events.append(PartDelta(call.part, state=call.state))

    def _emit_sources(self) -> None:
        if self.flow is TEXT:
            self._events += [PartDelta(self.index, citation=source) for source in self._sources]
            self._sources = []

    def _close_flow(self, opening: AnyPart | None = None) -> None:
        """The state of reasoning is complete when it ends; state without any text is a hidden part."""
        state: State | None = None
        if self._details and opening is not REASONING:
            state = State(PROTOCOL_NAME, jsontext.dumps([*self._details.values()]))
            self._details = {}
        if state and self.flow is REASONING:
            self._events.append(PartDelta(self.index, state=state))
            state = None
        if self.flow is not None:
            self._events.append(PartEnd(self.index))
            self.flow = None
        if state:
            index = self._open(Reasoning(hidden=True))
            self._events += PartDelta(index, state=state), PartEnd(index)


class AssembledCall:
    """One call while its pieces arrive; `part` is the index of its part, -1 until it has started."""

    __slots__ = ("id", "kind", "name", "part", "pieces", "shape", "state")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.kind: CallKind = "function"
        self.shape: Wire = {}
        self.part = -1
        self.pieces: list[str] = []
        self.state: State | None = None

    def learn(self, id: str, name: str) -> None:
        """A name may come in pieces; a repeated name is not a piece."""
        self.id = self.id or id
        if name and self.part < 0 and name != self.name:
            self.name = name if name.startswith(self.name) else self.name + name

    def is_whole(self) -> bool:
        return bool(self.pieces) and jsontext.is_complete("".join(self.pieces))

    def is_broken(self) -> bool:
        return self.kind == "custom" or not self.is_whole()


Piece = tuple[
    AssembledCall, str, State | None
]  # the call, the arguments added, the state that came with them


class CallAssembly:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self.calls: list[AssembledCall] = []
        self._pending: list[AssembledCall] = []  # those of them that may still have to be announced
        self._by_index: dict[Any, AssembledCall] = {}

    def piece(self, entry: Any) -> Piece:
        """Assign one entry of `tool_calls` to its call."""
        if not is_object(entry):
            raise WireError(PROTOCOL_NAME, _WHERE, f"expected an object, got {describe(entry)}")
        index = entry.get("index")
        inner = entry.get("function")
        if type(index) is int and is_object(inner) and len(entry) == 2 and len(inner) == 1:  # the hot path
            call, text = self._by_index.get(index), inner.get("arguments")
            if call is not None and call.part >= 0 and type(text) is str:
                call.pieces.append(text)
                return call, text, None
        return self._new_piece(entry, index)

    def _new_piece(self, entry: Wire, index: Any) -> Piece:
        custom = entry.get("type") == "custom" or "custom" in entry
        inner = entry.get("custom" if custom else "function")
        if not is_object(inner):
            if inner is not None:
                raise WireError(
                    PROTOCOL_NAME, f"{_WHERE}.function", f"expected an object, got {describe(inner)}"
                )
            inner = {}
        if not (entry.keys() <= _KNOWN_ENTRY and inner.keys() <= _KNOWN_INNER):
            self._report(entry, _KNOWN_ENTRY)
            self._report(inner, _KNOWN_INNER)
        id, name = _string(entry, "id"), _string(inner, "name")
        text = _arguments(inner.get("input" if custom else "arguments"))
        call = self._find(index, id, name, text)
        call.learn(id, name)
        if type(kind := entry.get("type")) is str:
            call.shape = {"type": kind}
        if custom:
            call.kind = "custom"
        elif not call.pieces and text.isspace():  # blanks before JSON mean nothing, and alone are no JSON
            text = ""
        if text:
            call.pieces.append(text)
        if "extra_content" not in entry:
            return call, text, None
        call.state = decode_call_state(entry["extra_content"], PROTOCOL_NAME) or call.state
        return call, text, call.state

    def legacy(self, function: Wire) -> Piece:
        """A piece of the deprecated `function_call`, of which a reply has one."""
        call = self._by_index.get("function_call") or self._new("function_call")
        call.learn("", _string(function, "name"))
        call.shape = {"function_call": {}}
        text = _arguments(function.get("arguments"))
        if text:
            call.pieces.append(text)
        return call, text, None

    def waiting(self, before: AssembledCall | None = None) -> Iterable[AssembledCall]:
        """Named calls that have not started; `before`: those ahead of this one."""
        pending, self._pending = self._pending, []
        waiting: list[AssembledCall] = []
        passed = False
        for call in pending:
            if call.part < 0:
                self._pending.append(call)
                passed = passed or call is before
                if call.name and not passed:
                    waiting.append(call)
        return waiting

    def report_nameless(self, call: AssembledCall) -> None:
        why = "The name of this call never came, so it cannot run."
        self._losses.dropped(call.id or "tool call", why, "call.name")

    def _report(self, wire: Wire, known: frozenset[str]) -> None:
        for key, value in wire.items():
            if key not in known and value:
                why = f"Only {PROTOCOL_NAME} has this field."
                self._losses.dropped(f"{_WHERE}.{key}", why, "field.unknown")

    def _find(self, index: Any, id: str, name: str, text: str) -> AssembledCall:
        if type(index) is not int:
            return self._find_without_index(id, name, text)
        call = self._by_index.get(index)
        return self._new(index) if call is None or _is_another(call, id, name, text) else call

    def _find_without_index(self, id: str, name: str, text: str) -> AssembledCall:
        if id:
            return next((call for call in self.calls if call.id == id), None) or self._new(None)
        last = self.calls[-1] if self.calls else None
        if last is None or (name and last.name and name != last.name) or _is_another(last, id, name, text):
            return self._new(None)
        return last

    def _new(self, index: Any) -> AssembledCall:
        call = AssembledCall()
        self.calls.append(call)
        self._pending.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


def _is_another(call: AssembledCall, id: str, name: str, text: str) -> bool:
    """Whether a piece with a name begins a new call although its index is that of `call`."""
    if not name or not call.name:
        return False
    if id and call.id:
        return id != call.id
    return bool(text) and call.is_whole()


def _string(wire: Wire, key: str) -> str:
    value = wire.get(key)
    if value is None or type(value) is str:
        return value or ""
    raise WireError(PROTOCOL_NAME, f"{_WHERE}.{key}", f"expected a string, got {describe(value)}")


def _arguments(value: Any) -> str:
    if value is None or type(value) is str:
        return value or ""
    if is_object(value) or is_array(value):
        return jsontext.dumps(value)
    raise WireError(
        PROTOCOL_NAME, f"{_WHERE}.function.arguments", f"expected a string, got {describe(value)}"
    )
