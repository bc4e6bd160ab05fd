"""Retries, circuit breaker and keep-alive in numbers. The defaults serve; tests wait less."""

from __future__ import annotations

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
