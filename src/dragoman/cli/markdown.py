"""A Markdown text that is rendered while it grows.

A block that has ended (a paragraph, a list, a block of code) is printed for good; only the last one is drawn
again with each piece, so the picture never grows beyond the terminal.
"""

from __future__ import annotations

import re
import time

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)
_INTERVAL = 0.08  # seconds between two pictures


class MarkdownWriter:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._text = ""
        self._live: Live | None = None
        self._drawn = 0.0

    def feed(self, text: str) -> None:
        self._text += text
        if end := end_of_blocks(self._text):
            self._stop()
            self._console.print(Markdown(self._text[:end]))
            self._text = self._text[end:]
        now = time.monotonic()
        if self._text.strip() and now - self._drawn >= _INTERVAL:
            self._drawn = now
            self._draw()

    def end(self) -> None:
        """Print what is left; the next text begins anew."""
        self._stop()
        if self._text.strip():
            self._console.print(Markdown(self._text))
        self._text = ""

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        shown = self._text.split("\n")[-max(self._console.height - 3, 3) :]
        self._live.update(Markdown("\n".join(shown)), refresh=True)

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None


def end_of_blocks(text: str) -> int:
    """Where the last blank line outside a block of code ends; 0: nowhere."""
    end = text.rfind("\n\n")
    while end >= 0:
        if len(_FENCE.findall(text, 0, end)) % 2 == 0:
            return end + 2
        end = text.rfind("\n\n", 0, end)
    return 0
