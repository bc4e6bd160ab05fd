"""Images, audio, video and documents from paths, bytes, base64, data URLs and addresses.

A string may be untrusted input, so where an image is expected it is never opened as a file.
"""

from __future__ import annotations

import mimetypes
import re
from base64 import b64decode, b64encode
from pathlib import Path

from dragoman.core.errors import ConfigError
from dragoman.core.model import Base64, Media, Plain, Url, media_kind
from dragoman.transforms.content import sniff

Attachment = str | bytes | Path | Media
_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]+)*?)(;base64)?,", re.IGNORECASE)
_UNKNOWN = "image/jpeg"  # the media type of base64 without a known signature
# How files begin whose types `sniff` does not check, because no provider contradicts them
_BEGINNINGS = (
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)


def image(value: str | bytes | Path | Media) -> Media:
    """A string is a data URL, an http URL or base64."""
    match value:
        case Media():
            return value
        case bytes():
            data = b64encode(value).decode()
            return _make(data, sniff(data) or _UNKNOWN)
        case Path():
            return media(value)
        case str():
            return _from_text(value)


def media(value: Attachment) -> Media:
    """Any file for a message: an image, audio, a video, a document. A string that is no URL is a path."""
    match value:
        case Media():
            return value
        case str() if value.startswith(("http://", "https://", "data:")):
            return _from_text(value)
        case bytes():
            return _from_bytes(value)
        case _:
            path = Path(value)
            return _from_bytes(path.read_bytes(), path.name)


def _from_bytes(data: bytes, name: str = "") -> Media:
    encoded = b64encode(data).decode()
    media_type = sniff(encoded) or mimetypes.guess_type(name)[0] or _type_of(data)
    if media_type.startswith("text/"):
        try:
            return Media("document", media_type, Plain(data.decode()), name)
        except UnicodeDecodeError:
            pass
    return _make(encoded, media_type, name)


def _type_of(data: bytes) -> str:
    if data[4:8] == b"ftyp":  # ISO media; the brand follows
        return "audio/mp4" if data[8:11] == b"M4A" else "video/mp4"
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            return media_type
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


def _from_text(value: str) -> Media:
    if value.startswith(("http://", "https://")):
        guessed = mimetypes.guess_type(value.split("?")[0])[0] or ""
        return Media(media_kind(guessed or _UNKNOWN), guessed, Url(value))
    found = _DATA.match(value)
    if found and not found[3]:
        raise ConfigError("A data URL of an image holds base64: data:image/png;base64,…")
    data = "".join(value[found.end() if found else 0 :].split())
    _check(data)
    return _make(data, sniff(data) or (found[1].lower() if found else "") or _UNKNOWN)


def _check(data: str) -> None:
    """Refuse a file name in place of base64, which providers report badly; the first bytes suffice."""
    head = data[:256]
    try:
        b64decode(head + "=" * (-len(head) % 4), validate=True)
    except ValueError:
        raise ConfigError(
            f"image data is a data URL, an http URL or base64 (a file is a Path), not {data[:40]!r}"
        ) from None


def _make(data: str, media_type: str, name: str = "") -> Media:
    return Media(media_kind(media_type), media_type, Base64(data), name)
