"""Another commit of this repository as a gateway under test: its sources, run by the same Python."""

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

from bench.gateway.contenders import DRAGOMAN, Gateway
from bench.gateway.contenders.base import Start
from bench.gateway.upstream import Upstream

ROOT = Path(__file__).parents[2]


def gateway_at(ref: str) -> Gateway:
    """Its dependencies must be among ours; its configuration must know `[providers]` as we write it."""
    commit = git("rev-parse", "--short", f"{ref}^{{commit}}").decode().strip()
    sources = unpacked(commit)

    def start(place: Path, port: int, upstream: Upstream) -> Start:
        usual = DRAGOMAN.start(place, port, upstream)
        return replace(usual, env={**usual.env, "PYTHONPATH": str(sources)})

    return replace(DRAGOMAN, name=commit, version=lambda: commit, start=start)


def unpacked(commit: str) -> Path:
    place = ROOT / "build/commits" / commit
    if not place.exists():
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as archive:
            archive.extractall(place)
    return place / "src"


def git(*arguments: str) -> bytes:
    ran = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    if ran.returncode:
        raise SystemExit(ran.stderr.decode())
    return ran.stdout
