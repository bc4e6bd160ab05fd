"""The figures of a run: the best of several rounds, and why some are missing."""

from dataclasses import dataclass, field
from typing import NamedTuple

from bench.gateway.pairs import Pair


class Figure(NamedTuple):
    key: str
    title: str
    digits: int
    higher_is_better: bool = False


OF_PAIR = (
    Figure("rate", "requests/s", 0, higher_is_better=True),
    Figure("cpu", "CPU µs/request", 0),
    Figure("busy", "core used %", 0, higher_is_better=True),
    Figure("p50", "added p50 ms", 2),
    Figure("p99", "added p99 ms", 2),
    Figure("events", "stream events/s", 0, higher_is_better=True),
    Figure("event_cpu", "CPU µs/event", 1),
    Figure("paced_cpu", "CPU µs/event, paced", 1),
    Figure("first", "added first event ms", 2),
    Figure("large", "150 kB requests/s", 0, higher_is_better=True),
)
OF_GATEWAY = (
    Figure("start", "start s", 2),
    Figure("idle", "idle MB", 0),
    Figure("stream_kb", "kB per open stream", 0),
)
HIGHER = frozenset(figure.key for figure in OF_PAIR if figure.higher_is_better)
Values = dict[str, float]


@dataclass(slots=True)
class Measurements:
    """Of one gateway; `notes` says what could not be measured and why."""

    version: str = ""
    values: Values = field(default_factory=dict[str, float])
    pairs: dict[Pair, Values] = field(default_factory=dict[Pair, Values])
    notes: dict[str, str] = field(default_factory=dict[str, str])


def keep_best(best: Values, new: Values) -> None:
    for key, value in new.items():
        better = max if key in HIGHER else min
        best[key] = better(value, best.get(key, value))
