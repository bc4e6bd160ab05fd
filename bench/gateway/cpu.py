"""`python -m bench.gateway.cpu`: CPU of the gateway per request and per stream event, beside another commit.

python -m bench.gateway.cpu --quick --against main      # about two minutes, while working on the hot path
python -m bench.gateway.cpu --against 466c9c9 --write   # everything, into the docs

All gateways run at the same time on one core, upstream and load on the other. They take turns row by row and
round by round, and the smallest figure of each counts.
"""

import argparse
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway.commits import gateway_at
from bench.gateway.contenders import DRAGOMAN, LIMIT, RELAY, Gateway
from bench.gateway.figures import Measurements
from bench.gateway.measure import Running, why_not
from bench.gateway.pairs import CHAT_CHAT, Pair
from bench.gateway.processes import OTHERS, raise_priority
from bench.gateway.rows import OF_PROCESS, Row, rows
from bench.gateway.run import begin, progress
from bench.gateway.table import head
from bench.gateway.table import row as line
from bench.gateway.upstream import Upstream, serving
from bench.gateway.writing import ROOT, circumstances, publish_between
from bench.gateway.wrk import LoadFailed
from bench.imports import import_cost

FIGURES = ROOT / "bench/results/cpu.json"
LIMITS = (LIMIT.name, RELAY.name)
ROUNDS, QUICK_ROUNDS = 20, 5


@dataclass(slots=True)
class CpuFigures:
    """The smallest figures, by title of the row and name of the gateway; a commit's name is its id."""

    against: list[str]
    made_by: str = ""
    best: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])

    def add(self, row: Row, name: str, value: float) -> None:
        best = self.best.setdefault(row.title, {})
        best[name] = min(value, best.get(name, value))


def measured(commits: Sequence[Gateway], wanted: Sequence[Row], rounds: int, made_by: str) -> CpuFigures:
    figures = CpuFigures([gateway.name for gateway in commits], made_by)
    os.sched_setaffinity(0, {OTHERS})
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        upstream = stack.enter_context(serving(place))
        gateways = [DRAGOMAN, *commits, LIMIT, RELAY]
        running = [one for each in gateways if (one := started(stack, each, place, upstream, figures))]
        right = {one.gateway.name: set(pairs_of(one, wanted)) for one in running}
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            for row in wanted:
                for one in running if number % row.every == 0 else ():
                    if row.pair in right[one.gateway.name]:
                        take(row, one, figures)
    return figures


def pairs_of(one: Running, wanted: Sequence[Row]) -> Iterator[Pair]:
    """The pairs that it offers and whose replies are right."""
    for pair in {row.pair for row in wanted if row.pair and one.offers(row.pair)}:
        if reason := why_not(one, pair):
            progress(f"{one.gateway.name}, {pair.title}: {reason}")
        else:
            yield pair


def started(
    stack: ExitStack, gateway: Gateway, place: Path, upstream: Upstream, figures: CpuFigures
) -> Running | None:
    taken = Measurements()
    one = begin(stack, gateway, place, upstream, taken)
    if one is None:
        progress(f"{gateway.name}: {taken.notes}")
        return None
    if gateway.endpoint is DRAGOMAN.endpoint:
        env = gateway.start(place, one.port, upstream).env
        taken.values["import"] = import_cost("import dragoman", env=env).seconds
    for key, row in OF_PROCESS.items():
        if key in taken.values:
            figures.add(row, gateway.name, taken.values[key])
    return one


def take(row: Row, one: Running, figures: CpuFigures) -> None:
    if not row.take or (one.gateway.name in LIMITS and not row.has_limit):
        return
    try:
        figures.add(row, one.gateway.name, row.take(one))
    except (LoadFailed, OSError) as error:
        progress(f"{one.gateway.name}, {row.title}: {error}")


def report(figures: CpuFigures) -> str:
    return "\n".join([*table(figures), "", f"Made by {figures.made_by}."])


def table(figures: CpuFigures) -> Iterator[str]:
    """The limits are those of Chat → Chat. Ratios are those to the first of the other commits."""
    names = [*figures.against, DRAGOMAN.name]
    yield from head(["µs of CPU", "client → upstream", *names, "ratio", *LIMITS, "mark", ""])
    limits = {row.what: figures.best.get(row.title, {}) for row in rows() if row.pair in (CHAT_CHAT, None)}
    for row in rows():
        values = figures.best.get(row.title, {})
        if (ours := values.get(DRAGOMAN.name)) is None:
            continue
        other = values.get(figures.against[0]) if figures.against else None
        limit = limits.get(row.what, {})
        least = min((limit[name] for name in LIMITS if name in limit), default=None)
        yield line(
            [
                row.what,
                row.pair.title if row.pair else "",
                *(number(row, values, name) for name in names),
                f"{ours / other:.2f}" if other else "",
                *(number(row, limit, name) for name in LIMITS),
                str(row.mark),
                VERDICTS[row.mark.kept(ours, other, least)],
            ]
        )


VERDICTS = {True: "kept", False: "**missed**", None: ""}


def number(row: Row, values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:,.{row.digits}f}" if name in values else ""


def saved() -> CpuFigures:
    return CpuFigures(**json.loads(FIGURES.read_text()))


def write(figures: CpuFigures) -> None:
    made = {"against": figures.against, "made_by": figures.made_by, "best": figures.best}
    FIGURES.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    publish_between("cpu", report(figures))


def main() -> None:
    chosen = arguments()
    os.environ["PATH"] += ":/usr/sbin"  # where Debian keeps nginx, which not everybody's path names
    raise_priority(chosen.nice)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    if chosen.saved:
        figures = saved()
    else:
        commits = [gateway_at(ref) for ref in chosen.against]
        figures = measured(commits, chosen_rows(chosen), rounds, circumstances("bench.gateway.cpu"))
    print(report(figures))
    if chosen.write:
        write(figures)


def chosen_rows(chosen: argparse.Namespace) -> list[Row]:
    able = (row for row in rows() if row.is_quick or not chosen.quick)
    return [row for row in able if any(part in row.title for part in chosen.rows or [""])]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", action="append", default=[], metavar="REF", help="another commit")
    parser.add_argument("--rows", action="append", metavar="PART", help="of titles, such as '150 kB, 5 %%'")
    parser.add_argument("--rounds", type=int, help="best of so many")
    parser.add_argument("--quick", action="store_true", help="fewer rows, best of five rounds")
    parser.add_argument("--write", action="store_true", help="keep the figures and renew the page")
    parser.add_argument("--saved", action="store_true", help="measure nothing, show the kept figures")
    parser.add_argument("--nice", type=int, default=0, help="-10, as root, where others work")
    return parser.parse_args()


if __name__ == "__main__":
    main()
