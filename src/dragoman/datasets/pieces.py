"""A piece of a file, and its rows in batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

BATCH_ROWS, BATCH_BYTES = 250, 16 << 20  # that are Python values at a time, at most
SHORTER = "it is shorter than when the job began"


class Piece(Struct, frozen=True):
    """`start` to `stop` of a file: rows of a table, or bytes of JSON with a row on each of its `lines`, or
    with `values` between commas. Bytes of a compressed file are those that it holds. `first` is the number of
    the first row, and `rows` how many there are; empty lines count."""

    file: str
    start: int
    stop: int
    first: int
    rows: int
    kind: Literal["table", "lines", "values"]


class RowFormat(Struct, frozen=True):
    """Which columns the translator reads, and which one names a row. `whole`: a row of JSON is a body, beside
    its name. `root` is left out of the names of files; without it they have no folder."""

    columns: tuple[str, ...]
    id: str = "id"
    whole: bool = False
    root: str = ""

    def name(self, file: str) -> str:
        return os.path.relpath(file, self.root) if self.root else Path(file).name


class RowBatch(Struct):
    """Rows of a piece: `ids` name them, `rows` are for the translator, `table` or `rest` what stays as it is:
    columns of Arrow, or JSON texts by name."""

    ids: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    table: Any = None  # pyarrow.Table
    rest: Sequence[Mapping[str, msgspec.Raw]] = ()
