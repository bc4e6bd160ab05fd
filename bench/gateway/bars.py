"""The marks that the gateway is held to, beside what a run measured. Ratios, so that machines compare."""

from collections.abc import Iterator
from typing import NamedTuple

from bench.gateway.contenders import DRAGOMAN, LIMIT, LITELLM, TENSORZERO
from bench.gateway.figures import Taken, Values
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
    """Those that this run has figures for."""
    ours = results.get(DRAGOMAN.name, Taken())
    limit = results.get(LIMIT.name, Taken())
    for pair, values in ours.pairs.items():
        yield from beside_limit(pair, values, limit.pairs.get(pair) or limit.pairs.get(CHAT_CHAT, {}))
    for peer, times in TIMES_PEER.items():
        theirs = results.get(peer, Taken()).pairs
        for pair in ours.pairs:
            if pair in theirs and "rate" in theirs[pair]:
                times_theirs = ours.pairs[pair]["rate"] / theirs[pair]["rate"]
                yield Bar(f"{pair.title}: requests/s, {peer}'s", times_theirs, times, "×")
    for key, (what, mark, unit) in LIMITS.items():
        if key in ours.values:
            yield Bar(what, ours.values[key], mark, unit, at_most=True)


def beside_limit(pair: Pair, values: Values, limit: Values) -> Iterator[Bar]:
    if not limit:
        return
    share = TRANSLATING if pair.translates else SAME_PROTOCOL
    yield Bar(f"{pair.title}: requests/s, nginx's", 100 * values["rate"] / limit["rate"], 100 * share, "%")
    if pair.translates:
        part = 100 * values["events"] / limit["events"]
        yield Bar(f"{pair.title}: stream events/s, nginx's", part, 100 * EVENTS, "%")
    yield Bar(f"{pair.title}: added p50, nginx's", values["p50"] / limit["p50"], TIMES_P50, "×", at_most=True)
