"""`output` <-> parts of a response.

Every item needs an id with the prefix of its type; ids are made from that of the response and the
place of the item, so the same response gives the same ids.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from dragoman.core.fields import own
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.openai_responses.calls import encode_call, encode_result
from dragoman.protocols.openai_responses.items import decode_item, encode_reasoning, encode_reply, together
from dragoman.protocols.openai_responses.parts import encode_part
from dragoman.protocols.openai_responses.search import TOOL_SEARCH, claimed
from dragoman.protocols.openai_responses.wire import IMAGE_TYPES, ITEM, PROTOCOL_NAME, native

_PREFIX = {"function": "fc_", "custom": "ctc_", "local_shell": "lsh_"}
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def decode_output(items: list[Any], losses: Losses) -> tuple[AnyPart, ...]:
    return tuple(
        [part for i, item in enumerate(items) for part in decode_item(item, f"output[{i}]", i, losses)]
    )


def encode_output(
    parts: tuple[AnyPart, ...], response: str, losses: Losses, request: Request | None = None
) -> list[Wire]:
    items: list[Wire] = []
    for group in together(parts):
        id = item_id(group[0], response, len(items))
        if ITEM in (group[0].extras or ()):
            items.append(encode_reply(group, losses))
        elif item := encode_item(claimed(group[0], request, id), id, losses):
            items.append(item)
    return items


def item_id(part: AnyPart, response: str, place: int) -> str:
    """Its own id where it came from here; otherwise one made for it, at most 64 characters long."""
    match part:
        case ToolCall():
            prefix = "tsc_" if part.name == TOOL_SEARCH else _PREFIX[part.kind]
        case Reasoning():
            prefix = "rs_"
        case Media() if _is_picture(part):
            prefix = "ig_"
        case _:
            prefix = "msg_"
    known = own(part.extras, PROTOCOL_NAME).get("id") or (
        part.state.id if _own_state(part) and part.state else ""
    )
    if isinstance(known, str) and known:
        return known
    stem = _ILLEGAL.sub("_", response.removeprefix("resp_")) or "dragoman"
    if len(stem) > 52:
        stem = hashlib.sha256(stem.encode("utf-8", "surrogatepass")).hexdigest()[:48]
    return f"{prefix}{stem}_{place}"


def encode_item(part: AnyPart, id: str, losses: Losses) -> Wire | None:
    """The finished item that says `part`; None where there is nothing to say."""
    match part:
        case Text() | Refusal():
            return encode_message([part], id, losses) if part.text else None
        case ToolCall():
            item = encode_call(part, losses)
            return item if native(part) else {"id": id, "status": "completed", **item}
        case Reasoning():
            encrypted = seal_state(part.state, PROTOCOL_NAME) if part.state else ""
            return (
                encode_reasoning(part, "" if native(part) else id, encrypted)
                if part.text or encrypted or native(part)
                else None
            )
        case Media():
            return _encode_media(part, id, losses)
        case ToolResult():
            return encode_result(part, losses)
        case Foreign():
            return part.body if part.origin == PROTOCOL_NAME else None


def opened_item(part: AnyPart, id: str, losses: Losses) -> Wire:
    """The item as a stream announces it: nothing in it yet."""
    match part:
        case ToolCall():
            text = "input" if part.kind == "custom" else "arguments"
            return {"id": id, **encode_call(part, losses), "status": "in_progress", text: ""}
        case Reasoning():
            return {"id": id, "type": "reasoning", "summary": []}
        case _:
            return {**encode_message([], id, losses), "status": "in_progress", **_phase(part)}


def encode_message(parts: list[AnyPart], id: str, losses: Losses) -> Wire:
    content = [wire for part in parts for wire in encode_part(part, "output_text", losses)]
    wire: Wire = {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content}
    return {**wire, **_phase(parts[0])} if parts else wire


def _phase(part: AnyPart) -> Wire:
    """Whether a text is a remark on the way or the answer, where its model said so."""
    phase = own(part.extras, ITEM).get("message", {}).get("phase")
    return {"phase": phase} if phase else {}


def _encode_media(media: Media, id: str, losses: Losses) -> Wire:
    """A picture that the model made is the result of an image generation; other media are told of."""
    if not _is_picture(media) or not isinstance(media.source, Base64):
        return encode_message([media], id, losses)
    made: Wire = {"id": id, "type": "image_generation_call", "status": "completed"}
    return {**made, "output_format": media.media_type.removeprefix("image/"), "result": media.source.data}


def _is_picture(media: Media) -> bool:
    return isinstance(media.source, Base64) and media.media_type in IMAGE_TYPES


def _own_state(part: AnyPart) -> bool:
    return part.state is not None and part.state.origin == PROTOCOL_NAME
