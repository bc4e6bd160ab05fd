"""A run: every gateway is started and checked once, then they take turns, so that noise affects all alike."""

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.contenders import Gateway, Missing
from bench.gateway.figures import Measurements, keep_best
from bench.gateway.measure import TAKES, Running, memory, why_not
from bench.gateway.pairs import PAIRS, WHOLE, Pair
from bench.gateway.processes import OTHERS, TESTED, cpu_seconds, free_port, running, wait_for
from bench.gateway.requests import send
from bench.gateway.upstream import Upstream, serving
from bench.gateway.wrk import LoadFailed

Results = dict[str, Measurements]
QUIET = 0.02  # seconds of CPU in half a second, of all gateways together


@dataclass(frozen=True, slots=True)
class Plan:
    gateways: Sequence[Gateway]
    pairs: Sequence[Pair]
    rounds: int
    seconds: float


def run(plan: Plan, place: Path) -> Results:
    os.sched_setaffinity(0, {OTHERS})
    results = {gateway.name: Measurements() for gateway in plan.gateways}
    with serving(place) as upstream, ExitStack() as stack:
        started = {
            gateway.name: begun
            for gateway in plan.gateways
            if (begun := begin(stack, gateway, place, upstream, results[gateway.name]))
        }
        turns = [
            (pair, name) for pair in plan.pairs for name, one in started.items() if fits(one, pair, results)
        ]
        for number in range(plan.rounds):
            for pair, name in turns:
                progress(f"round {number + 1} of {plan.rounds}: {name}, {pair.title}")
                started[name] = one = alive(stack, started[name], results[name])
                wait_for_quiet([each.pid for each in started.values()])
                measure(one, pair, plan.seconds, results[name])
    return results


def begin(
    stack: ExitStack, gateway: Gateway, place: Path, upstream: Upstream, taken: Measurements
) -> Running | None:
    """Start it twice: the better time counts, and memory is measured in a fresh process."""
    try:
        taken.version = gateway.version()
        with starting(gateway, place, upstream, taken) as fresh:
            take_memory(fresh, taken)
        return stack.enter_context(starting(gateway, place, upstream, taken))
    except (Missing, OSError) as reason:
        taken.notes["missing"] = str(reason)
        return None


def alive(stack: ExitStack, one: Running, taken: Measurements) -> Running:
    """Start a gateway that has died again; a note says so."""
    try:
        wait_for(one.port, 1)
        return one
    except TimeoutError:
        try:
            again = stack.enter_context(starting(one.gateway, one.place, one.upstream, taken))
        except (Missing, OSError) as reason:
            taken.notes["died"] = f"it died and did not start again: {reason}"
            return one
        taken.notes["died"] = "it died during the run and was started again"
        return again


def wait_for_quiet(pids: Sequence[int], seconds: float = 15) -> None:
    """They share a core, and some work on for a while after their last reply."""
    until = time.monotonic() + seconds
    before = sum(map(cpu_seconds, pids))
    while time.monotonic() < until:
        time.sleep(0.5)
        now = sum(map(cpu_seconds, pids))
        if now - before < QUIET:
            return
        before = now


def take_memory(fresh: Running, taken: Measurements) -> None:
    try:
        keep_best(taken.values, memory(fresh, first_pair(fresh)))
    except OSError as error:
        taken.notes["memory"] = str(error)


@contextmanager
def starting(gateway: Gateway, place: Path, upstream: Upstream, taken: Measurements) -> Generator[Running]:
    progress(f"starting {gateway.name}")
    port = free_port()
    how = gateway.start(place, port, upstream)
    log = place / f"{gateway.name}.out"
    since = time.perf_counter()
    with running(how.command, log, how.env, TESTED) as process:
        until = since + gateway.start_timeout
        if how.port_file:
            port = read_port(how.port_file, until, log)
        one = Running(gateway, process.pid, port, place, upstream)
        wait_for_answer(one, until, log)
        keep_best(taken.values, {"start": time.perf_counter() - since})
        yield one


def read_port(port_file: Path, until: float, log: Path) -> int:
    while time.perf_counter() < until:
        if port_file.exists() and (port := port_file.read_text()):
            return int(port)
        time.sleep(0.005)
    raise Missing(f"does not start; its log ends: {end_of(log)}")


def wait_for_answer(one: Running, until: float, log: Path) -> None:
    request = one.request(first_pair(one), WHOLE)
    problem = "it does not listen"
    while time.perf_counter() < until:
        try:
            status, body = send(request)
        except OSError:
            time.sleep(0.005)
            continue
        if status == 200:
            return
        problem = f"status {status}: {body[:200].decode(errors='replace')}"
        time.sleep(0.02)
    raise Missing(f"no reply in time ({problem}); its log ends: {end_of(log)}")


def end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-500:]


def first_pair(one: Running) -> Pair:
    """The pair for start and memory: one that translates, if there is any."""
    able = [pair for pair in PAIRS if one.offers(pair)]
    return max(able, key=lambda pair: pair.translates)


def fits(one: Running, pair: Pair, results: Results) -> bool:
    reason = why_not(one, pair)
    if reason:
        results[one.gateway.name].notes[pair.title] = reason
    return not reason


def measure(one: Running, pair: Pair, seconds: float, taken: Measurements) -> None:
    best = taken.pairs.setdefault(pair, {})
    for take in TAKES:
        try:
            keep_best(best, take(one, pair, seconds))
        except (LoadFailed, OSError) as error:
            taken.notes[f"{pair.title}, {take.__name__}"] = str(error)


def progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
