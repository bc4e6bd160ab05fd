"""The /metrics page: the numbers of this process and of the other workers.

A scrape reaches any one worker, so each writes its numbers to a file that the others read. What a worker
counted remains when it dies; only its gauges go. The folder is named after the parent process and is removed
by the last worker; one that was left behind because all of them were killed is removed by the next gateway.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.gateway.observability.metrics import Metrics, MetricSnapshot

_EVERY = 1.0  # seconds between two writes of a worker's numbers
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(MetricSnapshot)


class MetricsPage:
    """`gauges` counts what is under way at the moment."""

    def __init__(self, metrics: Metrics, gauges: Callable[[], dict[str, float]]) -> None:
        self._metrics, self._gauges, self._workers = metrics, gauges, worker_metrics()

    def page(self) -> bytes:
        self._metrics.gauges = self._gauges()
        return self._metrics.page(self._workers.numbers() if self._workers else ())

    async def share(self) -> None:
        """Share the numbers with the other workers, where there are any."""
        while self._workers:
            await asyncio.sleep(_EVERY)
            self._metrics.gauges = self._gauges()
            self._workers.write(self._metrics.numbers)

    def close(self) -> None:
        if self._workers:
            self._workers.remove()


class WorkerMetrics:
    def __init__(self, folder: Path) -> None:
        self._folder, self._own = folder, folder / f"{os.getpid()}.numbers"

    def write(self, numbers: MetricSnapshot) -> None:
        """Where the file cannot be written, the others count without it."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_ours(self._folder):  # another user made it: nothing is written there
                return
            draft = self._own.with_suffix(".draft")
            draft.write_bytes(_encoder.encode(numbers))
            draft.replace(self._own)

    def numbers(self) -> list[MetricSnapshot]:
        found: list[MetricSnapshot] = []
        for path in sorted(self._folder.glob("*.numbers")):
            if path != self._own:
                with suppress(OSError, msgspec.DecodeError):
                    numbers = _decoder.decode(path.read_bytes())
                    numbers.gauges = numbers.gauges if is_alive(int(path.stem)) else {}
                    found.append(numbers)
        return found

    def remove(self) -> None:
        """The last worker removes the folder, with the files of those that died."""
        self._own.unlink(missing_ok=True)
        if not any(is_alive(int(path.stem)) for path in self._folder.glob("*.numbers")):
            _remove(self._folder)


def worker_metrics() -> WorkerMetrics | None:
    """None where this process is no worker: only workers have a parent of multiprocessing."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return None
    temporary, ours = Path(tempfile.gettempdir()), f"dragoman-{os.getuid()}-"
    sweep(temporary, ours)
    return WorkerMetrics(temporary / f"{ours}{parent.pid}")


def sweep(temporary: Path, ours: str) -> None:
    """Remove the folders of parents that do not run any more."""
    for folder in temporary.glob(f"{ours}*"):
        parent = folder.name.removeprefix(ours)
        if parent.isdigit() and not is_alive(int(parent)) and _is_ours(folder):
            _remove(folder)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for path in (*folder.glob("*.numbers"), *folder.glob("*.draft")):
            path.unlink(missing_ok=True)
        folder.rmdir()


def _is_ours(folder: Path) -> bool:
    """A folder of this user, not a link to one: anybody can write to the temporary folder."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
