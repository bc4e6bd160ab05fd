"""Files of tables: Parquet, and Arrow as Hugging Face saves it on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from dragoman.core.errors import ConfigError
from dragoman.datasets.columns import Table, pa, rows_of
from dragoman.datasets.pieces import BATCH_BYTES, BATCH_ROWS, SHORTER, Piece, RowBatch, RowFormat

pq: Any = import_module("pyarrow.parquet")
_PIECES = 16  # that a large row group is cut into, at most: each reads the group again up to its rows


def table_schema(file: str) -> Any:
    if not _is_parquet(file):
        return _open_arrow(file)[0]
    with _open_parquet(file) as parquet:
        return parquet.schema_arrow


def cut_table(file: str, size: int) -> Iterator[Piece]:
    """At row groups; a large one is cut, and small ones are put together."""
    start = stop = 0
    for count in _group_sizes(file):
        if stop > start and stop - start + count > size:
            yield _piece(file, start, stop)
            start = stop
        stop += count
        if count > size:
            step = max(size, -(-count // _PIECES))
            for begin in range(start, stop, step):
                yield _piece(file, begin, min(begin + step, stop))
            start = stop
    if stop > start:
        yield _piece(file, start, stop)


class TableReader:
    """Rows of a row group are reached by reading those before them. So a piece that begins where the last one
    ended goes on there: pieces of one row group that are read in order cost what the group costs."""

    def __init__(self, format: RowFormat) -> None:
        self._format = format
        self._end: tuple[str, int] = "", 0  # of the last piece
        self._tables: Iterator[Table] = iter(())
        self._left: Table = None  # of the last table, what belongs to the next piece

    def read(self, piece: Piece) -> Iterator[RowBatch]:
        at = piece.start
        if self._end != (piece.file, at):
            self._tables, self._left = _tables(piece.file, at), None
        self._end = "", 0  # until this one is read
        while at < piece.stop:
            table = self._left or next(self._tables, None)
            if table is None:
                raise ConfigError(SHORTER)
            part = table.slice(0, piece.stop - at)
            self._left = table.slice(part.num_rows)
            yield RowBatch(self._ids(part, piece, at), [*rows_of(part, self._format.columns)], table=part)
            at += part.num_rows
        self._end = piece.file, at

    def _ids(self, table: Table, piece: Piece, first: int) -> list[str]:
        if self._format.id in table.schema.names:
            return [str(value) for value in table.column(self._format.id).to_pylist()]
        name = self._format.name(piece.file)
        return [f"{name}:{number}" for number in range(first + 1, first + table.num_rows + 1)]


def _piece(file: str, start: int, stop: int) -> Piece:
    return Piece(file, start, stop, start, stop - start, "table")


def _group_sizes(file: str) -> list[int]:
    if not _is_parquet(file):
        return [batch.num_rows for batch in _open_arrow(file)[1]]
    with _open_parquet(file) as parquet:
        return [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]


def _tables(file: str, start: int) -> Iterator[Table]:
    """From row `start` on. They end with their row group, so they are the same wherever reading began."""
    for at, table in _parquet_tables(file, start) if _is_parquet(file) else _arrow_tables(file):
        if at + table.num_rows > start:
            yield table.slice(max(start - at, 0))


def _parquet_tables(file: str, start: int) -> Iterator[tuple[int, Table]]:
    """With the number of the first row of each; row groups before `start` are not read."""
    at = 0
    with _open_parquet(file) as parquet:
        for number in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(number)
            if at + group.num_rows <= start:
                at += group.num_rows
                continue
            size = _batch_rows(group.total_byte_size, group.num_rows)
            for table in parquet.iter_batches(size, row_groups=[number], use_threads=False):
                yield at, table
                at += table.num_rows


def _arrow_tables(file: str) -> Iterator[tuple[int, Table]]:
    at = 0
    for batch in _open_arrow(file)[1]:
        size = _batch_rows(batch.nbytes, batch.num_rows)
        for begin in range(0, batch.num_rows, size):
            yield at + begin, batch.slice(begin, size)
        at += batch.num_rows


def _batch_rows(size: int, rows: int) -> int:
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))


def _is_parquet(file: str) -> bool:
    return file.endswith(".parquet")


def _open_arrow(file: str) -> tuple[Any, Iterator[Any]]:
    """The schema and the batches, in memory that is mapped: what is skipped is not read."""
    source = pa.memory_map(file)
    try:  # `save_to_disk` of Hugging Face writes a stream
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream)
    except pa.ArrowInvalid:
        stored = pa.ipc.open_file(source)
        return stored.schema, map(stored.get_batch, range(stored.num_record_batches))


def _open_parquet(file: str) -> Any:
    return pq.ParquetFile(file, pre_buffer=False)
