"""A provider that does not answer is left alone for a while, then tried with one request."""

from __future__ import annotations

from collections.abc import Callable

OPENS_AFTER = 5  # failures to reach it, in a row
STAYS_OPEN = 15.0  # seconds


class Circuits:
    """Closed: requests pass. Open: they go elsewhere. After a pause one request finds out."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures: dict[str, int] = {}
        self._opened: dict[str, float] = {}

    def passes(self, name: str) -> bool:
        opened = self._opened.get(name)
        if opened is None:
            return True
        if self._now() - opened < STAYS_OPEN:
            return False
        self._opened[name] = self._now()  # this request finds out; the next ones wait for its news
        return True

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)
        self._opened.pop(name, None)

    def failed(self, name: str) -> None:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if count >= OPENS_AFTER:
            self._opened[name] = self._now()
