"""multipart/form-data (RFC 7578) that is in memory, by a strict and bounded reader.

Every input costs one search for the delimiter per part and a look at heads of bounded size. What browsers
and the vendors' SDKs send is read; folded headers, text between parts and a delimiter inside a part are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct

MOST_PARTS = 128  # OpenAI's image edits take 16 images beside their settings
LONGEST_HEAD = 8 * 1024  # bytes, of a part and of the content-type
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf';[ \t]*({_TOKEN})=(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\])')  # any other backslash is one: older browsers send whole paths
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")  # RFC 2046, 5.1.1
_FORM = "multipart/form-data"
_DISPOSITION = "form-data"


class FormError(ValueError):
    """The body is no form; the message says where."""


class FormPart(Struct, frozen=True):
    """A field or a file; its content is `data[start:end]` of the body. `content_type` is empty where the
    sender names none."""

    name: str
    filename: str
    start: int
    end: int
    content_type: str = ""


def read_form(data: bytes, content_type: str, most_parts: int = MOST_PARTS) -> tuple[FormPart, ...]:
    """The parts of a form, in order. Raises FormError."""
    delimiter = b"\r\n--" + _boundary(content_type)
    parts: list[FormPart] = []
    at = 2 if data.startswith(b"\r\n") else 0
    if not data.startswith(delimiter[2:], at):
        raise FormError("the form does not begin with its boundary")
    at += len(delimiter) - 2
    while not data.startswith(b"--", at):
        if not data.startswith(b"\r\n", at):
            raise FormError(f"expected a new line or -- behind the boundary, at byte {at}")
        if len(parts) == most_parts:
            raise FormError(f"the form has more than {most_parts} parts")
        head, start = _head(data, at + 2)
        end = data.find(delimiter, start - 2)  # the new line of an empty part is that of its head
        if end < 0:
            raise FormError("the form ends inside a part")
        headers = _headers(head)
        name, filename = _disposition(headers)
        parts.append(
            FormPart(name, filename, start, max(start, end), headers.get("content-type", "").strip())
        )
        at = end + len(delimiter)
    return tuple(parts)


def _boundary(content_type: str) -> bytes:
    kind, _, _ = content_type.partition(";")
    if kind.strip().lower() != _FORM:
        raise FormError("expected multipart/form-data with a boundary")
    boundary = _parameters(content_type[len(kind) :]).get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise FormError("the content-type has no valid boundary")
    return boundary.encode("ascii")


def _head(data: bytes, at: int) -> tuple[bytes, int]:
    """The header lines of a part, and where its content begins."""
    end = data.find(b"\r\n\r\n", at, at + LONGEST_HEAD + 4)
    if end < 0:
        raise FormError(f"the part at byte {at} has no head, or one of more than {LONGEST_HEAD} bytes")
    return data[at:end], end + 4


def _headers(head: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\r\n"):
        header, colon, value = line.partition(":")
        if not colon or header != header.strip():
            raise FormError("a part has a header without a name")
        headers.setdefault(header.lower(), value)
    return headers


def _disposition(headers: dict[str, str]) -> tuple[str, str]:
    """The name of a part and of its file. Browsers and SDKs send both in UTF-8 (RFC 7578, 5.1)."""
    kind, semicolon, rest = headers.get("content-disposition", "").partition(";")
    found = _parameters(semicolon + rest)
    if kind.strip().lower() != _DISPOSITION or "name" not in found:
        raise FormError("a part has no content-disposition with a name")
    return found["name"], found.get("filename*") or found.get("filename", "")


def _parameters(text: str) -> dict[str, str]:
    return dict(_each_parameter(text.rstrip()))


def _each_parameter(text: str) -> Iterator[tuple[str, str]]:
    if len(text) > LONGEST_HEAD:
        raise FormError(f"a header has more than {LONGEST_HEAD} characters")
    at = 0
    while at < len(text):
        if not (found := _PARAMETER.match(text, at)):
            raise FormError("a header has a parameter that cannot be read")
        name, quoted, token = found.groups()
        value = token if quoted is None else _ESCAPED.sub(r"\1", quoted)
        yield name.lower(), _extended(value) if name.endswith("*") else value
        at = found.end()


def _extended(value: str) -> str:
    """`UTF-8''na%C3%AFve` (RFC 8187); urllib3 sent file names so before its version 2."""
    charset, quote, rest = value.partition("''")
    return unquote(rest, "utf-8", "replace") if quote and charset.lower() == "utf-8" else ""
