"""Images and files as people hold them: paths, bytes, base64, data URLs, addresses."""

from __future__ import annotations

import mimetypes
import re
from base64 import b64decode, b64encode
from pathlib import Path

from dragoman.core.errors import ConfigError
from dragoman.core.model import Base64, Media, Url, media_kind
from dragoman.transforms.content import sniff

Attachment = str | bytes | Path | Media
_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]+)*?)(;base64)?,", re.IGNORECASE)
_UNKNOWN = "image/jpeg"  # what seed 002 takes base64 for where nothing says more


def image(value: str | bytes | Path | Media) -> Media:
    """A string is a data URL, an http URL or base64."""
    match value:
        case Media():
            return value
        case bytes():
            data = b64encode(value).decode()
            return _made(data, sniff(data) or _UNKNOWN)
        case Path():
            return media(value)
        case str():
            return _from_text(value)


def media(value: Attachment) -> Media:
    """Any file; a string that is no URL is a path."""
    match value:
        case Media():
            return value
        case str() if _is_url(value):
            return _from_text(value)
        case bytes():
            data = b64encode(value).decode()
            return _made(data, sniff(data) or "application/pdf")
        case _:
            path = Path(value)
            data = b64encode(path.read_bytes()).decode()
            guessed = sniff(data) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            return _made(data, guessed, path.name)


def _from_text(value: str) -> Media:
    if value.startswith(("http://", "https://")):
        guessed = mimetypes.guess_type(value.split("?")[0])[0] or ""
        return Media(media_kind(guessed or _UNKNOWN), guessed, Url(value))
    found = _DATA.match(value)
    if found and not found[3]:
        raise ConfigError("a data URL of an image holds base64: data:image/png;base64,…")
    data = "".join(value[found.end() if found else 0 :].split())
    _check(data)
    return _made(data, sniff(data) or (found[1].lower() if found else "") or _UNKNOWN)


def _check(data: str) -> None:
    """The first bytes tell: a file name in place of base64 is a mistake that providers explain badly."""
    head = data[:256]
    try:
        b64decode(head + "=" * (-len(head) % 4), validate=True)
    except ValueError:
        raise ConfigError(
            f"image data is a data URL, an http URL or base64 (a file is a Path), not {data[:40]!r}"
        ) from None


def _made(data: str, media_type: str, name: str = "") -> Media:
    return Media(media_kind(media_type), media_type, Base64(data), name)


def _is_url(value: str) -> bool:
    return value.startswith(("http://", "https://", "data:"))
