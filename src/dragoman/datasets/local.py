"""Files mapped on one machine: a process for each core, shards in and out, and a job that goes on where it
was killed.

The folder of the output is the record of the job. `_job.json` says what is done and in which shards; a shard
is done where its file stands (see worker.py). A worker that dies is replaced, and its shard begins again.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import msgspec
from msgspec import Struct, structs

from dragoman.client.file_lock import lock
from dragoman.core.errors import ConfigError, DragomanError
from dragoman.datasets.loss_report import LossReport
from dragoman.datasets.rows import RowTranslator, Translation
from dragoman.datasets.shards import Shard, common_root, cut, find_files, is_table
from dragoman.datasets.worker import GO_ON, REPORTS, Answer, DatasetJob, write_whole
from dragoman.protocols import names

JOB = "_job.json"
RunShards = Callable[[DatasetJob, Sequence[int], int], Generator[tuple[int, LossReport]]]
_DEATHS = 3  # of workers at one shard: it is the shard
_SHARD_ROWS = 10_000


class JobProgress(Struct):
    """How far a job is; `resumed` rows were done by an earlier run."""

    total: int
    report: LossReport
    resumed: int = 0
    began: float = 0.0

    @property
    def done(self) -> int:
        return self.report.rows

    @property
    def rate(self) -> float:
        """Rows per second of this run."""
        seconds = time.monotonic() - self.began
        return (self.done - self.resumed) / seconds if seconds else 0.0


class JobOptions(TypedDict, total=False):
    """What `translate_files` takes beside the translation; see there."""

    format: Literal["", "parquet", "jsonl"]
    id: str
    engine: Literal["local", "ray"]
    workers: int
    shard_rows: int
    resume: bool
    on_progress: Callable[[JobProgress], object]


def translate_files(
    sources: str | Path | Sequence[str | Path],
    out: str | Path | None,
    translation: Translation,
    **options: Unpack[JobOptions],
) -> LossReport:
    """Translate files of Parquet, JSONL or JSON arrays into shards in the folder `out`.

    Without `out` only the report is made. `format` of the output is that of the first file by default. `id`
    is the column that names a row. A process for each core works, or `workers`, on shards of `shard_rows`.
    With the engine `ray` the shards are tasks of Ray instead, whose nodes must all see the files. `resume`
    goes on with the job that is in `out`. `on_progress` is called with a `JobProgress` after each shard.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    if (engine := options.get("engine") or "local") not in ("local", "ray"):
        raise ConfigError(f"engine is 'local' or 'ray', not {engine!r}")
    if (format := options.get("format") or "parquet") not in ("parquet", "jsonl"):
        raise ConfigError(f"format is 'parquet' or 'jsonl', not {format!r}")
    _engine(options)  # raises ConfigError without its extra, before anything is written
    files = find_files(sources)
    if out and any(Path(out).resolve().is_relative_to(Path(source).resolve()) for source in sources):
        raise ConfigError(f"{out} is in a folder that is read: choose another one")
    job = _job(files, out, translation, options)
    if not out:
        return _run(job, {}, options)
    folder = Path(out)
    (folder / REPORTS).mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        if not lock(file.fileno()):
            raise ConfigError(f"{folder}: another process works on this job")
        _begin(folder, job, options.get("resume", False))
        return _run(job, _read_reports(job), options)


def job_report(folder: str | Path) -> LossReport:
    """The sum of the shards that are done in a folder."""
    job = structs.replace(_read_job(Path(folder)), out=str(folder))
    return LossReport.merge_all(_read_reports(job).values())


def is_job(folder: str | Path) -> bool:
    return (Path(folder) / JOB).is_file()


def _job(
    files: Sequence[str], out: str | Path | None, translation: Translation, options: JobOptions
) -> DatasetJob:
    column = RowTranslator(translation).column  # raises ConfigError for an unknown layout
    places = [os.path.abspath(file) for file in files]
    shards = cut(places, options.get("shard_rows", _SHARD_ROWS), column)
    return DatasetJob(
        translation,
        tuple(shards),
        os.path.abspath(out) if out else "",
        options.get("format") or ("parquet" if is_table(files[0]) else "jsonl"),
        options.get("id", "id"),
        whole=not translation.column and translation.source in names(),
        root=common_root(places),
    )


def _begin(folder: Path, job: DatasetJob, resume: bool) -> None:
    """Write what the job is, or compare it with what is there."""
    if not is_job(folder):
        if others := [each.name for each in folder.glob("part-*")]:
            raise ConfigError(f"{folder} holds {others[0]}, but no {JOB}: choose an empty folder")
        write_whole(folder / JOB, msgspec.json.encode(job))
        return
    if not resume:
        raise ConfigError(f"{folder} holds a job already: resume it (--resume), or choose another folder")
    if structs.replace(_read_job(folder), out=job.out) != job:
        raise ConfigError(
            f"{folder} holds another job, with other files, layouts or options. "
            "Choose another folder, or the same files and options as before."
        )
    for left in [*folder.glob(".part-*.tmp"), *(folder / REPORTS).glob(".part-*.tmp")]:
        left.unlink(missing_ok=True)  # of processes that were killed


def _read_job(folder: Path) -> DatasetJob:
    try:
        return msgspec.json.decode((folder / JOB).read_bytes(), type=DatasetJob)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{folder / JOB}: {error}") from None


def _read_reports(job: DatasetJob) -> dict[int, LossReport]:
    """The reports of the shards that are there."""
    done = [number for number in range(len(job.shards)) if job.place(number).exists()]
    texts = [(number, job.report_place(number).read_bytes()) for number in done]
    return {number: msgspec.json.decode(text, type=LossReport) for number, text in texts}


def _run(job: DatasetJob, done: dict[int, LossReport], options: JobOptions) -> LossReport:
    """The report of all shards, of which `done` are done already."""
    before = LossReport.merge_all(done.values())
    left = {number: shard.rows for number, shard in enumerate(job.shards) if number not in done}
    total = before.rows + sum(left.values())
    progress = JobProgress(total, before, before.rows, time.monotonic())
    on_progress = options.get("on_progress")
    with closing(_engine(options)(job, [*left], options.get("workers") or 0)) as reports:
        for number, report in reports:
            done[number] = report
            progress.report.merge(report)
            progress.total += report.rows - left[number]  # empty lines are no rows
            if on_progress:
                on_progress(progress)
    return LossReport.merge_all(done[number] for number in sorted(done))  # whoever was first


def _engine(options: JobOptions) -> RunShards:
    if options.get("engine") == "ray":
        return import_module("dragoman.datasets.ray").run_shards
    return _run_shards


def _run_shards(job: DatasetJob, todo: Sequence[int], workers: int) -> Generator[tuple[int, LossReport]]:
    crew = _Crew(job, todo, min(workers or _cores(), len(todo)))
    try:
        yield from crew.reports()
    finally:
        crew.stop()


class _Crew:
    """Workers, each with a thread that gives it shards and waits for its answers."""

    def __init__(self, job: DatasetJob, todo: Sequence[int], count: int) -> None:
        self._job = msgspec.json.encode(job) + b"\n"
        self._shards: tuple[Shard, ...] = job.shards
        self._left = len(todo)
        self._shares = _Shares(todo, count)
        self._answers: queue.SimpleQueue[tuple[int, LossReport | DragomanError]] = queue.SimpleQueue()
        self._workers: dict[int, _Worker] = {}
        self._stopped = False
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(count)]

    def reports(self) -> Iterable[tuple[int, LossReport]]:
        for thread in self._threads:
            thread.start()
        for _ in range(self._left):
            number, answer = self._answers.get()
            if isinstance(answer, DragomanError):
                raise answer
            yield number, answer

    def stop(self) -> None:
        """Nothing is under way any more when this returns."""
        self._stopped = True
        for worker in [*self._workers.values()]:
            worker.kill()
        for thread in self._threads:
            if thread.ident:
                thread.join()

    def _work(self, place: int) -> None:
        while not self._stopped and (number := self._shares.take(place)) is not None:
            self._answers.put((number, self._translate(place, number)))
        if worker := self._workers.get(place):
            worker.close()

    def _translate(self, place: int, number: int) -> LossReport | DragomanError:
        code = None
        for _ in range(_DEATHS):
            worker = self._workers.get(place)
            if worker is None:
                try:
                    worker = self._workers[place] = _Worker(self._job)
                except OSError as error:
                    return DragomanError(f"a worker cannot be started: {error}. {GO_ON}")
            answer = worker.ask(number)
            if answer:
                said = msgspec.json.decode(answer, type=Answer)
                return said.report or DragomanError(said.error)
            del self._workers[place]
            code = worker.close()
            if self._stopped:
                break
        return DragomanError(
            f"a worker ended {_DEATHS} times (exit code {code}) at {self._shards[number]}. "
            f"What it printed is above. {GO_ON}"
        )


class _Shares:
    """Which worker does which shards. Each goes on after its last one, so that it reads a file in order. One
    that has no more takes half of the largest share."""

    def __init__(self, todo: Sequence[int], count: int) -> None:
        self._shares: list[list[int]] = [[*todo], *([] for _ in range(count - 1))]
        self._lock = threading.Lock()

    def take(self, place: int) -> int | None:
        with self._lock:
            own, largest = self._shares[place], max(self._shares, key=len)
            if not own:
                half = len(largest) // 2
                own += largest[half:]
                del largest[half:]
            return own.pop(0) if own else None


class _Worker:
    """A process that translates shards; it is told the job first."""

    def __init__(self, job: bytes) -> None:
        command = [sys.executable, "-m", "dragoman.datasets.worker"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for who started it
        )
        self._job = job

    def ask(self, number: int) -> bytes:
        """The answer; empty where the process has ended before it was whole."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        try:
            stdin.write(b"%b%d\n" % (self._job, number))
            stdin.flush()
        except OSError:
            return b""
        self._job = b""
        answer = stdout.readline()
        return answer if answer.endswith(b"\n") else b""

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> int:
        """Its standard input ends, and so does the process; gives its exit code."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        with suppress(OSError):
            stdin.close()
        stdout.close()
        return self._process.wait()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
