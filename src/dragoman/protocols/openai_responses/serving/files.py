"""Files as OpenAI's clients see them, and what a request that names one becomes. Chat has it too.

A file is kept by the gateway, so no upstream knows it: its content takes the place of `file_id`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.model import Wire
from dragoman.protocols.openai_responses.serving.batches import decode_life, decode_page, unknown, wrong
from dragoman.protocols.openai_responses.serving.conversations import whole_list
from dragoman.serving.jobs import FileCodec, FileContent, StoredFile
from dragoman.serving.named_files import NamedFiles, data_url

_PURPOSES = ("batch", "user_data", "vision", "assistants", "evals")  # not fine-tune, which nobody does here
_HOLDERS = {"input_file": "file_data", "input_image": "image_url"}  # type of a part -> where its data stands


def _decode_upload(form: Mapping[str, str]) -> tuple[str, float]:
    purpose = form.get("purpose", "")
    if purpose not in _PURPOSES:
        raise wrong("purpose", f"expected one of {', '.join(_PURPOSES)}, got {purpose!r}")
    life = {
        key: form[f"expires_after[{key}]"] for key in ("anchor", "seconds") if f"expires_after[{key}]" in form
    }
    return purpose, decode_life(life, "expires_after") if life else 0


def _encode_file(file: StoredFile) -> Wire:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created),
        "expires_at": int(file.expires),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def _id_of(part: Wire) -> str:
    return str(part.get("file_id") or "") if part.get("type") in _HOLDERS else ""


def _with_content(part: Wire, content: FileContent) -> Wire:
    rest = {key: value for key, value in part.items() if key != "file_id"}
    named = {"filename": content.file.name} if part["type"] == "input_file" else {}
    return {**named, **rest, _HOLDERS[part["type"]]: data_url(content)}


FILES = FileCodec(
    id_prefix="file-",
    decode_upload=_decode_upload,
    encode_file=_encode_file,
    encode_page=whole_list,
    encode_deleted=lambda id: {"id": id, "object": "file", "deleted": True},
    decode_page=lambda query: decode_page(query, 10_000, 10_000),
    unknown=lambda id: unknown("file", id),
)
NAMED_FILES = NamedFiles("", "input", ("content", "output"), _id_of, _with_content)
