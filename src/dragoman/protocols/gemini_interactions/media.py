"""Content blocks of media <-> media: image, audio, document and video, by bytes or by URI."""

from __future__ import annotations

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, MediaKind, Url, Wire
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME, QUIET_CONTENT, is_native
from dragoman.protocols.google import (
    GOOGLE_FILES,
    USUAL_TYPES,
    base64_of,
    is_google_file,
    plain_text,
    standard_base64,
    type_of_url,
)

KINDS: dict[str, MediaKind] = {kind: kind for kind in ("image", "document", "audio", "video")}
_DETAILS = frozenset({"low", "high"})


def decode_media(fields: Fields, kind: MediaKind, losses: Losses) -> Media:
    """Data in the URL-safe alphabet is also kept in the extras as it came."""
    media_type, uri = fields.nonempty("mime_type"), fields.nonempty("uri")
    detail = str(fields.rest.get("resolution") or "")
    if uri:
        source = FileId(uri, GOOGLE_FILES) if is_google_file(uri) else Url(uri)
    elif sent := fields.nonempty("data"):
        source = Base64(standard_base64(sent))
        if media_type.startswith("text/"):
            source = plain_text(source) or source
        if base64_of(source) != sent:
            fields.rest["data"] = sent
    else:
        raise WireError(PROTOCOL_NAME, fields.where, "expected data or uri, got neither")
    known = detail if detail in _DETAILS else ""
    if detail and not known:
        losses.dropped(fields.path("resolution"), f"Only {PROTOCOL_NAME} has {detail}.", "media.detail")
    extras = fields.extras(losses, quiet=QUIET_CONTENT)
    return Media(kind, media_type, source, detail=known, where=fields.where, extras=extras)


def encode_media(media: Media, losses: Losses) -> Wire:
    source = _encode_source(media, losses)
    if "text" in source:
        return source
    wire: Wire = {"type": media.kind, **source}
    if is_native(media):
        return wire | own(media.extras, PROTOCOL_NAME)
    if media.name:
        losses.dropped(
            f"{media.where}.name", f"{PROTOCOL_NAME} has no field for the name of a file.", "media.name"
        )
    if media.detail in _DETAILS and media.kind in ("image", "video"):
        wire["resolution"] = media.detail
    elif media.detail not in ("", "auto"):
        losses.dropped(f"{media.where}.detail", f"{PROTOCOL_NAME} has no such resolution.", "media.detail")
    return wire


def _encode_source(media: Media, losses: Losses) -> Wire:
    """The fields that say where it is; a text in its place, if nobody here can open it."""
    media_type, ours = media.media_type, is_native(media)
    match media.source:
        case Url(uri):  # Google's server fetches it (G72); a translator must not
            found: Wire = {"uri": uri}
            media_type = media_type or ("" if ours else type_of_url(uri))
        case FileId(uri, origin) if origin == GOOGLE_FILES:
            found = {"uri": uri}
        case FileId(origin=origin):
            losses.dropped(media.where, f"Only {origin} can open this {media.kind}.", f"media.{media.kind}")
            return {"type": "text", "text": f"[{media.kind} left out: only {origin} can open it]"}
        case source:
            found = {"data": base64_of(source)}
            if not media_type and not ours and (media_type := USUAL_TYPES[media.kind]):
                why = f"{PROTOCOL_NAME} requires it. {media_type} was sent."
                losses.invented(f"{media.where}.mime_type", why, "media.type")
    return found | ({"mime_type": media_type} if media_type else {})
