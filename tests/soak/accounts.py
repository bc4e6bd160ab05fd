"""Whether everybody tells the same story: the clients, the journal, the metrics and the upstream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dragoman.core import jsontext
from soak.clients import Outcome
from soak.plans import Plan
from soak.processes import Labels

Lines = dict[str, list[dict[str, Any]]]

# fault: what a client may see of it, whole or streamed. A stream that has begun ends in its own error.
RIGHT: dict[str, frozenset[str]] = {
    name: frozenset(problems.split(", "))
    for name, problems in {
        "": "answered 200",
        "429": "refused 429",
        "500": "refused 500",
        "529": "refused 503, refused 529",
        "400": "refused 400",
        "429 x1": "answered 200",
        "500 x1": "answered 200",
        "drop x1": "answered 200",
        "cut": "refused 502, failed 200",
        "cut 1": "refused 502, failed 200",
        "cut 2": "refused 502, failed 200, answered 200",  # two pieces are the whole of a whole answer
        "malformed": "refused 502, refused 500, failed 200",
        "fail": "refused 503, refused 529, failed 200",
        "empty": "refused 502, refused 500",
        "garbage": "refused 502, refused 500",
        "leak": "answered 200",
        "late": "answered 200",
        "pause": "answered 200",
        "hang": "refused 504, failed 200",  # three tries take longer than the first keep-alive
        "stall": "refused 504, failed 200",
    }.items()
}


def read_journal(path: Path) -> list[dict[str, Any]]:
    return [jsontext.decode(line) for line in path.read_bytes().splitlines()]


def disagreements(
    outcomes: list[Outcome],
    journal: list[dict[str, Any]],
    metrics: dict[tuple[str, Labels], float],
    upstream_requests: dict[str, int],
) -> list[str]:
    """Everything that does not add up, in words."""
    records = [line for line in journal if "client" in line]
    crashed = [f"crash: {line}" for line in journal if "crash" in line]
    by_model: Lines = {}
    for line in records:
        by_model.setdefault(line.get("model", ""), []).append(line)
    wrong = [problem for outcome in outcomes for problem in _wrong(outcome, by_model, upstream_requests)]
    wrong += [
        *_lost(outcomes, by_model, upstream_requests),
        *_strangers(outcomes, by_model),
        *_uncounted(records, metrics),
    ]
    return crashed + wrong


def _wrong(outcome: Outcome, by_model: Lines, upstream_requests: dict[str, int]) -> Iterator[str]:
    plan = outcome.plan
    lines = by_model.get(f"{plan.provider}:{plan.model}", [])
    seen, tries = upstream_requests.get(plan.model, 0), sum(line.get("tries", 0) for line in lines)
    if outcome.what == "left":  # what was under way may have been lost with the connection
        if len(lines) > 1 or seen > tries:
            yield f"{_named(plan)}: left, {len(lines)} lines, {tries} tries, the upstream saw {seen}"
        return
    if f"{outcome.what} {outcome.status}" not in RIGHT[plan.fault] and not _as_it_is(outcome):
        yield f"{_named(plan)}: {outcome.what} {outcome.status}: {outcome.note}"
    if [line["status"] for line in lines] != [outcome.status]:
        yield f"{_named(plan)}: the client saw {outcome.status}, the journal says {lines}"
    if seen > tries:
        yield f"{_named(plan)}: {tries} tries, the upstream saw {seen}"


def _lost(outcomes: list[Outcome], by_model: Lines, upstream_requests: dict[str, int]) -> Iterator[str]:
    """Tries that the upstream never saw. One may be lost to each connection that it closes behind an answer
    that is whole: to the gateway it looks as good as any other, until the next request."""
    lost: list[str] = []
    for plan in [outcome.plan for outcome in outcomes if outcome.what != "left"]:
        tries = sum(line.get("tries", 0) for line in by_model.get(f"{plan.provider}:{plan.model}", []))
        lost += [f"{_named(plan)}: a try that the upstream did not see"] * (
            tries - upstream_requests.get(plan.model, 0)
        )
    closed = sum(outcome.plan.fault == "cut 2" and not outcome.plan.stream for outcome in outcomes)
    if len(lost) > closed:
        yield from lost


def _as_it_is(outcome: Outcome) -> bool:
    """A broken frame of the same protocol passes as it is."""
    return outcome.what == "malformed" and outcome.plan.fault == "malformed" and outcome.plan.forwarded


def _strangers(outcomes: list[Outcome], by_model: Lines) -> Iterator[str]:
    """Lines that belong to no exchange: only half a request has no model, and each of them one line."""
    known = {f"{outcome.plan.provider}:{outcome.plan.model}" for outcome in outcomes}
    for model in by_model.keys() - known - {""}:
        yield f"the journal tells of {model}, which nobody asked for"
    halves = Counter(outcome.plan.client for outcome in outcomes if outcome.plan.leaves == "in mid-request")
    nameless = Counter(line["client"] for line in by_model.get("", []) if line["status"] == "gone")
    if halves != nameless or sum(nameless.values()) != len(by_model.get("", [])):
        yield f"half requests: {dict(halves)}, in the journal: {dict(nameless)}"


def _uncounted(records: list[dict[str, Any]], metrics: dict[tuple[str, Labels], float]) -> Iterator[str]:
    requests, tries = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for line in records:
        provider = line.get("provider", "")
        requests[line["client"], provider, str(line["status"])] += 1
        if line.get("tries"):
            tries[(provider,)] += line["tries"]
    for name, journal in (("dragoman_requests_total", requests), ("dragoman_tries_total", tries)):
        counted = Counter[tuple[str, ...]]()
        for (metric, labels), number in metrics.items():
            if metric == name:
                counted[tuple(value for _, value in labels)] += int(number)
        differing = {
            key: (counted[key], journal[key]) for key in counted | journal if counted[key] != journal[key]
        }
        if differing:
            yield f"{name} and the journal differ: {differing}"


def by_outcome(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """(what was planned, what was seen) -> how often."""
    return Counter(
        (_planned(outcome.plan), f"{outcome.what} {outcome.status or ''}".strip()) for outcome in outcomes
    )


def _planned(plan: Plan) -> str:
    if plan.leaves:
        return f"leaves {plan.leaves}"
    return f"fault {plan.fault}" if plan.fault else "nothing special"


def _named(plan: Plan) -> str:
    how = "stream" if plan.stream else "whole"
    return f"{plan.number} ({plan.client} → {plan.provider}, {how}, {_planned(plan)})"


def total(metrics: dict[tuple[str, Labels], float], name: str) -> int:
    return int(sum(value for (metric, _), value in metrics.items() if metric == name))


def statuses(metrics: dict[tuple[str, Labels], float]) -> Counter[str]:
    """Exchanges by their status."""
    counted = Counter[str]()
    for (metric, labels), number in metrics.items():
        if metric == "dragoman_requests_total":
            counted[dict(labels)["status"]] += int(number)
    return counted
