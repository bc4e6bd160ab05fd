"""The two things we measure: a request of about 100 kB, and a stream of text and a call in fragments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from bench.contenders import Contender, Pair
from bench.conversation import Conversation, make_conversation
from bench.measure import Run
from bench.requests import request_body
from bench.streams import TOOL, Reply, make_reply, stream_frames

TEXTS, FRAGMENTS = 200, 30
PAIRS = (
    Pair("anthropic", "openai-chat"),
    Pair("anthropic", "gemini"),
    Pair("openai-chat", "anthropic"),
    Pair("openai-responses", "openai-chat"),
    Pair("gemini", "openai-responses"),
)
NOT_ITS_PAIR = "does other pairs"
T = TypeVar("T")


class NotMeasured(Exception):
    """The contender is not installed, does not do this pair, or loses content; the message says which."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`times` multiplies the usual size, to see whether cost grows with it."""

    title: str
    time_unit: str
    size_unit: str
    best_of: int
    prepare: Callable[[Contender, Pair, int], Run]
    size: Callable[[Pair, int], int]
    show: Callable[[float, int], float]
    needles: Callable[[], list[str]]

    def check(self, output: bytes) -> None:
        """Nobody is fast by leaving things out."""
        needles = self.needles()
        lost = sum(needle.encode() not in output for needle in needles)
        if lost:
            raise NotMeasured(f"loses {lost} of {len(needles)}")


def prepare_request(contender: Contender, pair: Pair, times: int) -> Run:
    translate = available(lambda: contender.request(pair))
    body = body_of(pair, times)
    return lambda: translate(body)


def prepare_stream(contender: Contender, pair: Pair, times: int) -> Run:
    before = request_body(pair.client, make_conversation(rounds=1))
    translate = available(lambda: contender.stream(pair, before))
    frames = frames_of(pair, times)
    return lambda: translate(frames)


def available(prepare: Callable[[], T | None]) -> T:
    try:
        translate = prepare()
    except ImportError as error:
        raise NotMeasured("missing") from error
    if translate is None:
        raise NotMeasured(NOT_ITS_PAIR)
    return translate


@cache
def conversation(times: int) -> Conversation:
    return make_conversation(times=times)


@cache
def reply(times: int) -> Reply:
    return make_reply(times * TEXTS, times * FRAGMENTS)


@cache
def body_of(pair: Pair, times: int) -> bytes:
    return request_body(pair.client, conversation(times))


@cache
def frames_of(pair: Pair, times: int) -> list[bytes]:
    return stream_frames(pair.upstream, reply(times))


def request_needles() -> list[str]:
    talk = conversation(1)
    return [
        *(f'"{tool.name}"' for tool in talk.tools),
        *(str(round.arguments["path"]) for round in talk.rounds),
    ]


def stream_needles() -> list[str]:
    return [*(text.split()[0] for text in reply(1).texts), TOOL, "line 27"]


REQUESTS = Workload(
    title="Requests: 20 tools, 60 messages, client's body to upstream's body",
    time_unit="ms",
    size_unit="bytes",
    best_of=40,
    prepare=prepare_request,
    size=lambda pair, times: len(body_of(pair, times)),
    show=lambda seconds, size: seconds * 1e3,
    needles=request_needles,
)
STREAMS = Workload(
    title="Streams: 200 text deltas, a call in 30 fragments, one event per feed, upstream's bytes to client",
    time_unit="µs/event",
    size_unit="events",
    best_of=20,
    prepare=prepare_stream,
    size=lambda pair, times: len(frames_of(pair, times)),
    show=lambda seconds, size: seconds * 1e6 / size,
    needles=stream_needles,
)
