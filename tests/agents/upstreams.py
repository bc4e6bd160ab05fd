"""The models behind, and one gateway in front of each: whatever an agent asks for, that model answers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Upstream:
    """`model` looks like a name of that vendor: translations may depend on it."""

    protocol: str
    model: str
    version: str = ""
    dialect: str = ""


UPSTREAMS = {
    "openai-chat": Upstream("openai-chat", "gpt-4.1", "/v1"),
    "openai-responses": Upstream("openai-responses", "gpt-5", "/v1"),
    "anthropic": Upstream("anthropic", "claude-sonnet-4-5"),
    "gemini": Upstream("gemini", "gemini-3-pro-preview"),
    "hermes": Upstream("openai-chat", "text-model", "/v1", "hermes"),
    "qwen-chat": Upstream("qwen-chat", "text-model", "/v1", "hermes"),
}


@contextmanager
def gateways(names: list[str], clients: Path, logs: Path) -> Iterator[dict[str, str]]:
    """The address of a gateway for each upstream."""
    with ExitStack() as running:
        model = [sys.executable, str(clients / "mockserver.py"), "--log", str(logs / "upstream.jsonl")]
        mock = running.enter_context(started(model, logs / "mock.log"))
        text = running.enter_context(
            started([sys.executable, str(Path(__file__).with_name("textmodel.py"))], logs / "text.log")
        )
        urls: dict[str, str] = {}
        for name in names:
            config = logs / f"{name}.toml"
            config.write_text(configuration(UPSTREAMS[name], text if UPSTREAMS[name].dialect else mock))
            serve = [sys.executable, "-m", "dragoman", "serve", "--config", str(config), "--port", "0"]
            urls[name] = running.enter_context(started(serve, logs / f"{name}.log"))
        yield urls


def configuration(upstream: Upstream, behind: str) -> str:
    dialect = f'dialect = "{upstream.dialect}"\n' if upstream.dialect else ""
    return (
        '[store]\nurl = "memory:"\n'
        f'[providers.behind]\nprotocol = "{upstream.protocol}"\nbase_url = "{behind}{upstream.version}"\n'
        f'api_key = "dummy-key"\n{dialect}[models]\n"*" = "behind:{upstream.model}"\n'
    )


@contextmanager
def started(command: list[str], log: Path, mark: str = "") -> Iterator[str]:
    """The address that a server prints, behind `mark`, when it listens."""
    with log.open("wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(rf"{mark}(http://127\.0\.0\.1:\d+)", log.read_text())):
            if running.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        yield found[1]
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
