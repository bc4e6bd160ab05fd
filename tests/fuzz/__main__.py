"""`make fuzz`: every parser and every route with spoiled input. Exits with 1 where one of them broke."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from fuzz import routes
from fuzz.parsers import targets
from fuzz.running import Found, fuzz_parser, fuzz_routes, fuzz_upstreams


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="for each parser and each kind of request")
    parser.add_argument("--seed", type=int, default=0, help="another one makes other inputs")
    parser.add_argument("only", nargs="?", default="", help="a part of the name of what is to be fuzzed")
    options = parser.parse_args()
    count, seed = options.inputs, options.seed
    rows: dict[str, Callable[[], Found]] = {
        target.name: lambda target=target: fuzz_parser(target, count, seed) for target in targets()
    }
    rows["routes, broken bodies"] = lambda: fuzz_routes(routes.bodies, count, seed)
    rows["routes, broken HTTP"] = lambda: fuzz_routes(routes.wild, count, seed)
    rows["routes, broken upstreams"] = lambda: fuzz_upstreams(count, seed)
    found = [_shown(name, row) for name, row in rows.items() if options.only in name]
    broken = sum(len(each.bugs) for each in found)
    print(f"{sum(each.inputs for each in found):,} inputs, {broken} bugs")
    return 1 if broken else 0


def _shown(name: str, row: Callable[[], Found]) -> Found:
    began = time.perf_counter()
    found = row()
    counts = f"{found.inputs:8,} inputs {found.refused:8,} refused"
    print(f"{name:42} {counts} {time.perf_counter() - began:7.1f} s", flush=True)
    for where, value in found.bugs.items():
        print(f"   {found.times[where]} × {where}\n      {str(value)[:600]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
