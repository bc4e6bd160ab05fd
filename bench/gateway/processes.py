"""Processes under test: pinned to a core, their CPU time and memory read from /proc, children included."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))
TESTED, OTHERS = CORES[0], CORES[-1]
"""The core of the gateway under test, and the one of upstream and load; one core serves for both."""


@contextmanager
def running(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, core: int = OTHERS
) -> Generator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            process_group=0,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """The whole group, because some leave children behind."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=3)


def raise_priority(nice: int) -> None:
    """Of the scheduler's group too: with autogroup, a core is shared between groups first."""
    os.nice(nice)
    if nice:
        Path("/proc/self/autogroup").write_text(str(nice))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for(port: int, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    raise TimeoutError(f"nothing listens on port {port}")


def tree(pid: int) -> list[int]:
    """With the children of every thread."""
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += task.read_text().split()
    return [pid, *(found for child in children for found in tree(int(child)))]


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads so far; in ticks of 10 ms."""
    total = 0
    for member in tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def cpu_microseconds(pid: int) -> float:
    """Of all threads that still run, from the scheduler's own account, which counts in nanoseconds."""
    threads = (path for member in tree(pid) for path in Path(f"/proc/{member}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in threads) / 1000


def memory_kb(pid: int) -> int:
    """Resident memory of this process and its children; pages that they share count for each."""
    return sum(resident_kb(member) for member in tree(pid))


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
