"""Circuit breakers: after failures a provider gets no request for a while, then one.

closed    --`opens_after` failures in a row--> open       (a success resets the count)
open      --`stays_open` seconds-------------> half-open
half-open --the next request-----------------> open again, while this one request tries
any       --a success------------------------> closed
"""

from __future__ import annotations

from collections.abc import Callable


class CircuitBreakers:
    """One for each provider, by its name. `failures` counts those in a row; while it is empty, all circuits
    are closed."""

    def __init__(self, now: Callable[[], float], opens_after: int = 5, stays_open: float = 15.0) -> None:
        self._now, self._opens_after, self._stays_open = now, opens_after, stays_open
        self.failures: dict[str, int] = {}
        self._opened: dict[str, float] = {}

    def admits(self, name: str) -> bool:
        """Whether a request may go there now; of those that come after the pause, one may."""
        opened = self._opened.get(name)
        if opened is None:
            return True
        if self._now() - opened < self._stays_open:
            return False
        self._opened[name] = self._now()
        return True

    def is_open(self, name: str) -> bool:
        return name in self._opened

    def seconds_left(self, name: str) -> float:
        """Seconds until the next request is let through."""
        return max(self._opened.get(name, 0.0) + self._stays_open - self._now(), 0.0)

    def reached(self, name: str) -> None:
        self.failures.pop(name, None)
        self._opened.pop(name, None)

    def unreachable(self, name: str) -> None:
        count = self.failures[name] = self.failures.get(name, 0) + 1
        if count >= self._opens_after:
            self._opened[name] = self._now()

    @property
    def opened(self) -> tuple[str, ...]:
        return tuple(self._opened)
