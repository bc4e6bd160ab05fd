"""The gateway and its upstream as real processes, and how they are: memory, handles, sockets, tasks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from cli.gateways import address, surroundings
from dragoman.core import jsontext
from soak.plans import PROVIDERS

HERE = Path(__file__).parent
Labels = tuple[tuple[str, str], ...]
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Process(Struct, frozen=True):
    url: str
    pid: int


class Vitals(Struct, frozen=True, kw_only=True):
    """-1: this machine does not tell. `sockets` leaves out the pooled connections to upstreams."""

    memory: float  # MB
    files: int
    sockets: int
    pooled: int
    tasks: int


@contextmanager
def upstream(pause: float = 0.0) -> Iterator[Process]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "upstream.py"), str(pause)], env=surroundings(), stdout=subprocess.PIPE
    )
    assert process.stdout
    try:
        yield Process(f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def gateway(
    folder: Path,
    upstream: Process,
    limits: str = "",
    each: str = "",
    timeout: float = 6,
    more: str = "",
    program: Sequence[str] = (sys.executable, str(HERE / "collecting_gateway.py")),
) -> Iterator[Process]:
    """`dragoman serve` with a provider for each protocol at `upstream`; its journal is in `folder`.

    `limits` go into the section of that name, `each` into every provider; `timeout`: seconds that an
    upstream may be silent; `more` is appended.
    """
    rows = [f"[server]\ngrace = 3\n[limits]\n{limits}\n", f'[log]\nfile = "{folder / "journal"}"\n']
    rows += [provider(name, upstream.url, timeout) + f"{each}\n" for name in PROVIDERS]
    rows.append(more)
    (folder / "dragoman.toml").write_text("".join(rows))
    log = folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*program, "serve", "--port", "0", "--config", "dragoman.toml"],
            cwd=folder, env=surroundings(), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield Process(address(log, process), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def provider(name: str, url: str, timeout: float) -> str:
    protocol, dialect, _ = PROVIDERS[name]
    version = "/v1" if protocol.startswith("openai") else ""
    rows = [f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{url}{version}"\napi_key = "k"\n']
    rows += [f'dialect = "{dialect}"\n'] if dialect else []
    return "".join([*rows, f"timeouts = {{ connect = 20, first_byte = {timeout}, idle = {timeout} }}\n"])


def vitals(process: Process) -> Vitals:
    """After a collection: the gateway answers for its gauges only when it has ended."""
    os.kill(process.pid, signal.SIGUSR1)
    files, gauges = _looked(process)
    pooled = int(gauges["dragoman_upstream_connections"])
    sockets = sum(name.startswith("socket:") for name in files)
    return Vitals(
        memory=memory(process.pid),
        files=len(files) - pooled if files else -1,
        sockets=sockets - pooled if files else -1,
        pooled=pooled,
        tasks=int(gauges.get("dragoman_tasks", -1)),
    )


def _looked(process: Process) -> tuple[list[str], dict[str, float]]:
    """Files and gauges of one moment: in which nothing was opened or closed."""
    files = _files(process.pid)
    while True:
        gauges = {name: value for (name, labels), value in metrics(process).items() if not labels}
        before, files = files, _files(process.pid)
        if len(before) == len(files):
            return files, gauges


def memory(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return -1
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _files(pid: int) -> list[str]:
    try:
        found = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    return [name for path in found if (name := _linked(path))]


def _linked(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return ""


def metrics(process: Process) -> dict[tuple[str, Labels], float]:
    samples = _SAMPLE.findall(fetch(f"{process.url}/metrics").decode())
    return {(name, tuple(_LABEL.findall(labels))): float(value) for name, labels, value in samples}


def asked(process: Process) -> dict[str, Any]:
    """What the upstream saw."""
    return jsontext.decode(fetch(f"{process.url}/soak"))


def fetch(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers={"connection": "close"}), timeout=60) as reply:
        return reply.read()
