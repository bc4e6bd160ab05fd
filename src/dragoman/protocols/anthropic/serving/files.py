"""Files as Anthropic's clients see them, and what a request that names one becomes.

A file is kept by the gateway, so no upstream knows it: its content takes the place of `source: {type: file}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.anthropic.serving.batches import decode_page, encode_page
from dragoman.protocols.anthropic.wire import IMAGE_TYPES, PROTOCOL_NAME
from dragoman.serving.jobs import FileCodec, FileContent, PageQuery, StoredFile
from dragoman.serving.named_files import NamedFiles, base64_of, media_type_of

_CURSOR = "page_"
_HOLDERS = ("image", "document")


def _encode_file(file: StoredFile) -> Wire:
    created, expires = _time(file.created), _time(file.expires)
    return {
        "id": file.id,
        "type": "file",
        "filename": file.name,
        "mime_type": media_type_of(file),
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


def _id_of(block: Wire) -> str:
    source = block.get("source")
    is_named = block.get("type") in _HOLDERS and is_object(source) and source.get("type") == "file"
    return str(source.get("file_id") or "") if is_named and is_object(source) else ""


def _with_content(item: Wire, content: FileContent) -> Wire:
    media_type = media_type_of(content.file)
    named = {**item}
    if item["type"] == "document" and not item.get("title"):
        named["title"] = content.file.name
    if item["type"] == "document" and media_type.startswith("text/"):
        text = content.data.decode("utf-8", "replace")
        return {**named, "source": {"type": "text", "media_type": "text/plain", "data": text}}
    if item["type"] == "image" and media_type not in IMAGE_TYPES:
        media_type = "image/png"  # the first bytes decide later (transforms/content.py)
    return {**named, "source": {"type": "base64", "media_type": media_type, "data": base64_of(content)}}


FILES = FileCodec(
    protocol=PROTOCOL_NAME,
    id_prefix="file_",
    decode_upload=lambda form: ("", 0),
    encode_file=_encode_file,
    encode_page=_encode_page,
    encode_deleted=lambda id: {"id": id, "type": "file_deleted"},
    decode_page=_decode_page,
    unknown=lambda id: Failure("not_found", f"no file {id!r} is stored here", 404),
)
NAMED_FILES = NamedFiles(PROTOCOL_NAME, "messages", ("content",), _id_of, _with_content)
