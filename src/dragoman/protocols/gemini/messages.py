"""Contents and system instruction <-> messages and system text.

A model's turn with calls must follow a user's turn and all its results stand in one content (G40, G41), so
consecutive messages of one role become one content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import eq
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.history import EncodeAlone, decode_turns, sent_prefix
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Message,
    Past,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.gemini.parts import decode_parts, encode_part, encode_result, signed
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


def decode_contents(contents: Any, losses: Losses) -> tuple[tuple[Message, ...], Past | None]:
    """An array of contents, and which of them came before; some clients send a single one, or a string."""
    if is_object(contents) or isinstance(contents, str):
        contents = [contents]
    if not is_array(contents):
        got = "nothing" if contents is None else describe(contents)
        raise WireError(PROTOCOL_NAME, "contents", f"expected an array, got {got}")
    messages, past = decode_turns(contents, "contents", _decode_content, losses)
    return _rejoined(messages), past


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


def split_system(request: Request, losses: Losses) -> tuple[list[Text], Sequence[Message]]:
    """The system text in front of the conversation, and the conversation.

    Later system text becomes user text in its place: in front it would invalidate the cached prefix (G54).
    """
    system, leading = list(request.system), 0
    for message in request.messages:
        if message.role not in _SYSTEM:
            break
        system += _system_texts(message, losses)
        leading += 1
    messages = request.messages[leading:]
    if _SYSTEM.isdisjoint([message.role for message in messages]):
        return system, messages
    return system, _with_system_as_user(messages, losses)


def _with_system_as_user(messages: Sequence[Message], losses: Losses) -> list[Message]:
    placed: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role in _SYSTEM:
            why = "Gemini has no system text inside the conversation: it is sent as the user's"
            losses.changed(message.where, why, "message.role")
            waiting.append(replace(message, role="user", parts=tuple(_system_texts(message, losses))))
        elif waiting and any(isinstance(part, ToolResult) for part in message.parts):
            placed.append(message)  # results must follow their calls
        else:
            placed += [*waiting, message]
            waiting = []
    return placed + waiting


def _system_texts(message: Message, losses: Losses) -> list[Text]:
    for part in message.parts:
        if not isinstance(part, Text):
            losses.dropped(part.where, "Gemini takes text only from the system", "part.place")
    return [part for part in message.parts if isinstance(part, Text)]


def encode_contents(
    messages: Sequence[Message], request: Request, native: bool, profile: ModelProfile, losses: Losses
) -> list[Wire | Raw]:
    nested, signs = native or profile.media_in_results, profile.signed_calls
    contents = None
    if request.past and not native:
        front = request.messages[: len(request.messages) - len(messages)]
        alone = partial(_encode_alone, nested, signs)
        contents = _encode_in_turn((*front, *messages), len(front), request.past, alone, losses)
    return contents or _encode_joined(messages, request, native, nested, signs, losses)


def _encode_in_turn(
    messages: tuple[Message, ...], start: int, past: Past, alone: EncodeAlone, losses: Losses
) -> list[Wire | Raw] | None:
    """Messages from `start` on in which user and model take turns, the user last, as in nearly every request;
    None for others."""
    roles = [message.role for message in messages[start:]]
    if any(map(eq, roles, roles[1:])) or roles[-1:] != ["user"]:
        return None
    reported = Losses()
    count, contents = sent_prefix(messages, start, past, "contents", alone, reported)
    for message in messages[count:]:
        if (content := alone(message, reported)) is None:
            return None
        contents += content
    if reported.items:
        losses.extend(reported)
    return contents


def _encode_alone(nested: bool, signs: bool, message: Message, losses: Losses) -> list[Wire] | None:
    """A message that depends on no other, as a content; None where nothing is left of it."""
    parts = _encode_parts_alone(nested, signs, message, losses)
    return [_encode_content(message, parts)] if parts else None


def _encode_parts_alone(nested: bool, signs: bool, message: Message, losses: Losses) -> list[Wire] | None:
    """The parts of a message that depend on no other; None where a result does not name its call, and where
    the content has fields of its own: those decide whether it is joined to its neighbour."""
    if own(message.extras, PROTOCOL_NAME):
        return None
    for part in message.parts:
        if type(part) is ToolResult and not part.name:
            return None
    calls = _CallsById((message,))
    parts = _encode_parts(message, calls, nested, False, losses)
    if signs and message.role == "assistant":
        _sign_call(parts, calls, losses)
    return parts or None


def _encode_joined(
    messages: Sequence[Message], request: Request, native: bool, nested: bool, signs: bool, losses: Losses
) -> list[Wire | Raw]:
    """Neighbours of one role become one content, unless the request is native."""
    calls = _CallsById(request.messages)
    contents: list[Wire] = []
    count = 0
    if request.past and not native:
        front = request.messages[: len(request.messages) - len(messages)]
        alone = partial(_encode_parts_alone, nested, signs)
        count, entries = sent_prefix((*front, *messages), len(front), request.past, "", alone, losses, False)
        count -= len(front)
        for message, entry in zip(messages, entries, strict=False):
            _add_content(contents, "model" if message.role == "assistant" else "user", entry)
    for message in messages[count:]:
        parts = _encode_parts(message, calls, nested, native, losses)
        if signs and message.role == "assistant" and not (native and _begins_with_own_call(message)):
            _sign_call(parts, calls, losses)
        content = _encode_content(message, parts)
        if not native and contents and contents[-1].get("role") == content.get("role"):
            contents[-1]["parts"] += parts
        elif parts or native:
            contents.append(content)
    if not native and contents and contents[-1].get("role") == "model":
        why = "Gemini does not continue the assistant's last message, but answers it"
        losses.changed(messages[-1].where, why, "message.prefill")
    return [*contents]


def _add_content(contents: list[Wire], role: str, parts: Raw) -> None:
    """Add the parts of a message that was sent before."""
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"].append(parts)
    else:
        contents.append({"parts": [parts], "role": role})


class _CallsById:
    """The calls of the conversation; looked up once something needs them."""

    __slots__ = ("_found", "_messages")

    def __init__(self, messages: tuple[Message, ...]) -> None:
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
        losses.invented(f"{result.where}.name", "no call in the conversation has this id", "call.name")
        return result.call_id
    return name


def _sendable(part: AnyPart, losses: Losses) -> AnyPart | None:
    """`part` without state of another provider; None for reasoning that is nothing but such state."""
    if part.state is not None and part.state.origin != PROTOCOL_NAME:
        why = f"signed by {part.state.origin}: nobody else can verify it"
        losses.dropped(part.where, why, "reasoning.signature")
        part = replace(part, state=None)
    if type(part) is Text and part.citations:
        report_citations(losses, part, "Gemini takes no citations back")
    if type(part) is Reasoning and part.hidden and part.state is None:
        losses.dropped(part.where, "hidden reasoning that Gemini did not make", "reasoning.signature")
        return None
    return part


def _sign_call(parts: list[Wire], calls: Calls, losses: Losses) -> None:
    """Gemini 3 demands a signature on the first call of each step since the last user text (G97, G99).

    Earlier ones get it too: a prefix that changes with the next text of the user would not be cached.
    """
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first:
        call = calls().get(first["functionCall"].get("id", ""))
        if call is None:  # Gemini ran it itself
            return
        first["thoughtSignature"] = SENTINEL
        why = f"a signature, as Gemini did not make the call: {SENTINEL}"
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
