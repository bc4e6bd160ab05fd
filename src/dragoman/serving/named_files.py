"""Files that a request names: its blocks get the content that the gateway keeps in place of the name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.serving.jobs import FileContent, StoredFile

HINT = b'"file_id"'  # stands in each request that names a file
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


class NamedFiles(Struct, frozen=True):
    """`stored`: the protocol of the stored files. `field` of a request holds the conversation, and `inner`
    are the fields of its entries that hold blocks. `id_of` a block: of the file that it names, or empty."""

    stored: str
    field: str
    inner: tuple[str, ...]
    id_of: Callable[[Wire], str]
    with_content: Callable[[Wire, FileContent], Wire]

    def names(self, request: Wire) -> Sequence[str]:
        return [*self._names(request.get(self.field))]

    def inline(self, request: Wire, files: Mapping[str, FileContent]) -> Wire:
        """The request, in a copy, with the content of these files. A file that is not ours stays as it is: it
        may be the upstream's."""
        return {**request, self.field: self._inline_all(request.get(self.field), files)}

    def _names(self, value: Any) -> Iterator[str]:
        for item in value if is_array(value) else ():
            if not is_object(item):
                continue
            if id := self.id_of(item):
                yield id
            for key in self.inner:
                yield from self._names(item.get(key))

    def _inline_all(self, value: Any, files: Mapping[str, FileContent]) -> Any:
        if not is_array(value):
            return value
        return [self._inline_item(item, files) if is_object(item) else item for item in value]

    def _inline_item(self, item: Wire, files: Mapping[str, FileContent]) -> Wire:
        if content := files.get(self.id_of(item)):
            return self.with_content(item, content)
        held = {key: self._inline_all(item[key], files) for key in self.inner if is_array(item.get(key))}
        return {**item, **held} if held else item


def media_type_of(file: StoredFile) -> str:
    given = file.media_type.partition(";")[0].strip().lower()
    if given and given != _UNKNOWN:
        return given
    return _TYPES.get(file.name.rpartition(".")[2].lower(), _UNKNOWN)


def base64_of(content: FileContent) -> str:
    return base64.b64encode(content.data).decode()


def data_url(content: FileContent) -> str:
    return f"data:{media_type_of(content.file)};base64,{base64_of(content)}"
