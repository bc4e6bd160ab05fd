"""A provider that cannot be reached is left alone for a while, then tried with one request."""

from __future__ import annotations

from collections.abc import Callable


class CircuitBreakers:
    """Closed: requests pass. Open: they go elsewhere. After a pause one request finds out."""

    def __init__(self, now: Callable[[], float], opens_after: int = 5, stays_open: float = 15.0) -> None:
        self._now, self._opens_after, self._stays_open = now, opens_after, stays_open
        self._failures: dict[str, int] = {}
        self._opened: dict[str, float] = {}

    def admits(self, name: str) -> bool:
        """Whether a request may go there now. Of those that come after the pause, one may."""
        opened = self._opened.get(name)
        if opened is None:
            return True
        if self._now() - opened < self._stays_open:
            return False
        self._opened[name] = self._now()  # this request finds out; the next ones wait for its news
        return True

    def is_open(self, name: str) -> bool:
        return name in self._opened

    def rests(self, name: str) -> float:
        """Seconds until the next request is let through."""
        return max(self._opened.get(name, 0.0) + self._stays_open - self._now(), 0.0)

    def reached(self, name: str) -> None:
        if self._failures:
            self._failures.pop(name, None)
            self._opened.pop(name, None)

    def unreachable(self, name: str) -> None:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if count >= self._opens_after:
            self._opened[name] = self._now()

    @property
    def opened(self) -> tuple[str, ...]:
        return tuple(self._opened)
