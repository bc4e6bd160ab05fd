"""A little of `make soak`, and that it would say so if something were wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from soak import accounts, phases
from soak.abuse import abuse
from soak.clients import Outcome
from soak.overload import ROOM, WAYS, Limited, Overloaded, overload, wrong
from soak.phases import Stage, growth
from soak.plans import CLIENTS, PROVIDERS, QUICK, SOCKETS, Plan, plans
from soak.processes import Vitals

PLAN = Plan(number=7, client="anthropic", provider="google", stream=False, calls=True)
ASKED = f"google:{PLAN.model}"
LINE = {"client": "anthropic", "model": ASKED, "provider": "google", "status": 200, "tries": 1}
REQUESTS = (("client", "anthropic"), ("provider", "google"), ("status", "200"))
METRICS = {
    ("dragoman_requests_total", REQUESTS): 1.0,
    ("dragoman_tries_total", (("provider", "google"),)): 1.0,
}
GOOD = Outcome(PLAN, "answered", 200)


def test_a_short_soak(tmp_path: Path) -> None:
    found = phases.mixed(200, 16, 3, tmp_path, QUICK, timeout=30)
    assert len(found.outcomes) > 200  # some have a second turn
    sockets = [each for each in found.outcomes if each.plan.number >= SOCKETS]
    assert len({each.plan.provider for each in sockets}) == len(PROVIDERS)
    assert any(each.plan.continues and each.what == "answered" for each in sockets)
    assert found.problems == []


def test_idle_connections(tmp_path: Path) -> None:
    found = phases.idle_connections(100, 20, tmp_path)
    assert (found.held, found.problems) == (100, [])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_overload(way: Limited, tmp_path: Path) -> None:
    found = overload(way, 0.5, tmp_path)
    slow = "answers a second"  # a machine with other work
    assert [problem for problem in found.problems if slow not in problem] == []


SHED = Outcome(PLAN, "refused", 503, retry_after="1")
RUSH = Overloaded(
    way="",
    capacity=2,
    outcomes=[GOOD, SHED],
    seconds=1,
    busiest=ROOM,
    slowest={},
    afterwards=[GOOD],
    problems=[],
)


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, []),
        ({"outcomes": [GOOD, GOOD]}, ["nobody was turned away"]),
        ({"outcomes": [GOOD, replace(SHED, retry_after="")]}, ["refused 503"]),
        ({"outcomes": [GOOD, replace(SHED, status=500)]}, ["refused 500"]),
        ({"outcomes": [GOOD, SHED, replace(SHED, what="cut", status=0)]}, ["cut 0"]),
        ({"outcomes": [SHED]}, ["only 0 answers"]),
        ({"busiest": ROOM + 1}, ["reached the upstream"]),
        ({"afterwards": [SHED]}, ["afterwards refused"]),
    ],
)
def test_failures_under_load_are_reported(change: dict, expected: list[str]) -> None:
    problems = list(wrong(replace(RUSH, **change)))
    assert len(problems) == len(expected)
    assert all(words in problem for words, problem in zip(expected, problems, strict=True))


def test_everything_adds_up() -> None:
    assert accounts.disagreements([GOOD], [LINE], METRICS, {PLAN.model: 1}) == []


LEFT = Outcome(replace(PLAN, leaves="in mid-request"), "left")
WRONG = {
    "a wrong answer": ([Outcome(PLAN, "wrong", 200)], [LINE], METRICS, 1),
    "an answer where an error was due": (
        [Outcome(replace(PLAN, fault="429"), "answered", 200)],
        [LINE],
        METRICS,
        1,
    ),
    "no answer": ([Outcome(PLAN, "hung")], [LINE], METRICS, 1),
    "another status in the journal": ([GOOD], [{**LINE, "status": 500}], METRICS, 1),
    "nothing in the journal": ([GOOD], [], {}, 1),
    "twice in the journal": ([GOOD], [LINE, LINE], METRICS, 2),
    "a stranger in the journal": ([GOOD], [LINE, {**LINE, "model": "x"}], METRICS, 1),
    "a crash": ([GOOD], [LINE, {"id": "r", "crash": "KeyError"}], METRICS, 1),
    "not counted": ([GOOD], [LINE], {}, 1),
    "not seen by the upstream": ([GOOD], [LINE], METRICS, 0),
    "seen once too often": ([GOOD], [LINE], METRICS, 2),
    "half a request that is not expected": ([LEFT], [], {}, 0),
}


@pytest.mark.parametrize("outcomes, journal, metrics, upstream_requests", WRONG.values(), ids=WRONG)
def test_a_wrong_balance_is_reported(
    outcomes: list, journal: list, metrics: dict, upstream_requests: int
) -> None:
    assert accounts.disagreements(outcomes, journal, metrics, {PLAN.model: upstream_requests})


SOUND = Vitals(memory=50.0, files=10, sockets=3, pooled=5, tasks=4)


@pytest.mark.parametrize(
    "more, expected",
    [
        ({"memory": 57.0, "files": 11, "pooled": 40}, []),
        ({"memory": 59.0}, ["memory, MB: +9"]),
        ({"files": 13, "sockets": 6}, ["open files: +3", "sockets: +3"]),
        ({"sockets": 1}, ["connections that are counted and not there: +2"]),
        ({"tasks": 5}, ["tasks: +1"]),
    ],
)
def test_growth_is_reported(more: dict, expected: list[str]) -> None:
    end = replace(SOUND, **more)
    stages = [Stage(name, each, 1.0) for name, each in (("start", SOUND), ("warm-up", SOUND), ("end", end))]
    assert growth(stages) == expected


def test_plans_are_what_a_soak_promises() -> None:
    """All pairs, whole and streamed; a twentieth with faults and another one that leaves."""
    made = list(plans(4000, 1))
    assert (
        len({(plan.client, plan.provider, plan.stream) for plan in made}) == len(CLIENTS) * len(PROVIDERS) * 2
    )
    leaving, faulty = (
        sum(bool(plan.leaves) for plan in made),
        sum(bool(plan.fault) and not plan.leaves for plan in made),
    )
    assert 140 < leaving < 260
    assert 140 < faulty < 260
    assert len({plan.model for plan in made}) == 4000


def test_abuse(tmp_path: Path) -> None:
    found = abuse(1, tmp_path)
    assert [problem for each in found for problem in each.problems] == []
