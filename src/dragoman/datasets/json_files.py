"""Files of JSON: a row on each line, an array of rows, or one row; compressed ones too.

A place in a compressed file is one in what it holds, which is reached by reading what stands before it.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import MALFORMED
from dragoman.datasets.columns import pa
from dragoman.datasets.pieces import BATCH_BYTES, BATCH_ROWS, SHORTER, Piece, RowBatch, RowFormat

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
PIECE_BYTES = 128 << 20
_BLOCK = 1 << 20
_BOM = b"\xef\xbb\xbf"  # editors on Windows write it
_SPACE, _BETWEEN = b" \t\r\n", b" \t\r\n,"
Contents = mmap.mmap | bytes


def cut_json(file: str, size: int) -> Iterator[Piece]:
    """The name and the first line say which of the three it is. A `.jsonl` whose first row is broken has
    lines all the same."""
    with open_file(file) as stream:
        line = stream.readline().removeprefix(_BOM)
        while line.isspace():
            line = stream.readline()
    is_array, is_json = line.lstrip()[:1] == b"[", strip_compression(file).endswith(".json")
    if not line or (_is_json(line) and not (is_array and is_json)) or not (is_array or is_json):
        yield from _cut_lines(file, size)
        return
    try:
        yield from _cut_values(file, _contents(file), size)
    except MALFORMED as error:
        if is_json:
            problem = f"expected an array of rows, one row, or a row on each line: {error}"
            raise ConfigError(problem) from None
        yield from _cut_lines(file, size)


def strip_compression(file: str) -> str:
    """Its name without the suffix of a compression."""
    path = Path(file)
    return str(path.with_suffix("")) if path.suffix in COMPRESSIONS else file


class JsonReader:
    """A piece that begins where the last one ended goes on there."""

    def __init__(self, format: RowFormat) -> None:
        self._format = format
        self._file, self._at = "", 0
        self._stream: IO[bytes] = io.BytesIO()

    def read(self, piece: Piece) -> Iterator[RowBatch]:
        return _batches(self.texts(piece), self._format.name(piece.file), self._format)

    def texts(self, piece: Piece) -> Iterator[tuple[int, bytes]]:
        """Each row with its number, from 1 on."""
        self._go_to(piece.file, piece.start)
        return (self._lines if piece.kind == "lines" else self._values)(piece)

    def _lines(self, piece: Piece) -> Iterator[tuple[int, bytes]]:
        number = piece.first
        while self._at < piece.stop:
            line = self._stream.readline()
            if not line:
                raise ConfigError(SHORTER)
            text = line if self._at else line.removeprefix(_BOM)
            self._at += len(line)
            number += 1
            if not text.isspace():
                yield number, text

    def _values(self, piece: Piece) -> Iterator[tuple[int, bytes]]:
        text = self._stream.read(piece.stop - piece.start)
        self._at += len(text)
        try:
            values = jsontext.split_array(b"[%b]" % text)
        except MALFORMED as error:
            raise ConfigError(f"it is not as when the job began: {error}") from None
        return enumerate(map(bytes, values), piece.first + 1)

    def _go_to(self, file: str, place: int) -> None:
        if self._file != file or self._at > place:
            self._stream.close()
            self._file, self._at, self._stream = file, 0, open_file(file)
        if self._stream.seekable():
            self._stream.seek(place)
            self._at = place
        while self._at < place:
            block = self._stream.read(min(_BLOCK, place - self._at))
            if not block:
                raise ConfigError(SHORTER)
            self._at += len(block)


def open_file(file: str) -> IO[bytes]:
    """What it holds, for reading; of a compressed file without places to go to."""
    compression = COMPRESSIONS.get(Path(file).suffix)
    if not compression:
        return open(file, "rb")
    stream: Any = pa.input_stream(file, compression=compression)
    return io.BufferedReader(stream, _BLOCK)


def first_rows(pieces: Iterable[Piece], count: int) -> Iterator[bytes]:
    """Of files of JSON."""
    reader = JsonReader(RowFormat(()))
    texts = (text for piece in pieces for _, text in reader.texts(piece))
    return islice(texts, count)


def _batches(texts: Iterator[tuple[int, bytes]], name: str, format: RowFormat) -> Iterator[RowBatch]:
    """Rows that are JSON objects, some at a time."""
    split = _split_whole if format.whole else _split_columns
    ids: list[str] = []
    rows: list[Mapping[str, Any]] = []
    rest: list[Mapping[str, msgspec.Raw]] = []
    size = 0
    for number, text in texts:
        row, others = split(text, format)
        id = others.get(format.id)
        ids.append(f"{name}:{number}" if id is None else str(_value(id)))
        rows.append(row)
        rest.append(others)
        size += len(text)
        if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
            yield RowBatch(ids, rows, rest=rest)
            ids, rows, rest, size = [], [], [], 0
    if rows:
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
    if text[:1] == b'"':
        return jsontext.decode(text)
    return None if text == b"null" else text


def _cut_lines(file: str, size: int) -> Iterator[Piece]:
    """The lines are counted, so that rows have numbers; this reads a gigabyte in half a second."""
    start = first = number = at = 0
    unfinished = False
    with open_file(file) as lines:
        while block := lines.read(_BLOCK):
            begin = 0
            while number + (count := block.count(b"\n", begin)) - first >= size:
                for _ in range(size - (number - first)):
                    begin = block.index(b"\n", begin) + 1
                number = first + size
                yield Piece(file, start, at + begin, first, size, "lines")
                start, first = at + begin, number
            number += count
            if count and at + len(block) - start >= PIECE_BYTES:
                stop = at + block.rindex(b"\n") + 1
                yield Piece(file, start, stop, first, number - first, "lines")
                start, first = stop, number
            at += len(block)
            unfinished = not block.endswith(b"\n")
        if at > start:
            yield Piece(file, start, at, first, number - first + unfinished, "lines")


def _cut_values(file: str, contents: Contents, size: int) -> Iterator[Piece]:
    """Pieces that are read as a whole."""
    at = len(_BOM) if contents[: len(_BOM)] == _BOM else 0
    while contents[at] in _SPACE:
        at += 1
    text = memoryview(contents)[at:]
    if contents[at] != ord("["):
        jsontext.split_object(text)
        yield Piece(file, at, len(contents), 0, 1, "values")
        return
    at += 1
    start = first = number = 0
    for value in jsontext.split_array(text):
        while contents[at] in _BETWEEN:
            at += 1
        start = start or at
        at += len(memoryview(value))
        number += 1
        if number - first == size or at - start >= BATCH_BYTES:
            yield Piece(file, start, at, first, number - first, "values")
            start, first = 0, number
    if number > first:
        yield Piece(file, start, at, first, number - first, "values")


def _contents(file: str) -> Contents:
    """A file is mapped: it may be larger than the memory."""
    with open_file(file) as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if stream.seekable() else stream.read()


def _is_json(text: bytes) -> bool:
    try:
        jsontext.decode(text)
    except (ValueError, RecursionError):
        return False
    return True
