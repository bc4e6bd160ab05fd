"""Image, document, video and audio blocks <-> media. A file is bytes, or lies in S3."""

from __future__ import annotations

import base64
import re
from hashlib import blake2s

from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, MediaKind, Plain, Wire
from dragoman.protocols.bedrock_converse.wire import (
    AUDIO_FORMATS,
    DOCUMENT_FORMATS,
    IMAGE_FORMATS,
    PROTOCOL_NAME,
    VIDEO_FORMATS,
    as_it_came,
    is_native,
)

_FORMATS: dict[MediaKind, dict[str, str]] = {
    "image": IMAGE_FORMATS,
    "document": DOCUMENT_FORMATS,
    "video": VIDEO_FORMATS,
    "audio": AUDIO_FORMATS,
}
_TYPES = {kind: {word: name for name, word in table.items()} for kind, table in _FORMATS.items()}
# What the name of a document may hold: it could carry instructions (DocumentBlock, API reference)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9\s()\[\]-]+")
_SPACES = re.compile(r"\s+")
_LONGEST_NAME = 180


def decode_media(fields: Fields, kind: MediaKind, block: Wire, losses: Losses) -> Media | None:
    """`bytes` and S3 are read; a document made of text blocks is Bedrock's alone."""
    source = fields.need_fields("source")
    word, name = fields.nonempty("format"), fields.nonempty("name")
    if location := source.fields("s3Location"):
        data = FileId(location.need("uri", str), PROTOCOL_NAME)
        location.extras(losses)
    elif "bytes" in source.rest:
        data = Base64(source.need("bytes", str))
    elif "text" in source.rest:
        data = Plain(source.need("text", str))
    else:
        return None
    media_type = _TYPES[kind].get(word, f"{kind}/{word}" if word and kind != "document" else "")
    if isinstance(data, Plain):
        media_type = media_type or "text/plain"
    source.extras(losses)
    fields.extras(losses)
    where = fields.where.rpartition(".")[0]
    return Media(kind, media_type, data, name, where=where, extras={PROTOCOL_NAME: {"block": block}})


def encode_media(media: Media, losses: Losses) -> Wire:
    """The block; a note in its place where Bedrock takes no such file."""
    came = own(media.extras, PROTOCOL_NAME).get("block", {}).get(media.kind, {})
    word = came.get("format", "") or _FORMATS[media.kind].get(media.media_type, "")
    source = _encode_source(media)
    if media.kind == "document" and not word:
        word, source = _as_text(media, source)
    if source is None or not (word or came):
        what = media.media_type or type(media.source).__name__
        why = f"Bedrock takes no {media.kind} of this form ({what})."
        losses.dropped(media.where, why, f"media.{media.kind}")
        return {"text": f"[{media.kind} of type {media.media_type or 'unknown'} left out]"}
    if media.detail not in ("", "auto"):
        losses.dropped(f"{media.where}.detail", "Bedrock has no such setting.", "media.detail")
    inner: Wire = {"format": word, "source": source} if word else {"source": source}
    if media.kind == "document":
        inner["name"] = _document_name(media, losses)
    elif media.name:
        losses.dropped(f"{media.where}.name", f"Bedrock has no names for {media.kind}s.", "media.name")
    return as_it_came(media, {media.kind: inner})


def _encode_source(media: Media) -> Wire | None:
    match media.source:
        case FileId(id, origin) if origin == PROTOCOL_NAME or id.startswith("s3://"):
            return {"s3Location": {"uri": id}}
        case Base64(data) if data:
            return {"bytes": data}
        case Plain(text) if is_native(media):
            return {"text": text}
        case Plain(text) if text:
            return {"bytes": base64.b64encode(text.encode("utf-8", "replace")).decode()}
        case _:
            return None


def _as_text(media: Media, source: Wire | None) -> tuple[str, Wire | None]:
    """A file of some other type of text, which Bedrock reads as text."""
    is_text = media.media_type.startswith("text/") or media.media_type in _TEXTUAL
    return ("txt", source) if is_text or isinstance(media.source, Plain) else ("", None)


_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})


def _document_name(media: Media, losses: Losses) -> str:
    """Names must differ within a request, and agents send several files of one name: a digest tells them
    apart, and is the same in each request, so that caches hold."""
    if is_native(media) and media.name:
        return media.name
    if not media.name:
        losses.invented(f"{media.where}.name", "Bedrock needs a name for each document.", "media.name")
    bare = media.name.rpartition(".")[0] or media.name
    clean = _SPACES.sub(" ", _NOT_IN_NAMES.sub(" ", bare)).strip()[:_LONGEST_NAME]
    digest = blake2s(repr(media.source).encode("utf-8", "replace"), digest_size=4).hexdigest()
    if media.name:
        losses.changed(
            f"{media.where}.name",
            "Bedrock takes few characters in a document's name, and each name once.",
            "media.name",
        )
    return f"{clean or 'document'} {digest}"
