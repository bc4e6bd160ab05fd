"""`make soak`: twenty thousand exchanges, ten thousand idle connections, four times too much work, abuse, and
the longest turn of the event loop for each kind of input."""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from soak import phases, table
from soak.abuse import abuse
from soak.overload import WAYS, overload
from soak.turns import turns


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--exchanges", type=int, help="instead of 20,000")
    parser.add_argument("--connections", type=int, help="instead of 10,000")
    parser.add_argument("--at-a-time", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", action="store_true", help="only the longest turns of the event loop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-soak-") as folder:
        problems = soak(options, 0.05 if options.quick else 1, Path(folder))
    table.of_problems(problems)
    return 1 if problems else 0


def soak(options: argparse.Namespace, share: float, folder: Path) -> list[str]:
    """All parts, each in a folder of its own; what was wrong."""
    if options.turns:
        table.of_turns(turns(_in(folder, "turns"), share))
        return []
    count, tell = options.exchanges or int(20_000 * share), partial(print, file=sys.stderr)
    mixed = phases.mixed(count, options.at_a_time, options.seed, _in(folder, "mixed"), tell=tell)
    table.of_mixed(mixed)
    held = phases.idle_connections(options.connections or int(10_000 * share), 400, _in(folder, "idle"))
    table.of_held(held)
    problems = mixed.problems + held.problems
    for number, way in enumerate(WAYS):
        overloaded = overload(way, 2 if options.quick else 5, _in(folder, str(number)))
        table.of_overload(overloaded)
        problems += overloaded.problems
    abused = abuse(2 if options.quick else 8, _in(folder, "abuse"))
    table.of_abuse(abused)
    table.of_turns(turns(_in(folder, "turns"), share))
    return problems + [problem for each in abused for problem in each.problems]


def _in(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


if __name__ == "__main__":
    sys.exit(main())
