"""The stream of a key with a budget: its last event waits until what it used was counted.

Where the gateway asked for the usage and the client did not, the event that tells it is taken out.
"""

from __future__ import annotations

import re
from typing import Protocol

from dragoman.core.model import Failure
from dragoman.gateway.request import ExchangeRecord

_USAGE = re.compile(rb'"usage":\s*\{')


class RelayedStream(Protocol):
    """What all streams to a client have."""

    @property
    def ended(self) -> bool: ...

    @property
    def failure(self) -> Failure | None: ...

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...

    def fail(self, failure: Failure) -> bytes: ...


class BudgetedStream:
    """`hidden` marks the event that is taken out; empty: none. `record` gets the bytes that passed."""

    def __init__(self, inner: RelayedStream, record: ExchangeRecord, hidden: str = "") -> None:
        self._inner, self._record = inner, record
        self._hidden = re.compile(hidden.encode()) if hidden else None
        self._end = b""

    @property
    def ended(self) -> bool:
        return self._inner.ended

    @property
    def failure(self) -> Failure | None:
        return self._inner.failure

    def feed(self, data: bytes) -> bytes:
        out = self._count(self._inner.feed(data))
        if not out or not (self._end or self._inner.ended):
            return out
        if self._end:
            self._end += out
            return b""
        last = out.rfind(b"\n\n", 0, len(out) - 2) + 2  # 1 where there is one event alone
        last = last if last > 1 else 0
        self._end = out[last:]
        return out[:last]

    def close(self) -> bytes:
        return self._end + self._count(self._inner.close())

    def fail(self, failure: Failure) -> bytes:
        return self._end + self._inner.fail(failure)

    def _count(self, out: bytes) -> bytes:
        self._record.sent += len(out)
        if self._hidden is None or b'"usage"' not in out or not self._hidden.search(out):
            return out
        events = out.split(b"\n\n")
        return b"\n\n".join([each for each in events if not self._is_hidden(each)])

    def _is_hidden(self, event: bytes) -> bool:
        return bool(self._hidden and self._hidden.search(event) and _USAGE.search(event))
