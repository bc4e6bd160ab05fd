"""Counters and times behind /metrics: plain numbers while exchanges pass, families when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from dragoman.gateway.seen import Seen

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
    "dragoman_tokens": ("Tokens, as the provider counted them.", ("provider", "kind")),
    "dragoman_tool_calls": ("Tool calls in replies.", ("client", "provider")),
    "dragoman_key_requests": ("Exchanges of each key.", ("key", "status")),
    "dragoman_shed": ("Requests that were turned away, by the limit that did it.", ("reason", "key")),
    "dragoman_losses": ("What did not survive translation.", ("kind",)),
}
_TIMES: dict[str, str] = {
    "dragoman_first_byte_seconds": "From the request to the first byte of the answer.",
    "dragoman_request_seconds": "From the request to the last byte of the answer.",
}
Labels = tuple[str, ...]


class Times(Struct):
    """How many took how long: one count for each bucket and one for what took longer than all of them."""

    counts: list[int]
    total: float = 0.0


class Numbers(Struct):
    """Everything that is counted; processes of one gateway add theirs up."""

    counters: dict[str, dict[Labels, int]]
    times: dict[str, dict[Labels, Times]]
    gauges: dict[str, float] = {}


def nothing() -> Numbers:
    return Numbers({name: {} for name in _COUNTERS}, {name: {} for name in _TIMES})


class Metrics:
    def __init__(self) -> None:
        self.numbers = nothing()
        self.in_flight = 0

    def count(self, seen: Seen, losses: Mapping[str, int]) -> None:
        provider, counters = seen.provider, self.numbers.counters
        status = "gone" if seen.gone else str(seen.status)
        _add(counters["dragoman_requests"], (seen.client, provider, status), 1)
        if seen.caller:
            _add(counters["dragoman_key_requests"], (seen.caller, status), 1)
        if seen.shed:
            _add(counters["dragoman_shed"], (seen.shed, seen.caller), 1)
        if seen.failure:
            _add(counters["dragoman_failures"], (provider, seen.failure.kind), 1)
        if seen.tries:
            _add(counters["dragoman_tries"], (provider,), seen.tries)
        if seen.calls:
            _add(counters["dragoman_tool_calls"], (seen.client, provider), seen.calls)
        if usage := seen.usage:
            tokens = counters["dragoman_tokens"]
            _add(tokens, (provider, "input"), usage.input)
            _add(tokens, (provider, "output"), usage.output)
            if usage.cached:
                _add(tokens, (provider, "cached"), usage.cached)
            if usage.reasoning:
                _add(tokens, (provider, "reasoning"), usage.reasoning)
        for kind, number in losses.items():
            _add(counters["dragoman_losses"], (kind,), number)
        if seen.first is not None:
            _observe(self.numbers.times["dragoman_first_byte_seconds"], (provider,), seen.first)
        _observe(self.numbers.times["dragoman_request_seconds"], (provider,), seen.seconds)

    def page(self, others: Iterable[Numbers] = ()) -> bytes:
        """The text that Prometheus reads, with the numbers of other processes added."""
        total = nothing()
        for numbers in (self.numbers, *others):
            _add_up(total, numbers)
        registry = CollectorRegistry()
        registry.register(_Families(total))
        ProcessCollector(registry=registry)
        return generate_latest(registry)


def _add(counter: dict[Labels, int], labels: Labels, number: int) -> None:
    counter[labels] = counter.get(labels, 0) + number


def _observe(times: dict[Labels, Times], labels: Labels, seconds: float) -> None:
    found = times.get(labels)
    if found is None:
        found = times[labels] = Times([0] * (len(BUCKETS) + 1))
    found.counts[bisect_left(BUCKETS, seconds)] += 1
    found.total += seconds


def _add_up(total: Numbers, more: Numbers) -> None:
    for name, counter in more.counters.items():
        for labels, number in counter.items():
            _add(total.counters.setdefault(name, {}), labels, number)
    for name, times in more.times.items():
        for labels, found in times.items():
            sum_ = total.times.setdefault(name, {}).setdefault(labels, Times([0] * (len(BUCKETS) + 1)))
            sum_.counts = [one + other for one, other in zip(sum_.counts, found.counts, strict=True)]
            sum_.total += found.total
    total.gauges = {
        name: total.gauges.get(name, 0) + more.gauges.get(name, 0) for name in {**total.gauges, **more.gauges}
    }


class _Families(Collector):
    """Numbers as the library's metric families."""

    def __init__(self, numbers: Numbers) -> None:
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
                family.add_metric(values, _cumulated(times), times.total)
            yield family
        for name, number in self._numbers.gauges.items():
            yield GaugeMetricFamily(name, _GAUGES[name], number)


_GAUGES = {
    "dragoman_in_flight": "Exchanges under way.",
    "dragoman_waiting": "Requests in line, for a turn here or at a provider.",
    "dragoman_streams": "Streams under way.",
    "dragoman_upstream_connections": "Open connections to providers.",
    "dragoman_open_circuits": "Providers that are left alone after failures.",
    "dragoman_tasks": "Tasks of the event loop, a few more than exchanges; they should not grow.",
}


def _cumulated(times: Times) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    sum_ = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], times.counts, strict=True):
        sum_ += count
        buckets.append((bound, sum_))
    return buckets
