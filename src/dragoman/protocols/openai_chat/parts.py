"""Content parts <-> parts: text, refusals and media of messages.

A text that came as a string has no extras of ours and goes back as a string; one that came as a
part goes back as a part. A part whose shape the neutral form cannot repeat keeps it whole in its
extras, `type` included, and that wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    Text,
    Wire,
)
from dragoman.protocols.openai_chat.media import (
    decode_audio,
    decode_file,
    decode_image,
    decode_linked,
    encode_media,
)
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, is_native, leftovers, text_part


def decode_content(fields: Fields, losses: Losses) -> list[AnyPart]:
    """A string or an array of parts; an empty one stays among the leftovers, as null does."""
    content = fields.rest.get("content")
    if content is None or content == "" or content == []:
        return []
    del fields.rest["content"]
    where = fields.path("content")
    if type(content) is str:
        return [Text(content, where=where)]
    if not is_array(content):
        raise WireError(
            PROTOCOL_NAME, where, f"expected a string or an array of parts, got {describe(content)}"
        )
    return [decode_part(part, f"{where}[{i}]", losses) for i, part in enumerate(content)]


def encode_content(parts: Iterable[AnyPart], losses: Losses) -> str | list[Wire]:
    """The content of a user message: a lone text as a string, anything else as an array."""
    parts = tuple(parts)
    if len(parts) == 1 and type(parts[0]) is Text and not is_native(parts[0]):
        return parts[0].text
    return [encode_part(part, losses) for part in parts if not _is_nothing(part)]


def decode_part(part: Any, where: str, losses: Losses) -> AnyPart:
    """Most parts are a text and nothing else."""
    text = part.get("text") if is_object(part) and len(part) == 2 and part.get("type") == "text" else None
    if type(text) is str:
        return Text(text, where=where, extras={PROTOCOL_NAME: {}})
    return _decode_other(part, where, losses)


def _decode_other(part: Any, where: str, losses: Losses) -> AnyPart:
    fields = Fields(part, where, PROTOCOL_NAME)
    match kind := fields.need("type", str):
        case "text":
            return Text(fields.need("text", str), where=where, extras=leftovers(fields, losses))
        case "refusal":
            return Refusal(fields.need("refusal", str), where=where, extras=leftovers(fields, losses))
        case "image_url":
            return decode_image(fields, part, losses)
        case "input_audio":
            return decode_audio(fields, part, losses)
        case "file":
            return decode_file(fields, part, losses)
        case "thinking":
            return Reasoning(thought_text(part.get("thinking")), where=where, extras={PROTOCOL_NAME: part})
        case "video_url" | "document_url":
            return decode_linked(kind, part, where, losses)
        case _:
            losses.dropped(where, f"a part of type {kind} is only understood by {PROTOCOL_NAME}")
            return Foreign(PROTOCOL_NAME, part, where=where)


def encode_part(part: AnyPart, losses: Losses) -> Wire:
    extras = own(part.extras, PROTOCOL_NAME)
    if "type" in extras:
        return extras
    match part:
        case Text():
            return {"type": "text", "text": part.text, **extras}
        case Refusal():
            return {"type": "refusal", "refusal": part.text, **extras}
        case Media():
            return encode_media(part, losses)
        case Foreign() if part.origin == PROTOCOL_NAME:
            return part.body
        case _:
            losses.dropped(part.where, f"Chat has no place for this {type(part).__name__} here")
            return text_part(f"[{type(part).__name__.lower()} left out]")


def _is_nothing(part: AnyPart) -> bool:
    """Empty texts say nothing; foreign parts were reported by whoever read them."""
    match part:
        case Text():
            return not part.text and not is_native(part)
        case Foreign():
            return part.origin != PROTOCOL_NAME
        case _:
            return False


def thought_text(thinking: Any) -> str:
    """Mistral writes its thoughts as an array of texts."""
    if is_array(thinking):
        texts = [item.get("text") for item in thinking if is_object(item)]
        return "".join([text for text in texts if type(text) is str])
    return thinking if type(thinking) is str else ""
