"""What `import dragoman`, its client and its gateway cost a fresh process: seconds and MB, best of several.

The start of a whole gateway, up to its first answer, and its idle memory are bars of `bench.gateway`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from bench.bars import line

TURNS = 7
GATEWAY = "import dragoman.gateway.process.serve"
BARS = {  # seconds, MB
    "import dragoman": (0.15, 30),
    "from dragoman import run": (0.4, 50),
    GATEWAY: (0.6, 55),
}
PROGRAM = """
import resource, time
start = time.perf_counter()
{}
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


class Cost(NamedTuple):
    seconds: float
    megabytes: float


def show_imports() -> None:
    print("\nImports in a fresh process, best of several: seconds and MB")
    for statement, (seconds, megabytes) in BARS.items():
        cost = import_cost(statement)
        print(line(f"{statement}, s", cost.seconds, seconds, at_most=True))
        print(line(f"{statement}, MB", cost.megabytes, megabytes, at_most=True))


def import_cost(statement: str, turns: int = TURNS, env: Mapping[str, str] | None = None) -> Cost:
    costs: list[Cost] = []
    for _ in range(turns):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(statement)],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, **(env or {})},
        )
        seconds, kilobytes = map(float, ran.stdout.split())
        costs.append(Cost(seconds, kilobytes / 1024))
    return Cost(min(cost.seconds for cost in costs), min(cost.megabytes for cost in costs))


if __name__ == "__main__":
    show_imports()
