"""What nests as deeply as can just be read may be too deep for what is made of it: it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman import Exchange
from dragoman.core.errors import WireError
from dragoman.protocols import names

DIALECTS = (None, "hermes", "pythonic", "roo-xml", "qwen3-coder")
# From where a dialect gives up to where nothing is read any more; newer Pythons read deeper
LEVELS = (300, 470, *range(480, 500), 5_000, 50_000)


def nested(levels: int) -> str:
    return '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels


def request(levels: int) -> bytes:
    call = f'{{"type":"tool_use","id":"c","name":"t","input":{nested(levels)}}}'
    tool = f'{{"name":"t","input_schema":{nested(levels)}}}'
    return (
        f'{{"model":"m","max_tokens":9,"tools":[{tool}],"messages":[{{"role":"user","content":"x"}},'
        f'{{"role":"assistant","content":[{call}]}},{{"role":"user","content":"y"}}]}}'
    ).encode()


def reply(levels: int) -> str:
    call = f'{{"functionCall":{{"name":"t","args":{nested(levels)}}}}}'
    return f'{{"candidates":[{{"content":{{"parts":[{call}]}},"finishReason":"STOP"}}]}}'


def problems(work: Callable[[int], object]) -> set[str]:
    problems_found: set[str] = set()
    for levels in LEVELS:
        try:
            work(levels)
        except WireError as error:
            problems_found.add(error.problem)
    return problems_found


def are_about_depth(problems_found: set[str]) -> bool:
    return bool(problems_found) and all("deep" in problem or "depth" in problem for problem in problems_found)


@pytest.mark.parametrize("way", ["request", "request_bytes"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("upstream", names())
def test_a_request_is_translated_or_refused(upstream: str, dialect: str | None, way: str) -> None:
    def ask(levels: int) -> None:
        getattr(Exchange("anthropic", upstream, dialect), way)(request(levels))

    problems_found = problems(ask)
    passes = (upstream, dialect, way) == ("anthropic", None, "request_bytes")  # unread, where that can be
    assert are_about_depth(problems_found) or (passes and not problems_found)


@pytest.mark.parametrize("client", names())
def test_a_reply_is_translated_or_an_error(client: str) -> None:
    def answer(levels: int) -> None:
        exchange = Exchange(client, "gemini")
        exchange.response(reply(levels))
        if exchange.failure:  # what cannot be read is an error of the upstream
            raise WireError("gemini", "", exchange.failure.message)

    assert are_about_depth(problems(answer))


@pytest.mark.parametrize("client", names())
def test_a_stream_goes_on_or_ends_in_a_failure(client: str) -> None:
    for levels in LEVELS:
        stream = Exchange(client, "gemini").stream()
        assert stream.feed(f"data: {reply(levels)}\n\n".encode()) + stream.close()
        assert stream.ended
