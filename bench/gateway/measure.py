"""How each figure is measured, of one running gateway."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from bench.conversation import Conversation
from bench.gateway.bodies import FIRST_TEXT, frames, large, reply_of, request_body, small
from bench.gateway.contenders import Gateway
from bench.gateway.figures import Values
from bench.gateway.pairs import HOLD, PACE, PATHS, PAUSE, STREAM, WHOLE, Kind, Pair
from bench.gateway.processes import cpu_seconds, memory_kb
from bench.gateway.replies import WrongReply, check
from bench.gateway.requests import END, BenchRequest, first_event_seconds, opened, send
from bench.gateway.upstream import Upstream
from bench.gateway.wrk import load

OPEN_STREAMS = 500
PACED_STREAMS = 40
FIRST_EVENTS = 15
SLOW, ENOUGH, LONGEST = 0.1, 40, 20.0
"""A gateway that needs more than SLOW seconds for a reply gets 8 connections, so that few requests are open
at the end, and the time for ENOUGH replies, up to LONGEST seconds."""


@dataclass(frozen=True, slots=True)
class Running:
    gateway: Gateway
    pid: int
    port: int
    place: Path
    upstream: Upstream

    def offers(self, pair: Pair) -> bool:
        return self.gateway.endpoint(self.upstream, pair, WHOLE) is not None

    def request(self, pair: Pair, kind: Kind, talk: Conversation | None = None) -> BenchRequest:
        """The request of a client, for a pair that the gateway offers."""
        endpoint = self.gateway.endpoint(self.upstream, pair, kind)
        assert endpoint
        body = request_body(pair.client, endpoint.model, kind, talk or small())
        return BenchRequest(self.port, endpoint.path, body, endpoint.headers)

    def direct(self, pair: Pair, kind: Kind) -> BenchRequest:
        """The same without a gateway. The upstream does not parse the body, so it may be the client's."""
        path = f"/{pair.upstream}/{kind}{PATHS[pair.client]}"
        return BenchRequest(self.upstream.port(kind), path, request_body(pair.client, "m", kind, small()))


def why_not(running: Running, pair: Pair) -> str | None:
    """Why this pair is not measured, or None: whole and streamed, the call must arrive unchanged."""
    if not running.offers(pair):
        return "not offered"
    for kind in (WHOLE, STREAM):
        try:
            status, body = send(running.request(pair, kind))
            if status != 200:
                return f"{kind}: status {status}: {body[:200].decode(errors='replace')}"
            check(pair.client, kind, body, reply_of(kind))
        except (WrongReply, OSError) as error:
            return f"{kind}: {error}"
    return None


def requests(running: Running, pair: Pair, seconds: float) -> Values:
    rate, cpu = under_load(running, running.request(pair, WHOLE), connections=32, seconds=seconds)
    return {"rate": rate, "cpu": cpu, "busy": rate * cpu / 1e4}


def large_requests(running: Running, pair: Pair, seconds: float) -> Values:
    rate, _ = under_load(running, running.request(pair, WHOLE, large()), connections=8, seconds=seconds)
    return {"large": rate}


def streams(running: Running, pair: Pair, seconds: float) -> Values:
    rate, cpu = under_load(running, running.request(pair, STREAM), connections=32, seconds=seconds)
    events = len(frames(pair.upstream))
    return {"events": rate * events, "event_cpu": cpu / events}


def paced_streams(running: Running, pair: Pair, seconds: float) -> Values:
    """Every event arrives by itself, so that each one wakes the gateway."""
    before = cpu_seconds(running.pid)
    with opened(running.request(pair, PACE), PACED_STREAMS, END):
        taken = cpu_seconds(running.pid) - before
    return {"paced_cpu": taken * 1e6 / PACED_STREAMS / len(frames(pair.upstream))}


def latency(running: Running, pair: Pair, seconds: float) -> Values:
    """One connection, so that no request waits for another."""
    bare = load(running.place, running.direct(pair, WHOLE), 1, seconds)
    seen = load(running.place, running.request(pair, WHOLE), 1, seconds)
    return {"p50": (seen.p50 - bare.p50) / 1e3, "p99": (seen.p99 - bare.p99) / 1e3}


def first_event(running: Running, pair: Pair, seconds: float) -> Values:
    bare = first_event_seconds(running.direct(pair, PAUSE), FIRST_EVENTS, FIRST_TEXT)
    seen = first_event_seconds(running.request(pair, PAUSE), FIRST_EVENTS, FIRST_TEXT)
    return {"first": (statistics.median(seen) - statistics.median(bare)) * 1e3}


def memory(running: Running, pair: Pair) -> Values:
    """Of a process that has answered one request."""
    idle = memory_kb(running.pid)
    with opened(running.request(pair, HOLD), OPEN_STREAMS, FIRST_TEXT):
        full = memory_kb(running.pid)
    return {"idle": idle / 1024, "stream_kb": (full - idle) / OPEN_STREAMS}


def under_load(
    running: Running, request: BenchRequest, connections: int, seconds: float
) -> tuple[float, float]:
    """Replies per second, and CPU microseconds of the gateway for each."""
    start = time.perf_counter()
    send(request)
    alone = time.perf_counter() - start
    if alone > SLOW:
        connections, seconds = min(8, connections), min(LONGEST, max(seconds, ENOUGH * alone))
    before = cpu_seconds(running.pid)
    seen = load(running.place, request, connections, seconds)
    return seen.rate, (cpu_seconds(running.pid) - before) * 1e6 / seen.count


TAKES = (requests, latency, streams, paced_streams, first_event, large_requests)
