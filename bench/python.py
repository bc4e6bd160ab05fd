"""`python3 bench/python.py`: the path of the fastest Python on this machine; the benchmark is made with it.

Distributions and container images compile Python with profile-guided optimisation. Where somebody built one
without it (pyenv does, unless configured otherwise), every contender in Python would look slower than usual.
"""

import os
import shutil
import subprocess
import sys

_CLEARLY = 0.95  # of the time of the Python that was asked for; a smaller gain is not worth another one
_NAMES = ("python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(11, 16)))
# Calls, attributes, dicts: what a gateway does. Also tells whether this Python can make an environment.
_PROBE = """
import ensurepip, sys, time, venv
assert sys.version_info >= (3, 11)
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def moved(self, by): return Point(self.x + by, self.y)
def work():
    begun = time.perf_counter()
    for number in range(100_000): {"at": Point(number, 1).moved(2), "name": f"{number}"}.get("at")
    return time.perf_counter() - begun
print(min(work() for _ in range(5)))
"""


def seconds(python: str) -> float:
    """What the probe takes; forever, where it cannot run."""
    ran = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True)
    return float(ran.stdout) if ran.returncode == 0 else float("inf")


def fastest() -> str:
    found = {os.path.realpath(path): path for name in _NAMES if (path := shutil.which(name))}
    times = {path: seconds(path) for path in found.values()}
    best = min(times, key=times.__getitem__)
    return best if times[best] < _CLEARLY * seconds(sys.executable) else sys.executable


if __name__ == "__main__":
    print(fastest())
