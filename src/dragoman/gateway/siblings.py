"""Workers of one gateway show their metrics together: each leaves its numbers where the others find them.

A scrape reaches any one of them. What a worker counted remains when it dies; only its gauges go with it.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.gateway.metrics import Numbers

_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Numbers)


class Siblings:
    def __init__(self, folder: Path) -> None:
        self._folder, self._own = folder, folder / f"{os.getpid()}.numbers"

    def leave(self, numbers: Numbers) -> None:
        """Where it cannot be written, the others count without it."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            draft = self._own.with_suffix(".draft")
            draft.write_bytes(_encoder.encode(numbers))
            draft.replace(self._own)

    def numbers(self) -> list[Numbers]:
        found: list[Numbers] = []
        for path in sorted(self._folder.glob("*.numbers")):
            if path != self._own:
                with suppress(OSError, msgspec.DecodeError):
                    numbers = _decoder.decode(path.read_bytes())
                    numbers.gauges = numbers.gauges if _is_alive(int(path.stem)) else {}
                    found.append(numbers)
        return found

    def go(self) -> None:
        """The last one takes the folder along."""
        with suppress(OSError):
            self._own.unlink()
            self._folder.rmdir()


def siblings() -> Siblings | None:
    """Where this process has any: only workers have a parent that is Python's."""
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None:
        return None
    return Siblings(Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}-{parent.pid}")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
