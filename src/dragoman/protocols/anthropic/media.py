"""Image and document blocks <-> media. There are no blocks for audio and video."""

from __future__ import annotations

import base64
from typing import Literal

from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Foreign, Media, Plain, Url, Wire
from dragoman.protocols.anthropic.hosted import decode_foreign
from dragoman.protocols.anthropic.wire import IMAGE_TYPES, PROTOCOL_NAME, is_native, lifetime

_QUIET = frozenset({"media_type", "title", "cache_control"})


def decode_media(
    block: Wire, kind: Literal["image", "document"], where: str, losses: Losses, history: bool
) -> Media | Foreign:
    """Other fields of the source stay in the extras, under `source`."""
    fields = Fields(block, where, PROTOCOL_NAME)
    del fields.rest["type"]
    source = fields.need_fields("source")
    name = fields.nonempty("title") if kind == "document" else ""
    match source.need("type", str):
        case "base64":
            media_type, data = source.need("media_type", str), Base64(source.need("data", str))
        case "url":
            media_type, data = "application/pdf" if kind == "document" else "", Url(source.need("url", str))
        case "file":
            media_type, data = "", FileId(source.need("file_id", str), PROTOCOL_NAME)
        case "text":
            media_type, data = "text/plain", Plain(source.need("data", str))
        case _:
            return decode_foreign(block, where, losses, history)
    source.extras(losses, quiet=_QUIET)
    extras = fields.extras(losses, quiet=_QUIET)
    if source.rest:
        extras[PROTOCOL_NAME]["source"] = source.rest
    return Media(kind, media_type, data, name, where=where, extras=extras, cache=lifetime(block))


def encode_media(media: Media, losses: Losses) -> Wire:
    source = _encode_source(media)
    if source is None:
        kind = media.media_type or "unknown type"
        why = f"Anthropic takes no {media.kind} of this form ({kind})."
        losses.dropped(media.where, why, f"media.{media.kind}")
        return {"type": "text", "text": f"[{media.kind} of type {media.media_type or 'unknown'} left out]"}
    if media.detail not in ("", "auto"):
        losses.dropped(f"{media.where}.detail", "Anthropic has no such setting.", "media.detail")
    block: Wire = {"type": media.kind, "source": source}
    if media.name and media.kind == "document":
        block["title"] = media.name
    extras = own(media.extras, PROTOCOL_NAME)
    if "source" in extras:
        return {**block, **extras, "source": {**source, **extras["source"]}}
    return {**block, **extras}


def _encode_source(media: Media) -> Wire | None:
    """None where Anthropic has no form for it."""
    match media.kind, media.source:
        case _, Base64(data) if _is_taken(media):
            return {"type": "base64", "media_type": media.media_type, "data": data}
        case "document", Base64(data) if (text := _readable(media.media_type, data)) is not None:
            return {"type": "text", "media_type": "text/plain", "data": text}
        case (("image" | "document"), Url(url)):
            return {"type": "url", "url": url}
        case (("image" | "document"), FileId(id, origin)) if origin == PROTOCOL_NAME:
            return {"type": "file", "file_id": id}
        case "document", Plain(text):
            return {"type": "text", "media_type": "text/plain", "data": text}
        case _:
            return None


def _is_taken(media: Media) -> bool:
    """Four types of image and PDF; media from Anthropic's own wire go back as they came."""
    if is_native(media):
        return True
    return media.media_type in IMAGE_TYPES if media.kind == "image" else media.media_type == "application/pdf"


def _readable(media_type: str, data: str) -> str | None:
    """A text file that travels as base64, as the text it is."""
    if not media_type.startswith("text/") and media_type not in _TEXTUAL:
        return None
    try:
        return base64.b64decode(data).decode()
    except ValueError:
        return None


_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})
