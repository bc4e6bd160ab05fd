"""How patient the gateway is: tries, waits, silences. The defaults serve; tests are less patient."""

from __future__ import annotations

from msgspec import Struct

from dragoman.http.client.retries import backoff


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Seconds, where nothing else is said.

    A stream whose upstream is silent begins after `commits_after` all the same, with pings and nothing else:
    proxies and clients give up on a request that says nothing at all, many after a minute. From then on a
    failure is told inside the stream; until then it is an HTTP status, which clients know how to retry.
    """

    tries: int = 3  # of one target, where another try may help
    first_wait: float = 0.25  # before the second try; doubles with each
    patience: float = 20.0  # the longest Retry-After that is waited for here; a longer one goes to the client
    impatience: float = 2.0  # the same, where another target may answer instead
    pings_every: float = 10.0  # of silence
    commits_after: float = 30.0
    opens_after: int = 5  # failures in a row to reach a provider, until it is left alone
    stays_open: float = 15.0

    def wait(self, attempt: int, asked: float | None) -> float:
        """How long to wait after try number `attempt`, from 0; `asked` is the upstream's Retry-After."""
        return asked if asked is not None else backoff(attempt, None) * (self.first_wait / 0.25)
