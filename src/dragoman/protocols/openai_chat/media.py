"""Media parts <-> media: images, audio and files, by address or as data URLs."""

from __future__ import annotations

import base64
import binascii

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Media, Plain, Url, Wire
from dragoman.protocols.openai_chat.wire import MARKS, PROTOCOL_NAME, is_native, leftovers, text_part

_AUDIO = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}
_EXTENSIONS = {"application/pdf": "pdf"}


def decode_image(fields: Fields, part: Wire, losses: Losses) -> Media:
    if type(url := fields.rest.get("image_url")) is str:  # Mistral's short form
        media_type, source, _ = _decode_url(url)
        return Media("image", media_type, source, where=fields.where, extras={PROTOCOL_NAME: part})
    image = fields.need_fields("image_url")
    media_type, source, exact = _decode_url(url := image.need("url", str))
    if not exact:
        image.rest["url"] = url
    detail = image.text("detail")
    return Media(
        "image", media_type, source, detail=detail, where=fields.where, extras=_extras(fields, image, losses)
    )


def decode_audio(fields: Fields, part: Wire, losses: Losses) -> Media:
    if type(data := fields.rest.get("input_audio")) is str:  # Mistral's short form, without a type
        media_type = "audio/wav" if data.startswith("UklGR") else "audio/mpeg"
        source = _decode_url(data)[1] if data.startswith(("data:", "http")) else Base64(data)
        return Media("audio", media_type, source, where=fields.where, extras={PROTOCOL_NAME: part})
    audio = fields.need_fields("input_audio")
    data, format = audio.need("data", str), audio.need("format", str)
    media_type = _AUDIO.get(format, f"audio/{format}")
    if data.startswith(("data:", "http")):  # DashScope accepts URLs in `data`
        return Media(
            "audio", media_type, _decode_url(data)[1], where=fields.where, extras={PROTOCOL_NAME: part}
        )
    return Media("audio", media_type, Base64(data), where=fields.where, extras=_extras(fields, audio, losses))


def decode_file(fields: Fields, part: Wire, losses: Losses) -> Media:
    file = fields.need_fields("file")
    name = file.text("filename")
    if id := file.take("file_id", str):
        source = FileId(id, PROTOCOL_NAME)
        return Media("document", "", source, name, where=fields.where, extras=_extras(fields, file, losses))
    media_type, source, exact = _decode_url(file.need("file_data", str))
    match source:
        case Base64() if media_type.startswith("text/"):
            source, exact = _plain(source), False
        case Url(url) if not url.startswith(("http", "data:")):  # base64 without its prefix
            media_type, source, exact = "application/pdf", Base64(url), False
        case Url():
            exact = False
        case _:
            pass
    extras = _extras(fields, file, losses) if exact else {PROTOCOL_NAME: part}
    return Media("document", media_type, source, name, where=fields.where, extras=extras)


def decode_linked(kind: str, part: Wire, where: str, losses: Losses) -> Media:
    """Extensions that name an address: OpenRouter's and Qwen's videos, Mistral's documents."""
    link = part.get(kind)
    url = link.get("url") if is_object(link) else link
    if type(url) is not str:
        raise WireError(PROTOCOL_NAME, f"{where}.{kind}", f"expected an address, got {describe(url)}")
    for key in link if is_object(link) else ():
        if key != "url":
            losses.dropped(f"{where}.{kind}.{key}", f"Only {PROTOCOL_NAME} has this field.", "field.unknown")
    media_type, source, _ = _decode_url(url)
    if kind == "video_url":
        return Media("video", media_type, source, where=where, extras={PROTOCOL_NAME: part})
    media_type, name = media_type or "application/pdf", part.get("document_name")
    name = name if type(name) is str else ""
    return Media("document", media_type, source, name, where=where, extras={PROTOCOL_NAME: part})


def _decode_url(url: str) -> tuple[str, Base64 | Url, bool]:
    """Media type, source, and whether the two are enough to rebuild the URL."""
    if not url.startswith("data:"):
        return "", Url(url), True
    head, comma, data = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or not parameters or parameters[-1] != "base64":
        return media_type, Url(url), True
    return media_type, Base64(data), len(parameters) == 1


def _plain(source: Base64) -> Base64 | Plain:
    try:
        return Plain(base64.b64decode(source.data, validate=True).decode())
    except (binascii.Error, ValueError):
        return source


def _extras(fields: Fields, inner: Fields, losses: Losses) -> dict[str, Wire]:
    """The remaining fields of the part and of its inner object, in the shape of the wire."""
    extras = leftovers(fields, losses, MARKS)
    rest = leftovers(inner, losses, _QUIET_INNER)[PROTOCOL_NAME]
    return (
        {PROTOCOL_NAME: {**extras[PROTOCOL_NAME], inner.where.rpartition(".")[2]: rest}} if rest else extras
    )


_QUIET_INNER = frozenset({"url"})


def encode_media(media: Media, losses: Losses) -> Wire:
    """A content part; text in its place where Chat has no form for the media."""
    extras = own(media.extras, PROTOCOL_NAME)
    if "type" in extras:
        return extras
    match media.kind, media.source:
        case "image", Base64() | Url():
            image = {"url": _encode_url(media)} | ({"detail": media.detail} if media.detail else {})
            return _wrapped("image_url", image, extras)
        case "audio", Base64(data) if media.media_type in _FORMATS or is_native(media):
            format = _FORMATS.get(media.media_type) or media.media_type.removeprefix("audio/")
            return _wrapped("input_audio", {"data": data, "format": format}, extras)
        case _, FileId(id, origin) if origin == PROTOCOL_NAME:
            named = {"filename": media.name} if media.name else {}
            return _wrapped("file", {"file_id": id, **named}, extras)
        case "document", Base64():
            return _wrapped("file", _encode_file(media, losses), extras)
        case "document", Plain() | Url():
            return text_part(_document_text(media, losses))
        case _:
            kind = media.media_type or "unknown type"
            why = f"Chat takes no {media.kind} of this form ({kind})."
            losses.dropped(media.where, why, f"media.{media.kind}")
            return text_part(f"[{media.kind} of type {media.media_type or 'unknown'} left out]")


def _document_text(media: Media, losses: Losses) -> str:
    """A document that is no file for Chat (an `image_url` or a raw block is refused, G74: bifrost#4832)."""
    if isinstance(media.source, Plain):
        why = "Chat takes no plain text files. The text was put into the message."
        losses.changed(media.where, why, "media.document")
        return f"{media.name or 'document'}:\n{media.source.text}"
    why = "Chat takes no files by address. The address was sent as text."
    losses.changed(media.where, why, "media.document")
    return (
        f"[document {media.name}: {_encode_url(media)}]"
        if media.name
        else f"[document: {_encode_url(media)}]"
    )


def _encode_url(media: Media) -> str:
    match media.source:
        case Base64(data):
            return f"data:{media.media_type};base64,{data}"
        case Url(url):
            return url
        case _:
            return ""


def _encode_file(media: Media, losses: Losses) -> Wire:
    """OpenAI answers 400 to `file_data` without `filename`."""
    file = {"file_data": _encode_url(media)}
    if media.name:
        return {"filename": media.name, **file}
    if is_native(media):
        return file
    name = f"document.{_EXTENSIONS.get(media.media_type, 'bin')}"
    losses.invented(
        f"{media.where}.filename", f"Chat needs a name beside a file. {name} was sent.", "media.name"
    )
    return {"filename": name, **file}


def _wrapped(kind: str, inner: Wire, extras: Wire) -> Wire:
    """`{type, kind: inner}` with the extras of both objects."""
    if not extras:
        return {"type": kind, kind: inner}
    return {"type": kind, **extras, kind: inner | extras.get(kind, {})}
