"""Media parts <-> media: `input_image`, `input_file`, `input_audio`; by URL, as data URL or by file id."""

from __future__ import annotations

import base64

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, Plain, Url, Wire, media_kind
from dragoman.protocols.openai_responses.wire import IMAGE_TYPES, PROTOCOL_NAME, QUIET_PART


def decode_image(fields: Fields, losses: Losses) -> Media:
    detail = fields.nonempty("detail")
    if url := fields.nonempty("image_url"):
        media_type, source = decode_url(url, fields.rest, "image_url")
    elif file_id := fields.nonempty("file_id"):
        media_type, source = "", FileId(file_id, PROTOCOL_NAME)
    else:
        raise WireError(PROTOCOL_NAME, fields.where, "expected image_url or file_id, got neither")
    extras = fields.extras(losses, quiet=QUIET_PART)
    return Media("image", media_type, source, detail=detail, where=fields.where, extras=extras)


def decode_file(fields: Fields, losses: Losses) -> Media:
    name = fields.nonempty("filename")
    if data := fields.nonempty("file_data"):
        media_type, source = decode_url(data, fields.rest, "file_data")
        if not data.startswith("data:"):  # some clients send base64 without the data: prefix
            media_type, source, fields.rest["file_data"] = _type_by_name(name), Base64(data), data
    elif url := fields.nonempty("file_url"):
        media_type, source = "", Url(url)
    elif file_id := fields.nonempty("file_id"):
        media_type, source = "", FileId(file_id, PROTOCOL_NAME)
    else:
        raise WireError(PROTOCOL_NAME, fields.where, "expected file_data, file_url or file_id, got none")
    extras = fields.extras(losses, quiet=QUIET_PART)
    return Media(media_kind(media_type), media_type, source, name, where=fields.where, extras=extras)


def decode_audio(fields: Fields, losses: Losses) -> Media:
    audio = fields.rest.get("input_audio")
    match audio:
        case {"data": str(data), "format": str(format)}:
            extras = fields.extras(losses, quiet=QUIET_PART | {"input_audio"})
            return Media("audio", f"audio/{format}", Base64(data), where=fields.where, extras=extras)
        case _:
            raise fields.wrong("input_audio", "an object with data and format", audio)


def encode_media(media: Media, rest: Wire) -> Wire | None:
    """The content part; None where the protocol has no form for the media."""
    if rest.get("type") == "input_audio":
        return rest
    if rest.get("type") == "input_file" or media.kind == "document":
        return _encode_file(media, rest)
    return _encode_image(media, rest) if media.kind == "image" else None


def _encode_image(media: Media, rest: Wire) -> Wire | None:
    # OpenAI's server refuses an empty detail (G75: bifrost#5352)
    detail = {"detail": media.detail or "auto"} if media.detail or not rest else {}
    match media.source:
        case Base64(data) if rest or media.media_type in IMAGE_TYPES:
            wire = {"image_url": f"data:{media.media_type};base64,{data}"}
        case Url(url):
            wire = {"image_url": url}
        case FileId(id, origin) if origin == PROTOCOL_NAME:
            wire = {"file_id": id}
        case _:
            return None
    return {"type": "input_image", **wire, **detail, **rest}


def _encode_file(media: Media, rest: Wire) -> Wire | None:
    name = {"filename": media.name} if media.name else {}
    match media.source:
        case Base64(data):
            wire = {"file_data": f"data:{media.media_type};base64,{data}"}
        case Plain(text):
            data = base64.b64encode(text.encode("utf-8", "replace")).decode()
            wire = {"file_data": f"data:text/plain;base64,{data}"}
        case Url(url):
            return {"type": "input_file", "file_url": url, **name, **rest}
        case FileId(id, origin) if origin == PROTOCOL_NAME:
            return {"type": "input_file", "file_id": id, **name, **rest}
        case _:
            return None
    if not rest and not name:  # OpenAI answers 400 to file_data without filename
        name = {"filename": f"document{_SUFFIX.get(media.media_type, '.txt')}"}
    return {"type": "input_file", **wire, **name, **rest}


def decode_url(url: str, rest: Wire, key: str) -> tuple[str, Base64 | Url]:
    """Media type and source of a URL. A data URL with further parameters also stays in `rest`."""
    if not url.startswith("data:"):
        return "", Url(url)
    header, comma, data = url.partition(",")
    media_type, *parameters = header[5:].split(";")
    if not comma or parameters[-1:] != ["base64"]:
        return "", Url(url)
    if len(parameters) > 1:
        rest[key] = url
    return media_type, Base64(data)


_SUFFIX = {
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/html": ".html",
    "application/json": ".json",
}
_TYPES = {suffix: media_type for media_type, suffix in _SUFFIX.items()}


def _type_by_name(name: str) -> str:
    return next((kind for suffix, kind in _TYPES.items() if name.lower().endswith(suffix)), "")
