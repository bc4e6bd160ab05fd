"""Parts of a content <-> parts: one mapping for requests and responses.

A part has one field with data, and beside it what is said about the data: `thought` makes a text a
thought, and any part may be signed.
"""

from __future__ import annotations

from typing import Any

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
from dragoman.protocols.gemini.case import inner, opened
from dragoman.protocols.gemini.media import decode_file, decode_inline, encode_media
from dragoman.protocols.gemini.results import decode_result, encode_result
from dragoman.protocols.gemini.wire import PROTOCOL, QUIET_PART


def decode_parts(parts: Any, where: str, losses: Losses) -> tuple[AnyPart, ...]:
    """An array of parts; sloppy clients send a single part, or a string."""
    if is_object(parts) or isinstance(parts, str):
        parts = [parts]
    if not is_array(parts):
        raise WireError(PROTOCOL, where, f"expected an array of parts, got {describe(parts)}")
    return tuple([decode_part(part, f"{where}[{i}]", losses) for i, part in enumerate(parts)])


def decode_part(part: Any, where: str, losses: Losses) -> AnyPart:
    if isinstance(part, str):
        return Text(part, where=where)
    fields = opened(part, where)
    state = _decode_state(fields)
    match fields.rest:
        case {"text": text} if text is not None:
            return _decode_text(fields, state, losses)
        case {"functionCall": call} if call is not None:
            return _decode_call(fields, state, losses)
        case {"functionResponse": answer} if answer is not None:
            return decode_result(fields, losses)
        case {"inlineData": data} if data is not None:
            return _signed(decode_inline(fields, losses), state)
        case {"fileData": data} if data is not None:
            return _signed(decode_file(fields, losses), state)
        case rest:
            if rest:
                losses.dropped(where, f"a part with {', '.join(rest)} is only understood by {PROTOCOL}")
            return Foreign(PROTOCOL, rest, state=state, where=where)


def encode_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The part that says `part`; none where there is nothing to say, or Gemini cannot say it."""
    extras = own(part.extras, PROTOCOL)
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
            return tuple(encode_result(part, part.name, True, losses))
        case Foreign():
            if part.origin != PROTOCOL:
                return ()
            wire = part.body
    return (wire if part.state is None else {**wire, **encode_state(part.state)},)


def is_native(part: AnyPart) -> bool:
    """Whether `part` was decoded from Gemini's wire."""
    return part.extras is not None and PROTOCOL in part.extras


def encode_state(state: State) -> Wire:
    return {"thoughtSignature": seal_state(state, PROTOCOL)}


def _decode_state(fields: Fields) -> State | None:
    signature = fields.take("thoughtSignature", str)
    if signature == "":
        fields.rest["thoughtSignature"] = ""  # said, though it says nothing
    return unseal_state(signature, PROTOCOL) if signature else None


def _decode_text(fields: Fields, state: State | None, losses: Losses) -> Text | Reasoning:
    text, thought = fields.need("text", str), fields.take("thought", bool)
    if thought:
        hidden = not text and state is not None
        extras = fields.extras(losses, quiet=QUIET_PART)
        return Reasoning(text, hidden, state=state, where=fields.where, extras=extras)
    if thought is False:
        fields.rest["thought"] = False
    return Text(text, state=state, where=fields.where, extras=fields.extras(losses, quiet=QUIET_PART))


def _decode_call(fields: Fields, state: State | None, losses: Losses) -> ToolCall:
    """What the wire says beyond the call's own fields stays in its extras, at its place."""
    call = inner(fields, "functionCall")
    if call is None:
        raise WireError(PROTOCOL, fields.path("functionCall"), "expected an object, got nothing")
    id, name, arguments = call.text("id"), call.need("name", str), call.object("args")
    kept = call.extras(losses)[PROTOCOL]
    extras = fields.extras(losses, quiet=QUIET_PART)
    if kept:
        extras[PROTOCOL]["functionCall"] = kept
    text = "" if arguments is None else jsontext.dumps(arguments)
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


def _signed(media: Media, state: State | None) -> Media:
    return (
        media
        if state is None
        else Media(
            media.kind,
            media.media_type,
            media.source,
            media.name,
            media.detail,
            state=state,
            where=media.where,
            extras=media.extras,
        )
    )
