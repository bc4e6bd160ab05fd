"""Files as Anthropic's clients see them, and what a request that names one becomes.

A file is kept by the gateway, so no upstream knows it: its content takes the place of `source: {type: file}`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.anthropic.serving.batches import decode_page, encode_page
from dragoman.protocols.anthropic.wire import IMAGE_TYPES, PROTOCOL_NAME
from dragoman.serving.jobs import FileCodec, FileContent, PageQuery, StoredFile

# Of files that come without a type; SDKs take it from the name
_TYPES = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
_UNKNOWN = "application/octet-stream"
_CURSOR = "page_"
_HOLDERS = ("image", "document")


def _encode_file(file: StoredFile) -> Wire:
    created, expires = _time(file.created), _time(file.expires)
    return {
        "id": file.id,
        "type": "file",
        "filename": file.name,
        "mime_type": _media_type(file),
        "size_bytes": file.size,
        "created_at": created,
        "expires_at": expires,
        "downloadable": True,
    }


def _encode_page(data: Sequence[Wire], has_more: bool) -> Wire:
    """The beta continues after an id, the newer API at a cursor."""
    page = encode_page(data, has_more)
    return {**page, "next_page": f"{_CURSOR}{page['last_id']}" if has_more else None}


def _decode_page(query: Mapping[str, str]) -> PageQuery:
    if any(name.partition("[")[0] == "ids" for name in query):
        raise WireError(PROTOCOL_NAME, "ids", "files are listed by page here, not by their ids")
    page = decode_page(query)
    cursor = query.get("page", "")
    return replace(page, after=cursor.removeprefix(_CURSOR)) if cursor else page


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _media_type(file: StoredFile) -> str:
    given = file.media_type.partition(";")[0].strip().lower()
    if given and given != _UNKNOWN:
        return given
    return _TYPES.get(file.name.rpartition(".")[2].lower(), _UNKNOWN)


def _sources(request: Wire) -> Iterator[tuple[Wire, str]]:
    """The blocks of a request that name a file, each with its id; results hold blocks too."""
    waiting: list[Any] = [request.get("messages")]
    while waiting:
        value = waiting.pop()
        for item in value if is_array(value) else ():
            if not is_object(item):
                continue
            waiting.append(item.get("content"))
            source = item.get("source")
            if item.get("type") in _HOLDERS and is_object(source) and source.get("type") == "file":
                yield item, str(source.get("file_id") or "")


def _names(request: Wire) -> list[str]:
    return [id for _, id in _sources(request)]


def _inline(request: Wire, files: Mapping[str, FileContent]) -> Wire:
    """The request, in a copy, with the content of these files. A file that is not ours stays as it is: it may
    be the upstream's."""
    return {**request, "messages": _inline_all(request.get("messages"), files)}


def _inline_all(value: Any, files: Mapping[str, FileContent]) -> Any:
    if not is_array(value):
        return value
    return [_inline_item(item, files) if is_object(item) else item for item in value]


def _inline_item(item: Wire, files: Mapping[str, FileContent]) -> Wire:
    source = item.get("source")
    if item.get("type") in _HOLDERS and is_object(source) and source.get("type") == "file":
        content = files.get(str(source.get("file_id") or ""))
        return _with_content(item, content) if content else item
    return {**item, "content": _inline_all(item["content"], files)} if is_array(item.get("content")) else item


def _with_content(item: Wire, content: FileContent) -> Wire:
    media_type = _media_type(content.file)
    named = {**item}
    if item["type"] == "document" and not item.get("title"):
        named["title"] = content.file.name
    if item["type"] == "document" and media_type.startswith("text/"):
        text = content.data.decode("utf-8", "replace")
        return {**named, "source": {"type": "text", "media_type": "text/plain", "data": text}}
    if item["type"] == "image" and media_type not in IMAGE_TYPES:
        media_type = "image/png"  # the first bytes decide later (transforms/content.py)
    data = base64.b64encode(content.data).decode()
    return {**named, "source": {"type": "base64", "media_type": media_type, "data": data}}


FILES = FileCodec(
    protocol=PROTOCOL_NAME,
    id_prefix="file_",
    decode_upload=lambda form: ("", 0),
    encode_file=_encode_file,
    encode_page=_encode_page,
    encode_deleted=lambda id: {"id": id, "type": "file_deleted"},
    decode_page=_decode_page,
    unknown=lambda id: Failure("not_found", f"no file {id!r} is stored here", 404),
    hint=b'"file_id"',
    names=_names,
    inline=_inline,
)
