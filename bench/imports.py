"""How long `import dragoman` and `from dragoman import run` take, each in a fresh process; the best time."""

import subprocess
import sys

from bench.bars import line

TURNS = 7
BARS = {"import dragoman": 0.15, "from dragoman import run": 0.4}


def show_imports() -> None:
    print("\nImports, seconds in a fresh process, best of several")
    for statement, bar in BARS.items():
        print(line(statement, import_time(statement), bar, at_most=True))


def import_time(statement: str, turns: int = TURNS) -> float:
    program = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    taken = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(turns)
    ]
    return min(taken)


if __name__ == "__main__":
    show_imports()
