"""A relay in C that copies bytes: what the kernel alone costs. Compiled when it is started."""

import shutil
import subprocess
from pathlib import Path

from bench.gateway.contenders.base import Endpoint, Gateway, Missing, Start
from bench.gateway.pairs import PATHS, Kind, Pair
from bench.gateway.upstream import Upstream

SOURCE = Path(__file__).with_suffix(".c")


def version() -> str:
    if not shutil.which("cc"):
        raise Missing("there is no C compiler (Debian: gcc)")
    return "-O2"


def start(place: Path, port: int, upstream: Upstream) -> Start:
    program = place / "relay"
    subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
    return Start([str(program), str(port), str(upstream.fast), str(upstream.slow)])


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint | None:
    return None if pair.translates else Endpoint(f"/{pair.upstream}/{kind}{PATHS[pair.client]}", "m")


RELAY = Gateway("C relay", version, start, endpoint)
