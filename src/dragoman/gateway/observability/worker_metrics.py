"""Workers of one gateway show their metrics together: each leaves its numbers where the others find them.

A scrape reaches any one of them. What a worker counted remains when it dies; only its gauges go with it. The
folder is named after their parent and goes with the last of them; one that was left behind because all of
them were killed is swept away by the next gateway.
"""

from __future__ import annotations

import multiprocessing
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.gateway.observability.metrics import MetricSnapshot

_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(MetricSnapshot)


class WorkerMetrics:
    def __init__(self, folder: Path) -> None:
        self._folder, self._own = folder, folder / f"{os.getpid()}.numbers"

    def leave(self, numbers: MetricSnapshot) -> None:
        """Where it cannot be written, the others count without it."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_ours(self._folder):  # somebody else was here first: nothing is written there
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

    def go(self) -> None:
        """The last one takes the folder along, with what the dead have left in it."""
        self._own.unlink(missing_ok=True)
        if not any(is_alive(int(path.stem)) for path in self._folder.glob("*.numbers")):
            _remove(self._folder)


def worker_metrics() -> WorkerMetrics | None:
    """Where this process has any: only workers have a parent that is Python's."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return None
    temporary, ours = Path(tempfile.gettempdir()), f"dragoman-{os.getuid()}-"
    sweep(temporary, ours)
    return WorkerMetrics(temporary / f"{ours}{parent.pid}")


def sweep(temporary: Path, ours: str) -> None:
    """Remove the folders of parents that are no more."""
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
    """A folder of this user, not a link to one: the place is open to everybody."""
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
