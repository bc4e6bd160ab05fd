"""`inlineData` and `fileData` <-> media.

Bytes are base64 in either alphabet: google-genai writes the URL-safe one, other protocols read only the
standard one. Data in the URL-safe alphabet is also kept in the extras as it came.
"""

from __future__ import annotations

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, Plain, Url, Wire, media_kind
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, inner, is_native
from dragoman.protocols.google import (
    GOOGLE_FILES,
    USUAL_TYPES,
    base64_of,
    is_google_file,
    plain_text,
    standard_base64,
    type_of_url,
)

_DETAIL = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}
_RESOLUTION = {detail: level for level, detail in _DETAIL.items()}


def decode_inline(fields: Fields, losses: Losses) -> Media:
    """The media of a part with `inlineData`; a text type becomes plain text."""
    blob = _source(fields, "inlineData")
    media_type, sent, name = blob.text("mimeType"), blob.need("data", str), blob.text("displayName")
    source = Base64(standard_base64(sent))
    if media_type.startswith("text/"):
        source = plain_text(source) or source
    rest = blob.extras(losses)[PROTOCOL_NAME]
    if base64_of(source) != sent:
        rest["data"] = sent
    return _media(fields, "inlineData", rest, media_type, source, name, losses)


def decode_file(fields: Fields, losses: Losses) -> Media:
    file = _source(fields, "fileData")
    uri, media_type, name = file.need("fileUri", str), file.text("mimeType"), file.text("displayName")
    rest = file.extras(losses)[PROTOCOL_NAME]
    source = FileId(uri, GOOGLE_FILES) if is_google_file(uri) else Url(uri)
    return _media(fields, "fileData", rest, media_type, source, name, losses)


def encode_media(media: Media, losses: Losses, inside: bool = False) -> Wire:
    """The part for `media`. `inside`: of a result, which takes the bytes and no metadata."""
    native = is_native(media)
    extras = own(media.extras, PROTOCOL_NAME)
    match media.source:
        case Base64() | Plain():
            key, body = "inlineData", _typed(media, native, losses) | {"data": base64_of(media.source)}
        case FileId(uri, origin) if origin == GOOGLE_FILES:
            key, body = "fileData", _typed(media, True, losses) | {"fileUri": uri}
        case Url(uri):
            guess = media.media_type or ("" if native else type_of_url(uri))
            key, body = "fileData", {"mimeType": guess} if guess else {}
            body["fileUri"] = uri  # Gemini's server fetches it (G72); a translator must not
        case FileId(origin=origin):
            losses.dropped(media.where, f"Only {origin} can open this {media.kind}.", f"media.{media.kind}")
            return {"text": f"[{media.kind} left out: only {origin} can open it]"}
    wire: Wire = {**extras, key: body | extras.get(key, {})}
    if native:
        return wire if not media.name else {**wire, key: wire[key] | {"displayName": media.name}}
    if media.name:
        losses.dropped(f"{media.where}.name", "Gemini has no field for the name of a file.", "media.name")
    if media.detail in _RESOLUTION and inside:
        losses.dropped(
            f"{media.where}.detail", "Gemini has no such setting for media in results.", "media.detail"
        )
    elif media.detail in _RESOLUTION:
        wire["mediaResolution"] = {"level": _RESOLUTION[media.detail]}
    elif media.detail not in ("", "auto"):
        losses.dropped(f"{media.where}.detail", "Gemini has no such resolution.", "media.detail")
    return wire


def _source(fields: Fields, key: str) -> Fields:
    source = inner(fields, key)
    if source is None:
        raise WireError(PROTOCOL_NAME, fields.path(key), "expected an object, got nothing")
    return source


def _media(
    fields: Fields,
    key: str,
    rest: Wire,
    media_type: str,
    source: Base64 | Plain | Url | FileId,
    name: str,
    losses: Losses,
) -> Media:
    """Unknown fields stay in the extras, those of the source under its key."""
    resolution = inner(Fields(fields.rest, fields.where, PROTOCOL_NAME), "mediaResolution")
    detail = _DETAIL.get(resolution.text("level"), "") if resolution else ""
    extras = fields.extras(losses, quiet=frozenset({"mediaResolution"} if detail else ()))
    if rest:
        extras[PROTOCOL_NAME][key] = rest
    kind = media_kind(media_type or (type_of_url(source.url) if isinstance(source, Url) else ""))
    return Media(kind, media_type, source, name, detail, where=fields.where, extras=extras)


def _typed(media: Media, native: bool, losses: Losses) -> Wire:
    if media.media_type or native:
        return {"mimeType": media.media_type} if media.media_type else {}
    guess = "text/plain" if isinstance(media.source, Plain) else USUAL_TYPES[media.kind]
    losses.invented(f"{media.where}.mimeType", f"Gemini requires it. {guess} was sent.", "media.type")
    return {"mimeType": guess}
