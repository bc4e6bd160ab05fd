"""Totals of what was recorded, over a stretch of time: requests, failures, tokens, money, latency, losses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from dragoman.core.loss_codes import severity_of
from dragoman.core.model import Wire
from dragoman.recording.values import RecordingSummary

_BUCKETS = 60
_MOST_ROWS = 12  # models, keys, codes


def overview(
    summaries: Sequence[RecordingSummary],
    providers: Mapping[str, str],
    circuits: Mapping[str, float],
    now: float,
    seconds: float | None = None,
) -> Wire:
    """`providers`: name and protocol; `circuits`: seconds until an open breaker tries again; `seconds`: how
    far back, None for all that is recorded."""
    oldest = min([each.time for each in summaries], default=now)
    span = seconds or max(now - oldest, 60.0)
    rows = [each for each in summaries if each.time > now - span and each.state != "active"]
    return {
        "recorded": len(summaries),
        "since": oldest,
        "from": now - span,
        "bucket_seconds": span / _BUCKETS,
        "totals": _totals(rows),
        "buckets": _buckets(rows, now - span, span / _BUCKETS),
        "models": _money(rows, lambda each: each.target or each.model),
        "keys": _money(rows, lambda each: each.key),
        "latency": _latency(rows),
        "codes": _codes(rows),
        "providers": [_provider(name, kind, rows, circuits.get(name)) for name, kind in providers.items()],
    }


def _totals(rows: Sequence[RecordingSummary]) -> Wire:
    failures = Counter(
        [f"{each.provider or each.model} {_failure(each)}" for each in rows if each.state == "failed"]
    )
    first = sorted([each.first_ms for each in rows if each.first_ms is not None])
    material = Counter[str]()
    for each in rows:
        material.update({code: n for code, n in each.code_counts.items() if severity_of(code) == "material"})
    return {
        "requests": len(rows),
        "failed": sum(failures.values()),
        "failures": failures.most_common(3),
        "input": sum([each.input or 0 for each in rows]),
        "cached": sum([each.cached for each in rows]),
        "output": sum([each.output or 0 for each in rows]),
        **_cost(rows),
        "first_p50": percentile(first, 0.5),
        "first_p95": percentile(first, 0.95),
        "material": sum([each.losses.get("material", 0) for each in rows]),
        "material_codes": material.most_common(3),
    }


def _failure(row: RecordingSummary) -> str:
    if row.cut:
        return "cut"
    return str(row.status) if row.status >= 400 else "gone"


def _cost(rows: Iterable[RecordingSummary]) -> Wire:
    """`unpriced`: exchanges with tokens whose price is not known; they are not in `cost`."""
    known = [each.cost for each in rows if each.cost is not None]
    unpriced = sum([each.cost is None and bool(each.input) for each in rows])
    return {"cost": sum(known) if known else None, "unpriced": unpriced}


def _buckets(rows: Sequence[RecordingSummary], begin: float, width: float) -> list[Wire]:
    """Stretches of equal length, oldest first."""
    inside: dict[int, list[RecordingSummary]] = defaultdict(list)
    for each in rows:
        inside[min(int((each.time - begin) / width), _BUCKETS - 1)].append(each)
    return [
        {
            "time": begin + number * width,
            "requests": len(held),
            "failed": sum([each.state == "failed" for each in held]),
            "input": sum([(each.input or 0) - each.cached for each in held]),
            "cached": sum([each.cached for each in held]),
            "output": sum([each.output or 0 for each in held]),
            "cost": _cost(held)["cost"] or 0,
            "first": percentile(sorted([each.first_ms for each in held if each.first_ms is not None]), 0.5),
            "material": sum([each.losses.get("material", 0) for each in held]),
        }
        for number in range(_BUCKETS)
        for held in (inside.get(number, []),)
    ]


def _money(rows: Sequence[RecordingSummary], name_of: Callable[[RecordingSummary], str]) -> list[Wire]:
    groups: dict[str, list[RecordingSummary]] = defaultdict(list)
    for each in rows:
        if each.input or each.output:
            groups[name_of(each)].append(each)
    found = [
        {
            "name": name,
            "requests": len(held),
            "input": sum([each.input or 0 for each in held]),
            "output": sum([each.output or 0 for each in held]),
            **_cost(held),
        }
        for name, held in groups.items()
    ]
    return sorted(found, key=lambda it: (it["cost"] or 0, it["input"]), reverse=True)[:_MOST_ROWS]


def _latency(rows: Sequence[RecordingSummary]) -> list[Wire]:
    groups: dict[str, list[RecordingSummary]] = defaultdict(list)
    for each in rows:
        if each.state == "done" and each.target and each.first_ms is not None:
            groups[each.target].append(each)
    found: list[Wire] = []
    for name, held in groups.items():
        first = sorted([each.first_ms or 0 for each in held])
        whole = sorted([each.ms or 0 for each in held])
        found.append(
            {"name": name, "requests": len(held), "whole": percentile(whole, 0.5)}
            | {f"p{round(part * 100)}": percentile(first, part) for part in (0.5, 0.95, 0.99)}
        )
    return sorted(found, key=lambda it: -it["requests"])[:_MOST_ROWS]


def _codes(rows: Sequence[RecordingSummary]) -> list[Wire]:
    """Losses, not exchanges with losses."""
    counts, exchanges = Counter[str](), Counter[str]()
    for each in rows:
        counts.update(each.code_counts)
        exchanges.update(each.codes)
    order = {"material": 0, "minor": 1, "cosmetic": 2}
    found = [
        {"code": code, "count": count, "exchanges": exchanges[code], "severity": severity_of(code)}
        for code, count in counts.most_common()
    ]
    return sorted(found, key=lambda it: (order[it["severity"]], -it["count"]))


def _provider(name: str, protocol: str, rows: Sequence[RecordingSummary], circuit: float | None) -> Wire:
    mine = [each for each in rows if name in each.providers or each.provider == name]
    first = sorted([each.first_ms for each in mine if each.first_ms is not None and each.provider == name])
    failed = [each for each in mine if each.state == "failed"]
    last = max(failed, key=lambda each: each.time, default=None)
    return {
        "name": name,
        "protocol": protocol,
        "requests": len(mine),
        "failed": len(failed),
        "p50": percentile(first, 0.5),
        "p95": percentile(first, 0.95),
        "input": sum([each.input or 0 for each in mine]),
        "cached": sum([each.cached for each in mine]),
        **_cost(mine),
        "circuit_seconds": circuit,
        "last_failure": {"time": last.time, "what": _failure(last), "error": last.error} if last else None,
    }


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The nearest of the values, which are sorted; None of none."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else None
