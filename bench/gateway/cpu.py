"""`python -m bench.gateway.cpu`: CPU of the gateway per request and per stream event, beside another commit.

python -m bench.gateway.cpu --quick --against main      # about two minutes, while working on the hot path
python -m bench.gateway.cpu --against 466c9c9 --write   # everything, into the docs

All gateways run at the same time on one core, upstream and load on the other. They take turns row by row and
round by round, and the smallest figure of each counts.
"""

import argparse
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.gateway import history
from bench.gateway.asking import END, opened
from bench.gateway.bodies import frames
from bench.gateway.commits import gateway_at
from bench.gateway.contenders import DRAGOMAN, LIMIT
from bench.gateway.figures import Taken
from bench.gateway.measure import PACED_STREAMS, Running
from bench.gateway.pairs import (
    ANTHROPIC_ANTHROPIC,
    ANTHROPIC_CHAT,
    CHAT_ANTHROPIC,
    CHAT_CHAT,
    PACE,
    STREAM,
    WHOLE,
    Kind,
    Pair,
)
from bench.gateway.processes import OTHERS, cpu_microseconds, raise_priority
from bench.gateway.run import begin, tell
from bench.gateway.stall import idle_ping, worst_ping
from bench.gateway.table import head
from bench.gateway.table import row as line
from bench.gateway.upstream import serving
from bench.gateway.wrk import LoadFailed, load

CHAT, RESPONSES, ANTHROPIC, GEMINI, HERMES = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "hermes",
)
FORWARDED = (CHAT_CHAT, ANTHROPIC_ANTHROPIC)
TRANSLATED = (
    ANTHROPIC_CHAT,
    CHAT_ANTHROPIC,
    Pair(CHAT, GEMINI),
    Pair(RESPONSES, ANTHROPIC),
    Pair(CHAT, HERMES),
)
LARGE = (ANTHROPIC_CHAT, CHAT_ANTHROPIC, Pair(ANTHROPIC, GEMINI), Pair(RESPONSES, ANTHROPIC))
SPLICED = (ANTHROPIC_CHAT, CHAT_ANTHROPIC)
STREAMED = (
    *TRANSLATED[2:],
    Pair(RESPONSES, CHAT),
    Pair(CHAT, RESPONSES),
    Pair(ANTHROPIC, RESPONSES),
    Pair(ANTHROPIC, GEMINI),
)
Take = Callable[[Running, "Effort"], float]
Best = dict[str, float]


class Effort(NamedTuple):
    """How long each figure is measured in a round."""

    seconds: float = 1
    turns: int = 20
    bodies: int = 9


class Bar(NamedTuple):
    """At most so many times the other commit's figure, so much above the limit's, or so much."""

    ratio: float | None = None
    above_limit: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        if self.ratio:
            return f"≤ {self.ratio:g} ×"
        if self.above_limit:
            return f"≤ nginx + {self.above_limit:g}"
        return f"≤ {self.at_most:g}" if self.at_most else ""

    def kept(self, value: float, other: float | None, limit: float | None) -> bool | None:
        """None where there is nothing to compare with."""
        if self.ratio:
            return value <= self.ratio * other if other else None
        if self.above_limit:
            return value <= limit + self.above_limit if limit else None
        return value <= self.at_most if self.at_most else None


class Row(NamedTuple):
    what: str
    pair: Pair
    digits: int
    take: Take
    bar: Bar = Bar()
    is_quick: bool = True

    @property
    def title(self) -> str:
        return f"{self.what}, {self.pair.title}"


def rows() -> Iterator[Row]:
    for pair in FORWARDED:
        yield Row("small, forwarded", pair, 0, partial(request_cpu, pair, WHOLE), Bar(ratio=0.73))
    for pair in TRANSLATED:
        yield Row("small, translated", pair, 0, partial(request_cpu, pair, WHOLE), Bar(ratio=0.62))
    for pair in TRANSLATED:
        yield Row("small, new conversation", pair, 0, of_history(history.cold_small, pair, 5))
    for what, take, mark in HISTORIES:
        yield Row(what, CHAT_CHAT, 0, of_history(take, CHAT_CHAT), Bar(ratio=1.05))
        for pair in LARGE:
            yield Row(what, pair, 0, of_history(take, pair), Bar(ratio=mark))
    for pair in FORWARDED:
        yield Row("stream event", pair, 2, partial(event_cpu, pair))
    for pairs, mark in ((SPLICED, 0.5), (STREAMED, 0.8)):
        for pair in pairs:
            yield Row("stream event", pair, 2, partial(event_cpu, pair), Bar(ratio=mark))
    for pair in (*FORWARDED, *SPLICED, *STREAMED):
        often = pair in (CHAT_CHAT, *SPLICED)
        yield Row("paced stream event", pair, 1, partial(paced_cpu, pair), Bar(above_limit=18), often)
    yield Row("ping while idle, ms", CHAT_CHAT, 1, lambda one, effort: idle_ping(one, effort.bodies))
    for pair in (CHAT_CHAT, *LARGE):
        yield Row("ping during 1 MB, cold, ms", pair, 1, partial(stalled, pair), Bar(at_most=10))


HISTORIES = (
    ("150 kB, history repeated", history.repeated, 0.4),
    ("150 kB, 5 % new", history.growing, 0.45),
    ("150 kB, cold", history.cold, 1.05),
)


def of_history(take: Callable[[Running, Pair, int], float], pair: Pair, times: int = 1) -> Take:
    return lambda one, effort: take(one, pair, times * effort.turns)


def request_cpu(pair: Pair, kind: Kind, one: Running, effort: Effort) -> float:
    before = cpu_microseconds(one.pid)
    talk = history.few_messages() if kind == WHOLE else None
    seen = load(one.place, one.asked(pair, kind, talk), 32, effort.seconds)
    return (cpu_microseconds(one.pid) - before) / seen.count


def event_cpu(pair: Pair, one: Running, effort: Effort) -> float:
    return request_cpu(pair, STREAM, one, effort) / len(frames(pair.upstream))


def paced_cpu(pair: Pair, one: Running, effort: Effort) -> float:
    """Every event arrives by itself, so that what waking up costs is seen."""
    before = cpu_microseconds(one.pid)
    with opened(one.asked(pair, PACE), PACED_STREAMS, END):
        taken = cpu_microseconds(one.pid) - before
    return taken / PACED_STREAMS / len(frames(pair.upstream))


def stalled(pair: Pair, one: Running, effort: Effort) -> float:
    return worst_ping(one, pair, effort.bodies)


def measured(chosen: argparse.Namespace, place: Path) -> dict[str, Best]:
    """By title of the row and name of the gateway."""
    os.sched_setaffinity(0, {OTHERS})
    gateways = [DRAGOMAN, *map(gateway_at, chosen.against), LIMIT]
    wanted = [row for row in rows() if any(part in row.title for part in chosen.rows.split(","))]
    effort = Effort()
    if chosen.quick:
        wanted = [row for row in wanted if row.is_quick]
        effort = Effort(seconds=0.4, turns=5, bodies=5)
    best: dict[str, Best] = {row.title: {} for row in wanted}
    with serving(place) as upstream, ExitStack() as stack:
        begun = [begin(stack, gateway, place, upstream, Taken()) for gateway in gateways]
        ready = [one for one in begun if one]
        for number in range(chosen.rounds or (2 if chosen.quick else 5)):
            for row in wanted:
                tell(f"round {number + 1}: {row.title}")
                for one in ready:
                    take(row, one, effort, best[row.title])
    return best


def take(row: Row, one: Running, effort: Effort, best: Best) -> None:
    if not one.offers(row.pair) or (one.gateway is LIMIT and row.what.startswith("ping")):
        return
    try:
        value = row.take(one, effort)
    except (LoadFailed, OSError) as error:
        tell(f"{one.gateway.name}, {row.title}: {error}")
        return
    name = one.gateway.name
    best[name] = min(value, best.get(name, value))


def table(best: dict[str, Best], against: Sequence[str]) -> Iterator[str]:
    yield from head(["µs of CPU", "client → upstream", *against, "dragoman", "ratio", "nginx", "bar", ""])
    limits = {
        row.what: best[row.title].get(LIMIT.name)
        for row in rows()
        if row.title in best and row.pair == CHAT_CHAT
    }
    for row in rows():
        values = best.get(row.title, {})
        if DRAGOMAN.name not in values:
            continue
        ours, limit = values[DRAGOMAN.name], limits.get(row.what)
        other = values.get(against[0]) if against else None
        kept = row.bar.kept(ours, other, limit)
        verdict = "" if kept is None else "kept" if kept else "**missed**"
        shown = [
            f"{values[name]:,.{row.digits}f}" if name in values else "–" for name in (*against, DRAGOMAN.name)
        ]
        ratio = f"{ours / other:.2f}" if other else ""
        beside = f"{limit:,.{row.digits}f}" if limit else ""
        yield line([row.what, row.pair.title, *shown, ratio, beside, str(row.bar), verdict])


def main() -> None:
    chosen = arguments()
    os.environ["PATH"] += ":/usr/sbin"  # where Debian keeps nginx, which not everybody's path names
    raise_priority(chosen.nice)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as place:
        best = measured(chosen, Path(place))
    print(*table(best, [gateway_at(ref).name for ref in chosen.against]), sep="\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", action="append", default=[], metavar="REF", help="another commit")
    parser.add_argument("--rows", default="", help="parts of titles, such as '150 kB,small'")
    parser.add_argument("--rounds", type=int, help="best of so many")
    parser.add_argument("--quick", action="store_true", help="best of two short rounds")
    parser.add_argument("--nice", type=int, default=0, help="-10, as root, where others work")
    return parser.parse_args()


if __name__ == "__main__":
    main()
