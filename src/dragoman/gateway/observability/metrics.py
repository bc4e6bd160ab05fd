"""Counters and histograms of /metrics.

An exchange adds a sample to one row; metric families are made of the rows when a scrape asks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import astuple
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from dragoman.core.model import Usage
from dragoman.gateway.request import ExchangeRecord

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dragoman_requests": ("Exchanges.", ("client", "provider", "status")),
    "dragoman_failures": (
        "Exchanges that failed, also those whose status had gone out before.",
        ("provider", "kind"),
    ),
    "dragoman_tries": (
        "Requests sent to providers; more than exchanges where some were tried again.",
        ("provider",),
    ),
    "dragoman_tokens": ("Tokens, as the provider counted them.", ("provider", "model", "key", "kind")),
    "dragoman_tool_calls": ("Tool calls in replies.", ("client", "provider")),
    "dragoman_key_requests": ("Exchanges of each key.", ("key", "model", "status")),
    "dragoman_shed": ("Requests refused by a limit, by its name.", ("reason", "key")),
    "dragoman_losses": ("Losses of translation.", ("kind",)),
    "dragoman_jobs": ("Background responses and lines of batches that have ended.", ("kind", "status")),
}
_TIMES: dict[str, str] = {
    "dragoman_first_byte_seconds": "From the request to the first byte of the answer.",
    "dragoman_request_seconds": "From the request to the last byte of the answer.",
}
Labels = tuple[str, ...]
RowLabels = tuple[str, str, str, str, int | str]  # client, key, provider, model, status
_MOST_MODELS = 200
_MOST_SAMPLES = 256


class Histogram(Struct):
    """A count for each bucket, and one for what took longer than all of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, values: list[float]) -> None:
        values.sort()
        below = [0, *(bisect_right(values, bound) for bound in BUCKETS), len(values)]
        self.counts = [
            count + up_to - before
            for count, before, up_to in zip(self.counts, below, below[1:], strict=False)
        ]
        self.total += sum(values)


class MetricSnapshot(Struct):
    """All numbers of a process; those of several workers are added."""

    counters: dict[str, dict[Labels, int]]
    times: dict[str, dict[Labels, Histogram]]
    gauges: dict[str, float] = {}


def empty_snapshot() -> MetricSnapshot:
    return MetricSnapshot({name: {} for name in _COUNTERS}, {name: {} for name in _TIMES})


Sample = tuple[float, float | None, Usage | None, int, int]  # seconds, to the first byte, usage, tries, calls


class MetricRow(Struct):
    """The sums of exchanges with the same labels. The latest are `samples`: to add up many at once, when the
    row is read or has _MOST_SAMPLES of them, takes a third of the time."""

    samples: list[Sample] = []
    exchanges: int = 0
    tries: int = 0
    calls: int = 0
    tokens: tuple[int, ...] = (0,) * len(Usage.__struct_fields__)
    first: Histogram = field(default_factory=Histogram)
    whole: Histogram = field(default_factory=Histogram)

    def add_up(self) -> None:
        samples, self.samples = self.samples, []
        if samples:
            seconds, first, usages, tries, calls = zip(*samples, strict=True)
            self.exchanges += len(samples)
            self.tries += sum(tries)
            self.calls += sum(calls)
            counts = [astuple(usage) for usage in usages if usage]
            self.tokens = tuple(map(sum, zip(self.tokens, *counts, strict=True)))
            self.first.add([each for each in first if each is not None])
            self.whole.add([*seconds])


class Metrics:
    """The rows of this process."""

    def __init__(self) -> None:
        # client, key, provider, model, status
        self._rows: dict[RowLabels, MetricRow] = {}
        self._models: set[str] = set()
        self._rare = empty_snapshot().counters
        self.gauges: dict[str, float] = {}
        self.in_flight = 0

    def count(self, record: ExchangeRecord, losses: Mapping[str, int], seconds: float) -> None:
        target, status = record.target, "gone" if record.gone else record.status
        provider, model = (target.provider.name, target.model) if target else ("", "")
        row = self._rows.get((record.client, record.caller, provider, model, status))
        if row is None:
            row = self._new_row(record.client, record.caller, provider, model, status)
        samples = row.samples
        tries = record.tries
        for name, _ in record.failed_tries:
            if name != provider:
                tries -= 1
                _add(self._rare["dragoman_tries"], (name,), 1)
        samples.append((seconds, record.first, record.usage, tries, record.calls))
        if len(samples) >= _MOST_SAMPLES:
            row.add_up()
        if record.failure or record.shed or losses:
            if record.shed:
                _add(self._rare["dragoman_shed"], (record.shed, record.caller), 1)
            if record.failure:
                _add(self._rare["dragoman_failures"], (record.provider, record.failure.kind), 1)
            for kind, number in losses.items():
                _add(self._rare["dragoman_losses"], (kind,), number)

    def _new_row(self, client: str, key: str, provider: str, model: str, status: int | str) -> MetricRow:
        """Clients may invent names of models: beyond _MOST_MODELS they share one label."""
        if len(self._models) < _MOST_MODELS:
            self._models.add(model)
        labels = (client, key, provider, model if model in self._models else "other", status)
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = MetricRow()
        return row

    def count_job(self, kind: str, status: str, number: int = 1) -> None:
        _add(self._rare["dragoman_jobs"], (kind, status), number)

    @property
    def numbers(self) -> MetricSnapshot:
        numbers = empty_snapshot()
        _add_up(numbers, MetricSnapshot(self._rare, {}, self.gauges))
        for labels, row in self._rows.items():
            row.add_up()
            _add_row(row, labels, numbers)
        return numbers

    def page(self, others: Iterable[MetricSnapshot] = ()) -> bytes:
        """The text that Prometheus reads, with the numbers of other processes added."""
        total = empty_snapshot()
        for numbers in (self.numbers, *others):
            _add_up(total, numbers)
        registry = CollectorRegistry()
        registry.register(_Families(total))
        ProcessCollector(registry=registry)
        return generate_latest(registry)


def _add(counter: dict[Labels, int], labels: Labels, number: int) -> None:
    counter[labels] = counter.get(labels, 0) + number


def _add_row(row: MetricRow, labels: RowLabels, numbers: MetricSnapshot) -> None:
    client, key, provider, model, code = labels
    status = str(code)
    counted: list[tuple[str, Labels, int]] = [
        ("dragoman_requests", (client, provider, status), row.exchanges),
        ("dragoman_key_requests", (key, model, status), row.exchanges if key else 0),
        ("dragoman_tries", (provider,), row.tries),
        ("dragoman_tool_calls", (client, provider), row.calls),
        *(
            ("dragoman_tokens", (provider, model, key, kind), number)
            for kind, number in zip(Usage.__struct_fields__, row.tokens, strict=True)
        ),
    ]
    for name, counted_by, number in counted:
        if number:
            _add(numbers.counters[name], counted_by, number)
    took = {"dragoman_first_byte_seconds": row.first, "dragoman_request_seconds": row.whole}
    for name, times in took.items():
        if any(times.counts):
            _add_times(numbers.times[name], (provider,), times)


def _add_times(sums: dict[Labels, Histogram], labels: Labels, times: Histogram) -> None:
    before = sums.get(labels) or Histogram()
    counts = [one + other for one, other in zip(before.counts, times.counts, strict=True)]
    sums[labels] = Histogram(counts, before.total + times.total)


def _add_up(total: MetricSnapshot, more: MetricSnapshot) -> None:
    for name, counter in more.counters.items():
        for labels, number in counter.items():
            _add(total.counters.setdefault(name, {}), labels, number)
    for name, times in more.times.items():
        for labels, found in times.items():
            _add_times(total.times.setdefault(name, {}), labels, found)
    total.gauges = {
        name: total.gauges.get(name, 0) + more.gauges.get(name, 0) for name in {**total.gauges, **more.gauges}
    }


class _Families(Collector):
    """Numbers as the library's metric families."""

    def __init__(self, numbers: MetricSnapshot) -> None:
        self._numbers = numbers

    def collect(self) -> Iterable[Metric]:
        for name, (words, labels) in _COUNTERS.items():
            family = CounterMetricFamily(name, words, labels=labels)
            for values, number in sorted(self._numbers.counters[name].items()):
                family.add_metric(values, number)
            yield family
        for name, words in _TIMES.items():
            family = HistogramMetricFamily(name, words, labels=("provider",))
            for values, times in sorted(self._numbers.times[name].items()):
                family.add_metric(values, _cumulate(times), times.total)
            yield family
        for name, number in self._numbers.gauges.items():
            yield GaugeMetricFamily(name, _GAUGES[name], number)


_GAUGES = {
    "dragoman_in_flight": "Exchanges under way.",
    "dragoman_waiting": "Requests in a queue, of the gateway or of a provider.",
    "dragoman_buffered_bytes": "Bytes in the buffers that server.memory_mb bounds.",
    "dragoman_streams": "Streams under way.",
    "dragoman_upstream_connections": "Open connections to providers.",
    "dragoman_jobs_running": "Background responses and lines of batches that run now.",
    "dragoman_open_circuits": "Providers whose circuit breaker is open.",
    "dragoman_tasks": "Tasks of the event loop, a few more than client connections; they should not grow.",
}


def _cumulate(times: Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    sum_ = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], times.counts, strict=True):
        sum_ += count
        buckets.append((bound, sum_))
    return buckets
