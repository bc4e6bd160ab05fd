"""The rows of `bench.gateway.cpu`: what is measured, and the mark for each."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench.gateway import history
from bench.gateway.bodies import frames
from bench.gateway.measure import PACED_STREAMS, Running
from bench.gateway.pairs import (
    ANTHROPIC_ANTHROPIC,
    ANTHROPIC_CHAT,
    CHAT_ANTHROPIC,
    CHAT_CHAT,
    PACE,
    STREAM,
    Pair,
)
from bench.gateway.processes import cpu_microseconds
from bench.gateway.requests import END, opened
from bench.gateway.stall import idle_ping, worst_ping

CHAT_GEMINI = Pair("openai-chat", "gemini")
CHAT_HERMES = Pair("openai-chat", "hermes")
CHAT_RESPONSES = Pair("openai-chat", "openai-responses")
ANTHROPIC_GEMINI = Pair("anthropic", "gemini")
ANTHROPIC_RESPONSES = Pair("anthropic", "openai-responses")
RESPONSES_ANTHROPIC = Pair("openai-responses", "anthropic")
RESPONSES_CHAT = Pair("openai-responses", "openai-chat")
GEMINI_ANTHROPIC = Pair("gemini", "anthropic")
GEMINI_CHAT = Pair("gemini", "openai-chat")

FORWARDED = (CHAT_CHAT, ANTHROPIC_ANTHROPIC)
SMALL = (ANTHROPIC_CHAT, CHAT_ANTHROPIC, CHAT_GEMINI, RESPONSES_ANTHROPIC, CHAT_HERMES)
LARGE = (ANTHROPIC_CHAT, CHAT_ANTHROPIC, ANTHROPIC_GEMINI, RESPONSES_ANTHROPIC, GEMINI_CHAT)
SPLICED = (ANTHROPIC_CHAT, CHAT_ANTHROPIC)
STREAMED = (
    CHAT_GEMINI,
    ANTHROPIC_GEMINI,
    CHAT_RESPONSES,
    ANTHROPIC_RESPONSES,
    RESPONSES_CHAT,
    RESPONSES_ANTHROPIC,
    GEMINI_CHAT,
    GEMINI_ANTHROPIC,
    CHAT_HERMES,
)


TURNS = 4  # for one figure in one round, of several requests at once
SMALL_SECONDS = 0.5
BODIES = 3  # of 1 MB


class Mark(NamedTuple):
    """At most: a multiple of the other commit's figure, so much above the limit's, or so much in all."""

    ratio: float | None = None
    above_limit: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        if self.ratio:
            return f"≤ {self.ratio:g} ×"
        if self.above_limit:
            return f"≤ limit + {self.above_limit:g}"
        return f"≤ {self.at_most:g}" if self.at_most else ""

    def kept(self, value: float, other: float | None, limit: float | None) -> bool | None:
        """None where there is no mark, or nothing to compare with."""
        if self.ratio:
            return value <= self.ratio * other if other else None
        if self.above_limit:
            return value <= limit + self.above_limit if limit else None
        return value <= self.at_most if self.at_most else None


class Row(NamedTuple):
    """`take` is None for what is measured while a gateway starts."""

    what: str
    pair: Pair | None
    digits: int
    take: Callable[[Running], float] | None
    mark: Mark = Mark()
    is_quick: bool = True
    every: int = 1  # taken in each so many rounds

    @property
    def title(self) -> str:
        return f"{self.what}, {self.pair.title}" if self.pair else self.what

    @property
    def has_limit(self) -> bool:
        return bool(self.pair) and not self.what.startswith("ping")


STALL = "ping during a new conversation of 1 MB, ms"
HISTORIES = (
    ("150 kB, history repeated", history.repeated, 0.4),
    ("150 kB, 5 % new", history.growing, 0.45),
    ("150 kB, 5 % new, one interrupted call", history.interrupted, 0.85),
    ("150 kB, new conversation", history.cold, 1.05),
)
OF_PROCESS = {  # by the key in `Measurements.values`
    "stream_kb": Row("memory, kB per open stream", None, 0, None, Mark(ratio=1.05)),
    "idle": Row("memory, idle, MB", None, 0, None, Mark(at_most=60)),
    "start": Row("start to the first answer, s", None, 2, None, Mark(at_most=1)),
    "import": Row("import dragoman, s", None, 3, None, Mark(at_most=0.15)),
}


def rows() -> Iterator[Row]:
    for pair in FORWARDED:
        yield Row(
            "small request, forwarded",
            pair,
            0,
            partial(history.repeated_small, pair, SMALL_SECONDS),
            Mark(ratio=0.73),
        )
    for pair in SMALL:
        yield Row(
            "small request, translated",
            pair,
            0,
            partial(history.repeated_small, pair, SMALL_SECONDS),
            Mark(ratio=0.62),
        )
    for pair in SMALL:
        yield Row(
            "small request, new conversation", pair, 0, partial(history.cold_small, pair, SMALL_SECONDS)
        )
    for what, take, ratio in HISTORIES:
        yield Row(what, CHAT_CHAT, 0, partial(take, CHAT_CHAT, TURNS), Mark(ratio=1.05))
        for pair in LARGE:
            yield Row(what, pair, 0, partial(take, pair, TURNS), Mark(ratio=ratio))
    for pairs, mark in ((FORWARDED, Mark()), (SPLICED, Mark(ratio=0.5)), (STREAMED, Mark(ratio=0.8))):
        for pair in pairs:
            yield Row("stream event", pair, 2, partial(stream_event, pair), mark)
    for pair in (*FORWARDED, *SPLICED, *STREAMED):
        often = pair in (CHAT_CHAT, *SPLICED)
        yield Row("stream event, paced", pair, 1, partial(paced_event, pair), Mark(above_limit=18), often, 4)
    yield Row("ping while idle, ms", CHAT_CHAT, 1, partial(idle_ping, BODIES))
    for pair in (CHAT_CHAT, *LARGE):
        yield Row(STALL, pair, 1, partial(worst_ping, pair, BODIES), Mark(at_most=10))
    yield from OF_PROCESS.values()


def stream_event(pair: Pair, one: Running) -> float:
    """The upstream sends as fast as it can, so that many events come in one read."""
    wires = [one.request(pair, STREAM).wire] * history.LARGE_AT_ONCE
    cpu = history.cpu_of(one, iter([wires] * (1 + TURNS)), unmeasured=1)
    return cpu / len(frames(pair.upstream))


def paced_event(pair: Pair, one: Running) -> float:
    """Every event arrives by itself, so that each one wakes the gateway."""
    before = cpu_microseconds(one.pid)
    with opened(one.request(pair, PACE), PACED_STREAMS, END):
        taken = cpu_microseconds(one.pid) - before
    return taken / PACED_STREAMS / len(frames(pair.upstream))
