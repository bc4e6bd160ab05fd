"""The mock model and a gateway in front of it, with one model name for each upstream protocol."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Upstream:
    """`model` looks like a name of that vendor: some agents insist."""

    protocol: str
    version: str
    model: str
    extra: str = ""


UPSTREAMS = {
    "openai-chat": Upstream("openai-chat", "/v1", "gpt-4.1"),
    "openai-responses": Upstream("openai-responses", "/v1", "gpt-5"),
    "anthropic": Upstream("anthropic", "", "claude-sonnet-4-5"),
    "gemini": Upstream("gemini", "", "gemini-3-pro-preview"),
}


@contextmanager
def mock(clients: Path, logs: Path) -> Iterator[str]:
    """The address of a scripted model that speaks every protocol."""
    port_file = logs / "mock.port"
    port_file.unlink(missing_ok=True)
    command = [sys.executable, str(clients / "mockserver.py"), "--port", "0", "--portfile", str(port_file)]
    with process([*command, "--log", str(logs / "upstream.jsonl")], logs / "mock.log"):
        while not port_file.exists() or not port_file.read_text().strip():
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port_file.read_text().strip()}"


@contextmanager
def gateway(behind: str, scratch: Path, logs: Path) -> Iterator[str]:
    config = scratch / "dragoman.toml"
    config.write_text("\n".join([*map(provider(behind), UPSTREAMS), "[models]", *map(alias, UPSTREAMS)]))
    log = logs / "gateway.log"
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config), "--port", "0"]
    with process(command, log):
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
            time.sleep(0.05)
        yield found[0]


def provider(behind: str):
    def table(name: str) -> str:
        upstream = UPSTREAMS[name]
        where = f'protocol = "{upstream.protocol}"\nbase_url = "{behind}{upstream.version}"'
        return f'[providers.{name}-mock]\n{where}\napi_key = "dummy-key"\n{upstream.extra}'

    return table


def alias(name: str) -> str:
    return f'"{UPSTREAMS[name].model}" = "{name}-mock:{UPSTREAMS[name].model}"'


@contextmanager
def process(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
