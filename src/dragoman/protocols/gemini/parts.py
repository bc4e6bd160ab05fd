"""Parts of a content <-> parts: one mapping for requests and responses.

A part has one field with data, and beside it what is said about the data: `thought` makes a text a
thought, and any part may be signed.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    State,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.gemini.media import decode_file, decode_inline, encode_media
from dragoman.protocols.gemini.objects import NO_EXTRAS, inner, is_native, opened, printed
from dragoman.protocols.gemini.results import decode_result, encode_result
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, QUIET_PART


def decode_parts(parts: Any, where: str, losses: Losses, history: bool = False) -> tuple[AnyPart, ...]:
    """An array of parts; sloppy clients send one part, or a string. `history`: they were said earlier."""
    if is_object(parts) or isinstance(parts, str):
        parts = [parts]
    if not is_array(parts):
        raise WireError(PROTOCOL_NAME, where, f"expected an array of parts, got {describe(parts)}")
    return tuple([decode_part(part, f"{where}[{i}]", losses, history) for i, part in enumerate(parts)])


def decode_part(part: Any, where: str, losses: Losses, history: bool = False) -> AnyPart:
    if isinstance(part, str):
        return Text(part, where=where)
    if is_object(part) and len(part) == 1 and type(text := part.get("text")) is str:
        return Text(text, where=where, extras=NO_EXTRAS)  # most are no more than this
    fields = opened(part, where)
    state, rest = _decode_state(fields), fields.rest
    if rest.get("text") is not None:
        return _decode_text(fields, state, losses)
    if rest.get("functionCall") is not None:
        return _decode_call(fields, state, losses)
    if rest.get("functionResponse") is not None:
        return _with(decode_result(fields, losses), state)
    if rest.get("inlineData") is not None:
        return _with(decode_inline(fields, losses), state)
    if rest.get("fileData") is not None:
        return _with(decode_file(fields, losses), state)
    return _decode_foreign(fields, state, history, losses)


def encode_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The part that says `part`; none where there is nothing to say, or Gemini cannot say it."""
    if type(part) is Text and part.text and not part.state and not own(part.extras, PROTOCOL_NAME):
        return ({"text": part.text},)
    extras = own(part.extras, PROTOCOL_NAME)
    if not is_native(part) and not part.state and isinstance(part, Text | Reasoning) and not part.text:
        return ()
    match part:
        case Text() | Refusal():
            wire: Wire = {"text": part.text, **extras}
        case Reasoning():
            wire = {"text": part.text, "thought": True, **extras}
        case ToolCall():
            wire = _encode_call(part, extras, losses)
        case Media():
            wire = encode_media(part, losses)
        case ToolResult():
            wire, *_ = encode_result(part, part.name, True, losses)
        case Foreign():
            if part.origin != PROTOCOL_NAME:
                return ()
            wire = part.body
    return (signed(wire, part.state),)


def signed(wire: Wire, state: State | None) -> Wire:
    return wire if state is None else {**wire, "thoughtSignature": seal_state(state, PROTOCOL_NAME)}


def _decode_state(fields: Fields) -> State | None:
    signature = fields.nonempty("thoughtSignature")
    return unseal_state(signature, PROTOCOL_NAME) if signature else None


def _decode_text(fields: Fields, state: State | None, losses: Losses) -> Text | Reasoning:
    text, thought = fields.need("text", str), fields.flag("thought")
    extras = fields.extras(losses, quiet=QUIET_PART)
    if thought:
        return Reasoning(text, not text and state is not None, state=state, where=fields.where, extras=extras)
    return Text(text, state=state, where=fields.where, extras=extras)


def _decode_call(fields: Fields, state: State | None, losses: Losses) -> ToolCall:
    """What the wire says beyond the call's own fields stays in its extras, at its place."""
    call = inner(fields, "functionCall")
    if call is None:
        raise WireError(PROTOCOL_NAME, fields.path("functionCall"), "expected an object, got nothing")
    id, name, arguments = call.text("id"), call.need("name", str), call.object("args")
    kept = call.extras(losses)[PROTOCOL_NAME]
    extras = fields.extras(losses, quiet=QUIET_PART)
    if kept:
        extras[PROTOCOL_NAME]["functionCall"] = kept
    text = "" if arguments is None else printed(arguments, call.path("args"))
    return ToolCall(id, name, text, state=state, where=fields.where, extras=extras)


def _encode_call(call: ToolCall, extras: Wire, losses: Losses) -> Wire:
    wire: Wire = {"id": call.id} if call.id else {}
    wire["name"] = call.name
    if call.arguments or not is_native(call):
        wire["args"] = encode_arguments(call, losses)
    return {**extras, "functionCall": wire | extras.get("functionCall", {})}


def encode_arguments(call: ToolCall, losses: Losses) -> Wire:
    """Gemini takes objects only; what is none travels inside one, so that nothing is lost."""
    if not call.arguments.strip():
        return {}
    value = jsontext.decode_object(call.arguments)
    if value is None:
        losses.changed(f"{call.where or call.name}.arguments", "no JSON object: sent as _raw_arguments")
        return {"_raw_arguments": call.arguments}
    return value


def _with(part: AnyPart, state: State | None) -> AnyPart:
    return part if state is None else replace(part, state=state)


def _decode_foreign(fields: Fields, state: State | None, history: bool, losses: Losses) -> Foreign:
    """What only Gemini understands; code that it ran earlier is told to others in words."""
    body = fields.rest
    words = _words(body) if history else ""
    if words:
        losses.changed(fields.where, f"only {PROTOCOL_NAME} understands it: told as text")
    elif body:
        losses.dropped(fields.where, f"only {PROTOCOL_NAME} understands a part with {', '.join(body)}")
    return Foreign(PROTOCOL_NAME, body, words, state=state, where=fields.where)


def _words(body: Wire) -> str:
    match body:
        case {"executableCode": {"code": str(code)}}:
            return f"```\n{code}\n```"
        case {"codeExecutionResult": {"output": str(output)}}:
            return f"Output:\n```\n{output}\n```"
        case _:
            return ""
