"""The access log: one JSON line for each exchange, which is then counted for metrics and ends its trace span.

It holds no contents and no secrets.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.losses import Loss, as_cache_key
from dragoman.core.model import Usage
from dragoman.core.optional import MissingExtraError
from dragoman.gateway.config import Config
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.traces import Traces, traces_for
from dragoman.gateway.request import ExchangeRecord

_LONGEST = 300  # characters of an error
_BATCH_SECONDS = 0.05
_MOST_TOKENS = 1 << 40
_MOST_CODES = 20  # of a severity in a line
LossSums = tuple[dict[str, int], dict[str, list[str]]]  # how many of a kind; the codes by severity, each once
_NOTHING_LOST: LossSums = {}, {}


class AccessLogLine(Struct, omit_defaults=True, gc=False):
    """The fields of a line; those that are not known are left out. Times are milliseconds."""

    time: str
    id: str
    client: str
    key: str = ""
    address: str = ""
    action: str = "generate"
    model: str = ""
    provider: str = ""
    credential: str = ""  # the name of the key, where the provider has several
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
    cache_write: int = 0
    estimated: bool = False  # the tokens are not the upstream's own count
    unpriced: bool = False  # a budget in dollars could not count it: the price is not known
    first_ms: float | None = None
    ms: float = -1.0
    losses: dict[str, int] = {}
    loss_codes: dict[str, list[str]] = {}  # by severity
    waited_ms: float | None = None
    shed: str = ""
    error: str = ""
    hosted: dict[str, int] = {}  # calls of hosted tools that the gateway executed, by kind
    hosted_failed: dict[str, int] = {}  # those that failed: "kind: error" -> how many
    failed: dict[str, int] = {}  # attempts before the last one: "provider: why" -> how many


class AccessLog:
    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        file: Path | None = None,
    ) -> None:
        """`write` gets each line at once; without it they go to `file`, or to stderr."""
        self._writer = LogWriter(file)
        self.write: Callable[[str], object] = write or self._writer.write
        self._write_line: Callable[[AccessLogLine], object] = self._writer.write
        if write:
            self._write_line = lambda line: write(jsontext.dumps(line))
        self.metrics = metrics or Metrics()
        self.traces = traces

    @classmethod
    def of(cls, config: Config) -> AccessLog:
        log = cls(file=Path(config.log_file) if config.log_file else None)
        try:
            log.traces = traces_for(os.environ)
        except MissingExtraError as error:
            log.note("traces", f"OTEL_* is set, but no traces are sent: {error}")
        return log

    def finish(self, record: ExchangeRecord) -> None:
        seconds, losses = record.seconds, record.losses
        kinds, codes = _NOTHING_LOST
        if losses:
            few = as_cache_key(losses)
            kinds, codes = _sum_few(few) if few else _sums(losses)
        if record.usage and not is_plausible(record.usage):
            record.usage = None
        self.metrics.count(record, kinds, seconds)
        self._write_line(_line(record, kinds, codes, seconds))
        if record.crash:
            self.log_crash(record.id, record.crash)
            record.crash = None  # its traceback refers to the frames that hold the request
        if self.traces:
            self.traces.end(record, kinds)
        self.metrics.in_flight -= 1

    def note_refusal(self, record: ExchangeRecord) -> None:
        """A request that never became an exchange: it has a line, and no metric counts it."""
        self._write_line(_line(record, {}, {}, record.seconds))

    def note(self, topic: str, text: str) -> None:
        """A line that belongs to no exchange."""
        self.write(jsontext.dumps({"time": _now(), topic: text}))

    def close(self) -> None:
        self._writer.close()

    def log_crash(self, request_id: str, error: Exception) -> None:
        """Where it happened, without the message of the error, which may quote a request."""
        frames = traceback.extract_tb(error.__traceback__)
        where = "; ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-6:])
        self.write(jsontext.dumps({"id": request_id, "crash": type(error).__name__, "at": where}))


def _line(
    record: ExchangeRecord, kinds: dict[str, int], codes: dict[str, list[str]], seconds: float
) -> AccessLogLine:
    target, usage, first, failure = record.target, record.usage, record.first, record.failure
    provider = target.provider if target else None
    return AccessLogLine(
        _now(),
        record.id,
        record.client,
        record.caller,
        record.address,
        record.action,
        record.model,
        provider.name if provider else "",
        provider.credential if provider else "",
        provider.protocol if provider else "",
        target.model if target else "",
        record.stream,
        "gone" if record.gone else record.status,
        record.tries,
        record.tools,
        record.calls,
        usage.input if usage else None,
        usage.output if usage else None,
        usage.cached if usage else 0,
        usage.cache_write if usage else 0,
        record.estimated,
        record.unpriced,
        None if first is None else first * 10_000 // 1 / 10,
        seconds * 10_000 // 1 / 10,
        kinds,
        codes,
        record.waited * 10_000 // 1 / 10 if record.waited else None,
        record.shed,
        failure.message[:_LONGEST] if failure else "",
        record.hosted,
        record.hosted_failed,
        _failed_before(record) if record.failed_tries else {},
    )


def _failed_before(record: ExchangeRecord) -> dict[str, int]:
    """Of the last attempt, the line itself says how it went."""
    before = record.failed_tries[: record.tries - 1]
    return dict(Counter([f"{provider}: {why}" for provider, why in before]))


@lru_cache(256)
def _sum_few(losses: tuple[Loss, ...]) -> LossSums:
    return _sums(losses)


def _sums(losses: Sequence[Loss]) -> LossSums:
    kinds: dict[str, int] = {}
    codes: dict[str, list[str]] = {}
    for loss in losses:
        kinds[loss.kind] = kinds.get(loss.kind, 0) + 1
        listed = codes.setdefault(loss.severity, [])
        if loss.code and loss.code not in listed and len(listed) < _MOST_CODES:
            listed.append(loss.code)
    return kinds, codes


def is_plausible(usage: Usage) -> bool:
    """Whether the numbers can be added up: an upstream may send a count of 400 digits, or a negative one."""
    all_bits = usage.input | usage.output | usage.cached | usage.cache_write | usage.reasoning
    return 0 <= all_bits < _MOST_TOKENS  # a power of two, so that this holds for each of them


def _now() -> str:
    """ISO 8601, with the second printed once for all exchanges that end in it."""
    second, thousandth = divmod(time.time_ns() // 1_000_000, 1000)
    return _print_second(second) + _FRACTIONS[thousandth]


_FRACTIONS = tuple(f".{thousandth:03}Z" for thousandth in range(1000))


@lru_cache(maxsize=2)
def _print_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def for_people(line: AccessLogLine) -> str:
    """A line for a terminal: when, what was asked, who answered, how it went."""
    target = f" → {line.provider}:{line.target}" if line.provider else ""
    key = f" ({line.key})" if line.key else ""
    facts = [f"{line.ms:,.0f} ms"]
    if line.input is not None:
        facts.append(f"{line.input:,} + {line.output or 0:,} tokens" + (" (estimated)" * line.estimated))
    if line.calls:
        facts.append(_write_count(line.calls, "call", "calls"))
    if line.losses:
        facts.append(_write_count(sum(line.losses.values()), "loss", "losses"))
    if line.tries > 1:
        failed = ", ".join(f"{each} ×{number}" for each, number in line.failed.items())
        facts.append(f"{line.tries} tries" + (f" ({failed})" if failed else ""))
    problem = f"  {line.error or line.shed}" if line.error or line.shed else ""
    asked = line.model or line.action
    return f"{line.time[11:19]} {line.status} {line.client} {asked}{key}{target}  {', '.join(facts)}{problem}"


def _write_count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _is_terminal(file: TextIO) -> bool:
    try:
        return file.isatty()
    except (AttributeError, ValueError):  # closed, or replaced by something simpler
        return False


class LogWriter:
    """Writes lines to a file or to stderr in batches: an exchange does not wait for a disk or a terminal, and
    to print many lines at once takes less time."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = _open(path) if path else None
        self._lines: list[str | AccessLogLine] = []

    def write(self, line: str | AccessLogLine) -> None:
        self._lines.append(line)
        if len(self._lines) > 1:  # the first line of a batch scheduled its flush
            return
        try:
            asyncio.get_running_loop().call_later(_BATCH_SECONDS, self.flush)
        except RuntimeError:  # no event loop runs
            self.flush()

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        file = self._file or sys.stderr
        shown = for_people if self._file is None and _is_terminal(file) else jsontext.dumps
        printed = [line if isinstance(line, str) else shown(line) for line in lines]
        with suppress(OSError, ValueError):  # a log that cannot be written must not stop the gateway
            file.write("\n".join(printed) + "\n")
            file.flush()

    def close(self) -> None:
        self.flush()
        if self._file:
            self._file.close()


def _open(path: Path) -> TextIO:
    """A new file is readable by its owner only: `--verbose` writes prompts and replies."""
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(number, "a", encoding="utf-8")
