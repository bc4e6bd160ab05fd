"""`make soak`: twenty thousand exchanges, ten thousand idle connections, four times too much work."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from soak import phases, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--exchanges", type=int, help="instead of 20,000")
    parser.add_argument("--connections", type=int, help="instead of 10,000")
    parser.add_argument("--at-a-time", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    share = 0.05 if options.quick else 1
    with tempfile.TemporaryDirectory(prefix="dragoman-soak-") as name:
        folders = [Path(name) / part for part in ("mixed", "idle", "overload")]
        for folder in folders:
            folder.mkdir()
        count = options.exchanges or int(20_000 * share)
        found = phases.mixed(count, options.at_a_time, options.seed, folders[0])
        table.of_mixed(found)
        held = phases.idle_connections(options.connections or int(10_000 * share), 400, folders[1])
        table.of_held(held)
    problems = found.problems + held.problems
    table.of_problems(problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
