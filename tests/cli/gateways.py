"""Help for tests of commands that serve: real processes, free ports, everything ended with the test."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waiting import wait_until

PROGRAM = [sys.executable, "-m", "dragoman"]
PATIENT = [sys.executable, str(Path(__file__).with_name("patient.py"))]


def surroundings(**variables: str) -> dict[str, str]:
    """No key and no setting of the machine reaches the program under test."""
    kept = ("PATH", "PYTHONPATH", "HOME", "LANG", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
    own = {name: os.environ[name] for name in kept if name in os.environ}
    return {**own, "XDG_CONFIG_HOME": "/nonexistent", **variables}


@contextmanager
def serving(
    directory: Path, *arguments: str, program: list[str] = PROGRAM, **variables: str
) -> Iterator[tuple[str, "subprocess.Popen[bytes]", Path]]:
    """The address of `dragoman serve`, its process and what it prints; a dragoman.toml there is used."""
    log = directory / "serve.log"
    if (directory / "dragoman.toml").exists():
        arguments = ("--config", "dragoman.toml", *arguments)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*program, "serve", "--port", "0", *arguments],
            cwd=directory, env=surroundings(**variables), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield address(log, process), process, log
    finally:
        process.kill()
        process.wait()


def address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    def found() -> str | None:
        said = re.search(r"listens on (http://\S+)", log.read_text())
        assert said or process.poll() is None, log.read_text()
        return said and said[1]

    return wait_until(found) or ""


def ask(url: str, text: str, key: str = "", stream: bool = False, model: str = "demo") -> Any:
    """An Anthropic client's request; the reply read as JSON, or the open stream."""
    body = {
        "model": model,
        "max_tokens": 50,
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
    }
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": key}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)
    reply = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120)
    return reply if stream else json.loads(reply.read())


def status(url: str, key: str = "") -> int:
    try:
        ask(url, "hi", key)
    except urllib.error.HTTPError as error:
        return error.code
    return 200
