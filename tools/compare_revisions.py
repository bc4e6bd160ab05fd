"""Whether this tree translates requests like an earlier revision: the same bytes, the same losses in order.

    python tools/compare_revisions.py 212910d [--examples 40]

The requests are those of the laws: sessions that grow, broken histories, generated ones, each fact varied
(`tests/laws/corpus.py`). The earlier revision translates them in a work tree of its own, without a memory;
this one with and without.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent


class Session(msgspec.Struct):
    """Requests that one client sends to one upstream, in this order; `how` are parameters of `Exchange`."""

    client: str
    upstream: str
    bodies: list[bytes]
    how: dict[str, Any] = {}
    profile: dict[str, Any] | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description="Translate as an earlier revision did")
    parser.add_argument("revision")
    parser.add_argument("--examples", type=int, default=40, help="generated conversations for each client")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.json")
        make = [sys.executable, "-m", "laws.corpus", str(given.examples)]
        made = subprocess.run(make, cwd=ROOT / "tests", stdout=subprocess.PIPE, check=True)
        corpus.write_bytes(made.stdout)
        tree = Path(folder, "earlier")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", str(tree), given.revision], check=True)
        try:
            expected = run(tree, corpus, "plain")
            found = {mode: run(ROOT, corpus, mode) for mode in ("plain", "memory")}
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        sys.exit(report(msgspec.json.decode(corpus.read_bytes(), type=list[Session]), expected, found))


def report(corpus: list[Session], expected: list[list[Any]], found: dict[str, list[list[Any]]]) -> int:
    different = 0
    for mode, outcomes in found.items():
        for session, before, after in zip(corpus, expected, outcomes, strict=True):
            for place, (old, new) in enumerate(zip(before, after, strict=True)):
                if old == new:
                    continue
                different += 1
                if different <= 10:
                    what = [
                        name
                        for name, a, b in zip(("bytes", "losses", "rest"), old, new, strict=True)
                        if a != b
                    ]
                    about = session.client, session.upstream, session.how, session.profile
                    print(mode, *about, f"request {place}:", *what, session.bodies[place][:3000].decode())
    print(f"{sum(map(len, expected))} requests, {different} translated otherwise")
    return min(different, 100)


def run(tree: Path, corpus: Path, mode: str) -> list[list[Any]]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, __file__, "--translate", mode, str(corpus)]
    done = subprocess.run(command, env=environment, cwd=corpus.parent, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout)


def translate(mode: str, corpus: Path) -> None:
    """Digests of what each request becomes, as JSON; this half runs in both trees."""
    import dragoman
    from dragoman.core.model_profile import ModelProfile

    made: list[list[Any]] = []
    for session in msgspec.json.decode(corpus.read_bytes(), type=list[Session]):
        how: dict[str, Any] = {**session.how}
        if session.profile is not None:
            how["profile"] = msgspec.convert(session.profile, ModelProfile)
        if mode == "memory":
            how["memory"] = dragoman.ConversationMemory()
        outcomes: list[Any] = []
        for body in session.bodies:
            exchange = dragoman.Exchange(session.client, session.upstream, **how)
            try:
                sent = exchange.request_bytes(body)
            except dragoman.DragomanError as error:
                sent = str(error).encode()
            rest = exchange.path, exchange.headers
            outcomes.append([digest(each) for each in (sent, list(map(str, exchange.losses)), rest)])
        made.append(outcomes)
    sys.stdout.buffer.write(msgspec.json.encode(made))


def digest(value: Any) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else repr(value).encode()).hexdigest()[:16]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--translate"]:
        translate(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
