"""How results, runs and errors are shown and pickled."""

import asyncio
import pickle

import pytest

import dragoman
from dragoman import Exchange, Failure, Loss, astream, generate, run, stream, tool
from dragoman.client import Conversation, ToolMessage, UserMessage

ERRORS = [
    dragoman.WireError("gemini", "contents[0]", "expected an object"),
    dragoman.GrammarError("text_delta before its start"),
    dragoman.LossError([Loss("dropped", "seed", "nobody takes it")]),
    dragoman.ConfigError("unknown"),
    dragoman.UpstreamError(Failure("rate_limit", "slow down", 429, retry_after=3)),
    dragoman.OutputError(["city: missing"]),
    dragoman.MissingExtraError("rich", "cli"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_exported_and_can_be_pickled(error: Exception):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert type(error).__name__ in dragoman.__all__


def test_results_can_be_pickled():
    result = generate("Good morning", "demo:any")
    copy = pickle.loads(pickle.dumps(result))
    assert (copy.content, copy.usage, copy.cost) == (result.content, result.usage, result.cost)


def test_reprs_say_what_matters():
    result = generate("Good morning", "demo:any")
    assert repr(result) == (
        f"Result(content='You said: Good morning', model='any', "
        f"usage={result.usage.input}+{result.usage.output} tokens, 1 losses)"
    )
    exchange = Exchange("anthropic", "openai-chat", dialect="hermes")
    assert repr(exchange) == "Exchange(client='anthropic', upstream='openai-chat', dialect='hermes')"


def test_an_exchange_says_whether_its_reply_is_a_stream():
    exchange = Exchange("gemini", "anthropic")
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    assert exchange.streaming is False
    exchange.request(body, model="m", stream=True)
    assert exchange.streaming is True
    same = Exchange("openai-chat", "openai-chat")
    same.request({"model": "m", "messages": [], "stream": True})
    assert same.streaming is True


def test_a_stream_of_text_alone():
    assert "".join(stream("Good morning", "demo:any").texts()) == "You said: Good morning"

    async def read() -> str:
        return "".join([text async for text in astream("Good morning", "demo:any").texts()])

    assert asyncio.run(read()) == "You said: Good morning"


def test_notebooks_show_markdown():
    @tool
    def get_weather(city: str) -> str:
        return "```foggy```"

    done = run("What is the weather in NYC?", "demo:any", [get_weather])
    shown = done._repr_markdown_()
    assert shown.startswith("> What is the weather in NYC?\n\n")
    assert "**→ get_weather**\n\n```json\n" in shown
    assert "**✓ get_weather**\n\n````\n```foggy```\n````" in shown
    assert done.results[-1]._repr_markdown_() == done.content
    failed = ToolMessage(content="no", tool_call_id="1", name="f", failed=True)
    assert failed._repr_markdown_().startswith("**✗ f**")
    assert Conversation([UserMessage("Hello")])._repr_markdown_() == "> Hello"
