"""Requests <-> neutral requests.

The model stands in the URL, system text beside the conversation, and most settings in
`generationConfig`. A model's turn with calls must follow a user's turn, so what others say in several
messages of one role is one content here.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Reasoning, Request, Role, Text, ToolCall, ToolResult, Wire
from dragoman.protocols.gemini import models
from dragoman.protocols.gemini.objects import NO_EXTRAS, camel, inner, is_native, opened
from dragoman.protocols.gemini.parts import decode_parts, encode_part, signed
from dragoman.protocols.gemini.results import encode_result
from dragoman.protocols.gemini.settings import config_as_body, decode_settings, encode_settings
from dragoman.protocols.gemini.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.gemini.trailers import rejoined
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, SENTINEL

_ROLES: dict[str, Role] = {
    "user": "user",
    "model": "assistant",
    "function": "user",
    "tool": "user",
    "": "user",
}
_USUAL: dict[str, Role] = {"user": "user", "model": "assistant"}
_SYSTEM = frozenset({"system", "developer"})
_BUILT = frozenset({"toolConfig", "systemInstruction"})  # of these only a remainder is kept


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are read, and also kept as they stand: they go back to Gemini unchanged."""
    fields = _opened_body(body)
    model = fields.text("model").removeprefix("models/")
    messages = rejoined(_decode_contents(fields, losses))
    system = _decode_system(fields, losses)
    tools, choice = decode_tools(fields, losses), decode_choice(fields, losses)
    extras = {PROTOCOL_NAME: fields.rest.copy()}
    settings = decode_settings(fields, losses)
    fields.extras(losses, quiet=_BUILT)
    return Request(model, messages, system, tools, choice, settings=settings, extras=extras)


def encode_request(request: Request, losses: Losses) -> Wire:
    native = is_native(request)
    kept = own(request.extras, PROTOCOL_NAME)
    system, messages = _parted(request, losses)
    body: Wire = {"contents": _encode_contents(messages, request, native, losses)}
    if parts := [wire for part in system for wire in encode_part(part, losses)]:
        body["systemInstruction"] = {"parts": parts, **(kept.get("systemInstruction") or {})}
    if tools := encode_tools(request.tools, losses, request.model):
        body["tools"] = tools
    body |= encode_choice(request, tools, losses)
    if not native:
        return body | encode_settings(request, losses)
    return body | {key: value for key, value in kept.items() if key not in _BUILT or key not in body}


def _opened_body(body: Wire) -> Fields:
    """The JavaScript SDK's `config`, as its users write it, says what stands in several places of a body."""
    fields = opened(body, "")
    if not is_object(fields.rest.get("config")):
        return fields
    beside, generation, rest = config_as_body(fields.rest.pop("config"))
    fields.rest = beside | fields.rest
    if generation:
        said = fields.rest.get("generationConfig")
        fields.rest["generationConfig"] = generation | (camel(said) if is_object(said) else {})
    if rest:
        fields.rest["config"] = rest
    return fields


def _decode_contents(fields: Fields, losses: Losses) -> tuple[Message, ...]:
    """An array of contents; sloppy clients send a single one, or a string."""
    contents = fields.any("contents")
    if contents is None:
        raise WireError(PROTOCOL_NAME, "contents", "expected an array, got nothing")
    if is_object(contents) or isinstance(contents, str):
        contents = [contents]
    if not is_array(contents):
        raise fields.wrong("contents", "list", contents)
    return tuple([_decode_content(item, f"contents[{i}]", losses) for i, item in enumerate(contents)])


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
    said = fields.text("role")
    if said not in _ROLES:
        raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected user or model, got {said!r}")
    parts = _take_parts(fields, losses)
    extras = fields.extras(losses, quiet=frozenset({"parts"}))
    if said not in ("user", "model"):
        extras[PROTOCOL_NAME].setdefault("role", said)  # goes back as it came; empty: as it did not come
    return Message(_ROLES[said], parts, where=where, extras=extras)


def _take_parts(fields: Fields, losses: Losses) -> tuple[AnyPart, ...]:
    """Parts may be missing, and an empty array is left where it is."""
    if not fields.rest.get("parts"):
        if fields.rest.get("parts") not in (None, []):
            raise fields.wrong("parts", "list", fields.rest["parts"])
        return ()
    return decode_parts(fields.any("parts"), fields.path("parts"), losses, history=True)


def _decode_system(fields: Fields, losses: Losses) -> tuple[Text, ...]:
    """A content, of which all but the parts is kept; or a string."""
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
    fields.rest["systemInstruction"] = content.rest
    return texts


def _parted(request: Request, losses: Losses) -> tuple[list[Text], list[Message]]:
    """System text from wherever it stands, and the conversation without it."""
    system, messages = list(request.system), list[Message]()
    for message in request.messages:
        if message.role not in _SYSTEM:
            messages.append(message)
            continue
        if messages:
            losses.changed(
                message.where, "Gemini has no system text inside the conversation: moved to the front"
            )
        for part in message.parts:
            if isinstance(part, Text):
                system.append(part)
            else:
                losses.dropped(part.where, "Gemini's system instruction is text only")
    return system, messages


def _encode_contents(messages: list[Message], request: Request, native: bool, losses: Losses) -> list[Wire]:
    """A native conversation keeps its contents; in others neighbours of one role become one."""
    calls = {
        part.id: part for message in request.messages for part in message.parts if type(part) is ToolCall
    }
    nested = native or models.is_current(request.model)
    contents: list[Wire] = []
    for message in messages:
        parts = _encode_parts(message, calls, nested, native, losses)
        content = _encode_content(message, parts)
        if not native and contents and contents[-1]["role"] == content.get("role"):
            contents[-1]["parts"] += parts
        elif parts or native:
            contents.append(content)
    if not native and contents and contents[-1]["role"] == "model":
        losses.changed(
            messages[-1].where, "Gemini does not continue the assistant's last message, but answers it"
        )
    if not native and models.is_current(request.model):
        _sign_calls(contents, calls, losses)
    return contents


def _encode_content(message: Message, parts: list[Wire]) -> Wire:
    extras = own(message.extras, PROTOCOL_NAME)
    content: Wire = {"parts": parts} if parts else {}
    content["role"] = "model" if message.role == "assistant" else "user"
    if extras:
        content |= extras
        if content["role"] == "":
            del content["role"]
    return content


def _encode_parts(
    message: Message, calls: dict[str, ToolCall], nested: bool, native: bool, losses: Losses
) -> list[Wire]:
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


def _name(result: ToolResult, calls: dict[str, ToolCall], losses: Losses) -> str:
    """Gemini wants the name of the function with its result (G45)."""
    call = calls.get(result.call_id) if result.call_id and not is_native(result) else None
    name = call.name if call else result.name
    if not name and result.call_id:
        losses.invented(f"{result.where}.name", "no call in the conversation has this id")
        return result.call_id
    return name


def _sendable(part: AnyPart, losses: Losses) -> AnyPart | None:
    """`part` without what Gemini did not make: another's state, and reasoning that is nothing but state."""
    if part.state is not None and part.state.origin != PROTOCOL_NAME:
        losses.dropped(part.where, f"its state was made by {part.state.origin}, which alone may see it")
        part = replace(part, state=None)
    match part:
        case Text() if part.citations:
            losses.dropped(f"{part.where}.citations", "Gemini takes no citations back")
        case Reasoning(hidden=True) if part.state is None:
            losses.dropped(part.where, "hidden reasoning that Gemini did not make")
            return None
        case _:
            pass
    return part


def _sign_calls(contents: list[Wire], calls: dict[str, ToolCall], losses: Losses) -> None:
    """Gemini 3 wants its signature on the first call of each step since the user last spoke (G97)."""
    for content in reversed(contents):
        parts: list[Wire] = content["parts"]
        if content["role"] == "user" and not any("functionResponse" in part for part in parts):
            return
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and "thoughtSignature" not in first:
            first["thoughtSignature"] = SENTINEL
            call = calls[first["functionCall"].get("id", "")]
            losses.invented(
                call.where or call.name, f"a signature, as Gemini did not make the call: {SENTINEL}"
            )
