"""One shard of a job, and the process that does one after the other.

A process is told the job and then numbers of shards, a line each, and answers each with the sum of its
losses. A shard's file is written beside its place and moved there when it is whole: where it stands, it is
done. Its report stands before it does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.datasets.columns import Table, output_columns, pa, without
from dragoman.datasets.loss_report import LossReport
from dragoman.datasets.pieces import RowBatch, RowFormat
from dragoman.datasets.rows import RowTranslator, TranslatedRow, Translation
from dragoman.datasets.shards import Shard, ShardReader

pq: Any = import_module("pyarrow.parquet")
REPORTS = "_reports"
GO_ON = "--resume goes on with what is not done."
_GROUP_ROWS, _GROUP_BYTES = 5000, 32 << 20


class DatasetJob(Struct, frozen=True):
    """A translation of files: what is done with each shard, and where it goes. Without `out` nothing is
    written, and only the report is made."""

    translation: Translation
    shards: tuple[Shard, ...]
    out: str = ""
    format: Literal["parquet", "jsonl"] = "parquet"
    id: str = "id"
    whole: bool = False
    root: str = ""

    def place(self, number: int) -> Path:
        return Path(self.out) / f"part-{number:06}.{self.format}"

    def report_place(self, number: int) -> Path:
        return Path(self.out) / REPORTS / f"part-{number:06}.json"


class Answer(Struct, frozen=True):
    """What a worker says of a shard; an error ends the job."""

    report: LossReport | None = None
    error: str = ""


class ShardTranslator:
    """Does shards of a job; those that follow each other cost the least."""

    def __init__(self, job: DatasetJob) -> None:
        self._job = job
        self._translate = RowTranslator(job.translation)
        self._reader = ShardReader(RowFormat(self._translate.columns, job.id, job.whole, job.root))

    def answer(self, number: int) -> Answer:
        try:
            return Answer(self.run(number))
        except DragomanError as error:
            return Answer(error=str(error))
        except (OSError, pa.ArrowException) as error:  # what is read has errors of its own
            return Answer(error=f"{self._job.place(number)}: {error}. {GO_ON}")

    def run(self, number: int) -> LossReport:
        job, report = self._job, LossReport()
        batches = self._translate_rows(number, report)
        if not job.out:
            for _ in batches:
                pass
            return report
        with _publishing(job.place(number)) as unfinished:
            with _writer(job, unfinished, self._translate.columns) as writer:
                for batch, rows in batches:
                    writer.write(batch, rows)
            write_whole(job.report_place(number), msgspec.json.encode(report))
        return report

    def _translate_rows(
        self, number: int, report: LossReport
    ) -> Iterator[tuple[RowBatch, list[TranslatedRow]]]:
        for batch in self._reader.read(self._job.shards[number]):
            rows = [self._translate(row) for row in batch.rows]
            for id, row in zip(batch.ids, rows, strict=True):
                report.add(id, row)
            yield batch, rows


def write_whole(place: Path, data: bytes) -> None:
    """The file is there as a whole, or not at all."""
    with _publishing(place) as unfinished:
        unfinished.write_bytes(data)


@contextmanager
def _publishing(place: Path) -> Generator[Path]:
    """The file that is moved to `place` when it is whole. Processes of other nodes may write one too."""
    unfinished = place.with_name(f".{place.name}.{uuid4().hex[:8]}.tmp")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, place)
    finally:
        unfinished.unlink(missing_ok=True)


class _Writer(Protocol):
    def write(self, batch: RowBatch, rows: Sequence[TranslatedRow]) -> None: ...
    def __enter__(self) -> _Writer: ...
    def __exit__(self, *_: object) -> None: ...


def _writer(job: DatasetJob, place: Path, used: Sequence[str]) -> _Writer:
    return _ParquetFile(place, used, job.id) if job.format == "parquet" else _LinesFile(place, used, job.id)


class _ParquetFile:
    """Row groups of some thousand rows, whatever the batches are."""

    def __init__(self, place: Path, used: Sequence[str], id: str) -> None:
        self._place, self._used, self._id = place, used, id
        self._file: Any = None
        self._waiting: list[Table] = []

    def write(self, batch: RowBatch, rows: Sequence[TranslatedRow]) -> None:
        kept = without(batch.table, self._used) if batch.table is not None else self._rest(batch)
        columns = {self._id: pa.array(batch.ids, pa.string())} | kept | output_columns(rows, pa.string())
        self._waiting.append(pa.record_batch([*columns.values()], names=[*columns]))
        rows_waiting = sum(each.num_rows for each in self._waiting)
        if rows_waiting >= _GROUP_ROWS or sum(each.nbytes for each in self._waiting) >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        if self._file is None:
            self._file = pq.ParquetWriter(self._place, table.schema, compression="zstd")
        self._file.write_table(table)

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            if not self._file and not self._waiting:  # a shard of empty lines
                self.write(RowBatch((), ()), ())
            self._flush()
        if self._file:
            self._file.close()

    def _rest(self, batch: RowBatch) -> dict[str, Any]:
        """Rows of JSON have other fields each: they stay JSON text."""
        texts = [{name: value for name, value in row.items() if name != self._id} for row in batch.rest]
        return {"rest": pa.array([jsontext.dumps(text) if text else None for text in texts], pa.string())}


class _LinesFile:
    def __init__(self, place: Path, used: Sequence[str], id: str) -> None:
        self._file, self._used, self._id = place.open("wb"), used, id

    def write(self, batch: RowBatch, rows: Sequence[TranslatedRow]) -> None:
        kept = batch.rest if batch.table is None else _rows_without(batch.table, self._used)
        lines = [_line(self._id, id, rest, row) for id, rest, row in zip(batch.ids, kept, rows, strict=True)]
        self._file.write(b"".join(lines))

    def __enter__(self) -> _LinesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _rows_without(table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    names = without(table, columns)
    return pa.table(names).to_pylist() if names else [{} for _ in range(table.num_rows)]


def _line(name: str, id: str, rest: Mapping[str, Any], row: TranslatedRow) -> bytes:
    line: dict[str, Any] = {name: id, **rest}
    line["body"] = None if row.body is None else msgspec.Raw(row.body)
    line["losses"] = [
        {"code": loss.code or loss.kind, "severity": loss.severity, "where": loss.where}
        for loss in row.losses
    ]
    line["error"] = row.error
    text = msgspec.json.encode(line)
    if b"\n" in text:  # of a source of many lines; in JSON it can only stand between two values
        text = text.translate(None, b"\r\n")
    return text + b"\n"


def main() -> None:
    """Ends with its standard input, that is with the process that started it."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints is no answer
    pa.set_cpu_count(1)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=DatasetJob)
    translator = ShardTranslator(job)
    for line in sys.stdin.buffer:
        answer = translator.answer(int(line))
        try:
            answers.write(msgspec.json.encode(answer) + b"\n")
        except BrokenPipeError:  # who started it was killed
            return


if __name__ == "__main__":
    main()
