"""One line for each exchange, the counters behind /metrics, and spans where somebody collects them.

Contents and secrets stay out.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.optional import MissingExtraError
from dragoman.gateway.config import Config
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.gateway.observability.log_writer import LogWriter
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.traces import Traces, traces_for

_LONGEST = 300  # characters of an error


class AccessLogLine(Struct, omit_defaults=True):
    """What the log says about an exchange; what is not known is not said. Times are milliseconds."""

    time: str
    id: str
    client: str
    key: str = ""
    action: str = "generate"
    model: str = ""
    provider: str = ""
    upstream: str = ""
    target: str = ""
    stream: bool = False
    status: int | str = 0
    tries: int = 0
    tools: int = 0
    calls: int = 0
    input: int | None = None
    output: int | None = None
    cached: int = 0
    first_ms: float | None = None
    ms: float = -1.0
    losses: dict[str, int] = {}
    waited_ms: float | None = None
    shed: str = ""
    error: str = ""


class AccessLog:
    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        metrics: Metrics | None = None,
        spans: Traces | None = None,
    ) -> None:
        self._lines = LogWriter()
        self.write: Callable[[str], object] = write or self._lines.write
        self.metrics = metrics or Metrics()
        self._spans = spans

    @classmethod
    def of(cls, config: Config) -> AccessLog:
        journal = cls()
        if config.log_file:
            journal._lines = LogWriter(Path(config.log_file))
            journal.write = journal._lines.write
        try:
            journal._spans = traces_for(os.environ)
        except MissingExtraError as error:
            journal.note("traces", f"OTEL_* is set, but no traces are sent: {error}")
        return journal

    def begun(self, seen: ExchangeRecord, headers: Mapping[str, str]) -> None:
        self.metrics.in_flight += 1
        if self._spans:
            self._spans.begun(seen, headers)

    def told(self, seen: ExchangeRecord) -> None:
        losses = _by_kind(seen)
        self.metrics.count(seen, losses)
        self.write(jsontext.dumps(_line(seen, losses)))
        if seen.crash:
            self._crashed(seen.id, seen.crash)
        if self._spans:
            self._spans.ended(seen, losses)
        self.metrics.in_flight -= 1

    def note(self, topic: str, text: str) -> None:
        """Something that belongs to no exchange."""
        self.write(jsontext.dumps({"time": _now(), topic: text}))

    def close(self) -> None:
        self._lines.close()

    def _crashed(self, request_id: str, error: Exception) -> None:
        """Where it happened, without what was said there: messages of errors may quote a request."""
        frames = traceback.extract_tb(error.__traceback__)
        where = "; ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-6:])
        self.write(jsontext.dumps({"id": request_id, "crash": type(error).__name__, "at": where}))


def _line(seen: ExchangeRecord, losses: dict[str, int]) -> AccessLogLine:
    target, usage = seen.target, seen.usage
    return AccessLogLine(
        time=_now(),
        id=seen.id,
        client=seen.client,
        key=seen.caller,
        action=seen.action,
        model=seen.model,
        provider=seen.provider,
        upstream=target.provider.protocol if target else "",
        target=target.model if target else "",
        stream=seen.stream,
        status="gone" if seen.gone else seen.status,
        tries=seen.tries,
        tools=seen.tools,
        calls=seen.calls,
        input=usage.input if usage else None,
        output=usage.output if usage else None,
        cached=usage.cached if usage else 0,
        first_ms=None if seen.first is None else _ms(seen.first),
        ms=_ms(seen.seconds),
        losses=losses,
        waited_ms=_ms(seen.waited) if seen.waited else None,
        shed=seen.shed,
        error=seen.failure.message[:_LONGEST] if seen.failure else "",
    )


def _by_kind(seen: ExchangeRecord) -> dict[str, int]:
    counts: dict[str, int] = {}
    for loss in seen.losses:
        counts[loss.kind] = counts.get(loss.kind, 0) + 1
    return counts


def _now() -> str:
    """ISO 8601, with the second printed once for all exchanges that end in it."""
    now = time.time()
    second = int(now)
    return f"{_printed(second)}.{int((now - second) * 1000):03}Z"


@lru_cache(maxsize=2)
def _printed(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _ms(seconds: float) -> float:
    return int(seconds * 10_000) / 10
