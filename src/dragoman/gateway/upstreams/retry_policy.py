"""Retries, keep-alives and circuit breakers: the numbers, and the breakers themselves.

After failures in a row a provider gets no request for a while, then one:

    closed    --`opens_after` failures in a row--> open       (a success resets the count)
    open      --`stays_open` seconds-------------> half-open
    half-open --the next request-----------------> open again, while this one request tries
    any       --a success------------------------> closed
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.http.client.retries import backoff


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Seconds: the defaults.

    A stream whose upstream is silent begins after `keep_alive_after` all the same, with keep-alives only:
    proxies and clients give up on a request without any answer, many after a minute. From then on a failure
    is an event in the stream; until then it is an HTTP status, which clients know how to retry (decision
    10).
    """

    tries: int = 3  # attempts at one target
    first_wait: float = 0.25  # before the second attempt; doubles with each
    longest_wait: float = 20.0  # a longer Retry-After is passed to the client instead
    longest_wait_with_fallback: float = 2.0  # the same, where another target may answer
    keep_alive_every: float = 10.0  # of silence
    keep_alive_after: float = 15.0
    opens_after: int = 5  # failures in a row to reach a provider, until its circuit opens
    stays_open: float = 15.0

    def wait(self, failures: int, retry_after: float | None) -> float:
        """How long to wait after so many `failures` before this one."""
        return retry_after if retry_after is not None else backoff(failures, None) * (self.first_wait / 0.25)


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

    def note_success(self, name: str) -> None:
        self.failures.pop(name, None)
        self._opened.pop(name, None)

    def unreachable(self, name: str) -> None:
        count = self.failures[name] = self.failures.get(name, 0) + 1
        if count >= self._opens_after:
            self._opened[name] = self._now()

    @property
    def opened(self) -> tuple[str, ...]:
        return tuple(self._opened)
