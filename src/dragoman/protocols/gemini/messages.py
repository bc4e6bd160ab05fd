"""Contents and system instruction <-> messages and system text.

A model's turn with calls must follow a user's turn and all its results stand in one content (G40, G41), so
consecutive messages of one role become one content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, field_of, own
from dragoman.core.fold import DecodeRun, Fold, FoldRun, Restart, read_array
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.protocols.gemini.parts import decode_parts, encode_part, encode_result, executed, signed
from dragoman.protocols.gemini.wire import (
    NO_EXTRAS,
    PROTOCOL_NAME,
    QUIET_CONTENT,
    SENTINEL,
    inner,
    is_native,
    opened,
)

_ROLES: dict[str, Role] = {
    "user": "user",
    "model": "assistant",
    "function": "user",
    "tool": "user",
    "": "user",
}
_USUAL: dict[str, Role] = {"user": "user", "model": "assistant"}
_SYSTEM = frozenset({"system", "developer"})
Calls = Callable[[], dict[str, ToolCall]]  # of the conversation, by id


def read_contents(body: Wire, field: str, protocol: str) -> list[Any]:
    """An array of contents; some clients send a single one, or a string."""
    contents = field_of(body, field, protocol)
    if is_object(contents) or isinstance(contents, str):
        return [contents]
    return read_array(body, field, protocol)


class DecodeContents(Fold, frozen=True):
    """`rejoins`: all of them come together, so that state can be put back onto an earlier text."""

    rejoins: bool

    def begin(self, state: int | None = None) -> DecodeRun:
        return _ContentReader(_decode_content, "contents", state or 0, self.rejoins, [])


class _ContentReader(DecodeRun):
    rejoins: bool
    waiting: list[Message]

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        messages = DecodeRun.feed(self, items)
        if self.rejoins:
            self.waiting += _executed(messages, items, self.losses)
            return []
        if any(any(map(_is_trailer, message.parts)) or _holds_answers(message) for message in messages):
            raise Restart
        return messages

    def close(self) -> Sequence[Message]:
        return _rejoined(tuple(self.waiting)) if self.waiting else ()


def _holds_answers(message: Message) -> bool:
    return message.role == "assistant" and any(type(part) is ToolResult for part in message.parts)


def _executed(messages: list[Message], contents: Sequence[Any], losses: Losses) -> list[Message]:
    """`messages` with the calls that Gemini ran, where a client made a content of every chunk of a stream."""
    if not any(map(_holds_answers, messages)):
        return messages
    joined: list[Message] = []
    for role, several in groupby(zip(messages, contents, strict=True), lambda each: each[0].role):
        run = [*several]
        if role == "assistant":
            decoded = [part for message, _ in run for part in message.parts]
            wires = [wire for _, content in run for wire in _as_array(content.get("parts"))]
            parts = iter(executed(decoded, wires, True, losses))
            joined += [replace(message, parts=tuple(islice(parts, len(message.parts)))) for message, _ in run]
        else:
            joined += [message for message, _ in run]
    return joined


def _as_array(parts: Any) -> Sequence[Any]:
    """Some clients send one part, or a string."""
    return parts if is_array(parts) else [parts] if parts else ()


def _decode_content(content: Any, where: str, losses: Losses) -> Message:
    if isinstance(content, str):
        return Message("user", (Text(content, where=where),), where=where)
    if is_object(content) and len(content) == 2:
        role, parts = _USUAL.get(str(content.get("role"))), content.get("parts")
        if role and is_array(parts) and parts:
            return Message(
                role, decode_parts(parts, f"{where}.parts", losses, True), where=where, extras=NO_EXTRAS
            )
    fields = opened(content, where)
    role = fields.text("role")
    if role not in _ROLES:
        raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected user or model, got {role!r}")
    parts = _take_parts(fields, losses)
    extras = fields.extras(losses, quiet=frozenset({"parts"}))
    if role not in ("user", "model"):
        extras[PROTOCOL_NAME].setdefault("role", role)  # goes back as it came; empty: there was none
    return Message(_ROLES[role], parts, where=where, extras=extras)


def _take_parts(fields: Fields, losses: Losses) -> tuple[AnyPart, ...]:
    """Parts may be missing; an empty array stays in the extras."""
    if not fields.rest.get("parts"):
        if fields.rest.get("parts") not in (None, []):
            raise fields.wrong("parts", "list", fields.rest["parts"])
        return ()
    return decode_parts(fields.any("parts"), fields.path("parts"), losses, history=True)


def decode_system(fields: Fields, losses: Losses) -> tuple[Text, ...]:
    """A content, whose other fields stay in the extras; or a string."""
    system = fields.rest.get("systemInstruction")
    if isinstance(system, str):
        return (Text(fields.text("systemInstruction"), where="systemInstruction"),)
    content = inner(fields, "systemInstruction")
    if content is None:
        return ()
    parts = _take_parts(content, losses)
    texts = tuple(part for part in parts if isinstance(part, Text))
    if len(texts) < len(parts):
        raise WireError(PROTOCOL_NAME, content.path("parts"), "expected parts that are texts")
    content.extras(losses, quiet=QUIET_CONTENT)
    fields.rest["systemInstruction"] = content.rest
    return texts


class PlaceSystem(Fold, frozen=True):
    """System text inside the conversation becomes user text in its place: in front it would invalidate the
    cached prefix (G54). That in front of the conversation is for `systemInstruction`."""

    def begin(self, state: _SystemState | None = None) -> FoldRun:
        state = state or _NO_SYSTEM
        return _SystemPlacer(state.system, state.is_leading, state.waiting)


class _SystemState(Struct, frozen=True, gc=False):
    """`waiting`: system text that waits until the results of the calls before it were written."""

    system: tuple[Text, ...] = ()
    is_leading: bool = True
    waiting: tuple[Message, ...] = ()


_NO_SYSTEM = _SystemState()


class _SystemPlacer(FoldRun):
    system: tuple[Text, ...]
    is_leading: bool
    waiting: tuple[Message, ...]

    def state(self) -> _SystemState:
        return _SystemState(self.system, self.is_leading, self.waiting)

    def facts(self) -> tuple[Text, ...]:
        return self.system

    def feed(self, items: Sequence[Message], /) -> list[Message]:
        placed: list[Message] = []
        for message in items:
            if message.role in _SYSTEM:
                self._take(message)
                continue
            self.is_leading = False
            if self.waiting and not any(isinstance(part, ToolResult) for part in message.parts):
                placed += self.waiting
                self.waiting = ()
            placed.append(message)  # results must follow their calls
        return placed

    def _take(self, message: Message) -> None:
        if self.is_leading:
            self.system += tuple(_system_texts(message, self.losses))
            return
        why = "Gemini has no system text inside a conversation. It was sent as the user's."
        self.losses.changed(message.where, why, "message.role")
        parts = tuple(_system_texts(message, self.losses))
        self.waiting += (replace(message, role="user", parts=parts),)

    def close(self) -> Sequence[Message]:
        return self.waiting


def _system_texts(message: Message, losses: Losses) -> list[Text]:
    for part in message.parts:
        if not isinstance(part, Text):
            losses.dropped(part.where, "Gemini takes only text from the system.", "part.place")
    return [part for part in message.parts if isinstance(part, Text)]


class EncodeContents(Fold, frozen=True):
    """Neighbours of one role become one content, unless the request is native. `nested`: results hold their
    media; `signs`: the first call of a turn needs a signature; `ends`: the model may speak last."""

    native: bool
    nested: bool
    signs: bool
    ends: bool = False

    def begin(self, state: _ContentState | None = None) -> FoldRun:
        state = state or _NO_CONTENT
        return _ContentWriter(self, _copied(state.content), state.where)


class _ContentState(Struct, frozen=True, gc=False):
    """`content` may go on; `where` is the place of the last message."""

    content: Wire | None = None
    where: str = ""


_NO_CONTENT = _ContentState()


class _ContentWriter(FoldRun):
    fold: EncodeContents
    content: Wire | None
    where: str

    def state(self) -> _ContentState:
        return _ContentState(_copied(self.content), self.where)

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        native, nested, signs = self.fold.native, self.fold.nested, self.fold.signs
        contents: list[Wire] = []
        calls = _CallsById(items)
        for message in items:
            self.where = message.where
            parts = _encode_parts(message, calls, nested, native, self.losses)
            if signs and message.role == "assistant" and not (native and _begins_with_own_call(message)):
                _sign_call(parts, message, self.losses)
            content = _encode_content(message, parts)
            if native:
                contents.append(content)
            elif self.content and self.content.get("role") == content.get("role"):
                self.content["parts"] += parts
            elif parts:
                if self.content:
                    contents.append(self.content)
                self.content = content
        return contents

    def close(self) -> Sequence[Wire]:
        if not self.content:
            return ()
        if self.content.get("role") == "model" and not self.fold.ends:
            why = "Gemini answers the last message of the assistant. It does not continue it."
            self.losses.changed(self.where, why, "message.prefill")
        return (self.content,)


def _copied(content: Wire | None) -> Wire | None:
    return {**content, "parts": [*content["parts"]]} if content else None


class _CallsById:
    """The calls of some messages; looked up once something needs them."""

    __slots__ = ("_found", "_messages")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages, self._found = messages, None

    def __call__(self) -> dict[str, ToolCall]:
        if self._found is None:
            parts = [part for message in self._messages for part in message.parts]
            self._found = {part.id: part for part in parts if type(part) is ToolCall}
        return self._found


def _encode_content(message: Message, parts: list[Wire]) -> Wire:
    extras = own(message.extras, PROTOCOL_NAME)
    content: Wire = {"parts": parts} if parts else {}
    content["role"] = "model" if message.role == "assistant" else "user"
    if extras:
        content |= extras
        if content["role"] == "":
            del content["role"]
    return content


def _encode_parts(message: Message, calls: Calls, nested: bool, native: bool, losses: Losses) -> list[Wire]:
    """Results first, the media that older models take beside them after all of them, then everything else."""
    results: list[Wire] = []
    rest: list[Wire] = []
    for part in message.parts:
        part = _sendable(part, losses)
        if isinstance(part, ToolResult):
            result, *media = encode_result(part, _name(part, calls, losses), nested, losses)
            (rest if native else results).append(signed(result, part.state))
            rest += media
        elif part is not None:
            rest += encode_part(part, losses)
    return results + rest


def _name(result: ToolResult, calls: Calls, losses: Losses) -> str:
    """Gemini demands the name of the function with its result (G45: any-llm#1318, bifrost#1391)."""
    if result.name:
        return result.name
    call = calls().get(result.call_id) if result.call_id and not is_native(result) else None
    name = call.name if call else ""
    if not name and result.call_id:
        losses.invented(f"{result.where}.name", "No call in the conversation has this id.", "call.name")
        return result.call_id
    return name


def _sendable(part: AnyPart, losses: Losses) -> AnyPart | None:
    """`part` without state of another provider; None for reasoning that is nothing but such state."""
    if part.state is not None and part.state.origin != PROTOCOL_NAME:
        why = f"It was signed by {part.state.origin}. Nobody else can verify the signature."
        losses.dropped(part.where, why, "reasoning.signature")
        part = replace(part, state=None)
    if type(part) is Text and part.citations:
        report_citations(losses, part, "Gemini takes no citations back.")
    if type(part) is Refusal:
        why = "Gemini has no refusals in requests. It was sent as text."
        losses.changed(part.where, why, "message.refusal")
    if type(part) is Reasoning and part.hidden and part.state is None:
        losses.dropped(
            part.where, "This reasoning is hidden, and Gemini did not make it.", "reasoning.signature"
        )
        return None
    return part


def _sign_call(parts: list[Wire], message: Message, losses: Losses) -> None:
    """Gemini 3 demands a signature on the first call of each step since the last user text (G97, G99).

    Earlier ones get it too: a prefix that changes with the next text of the user would not be cached.
    """
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first:
        id = first["functionCall"].get("id", "")
        call = next((part for part in message.parts if type(part) is ToolCall and part.id == id), None)
        if call is None:  # Gemini ran it itself
            return
        first["thoughtSignature"] = SENTINEL
        why = f"Gemini did not make this call, so there is no signature. {SENTINEL} was sent."
        losses.invented(call.where or call.name, why, "reasoning.signature")


def _begins_with_own_call(message: Message) -> bool:
    """Whether the first call is as a Gemini client sent it, and no mark of another provider was taken off."""
    first = next((part for part in message.parts if type(part) is ToolCall), None)
    return first is not None and is_native(first)


# State that follows its text. A stream emits a text before the state that belongs to it, so to a client the
# state goes in an empty part of its own. Gemini's own state is never moved; that of another provider is put
# back here onto the text it was made for.


def _rejoined(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """`messages` with such state on its text, even where a client made a content of every chunk."""
    if not any(_is_trailer(part) for message in messages for part in message.parts):
        return messages
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == joined[-1].role == "assistant":
            joined[-1] = replace(joined[-1], parts=joined[-1].parts + message.parts)
        else:
            joined.append(message)
    return tuple([replace(message, parts=tuple(_settled(message.parts))) for message in joined])


def _is_trailer(part: AnyPart) -> bool:
    state = part.state
    return (
        state is not None
        and state.origin != PROTOCOL_NAME
        and isinstance(part, Text | Reasoning)
        and not part.text
    )


def _settled(parts: tuple[AnyPart, ...]) -> list[AnyPart]:
    settled: list[AnyPart] = []
    for part in parts:
        if isinstance(part, Text | Reasoning) and _is_trailer(part):
            part = _onto(part, _pop_text(settled, type(part)))
        settled.append(part)
    return settled


def _pop_text(settled: list[AnyPart], kind: type[Text | Reasoning]) -> str:
    """Removes the texts without state at the end of `settled`, and returns them joined."""
    texts: list[str] = []
    while settled and isinstance(last := settled[-1], kind) and last.state is None:
        texts.append(last.text)
        settled.pop()
    return "".join(reversed(texts))


def _onto(trailer: Text | Reasoning, text: str) -> Text | Reasoning:
    if isinstance(trailer, Text):
        return replace(trailer, text=text)
    return replace(trailer, text=text, hidden=not text)
