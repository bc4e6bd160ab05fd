"""`inlineData` and `fileData` <-> media.

Bytes are base64 in either alphabet; the official SDK writes the URL-safe one, others read only the
standard one. Data that had to be respelled is kept as it came.
"""

from __future__ import annotations

import base64

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, Plain, Url, Wire, media_kind
from dragoman.protocols.gemini.objects import inner, is_native
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

_DETAIL = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}
_RESOLUTION = {detail: level for level, detail in _DETAIL.items()}
_USUAL = {"image": "image/png", "document": "application/pdf", "audio": "audio/wav", "video": "video/mp4"}
_URL_SAFE = str.maketrans("-_", "+/")


def decode_inline(fields: Fields, losses: Losses) -> Media:
    """The media of a part with `inlineData`; texts are told as texts."""
    blob = _source(fields, "inlineData")
    media_type, sent, name = blob.text("mimeType"), blob.need("data", str), blob.text("displayName")
    source = Base64(_standard(sent))
    if media_type.startswith("text/"):
        source = _plain(source) or source
    kept = blob.extras(losses)[PROTOCOL_NAME]
    if _bytes(source) != sent:
        kept["data"] = sent
    return _media(fields, "inlineData", kept, media_type, source, name, losses)


def decode_file(fields: Fields, losses: Losses) -> Media:
    file = _source(fields, "fileData")
    uri, media_type, name = file.need("fileUri", str), file.text("mimeType"), file.text("displayName")
    kept = file.extras(losses)[PROTOCOL_NAME]
    source = FileId(uri, PROTOCOL_NAME) if _is_googles(uri) else Url(uri)
    return _media(fields, "fileData", kept, media_type, source, name, losses)


def encode_media(media: Media, losses: Losses, inside: bool = False) -> Wire:
    """The part that says `media`. `inside`: of a result, where there is room for the bytes and no more."""
    native = is_native(media)
    extras = own(media.extras, PROTOCOL_NAME)
    match media.source:
        case Base64() | Plain():
            key, body = "inlineData", _typed(media, native, losses) | {"data": _bytes(media.source)}
        case FileId(uri, origin) if origin == PROTOCOL_NAME:
            key, body = "fileData", _typed(media, True, losses) | {"fileUri": uri}
        case Url(uri):
            key, body = "fileData", _guessed(media, uri, native, losses) | {"fileUri": uri}
        case FileId(origin=origin):
            losses.dropped(media.where, f"only {origin} can open this {media.kind}")
            return {"text": f"[{media.kind} left out: only {origin} can open it]"}
    wire: Wire = {**extras, key: body | extras.get(key, {})}
    if native:
        return wire if not media.name else {**wire, key: wire[key] | {"displayName": media.name}}
    if media.name:
        losses.dropped(f"{media.where}.name", "Gemini's media have no names")
    if media.detail in _RESOLUTION and inside:
        losses.dropped(f"{media.where}.detail", "Gemini sees media of results as it likes")
    elif media.detail in _RESOLUTION:
        wire["mediaResolution"] = {"level": _RESOLUTION[media.detail]}
    return wire


def _source(fields: Fields, key: str) -> Fields:
    source = inner(fields, key)
    if source is None:
        raise WireError(PROTOCOL_NAME, fields.path(key), "expected an object, got nothing")
    return source


def _media(
    fields: Fields,
    key: str,
    kept: Wire,
    media_type: str,
    source: Base64 | Plain | Url | FileId,
    name: str,
    losses: Losses,
) -> Media:
    """What the wire says beyond a media's own fields stays in its extras, at its place."""
    resolution = inner(Fields(fields.rest, fields.where, PROTOCOL_NAME), "mediaResolution")
    detail = _DETAIL.get(resolution.text("level"), "") if resolution else ""
    extras = fields.extras(losses, quiet=frozenset({"mediaResolution"} if detail else ()))
    if kept:
        extras[PROTOCOL_NAME][key] = kept
    return Media(media_kind(media_type), media_type, source, name, detail, where=fields.where, extras=extras)


def _standard(data: str) -> str:
    """Base64 in the standard alphabet, padded."""
    if "-" in data or "_" in data:
        data = data.translate(_URL_SAFE)
    return data + "=" * (-len(data) % 4)


def _plain(source: Base64) -> Plain | None:
    try:
        return Plain(base64.b64decode(source.data, validate=True).decode())
    except ValueError:
        return None


def _bytes(source: Base64 | Plain) -> str:
    return (
        source.data
        if isinstance(source, Base64)
        else base64.b64encode(source.text.encode("utf-8", "replace")).decode()
    )


def _is_googles(uri: str) -> bool:
    """Files that were uploaded to Google, which nobody else can open."""
    return uri.startswith(("files/", "gs://")) or (
        uri.startswith("https://generativelanguage.googleapis.com/") and "/files/" in uri
    )


def _typed(media: Media, native: bool, losses: Losses) -> Wire:
    if media.media_type or native:
        return {"mimeType": media.media_type} if media.media_type else {}
    guess = "text/plain" if isinstance(media.source, Plain) else _USUAL[media.kind]
    losses.invented(f"{media.where}.mimeType", f"Gemini requires it: {guess}")
    return {"mimeType": guess}


def _guessed(media: Media, url: str, native: bool, losses: Losses) -> Wire:
    """Of a URL only the name can tell the type; the bytes are for Gemini's server to fetch."""
    if native:
        return _typed(media, True, losses)
    losses.changed(media.where, "Gemini's server must fetch the URL, and may refuse to")
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    guess = media.media_type or _ENDINGS.get(ending)
    return {"mimeType": guess} if guess else {}


_ENDINGS = {
    **{name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "heic", "heif", "bmp")},
    **{name: f"audio/{name}" for name in ("wav", "aac", "ogg", "flac", "aiff")},
    **{name: f"video/{name}" for name in ("mp4", "mpeg", "webm", "avi")},
    **{name: f"text/{name}" for name in ("html", "css", "csv", "xml")},
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "json": "application/json",
}
