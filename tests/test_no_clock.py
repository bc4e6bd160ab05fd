"""No test depends on the time: a slow machine is no fault, and a second may pass between any two lines.

Tests wait with `waiting`. Those below look at a clock themselves, for the reason given.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = ("agents", "fleet", "fuzz", "soak")  # they measure, and are no part of `make test`
CLOCKS = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "process_time_ns", "thread_time", "now", "utcnow", "today"),
}
ALLOWED = {
    "waiting.py": "it is the place for it",
    "dialects/test_cost.py": "the time of the process alone, for 16 times the text: 16 or 256 times it",
    "framing/test_jsonarray.py": "the time of the process alone, for 10 times the text: 10 or 100 times it",
    "gateway/admission/test_host.py": "what a real gateway may let through grows with the time that passes",
    "gateway/handlers/test_keep_alive.py": "the most keep-alives grow with the time that passes",
    "gateway/jobs/test_queue.py": "times of jobs, which the queue compares with its own clock",
    "gateway/test_credentials.py": "when a token expires, which the gateway compares with its own clock",
    "inspector/scripted_model.py": "when a reply was created, which nothing compares",
    "inspector/times.py": "a program that measures, `make page-times`; no test runs it",
}


def clocks_in(source: str) -> list[int]:
    """The lines that ask for the time: `time.time()`, `monotonic()`, `datetime.now()`, `loop.time()`."""
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.args]
    return sorted(call.lineno for call in calls if _name(call.func) in CLOCKS)


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


SOURCES = sorted(path for path in HERE.rglob("*.py") if path.relative_to(HERE).parts[0] not in PROGRAMS)


def test_no_test_looks_at_a_clock() -> None:
    found = {str(path.relative_to(HERE)): clocks_in(path.read_text()) for path in SOURCES}
    assert {name: lines for name, lines in found.items() if lines and name not in ALLOWED} == {}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_allowed_is_needed(name: str) -> None:
    assert clocks_in((HERE / name).read_text())


@pytest.mark.parametrize(
    "line", ["time.time()", "perf_counter()", "datetime.now()", "asyncio.get_running_loop().time()"]
)
def test_a_clock_is_found(line: str) -> None:
    assert clocks_in(f"began = {line}") == [1]
    assert clocks_in("clock = StillClock()") == []
