"""Files cut into shards, each of which is read by itself.

A shard is a value that means the same rows each time, so a job that is resumed finds its shards again.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import MALFORMED
from dragoman.datasets.columns import conversation_type, no_column, pa
from dragoman.datasets.json_files import (
    COMPRESSIONS,
    PIECE_BYTES,
    JsonReader,
    cut_json,
    first_rows,
    strip_compression,
)
from dragoman.datasets.pieces import Piece, RowBatch, RowFormat
from dragoman.datasets.table_files import TableReader, cut_table, table_schema

_TABLES, _JSON = (".parquet", ".arrow"), (".jsonl", ".ndjson", ".json")
_WANTED = f"{', '.join(_TABLES + _JSON)}. JSON may be compressed ({', '.join(COMPRESSIONS)})"
# What Hugging Face and LLaMA-Factory write beside their data
_ABOUT_DATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_LOOKED_AT = 100  # rows


class Shard(Struct, frozen=True):
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def __str__(self) -> str:
        first, last = self.pieces[0], self.pieces[-1]
        if first.file != last.file:
            return f"{first.file} to {last.file}"
        return f"{first.file}, rows {first.first + 1} to {last.first + last.rows}"


def find_files(paths: Sequence[str | Path]) -> list[str]:
    """The files of datasets among `paths`, in which a folder stands for those in it."""
    found: list[Path] = []
    if not paths:
        raise ConfigError("no file is given")
    for path in map(Path, paths):
        inside = sorted(_inside(path)) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"{path}: no file that ends in {_WANTED}")
        found += inside
    for path in found:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        if not _is_data(path):
            raise ConfigError(f"{path}: expected a file that ends in {_WANTED}")
    return [str(path) for path in found]


def is_table(file: str) -> bool:
    return file.endswith(_TABLES)


def cut(files: Iterable[str], size: int, column: str = "") -> list[Shard]:
    """Shards of about `size` rows. Tables must have `column`, and so must one of the first rows of JSON."""
    pieces: list[Piece] = []
    for file in files:
        with _name_file(file):
            if is_table(file) and column:
                conversation_type(table_schema(file), column)
            pieces += (cut_table if is_table(file) else cut_json)(file, size)
    if column:
        _check_rows([piece for piece in pieces if piece.kind != "table"], column)
    return [*_put_together(pieces, size)]


class ShardReader:
    """The rows of one shard after the other; those that are read in order cost the least. A row without a
    name is named by its file and number, from 1 on."""

    def __init__(self, format: RowFormat) -> None:
        self._tables, self._json = TableReader(format), JsonReader(format)

    def read(self, shard: Shard) -> Iterator[RowBatch]:
        for piece in shard.pieces:
            with _name_file(piece.file):
                yield from (self._tables if piece.kind == "table" else self._json).read(piece)


def common_root(files: Sequence[str]) -> str:
    """The folder of all files, where two of them have the same name; else nothing."""
    if len({Path(file).name for file in files}) == len(files):
        return ""
    return os.path.commonpath([Path(file).parent for file in files])


def _inside(folder: Path) -> Iterator[Path]:
    """Not what programs keep there for themselves."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if not hidden and path.name not in _ABOUT_DATA and _is_data(path):
            yield path


def _is_data(path: Path) -> bool:
    return is_table(path.name) or strip_compression(path.name).endswith(_JSON)


@contextmanager
def _name_file(file: str) -> Generator[None]:
    """In what goes wrong with it."""
    try:
        yield
    except (ConfigError, OSError, pa.ArrowException) as error:
        raise ConfigError(f"{file}: {error}") from None


def _put_together(pieces: Iterable[Piece], size: int) -> Iterator[Shard]:
    """Small files of JSON make one shard. Tables have columns of their own each."""
    group: list[Piece] = []
    rows = length = 0
    for piece in pieces:
        rows, length = rows + piece.rows, length + piece.stop - piece.start
        is_full = (
            rows > size or length > PIECE_BYTES or "table" in (piece.kind, group[-1].kind if group else "")
        )
        if group and is_full:
            yield Shard(tuple(group))
            group, rows, length = [], piece.rows, piece.stop - piece.start
        group.append(piece)
    if group:
        yield Shard(tuple(group))


def _check_rows(pieces: Sequence[Piece], column: str) -> None:
    found: list[str] = []
    for text in first_rows(pieces, _LOOKED_AT):
        try:
            row = jsontext.split_object(text)
        except MALFORMED:  # a conversation alone, or a row that is wrong
            row = {column: text} if text.lstrip()[:1] == b"[" else {}
        if column in row:
            return
        found = found or [*row]
    if found:
        problem = no_column(column, "its first rows have", found)
        raise ConfigError(f"{pieces[0].file}: {problem}")
