"""Files cut into shards, each of which is read by itself: rows of Parquet, bytes of JSONL.

A shard is a value that means the same rows each time, so a job that is resumed finds its shards again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import MALFORMED
from dragoman.datasets.columns import Table, conversation_type, pa, rows_of

pq: Any = import_module("pyarrow.parquet")
_BATCH = 250  # rows that are Python values at a time
_BLOCK = 1 << 20
_PIECES = 16  # that a large row group is cut into, at most: each reads the group again up to its rows


class Shard(Struct, frozen=True):
    """`start` to `stop` of a file: rows of Parquet, bytes of JSONL. `first` is the number of its first row,
    and `rows` how many it has."""

    file: str
    start: int
    stop: int
    first: int
    rows: int


class RowBatch(Struct):
    """Rows of a shard: `ids` name them, `rows` are for the translator, `table` or `rest` what stays as it is:
    columns of Arrow, or JSON texts by name."""

    ids: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    table: Table = None
    rest: Sequence[Mapping[str, msgspec.Raw]] = ()


class RowFormat(Struct, frozen=True):
    """Which columns the translator reads, and which one names a row. `whole`: a row of JSON is a body, beside
    its name."""

    columns: tuple[str, ...]
    id: str = "id"
    whole: bool = False


def find_files(paths: Iterable[str | Path]) -> list[str]:
    """The files of datasets among `paths`, in which a folder stands for those in it."""
    found: list[Path] = []
    for path in map(Path, paths):
        inside = (
            sorted(each for each in path.rglob("*") if each.suffix in READERS) if path.is_dir() else [path]
        )
        if not inside:
            raise ConfigError(f"{path}: no file that ends in {', '.join(READERS)}")
        found += inside
    for path in found:
        if path.suffix not in READERS:
            raise ConfigError(f"{path}: expected a file that ends in {', '.join(READERS)}")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
    return [str(path) for path in found]


def cut(files: Iterable[str], size: int, column: str = "") -> list[Shard]:
    """Shards of about `size` rows; at most one of a file that cannot be cut. Tables must have `column`."""
    for file in files if column else ():
        if file.endswith(".parquet"):
            with _opened(file) as parquet:
                conversation_type(parquet.schema_arrow, column)
    return [shard for file in files for shard in READERS[Path(file).suffix][0](file, size)]


def read(shard: Shard, format: RowFormat) -> Iterator[RowBatch]:
    """The rows of a shard in batches. A row without a name is named by its file and number, from 1 on."""
    return READERS[Path(shard.file).suffix][1](shard, format)


def _cut_parquet(file: str, size: int) -> Iterator[Shard]:
    """At row groups; a large one is cut into pieces, and small ones are put together."""
    with _opened(file) as parquet:
        counts = [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]
    start = stop = 0
    for count in counts:
        if stop > start and stop - start + count > size:
            yield Shard(file, start, stop, start, stop - start)
            start = stop
        stop += count
        if count > size:
            step = max(size, -(-count // _PIECES))
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                yield Shard(file, begin, end, begin, end - begin)
            start = stop
    if stop > start:
        yield Shard(file, start, stop, start, stop - start)


def _read_parquet(shard: Shard, format: RowFormat) -> Iterator[RowBatch]:
    with _opened(shard.file) as parquet:
        groups: list[int] = []
        at = 0
        before = 0  # rows of the first of these groups that belong to an earlier shard
        for i in range(parquet.num_row_groups):
            count = parquet.metadata.row_group(i).num_rows
            if at < shard.stop and at + count > shard.start:
                before = before if groups else shard.start - at
                groups.append(i)
            at += count
        at = shard.start - before
        for batch in parquet.iter_batches(_BATCH, row_groups=groups, use_threads=False):
            begin, end = max(shard.start - at, 0), min(shard.stop - at, batch.num_rows)
            if begin < end:
                piece = batch.slice(begin, end - begin)
                ids = _ids(piece, format.id, shard.file, at + begin)
                yield RowBatch(ids, [*rows_of(piece, format.columns)], table=piece)
            at += batch.num_rows


def _ids(table: Table, id: str, file: str, first: int) -> list[str]:
    if id in table.schema.names:
        return [str(value) for value in table.column(id).to_pylist()]
    return [f"{Path(file).name}:{number}" for number in range(first + 1, first + table.num_rows + 1)]


def _opened(file: str) -> Any:
    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _cut_lines(file: str, size: int) -> Iterator[Shard]:
    """The lines are counted, so that rows have numbers; this reads a gigabyte in half a second."""
    start = first = number = at = 0
    unfinished = False
    with open(file, "rb") as lines:
        while block := lines.read(_BLOCK):
            begin = 0
            while number + (count := block.count(b"\n", begin)) - first >= size:
                for _ in range(size - (number - first)):
                    begin = block.index(b"\n", begin) + 1
                number = first + size
                yield Shard(file, start, at + begin, first, size)
                start, first = at + begin, number
            number += count
            at += len(block)
            unfinished = not block.endswith(b"\n")
        if at > start:
            yield Shard(file, start, at, first, number - first + unfinished)


def _read_lines(shard: Shard, format: RowFormat) -> Iterator[RowBatch]:
    with open(shard.file, "rb") as file:
        file.seek(shard.start)
        yield from _batches(_lines(file, shard.stop - shard.start), shard, format)


def _lines(file: Iterable[bytes], length: int) -> Iterator[bytes]:
    for line in file:
        yield line
        length -= len(line)
        if length <= 0:
            return


def _cut_array(file: str, size: int) -> Iterator[Shard]:
    yield Shard(file, 0, 0, 0, len(_array(file)))


def _read_array(shard: Shard, format: RowFormat) -> Iterator[RowBatch]:
    return _batches(map(bytes, _array(shard.file)), shard, format)


def _array(file: str) -> list[msgspec.Raw]:
    """A file that is one JSON array, as tau-bench writes its results."""
    try:
        return jsontext.split_array(Path(file).read_bytes())
    except MALFORMED as error:
        raise ConfigError(f"{file}: expected a JSON array of rows: {error}") from None


def _batches(texts: Iterator[bytes], shard: Shard, format: RowFormat) -> Iterator[RowBatch]:
    """Rows that are JSON objects."""
    split, prefix, number = (
        _split_whole if format.whole else _split_columns,
        Path(shard.file).name,
        shard.first,
    )
    while piece := [*islice(texts, _BATCH)]:
        ids: list[str] = []
        rows: list[Mapping[str, Any]] = []
        rest: list[Mapping[str, msgspec.Raw]] = []
        for text in piece:
            number += 1
            row, others = split(text, format)
            id = others.get(format.id)
            ids.append(f"{prefix}:{number}" if id is None else str(_value(id)))
            rows.append(row)
            rest.append(others)
        yield RowBatch(ids, rows, rest=rest)


def _split_columns(text: bytes, format: RowFormat) -> tuple[dict[str, Any], dict[str, msgspec.Raw]]:
    try:
        rest = jsontext.split_object(text)
    except MALFORMED:  # which the translator says of the row
        return {format.columns[0]: text}, {}
    return {name: _value(rest.pop(name)) for name in format.columns if name in rest}, rest


def _split_whole(text: bytes, format: RowFormat) -> tuple[dict[str, Any], dict[str, msgspec.Raw]]:
    try:
        rest = jsontext.split_object(text)
    except MALFORMED:
        rest = {}
    if format.id not in rest:
        return {format.columns[0]: text}, {}
    id = rest.pop(format.id)
    return {format.columns[0]: jsontext.encode(rest)}, {format.id: id}


def _value(raw: msgspec.Raw) -> Any:
    """A string as itself, for it may hold JSON text; anything else as its JSON text."""
    text = bytes(raw)
    return jsontext.decode(text) if text[:1] == b'"' else None if text == b"null" else text


Cut = Callable[[str, int], Iterator[Shard]]
Read = Callable[[Shard, RowFormat], Iterator[RowBatch]]
READERS: dict[str, tuple[Cut, Read]] = {
    ".parquet": (_cut_parquet, _read_parquet),
    ".jsonl": (_cut_lines, _read_lines),
    ".json": (_cut_array, _read_array),
}
