"""Credentials that expire: fetched in a thread, early enough that no request waits for them.

none     --request--------------------> fetching   requests of this provider wait
valid    --80 % of its life is over---> renewing   requests take the old one
valid    --refused by the upstream----> none
renewing --fetched--------------------> valid
renewing --failed---------------------> valid      tried again after a pause, until it expires
fetching --failed, or too slow--------> failed     requests fail at once, until the pause is over
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from dragoman.core.codec import Http
from dragoman.core.credentials import Credential, CredentialSource, Refresh
from dragoman.core.errors import ConfigError
from dragoman.core.transport import CredentialFailed

_SHARE = 0.8  # of its life, after which a credential is renewed
_MARGIN = 10.0  # seconds before its end in which it is not used any more: a request takes time to arrive
_TIMEOUT = 15.0  # seconds for one fetch
_YOUNG = 30.0  # seconds
_PAUSE = 5.0  # seconds after a failure
_MOST_THREADS = 3  # that hang, of one source


def credential_source(
    http: Http, given: Credential, options: Mapping[str, str], environ: Mapping[str, str]
) -> CredentialSource:
    """Where a provider's credentials come from: `given` itself, or what its protocol fetches."""
    found = http.refresh(given, options, environ) if http.refresh else None
    if found is None or isinstance(found, Credential):
        return found or given
    return RefreshedCredential(found, given)


class RefreshedCredential:
    """A credential that `refresh` fetches. `given` are the secrets that it is fetched with."""

    def __init__(
        self,
        refresh: Refresh,
        given: Credential,
        timeout: float = _TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._refresh, self._given, self._timeout, self._clock = refresh, given, timeout, clock
        self._lock = threading.Lock()
        self._known: Credential | None = None
        self._renew_at = self._try_at = self._fetched_at = 0.0
        self._fetch: _Fetch | None = None
        self._threads = 0
        self._secrets = dict.fromkeys(given.secrets())

    def __reduce__(self) -> tuple[object, ...]:
        return RefreshedCredential, (self._refresh, self._given, self._timeout, self._clock)

    def __repr__(self) -> str:
        return f"RefreshedCredential({self._known!r})"

    @property
    def account(self) -> str:
        return self._given.account

    def secrets(self) -> Iterable[str]:
        return tuple(self._secrets)

    def current(self) -> Credential | None:
        known, now = self._known, self._clock()
        if known and now >= self._renew_at:
            self._begin(now)
            if known.expires and now >= known.expires - _MARGIN:
                return None
        return known

    async def wait(self) -> Credential:
        known, now = self._known, self._clock()
        if known and now < self._renew_at:  # it came in the meantime
            return known
        fetch = self._begin(now)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(fetch.result)
        except TimeoutError:
            failure = CredentialFailed(f"no credential: no answer within {self._timeout:g} s")
            self._end(fetch, failure)
            raise failure from None

    def note_refusal(self) -> bool:
        """One that was fetched just now is kept: many requests with the one before it may be refused."""
        with self._lock:
            if self._clock() - self._fetched_at >= _YOUNG:
                self._known = None
        return True

    def _begin(self, now: float) -> _Fetch:
        """The fetch that is under way, or the one that failed a moment ago, or a new one."""
        with self._lock:
            fetch = self._fetch
            if fetch and (not fetch.result.done() or now < self._try_at or self._threads >= _MOST_THREADS):
                return fetch
            self._fetch = fetch = _Fetch()
            self._threads += 1
        # not of a pool: one that hangs must not keep the interpreter from ending
        threading.Thread(target=self._run, args=(fetch,), daemon=True, name="credentials").start()
        return fetch

    def _run(self, fetch: _Fetch) -> None:
        outcome: Credential | CredentialFailed
        try:
            outcome = self._refresh()
        except Exception as error:  # of whatever library fetches it
            outcome = CredentialFailed(f"no credential: {_words(error)}")
        with self._lock:
            self._threads -= 1
        self._end(fetch, outcome)

    def _end(self, fetch: _Fetch, outcome: Credential | CredentialFailed) -> None:
        now = self._clock()
        with self._lock:
            if isinstance(outcome, Credential):
                self._known, self._fetched_at, self._try_at = outcome, now, 0.0
                life = outcome.expires - now if outcome.expires else float("inf")
                self._renew_at = now + life * _SHARE
                self._secrets |= dict.fromkeys(outcome.secrets())
                while len(self._secrets) > 16:  # older ones have expired
                    del self._secrets[next(iter(self._secrets))]
            else:
                self._try_at = now + _PAUSE
                self._renew_at = max(self._renew_at, self._try_at) if self._known else 0.0
            if fetch.result.done():  # it came too late for those who waited
                return
            if isinstance(outcome, Credential):
                fetch.result.set_result(outcome)
            else:
                fetch.result.set_exception(outcome)


class _Fetch:
    def __init__(self) -> None:
        self.result: Future[Credential] = Future()
        self.result.set_running_or_notify_cancel()  # one who stops waiting does not cancel it for the others


def _words(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, ConfigError) else text[:500]
