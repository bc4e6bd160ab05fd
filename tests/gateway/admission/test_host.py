"""Workers of one host count a key together, in a file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.gateways import serving
from dragoman.core import jsontext
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.counters import MINUTE
from dragoman.gateway.admission.host_counters import HostCounters, counting_file
from dragoman.gateway.config.keys import Allowance
from gateway.plain import asking, opened, send

WORKERS = 3
steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(0, WORKERS - 1)),
        st.tuples(st.just("leave"), st.integers(0, WORKERS - 1)),
        st.tuples(st.just("pass"), st.floats(0.1, 30)),
    ),
    max_size=50,
)


@given(st.integers(0, 4), st.integers(0, 5), steps)
def test_never_more_than_allowed_and_never_refused_without_need(
    concurrency: int, per_minute: int, steps: list[tuple[str, int | float]]
):
    now = 0.0
    with counting_file(2, WORKERS) as file:
        counts = [HostCounters(file, WORKERS, lambda: now) for _ in range(WORKERS)]
        callers = [Caller("a", "a", Allowance(per_minute, concurrency), 1) for _ in counts]
        other = Caller("b", "b", Allowance(1000, 1000), 0)
        inside, tokens = Counter[int](), float(per_minute)
        for step, value in steps:
            which = int(value) % WORKERS
            if step == "pass":
                now += value
                tokens = min(tokens + value * per_minute / MINUTE, per_minute)
            elif step == "come":
                verdict = asyncio.run(counts[which].enter(callers[which], "x", rated=True))
                assert not asyncio.run(counts[which].enter(other, "y", rated=True)).refused
                full, fast = 0 < concurrency <= inside.total(), per_minute and tokens < 1 - 1e-6
                near = per_minute and abs(tokens - 1) < 1e-5  # sums of fractions are not exact
                if not near:
                    assert verdict.refused == ("concurrency" if full else "rate" if fast else "")
                if not verdict.refused:
                    inside[which] += 1
                    tokens -= 1
            elif inside[which]:
                counts[which].leave(callers[which], "x")
                inside[which] -= 1
            assert inside.total() <= (concurrency or 99)
        for each in counts:
            asyncio.run(each.close())


DIES = """
import asyncio, os, sys
from dragoman.gateway.config.keys import Allowance
from dragoman.gateway.process.descriptors import SharedDescriptor
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.host_counters import HostCounters
counts = HostCounters(SharedDescriptor(int(sys.argv[1])), 3, now=lambda: 1000.0)
caller = Caller("a", "a", Allowance(5, 50))
verdicts = [asyncio.run(counts.enter(caller, "x", rated=True)).refused for _ in range(30)]
print(*(verdict or "passed" for verdict in verdicts), flush=True)
counts._lock().__enter__()
os._exit(9)
"""  # with five under way, and alone


def test_processes_count_together_and_the_dead_hold_nothing():
    with counting_file(1, WORKERS) as file:
        command, number = [sys.executable, "-c", DIES, str(file.number)], file.number
        others = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[number]) for _ in range(2)
        ]
        printed = [process.communicate(timeout=120)[0] for process in others]
        assert [process.returncode for process in others] == [9, 9]
        verdicts = Counter(word for words in printed for word in words.split())
        assert verdicts == {"passed": 5, "rate": 55}
        counts = HostCounters(file, WORKERS, now=lambda: 1000.0)
        caller = Caller("a", "a", Allowance(0, 1))
        assert not asyncio.run(counts.enter(caller, "x", rated=True)).refused
        assert asyncio.run(counts.enter(caller, "y", rated=True)).refused == "concurrency"
        asyncio.run(counts.close())


def most_passed(began: float) -> float:
    """At five a minute: one more every twelve seconds."""
    return 7 + (time.monotonic() - began) / 12


KEYED = '[keys.alice]\nkey = "client-key-91bc"\n'


@pytest.mark.parametrize("limit", ["requests_per_minute = 5", "concurrency = 5"])
def test_workers_of_a_gateway(tmp_path: Path, limit: str):
    (tmp_path / "dragoman.toml").write_text(KEYED + limit + "\n")
    path, body = asking("openai-chat", "hello [[fault: hang]]", "demo")
    with serving(tmp_path, "--workers", "2") as (url, _, _):
        if limit.startswith("requests"):
            path, body = asking("openai-chat", "hello", "demo")
            began = time.monotonic()
            statuses = [send(url, "POST", path, jsontext.encode(body)).status for _ in range(20)]
            assert 5 <= statuses.count(200) <= most_passed(began)
            assert set(statuses) == {200, 429}
            return
        sockets = [opened(url, path, jsontext.encode(body)) for _ in range(12)]
        refused = 0
        for each in sockets:
            each.settimeout(0.5)
        while refused < 7:
            for each in list(sockets):
                try:
                    received = each.recv(65536)
                except TimeoutError:
                    continue
                assert received.startswith(b"HTTP/1.1 429 ")
                refused += 1
                sockets.remove(each)
        for each in sockets:
            with each, pytest.raises(TimeoutError):  # the five that passed hang by design
                each.recv(1)
