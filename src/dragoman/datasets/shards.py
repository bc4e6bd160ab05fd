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
_SHORTER = "it is shorter than when the job began"  # the worker names the file


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
            sorted(each for each in path.rglob("*") if each.suffix in CUTTERS) if path.is_dir() else [path]
        )
        if not inside:
            raise ConfigError(f"{path}: no file that ends in {', '.join(CUTTERS)}")
        found += inside
    for path in found:
        if path.suffix not in CUTTERS:
            raise ConfigError(f"{path}: expected a file that ends in {', '.join(CUTTERS)}")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
    return [str(path) for path in found]


def cut(files: Iterable[str], size: int, column: str = "") -> list[Shard]:
    """Shards of about `size` rows; at most one of a file that cannot be cut. Tables must have `column`."""
    for file in files if column else ():
        if file.endswith(".parquet"):
            with _opened(file) as parquet:
                conversation_type(parquet.schema_arrow, column)
    return [shard for file in files for shard in CUTTERS[Path(file).suffix](file, size)]


class ShardReader:
    """The rows of one shard after the other. A row without a name is named by its file and number, from 1 on.

    Rows of a row group are reached by reading those before them. So a shard that begins where the last one
    ended goes on there: shards of one row group that are read in order cost what the group costs.
    """

    def __init__(self, format: RowFormat) -> None:
        self.format = format
        self._end: tuple[str, int] = "", 0  # of the last shard
        self._tables: Iterator[Table] = iter(())
        self._left: Table = None  # of the last table, what belongs to the next shard

    def read(self, shard: Shard) -> Iterator[RowBatch]:
        if shard.file.endswith(".parquet"):
            return self._read_table(shard)
        texts = _lines(shard) if shard.file.endswith(".jsonl") else map(bytes, _array(shard.file))
        return _batches(texts, shard, self.format)

    def _read_table(self, shard: Shard) -> Iterator[RowBatch]:
        at = shard.start
        if self._end != (shard.file, at):
            self._tables, self._left = _tables(shard.file, at), None
        self._end = "", 0  # until this one is read
        while at < shard.stop:
            table = self._left or next(self._tables, None)
            if table is None:
                raise ConfigError(_SHORTER)
            piece = table.slice(0, shard.stop - at)
            self._left = table.slice(piece.num_rows)
            ids = _ids(piece, self.format.id, shard.file, at)
            yield RowBatch(ids, [*rows_of(piece, self.format.columns)], table=piece)
            at += piece.num_rows
        self._end = shard.file, at


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


def _tables(file: str, start: int) -> Iterator[Table]:
    """From row `start` on. They end with their row group, so they are the same wherever reading began."""
    at = 0
    with _opened(file) as parquet:
        for group in range(parquet.num_row_groups):
            count = parquet.metadata.row_group(group).num_rows
            if at + count <= start:
                at += count
                continue
            for table in parquet.iter_batches(_BATCH, row_groups=[group], use_threads=False):
                if at + table.num_rows > start:
                    yield table.slice(max(start - at, 0))
                at += table.num_rows


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


def _lines(shard: Shard) -> Iterator[bytes]:
    with open(shard.file, "rb") as file:
        file.seek(shard.start)
        left = shard.stop - shard.start
        while left > 0:
            line = file.readline()
            if not line:
                raise ConfigError(_SHORTER)
            yield line
            left -= len(line)


def _cut_array(file: str, size: int) -> Iterator[Shard]:
    yield Shard(file, 0, 0, 0, len(_array(file)))


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


CUTTERS: dict[str, Callable[[str, int], Iterator[Shard]]] = {
    ".parquet": _cut_parquet,
    ".jsonl": _cut_lines,
    ".json": _cut_array,
}
