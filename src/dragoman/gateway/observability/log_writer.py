"""Lines of a log, written together: an exchange does not wait for a disk or a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_TOGETHER = 0.05  # seconds


class LogWriter:
    """To a file, or to stderr."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = _opened(path) if path else None
        self._waiting: list[str] = []

    def write(self, line: str) -> None:
        self._waiting.append(line)
        if len(self._waiting) > 1:  # whoever wrote first has asked for the rest
            return
        try:
            asyncio.get_running_loop().call_later(_TOGETHER, self.flush)
        except RuntimeError:  # no loop, nobody waits
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        with suppress(OSError, ValueError):  # a log that cannot be written must not stop the gateway
            file = self._file or sys.stderr
            file.write("\n".join(waiting) + "\n")
            file.flush()

    def close(self) -> None:
        self.flush()
        if self._file:
            self._file.close()


def _opened(path: Path) -> TextIO:
    """A new file is its owner's alone: `--verbose` writes what people say."""
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(number, "a", encoding="utf-8")
