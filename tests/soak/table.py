"""What a soak found, for people."""

from __future__ import annotations

from collections import Counter

from soak.abuse import Abused
from soak.accounts import by_outcome
from soak.overload import ROOM, Overloaded
from soak.phases import HANDLES, MEMORY, Held, Mixed
from soak.plans import SOCKETS
from soak.turns import GOAL, Turn

_SHOWN = 20  # problems


def of_mixed(found: Mixed) -> None:
    count = len(found.outcomes)
    print(f"{count:,} exchanges in {found.seconds:.0f} s, {count / found.seconds:.0f} a second\n")
    print(f"{'planned':28} {'seen':28} {'exchanges':>10}")
    for (planned, seen), number in sorted(by_outcome(found.outcomes).items()):
        print(f"{planned:28} {seen:28} {number:10,}")
    sockets = sum(outcome.plan.number >= SOCKETS for outcome in found.outcomes)
    left = sum(outcome.what == "left" for outcome in found.outcomes)
    clients = f"clients {count:,} (of which {left:,} left, {sockets:,} over WebSocket)"
    print(f"\n{clients} · journal {found.lines:,} · metrics {found.counted:,}")
    print(f"tries {found.tries:,} · seen by the upstream {found.asked:,}\n")
    _of_stages(found)


def _of_stages(found: Mixed) -> None:
    names = [stage.name for stage in found.stages]
    rows = {
        "memory, MB": ([f"{stage.gateway.memory:.1f}" for stage in found.stages], f"+{MEMORY:g}"),
        "open files": ([str(stage.gateway.files) for stage in found.stages], f"+{HANDLES}"),
        "sockets": ([str(stage.gateway.sockets) for stage in found.stages], f"+{HANDLES}"),
        "tasks": ([str(stage.gateway.tasks) for stage in found.stages], "+0"),
        "pooled connections": ([str(stage.gateway.pooled) for stage in found.stages], ""),
        "the scripted model, MB": ([f"{stage.upstream:.1f}" for stage in found.stages], ""),
    }
    print(f"{'gateway':28}" + "".join(f"{name:>10}" for name in [*names, "allowed"]))
    for name, (values, most) in rows.items():
        print(f"{name:28}" + "".join(f"{value:>10}" for value in [*values, most]))


def of_held(found: Held) -> None:
    seen = Counter(outcome.what for outcome in found.outcomes)
    print(f"\nidle connections: {found.held:,} held, {found.each:.1f} kB each", end="")
    print(f", for {found.seconds:.0f} s; meanwhile {dict(seen)}")
    if found.limit.note:
        print(found.limit.note)


def of_overload(found: Overloaded) -> None:
    offered = len(found.outcomes) / found.seconds
    print(f"\noverload, {found.way}: {found.capacity:.0f} a second without it, {offered:.0f} offered", end="")
    print(f", {found.answered:.0f} answered; at most {found.busiest} at a time in the upstream, of {ROOM}")
    for (what, status), number in sorted(Counter((o.what, o.status) for o in found.outcomes).items()):
        print(f"    {what} {status:<20} {number:10,}", end="")
        print(f"    99 of 100 within {found.slowest.get(what, 0):.2f} s")
    print(f"    afterwards {dict(Counter(outcome.what for outcome in found.afterwards))}")


def of_problems(problems: list[str]) -> None:
    for problem in problems[:_SHOWN]:
        print(f"WRONG: {problem}")
    print(f"\n{len(problems)} problems" if problems else "\neverything adds up")


def of_abuse(found: list[Abused]) -> None:
    print("abuse                          peak, MB   allowed")
    for each in found:
        print(f"{each.name:30} {each.peak:8.0f}  {each.most:8.0f}   {each.note}")
    print()


def of_turns(found: list[Turn]) -> None:
    print(f"the longest callback of the event loop, CPU time (goal: {GOAL:.0f} ms)")
    for each in sorted(found, key=lambda turn: -turn.longest):
        mark = "!" if each.longest > GOAL else " "
        print(f"  {mark} {each.name:42} {each.longest:7.0f} ms  {each.what:60}  {each.note}")
    print()
