"""`input` <-> messages.

The wire is flat: a turn of the model is a row of steps (thoughts, output, calls), and the results of its
calls are another row. Here each row is one message. What the user said is a step of its own, or the whole
input: a text, one block, or blocks in a row. A note under STEP says which of them, so that it goes back so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, field_of, own
from dragoman.core.fold import Fold, FoldRun, Restart
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.protocols.gemini_interactions.hosted import StepsOfServers, is_made_here, text_made_here
from dragoman.protocols.gemini_interactions.parts import (
    CONTENT,
    decode_block,
    decode_content,
    decode_step,
    encode_block,
    encode_steps,
    step_type,
)
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME, QUIET_STEP, SENTINEL, STEP, is_native

_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "assistant": "assistant"}
_SYSTEM = frozenset({"system", "developer"})


class Lone(Struct, frozen=True, gc=False):
    """An input that is a text or one block, without an array around it."""

    wire: Any


def read_input(body: Wire, field: str = "input", protocol: str = PROTOCOL_NAME) -> list[Any]:
    """The entries of `input`; absent where a reply is only continued by its token."""
    entries = field_of(body, field, protocol)
    if entries is None and body.get("continuation_token"):
        return []
    if isinstance(entries, str) or is_object(entries):
        return [Lone(entries)]
    if not is_array(entries):
        got = "nothing" if entries is None else describe(entries)
        raise WireError(protocol, field, f"expected a text, a block or an array, got {got}")
    return entries


class DecodeInput(Fold, frozen=True):
    """Entries of the input → messages. `holds`: a row goes on once it is closed; else it does at its first
    call, which is often its last step."""

    holds: bool = True

    def begin(self, state: _StepRow | None = None) -> FoldRun:
        state = state or _NO_STEPS
        parts, servers = [*state.parts], StepsOfServers(True, state.calls)
        return _InputReader(self, state.count, state.row, state.where, parts, state.is_sent, servers)


class _StepRow(Struct, frozen=True, gc=False):
    """The row that is open: whose it is, its parts and where it began; if it `is_sent`, it went on already.
    `calls` are those of MCP servers that wait for their results."""

    count: int = 0
    row: str = ""
    parts: tuple[AnyPart, ...] = ()
    where: str = ""
    is_sent: bool = False
    calls: tuple[tuple[str, Wire], ...] = ()


_NO_STEPS = _StepRow()


class _InputReader(FoldRun):
    """States:  no row → a row of the user (`blocks`, `results`) or of the model → closed by an entry of
    another"""

    fold: DecodeInput
    count: int
    row: str
    where: str
    parts: list[AnyPart]
    is_sent: bool
    servers: StepsOfServers

    def state(self) -> _StepRow:
        parts, calls = tuple(self.parts), self.servers.waiting()
        return _StepRow(self.count, self.row, parts, self.where, self.is_sent, calls)

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        out: list[Message] = []
        for at, entry in enumerate(items, self.count):
            where = f"input[{at}]"
            if type(entry) is Lone:
                out.append(self._lone(entry.wire))
            elif (message := self._message(entry, where)) is not None:
                out += (*self.close(), message)
            else:
                out += self._add(entry, where, at)
        self.count += len(items)
        return out

    def close(self) -> Sequence[Message]:
        row, is_sent = self.row, self.is_sent
        self.row, self.is_sent = "", False
        if not row or is_sent:
            return ()
        message = self._closed(row)
        self.parts = []
        return (message,)

    def _add(self, entry: Any, where: str, at: int) -> list[Message]:
        """An entry of a row."""
        out: list[Message] = []
        row, parts = self._steps(entry, where, at)
        if row != self.row:
            out += self.close()
            self.row, self.where = row, where
        elif self.is_sent:
            raise Restart(holds=True)
        self.parts += parts
        if not self.fold.holds and any(type(part) is ToolCall for part in parts):
            out.append(self._closed(row))
            self.parts, self.is_sent = [], True
        return out

    def _closed(self, row: str) -> Message:
        extras = {STEP: {"form": "blocks"}} if row == "blocks" else None
        role: Role = "assistant" if row == "model" else "user"
        return Message(role, tuple(self.parts), where=self.where, extras=extras)

    def _lone(self, wire: Any) -> Message:
        """A text, a block, or a step: what is in an array otherwise."""
        if isinstance(wire, str):
            extras = {STEP: {"form": "text"}}
            return Message("user", (Text(wire, where="input"),), where="input", extras=extras)
        note = {STEP: {"form": "lone"}}
        if (message := self._message(wire, "input")) is None:
            row, parts = self._steps(wire, "input", 0)
            message = Message("assistant" if row == "model" else "user", parts, where="input")
        return replace(message, extras={**(message.extras or {}), **note})

    def _message(self, entry: Any, where: str) -> Message | None:
        """An entry that is a message of its own: `user_input`, or a turn as the older API had it."""
        fields = Fields(entry, where, PROTOCOL_NAME)
        if (kind := fields.rest.get("type")) not in (None, "user_input"):
            return None
        role = fields.rest.get("role") if kind is None else "user"
        if not isinstance(role, str) or role not in _ROLES:
            raise WireError(PROTOCOL_NAME, where, "expected a step or a block, with a type")
        content, parts = fields.any("content"), tuple[AnyPart, ...]()
        if content == [] or content == "":
            fields.rest["content"] = content  # goes back as it came
        elif content is not None:
            parts = decode_content(content, fields.path("content"), self.losses, self.servers)
        extras = fields.extras(self.losses, quiet=QUIET_STEP | {"role"})
        if content is not None and not is_array(content):
            extras[STEP] = {"bare": True}
        return Message(_ROLES[role], parts, where=where, extras=extras)

    def _steps(self, entry: Any, where: str, at: int) -> tuple[str, tuple[AnyPart, ...]]:
        """An entry of a row: whose row it belongs to, and its parts. A step that only this protocol has does
        not end a row of the model."""
        kind = step_type(entry, where)
        if kind in CONTENT:
            return "blocks", (decode_block(entry, where, self.losses, self.servers),)
        parts = decode_step(entry, where, at, self.losses, self.servers)
        return "results" if kind == "function_result" else "model", parts


class EncodeInput(Fold, frozen=True):
    """Messages → entries of the input. `ends`: the model may speak last. `signs`: the model refuses a call
    without a signed thought."""

    ends: bool
    signs: bool

    def begin(self, state: _InputState | None = None) -> FoldRun:
        state = state or _NO_INPUT
        waiting, system = [*state.waiting], [*state.system]
        return _InputWriter(self, system, state.begun, waiting, state.last, state.held, None)


class InputFacts(Struct, frozen=True, gc=False):
    """`system`: what stands in front of the conversation. `lone`: all of the input, where it is no array.
    `is_empty`: there is no message."""

    system: tuple[Text, ...] = ()
    lone: Any = None
    is_empty: bool = True


class _InputState(Struct, frozen=True, gc=False):
    """`begun`: there was a message that is not the system's. `waiting`: system text behind calls whose
    results come next. `last`: the message that was written last. `held`: the first one, which may be all."""

    system: tuple[Text, ...] = ()
    begun: bool = False
    waiting: tuple[Message, ...] = ()
    last: Message | None = None
    held: Message | None = None


_NO_INPUT = _InputState()


class _InputWriter(FoldRun):
    fold: EncodeInput
    system: list[Text]
    begun: bool
    waiting: list[Message]
    last: Message | None
    held: Message | None
    lone: Any

    def state(self) -> _InputState:
        return _InputState(tuple(self.system), self.begun, tuple(self.waiting), self.last, self.held)

    def facts(self) -> InputFacts:
        return InputFacts(tuple(self.system), self.lone, self.last is None)

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        for message in items:
            if message.role in _SYSTEM:
                self._place(message)
                continue
            self.begun = True
            if self.waiting and not any(isinstance(part, ToolResult) for part in message.parts):
                entries += self._flush()
            entries += self._write(message)
        return entries

    def close(self) -> list[Wire]:
        entries = self._flush()
        if self.last is not None and self.last.role == "assistant" and not self.fold.ends:
            why = "Gemini answers the last message of the assistant. It does not continue it."
            self.losses.changed(self.last.where, why, "message.prefill")
        if self.held and not entries:
            self.lone = _lone(self.held, self._encode(self.held))
        return entries

    def _place(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                self.losses.dropped(part.where, "Gemini takes only text from the system.", "part.place")
        texts = tuple([part for part in message.parts if isinstance(part, Text)])
        if not self.begun and not self.waiting:
            self.system.extend(texts)
            return
        why = "Gemini has no system text inside a conversation. It was sent as the user's."
        self.losses.changed(message.where, why, "message.role")
        self.waiting.append(replace(message, role="user", parts=texts))

    def _flush(self) -> list[Wire]:
        waiting, self.waiting = self.waiting, []
        return [entry for message in waiting for entry in self._write(message)]

    def _write(self, message: Message) -> list[Wire]:
        is_first, self.last = self.last is None, message
        if is_first and own(message.extras, STEP).get("form") in ("text", "lone"):
            self.held = message
            return []
        held, self.held = self.held, None
        return [*(self._encode(held) if held else ()), *self._encode(message)]

    def _encode(self, message: Message) -> list[Wire]:
        parts = [part for part in (self._sendable(part) for part in message.parts) if part is not None]
        if is_native(message):
            return [self._encode_native(message, parts)]
        if message.role == "assistant":
            return self._encode_turn(parts)
        results = [wire for part in parts if _is_step(part) for wire in encode_block(part, self.losses)]
        said = [wire for part in parts if not _is_step(part) for wire in encode_block(part, self.losses)]
        if own(message.extras, STEP).get("form") == "blocks":
            return [*results, *said]
        return [*results, {"type": "user_input", "content": said}] if said else results

    def _encode_native(self, message: Message, parts: list[AnyPart]) -> Wire:
        rest, content = own(message.extras, PROTOCOL_NAME), self._blocks(parts)
        if own(message.extras, STEP).get("bare") and len(parts) == 1:
            first = parts[0]
            if isinstance(first, Text) and not is_native(first):
                return {**rest, "content": first.text}
            return {**rest, "content": content[0]}
        return {"content": content, **rest} if content or "content" not in rest else rest

    def _blocks(self, parts: Iterable[AnyPart]) -> list[Wire]:
        return [wire for part in parts for wire in encode_block(part, self.losses)]

    def _encode_turn(self, parts: list[AnyPart]) -> list[Wire]:
        steps = encode_steps(parts, self.losses)
        calls = [part for part in parts if isinstance(part, ToolCall)]
        if not (self.fold.signs and calls) or calls[0].state or is_native(calls[0]):
            return steps
        first = next(i for i, step in enumerate(steps) if step.get("type") == "function_call")
        if any(step.get("type") == "thought" and step.get("signature") for step in steps[:first]):
            return steps
        why = f"Gemini did not make this call, so there is no signed thought. {SENTINEL} was sent."
        self.losses.invented(calls[0].where or calls[0].name, why, "reasoning.signature")
        return [*steps[:first], {"type": "thought", "signature": SENTINEL}, *steps[first:]]

    def _sendable(self, part: AnyPart) -> AnyPart | None:
        """`part` without state of another provider; None for thoughts that Gemini did not sign. A step of a
        call that Gemini did not run is text."""
        if type(part) is Foreign and is_made_here(part.body):
            return text_made_here(part, self.losses)
        if part.state is not None and part.state.origin != PROTOCOL_NAME:
            why = f"It was signed by {part.state.origin}. Nobody else can verify the signature."
            self.losses.dropped(part.where, why, "reasoning.signature")
            part = replace(part, state=None)
        if type(part) is Refusal:
            why = f"{PROTOCOL_NAME} has no refusals in requests. It was sent as text."
            self.losses.changed(part.where, why, "message.refusal")
        if type(part) is not Reasoning or part.state or (is_native(part) and STEP not in (part.extras or ())):
            return part
        why = f"{PROTOCOL_NAME} takes back only thoughts that it signed."
        self.losses.dropped(part.where or "reasoning", why, "reasoning.history")
        return None


def _is_step(part: AnyPart) -> bool:
    return isinstance(part, ToolResult | Foreign)


def _lone(message: Message, entries: list[Wire]) -> Any:
    """The only message as it came: a text, or an entry without its array."""
    part = message.parts[0] if len(message.parts) == 1 else None
    if own(message.extras, STEP).get("form") == "text" and isinstance(part, Text):
        return part.text
    if part is not None and not is_native(message) and len(entries) == 1 and not _is_step(part):
        content = entries[0].get("content") or [entries[0]]
        return content[0] if entries[0].get("type") == "user_input" else entries[0]
    return entries[0] if len(entries) == 1 else entries
