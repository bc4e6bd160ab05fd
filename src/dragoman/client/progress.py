"""A progress bar for the terminal, in one line of text."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from dragoman.client.many import Progress

_WIDTH = 24
_INTERVAL = 0.1  # seconds between two pictures


class ProgressBar:
    """Called with a `Progress`; shows it where stderr is a terminal, and only the last one elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown = 0.0
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self._last = progress
        now = time.monotonic()
        if self._live and now - self._shown >= _INTERVAL:
            self._shown = now
            self._stream.write(f"\r{described(progress)}\x1b[K")
            self._stream.flush()

    def close(self) -> None:
        if self._last:
            start, end = ("\r", "\x1b[K") if self._live else ("", "")
            self._stream.write(f"{start}{described(self._last)}{end}\n")
            self._stream.flush()


def described(progress: Progress) -> str:
    """`━━━━╺───  412/1000  41 %  512/s  3 failed  $0.0210  0:01 left`."""
    done, total, seconds = progress.done + progress.skipped, progress.total, progress.seconds
    rate = progress.done / seconds if seconds else 0.0
    parts = [
        f"{done}" if total is None else f"{done}/{total}",
        f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s",
    ]
    if total:
        filled = round(_WIDTH * done / total)
        parts = ["━" * filled + "─" * (_WIDTH - filled), *parts[:1], f"{100 * done // total} %", *parts[1:]]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.cost:
        parts.append(f"${progress.cost:.4f}")
    if total and rate and done < total:
        left = int((total - done) / rate)
        parts.append(f"{left // 60}:{left % 60:02} left")
    return "  ".join(parts)
