"""The marks that the gateway must keep, beside what a run measured. Ratios, so that machines compare."""

from collections.abc import Iterator
from typing import NamedTuple

from bench.gateway.contenders import DRAGOMAN, LIMIT, LITELLM, TENSORZERO
from bench.gateway.figures import Measurements, Values
from bench.gateway.pairs import CHAT_CHAT, Pair
from bench.gateway.run import Results

SAME_PROTOCOL, TRANSLATING = 0.45, 0.25
EVENTS = 100_000 / 1_600_000
TIMES_P50 = 3
TIMES_PEER = {LITELLM.name: 100, TENSORZERO.name: 3}
LIMITS = {
    "start": ("start to the first answer", 1, "s"),
    "idle": ("memory, idle", 60, "MB"),
    "stream_kb": ("memory, an open stream", 60, "kB"),
}


class Bar(NamedTuple):
    what: str
    measured: float
    mark: float
    unit: str
    at_most: bool = False

    @property
    def kept(self) -> bool:
        return self.measured <= self.mark if self.at_most else self.measured >= self.mark


def bars(results: Results) -> Iterator[Bar]:
    """Of the figures that this run has."""
    ours = results.get(DRAGOMAN.name, Measurements())
    for pair, values in ours.pairs.items():
        yield from beside_limit(pair, values, limit_of(results, pair))
    for peer, times in TIMES_PEER.items():
        theirs = results.get(peer, Measurements()).pairs
        for pair in ours.pairs:
            if "rate" in theirs.get(pair, {}) and "rate" in ours.pairs[pair]:
                measured = ours.pairs[pair]["rate"] / theirs[pair]["rate"]
                yield Bar(f"{pair.title}: requests/s, {peer}'s", measured, times, "×")
    for key, (what, mark, unit) in LIMITS.items():
        if key in ours.values:
            yield Bar(what, ours.values[key], mark, unit, at_most=True)


def limit_of(results: Results, pair: Pair) -> Values:
    """nginx with the same traffic; pairs that it cannot serve are compared with its Chat → Chat."""
    limit = results.get(LIMIT.name, Measurements()).pairs
    return limit.get(pair) or limit.get(CHAT_CHAT, {})


def beside_limit(pair: Pair, values: Values, limit: Values) -> Iterator[Bar]:
    beside = {
        key: values[key] / limit[key] for key in ("rate", "events", "p50") if key in values and key in limit
    }
    if "rate" in beside:
        mark = TRANSLATING if pair.translates else SAME_PROTOCOL
        yield Bar(f"{pair.title}: requests/s, nginx's", 100 * beside["rate"], 100 * mark, "%")
    if "events" in beside and pair.translates:
        yield Bar(f"{pair.title}: stream events/s, nginx's", 100 * beside["events"], 100 * EVENTS, "%")
    if "p50" in beside:
        yield Bar(f"{pair.title}: added p50, nginx's", beside["p50"], TIMES_P50, "×", at_most=True)
