"""Tools that a provider runs itself, run by the client where the provider has none."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import (
    ConfigError,
    Provider,
    UpstreamError,
    agenerate,
    astream,
    dump_messages,
    generate,
    load_messages,
    mcp,
    run,
    stream,
    web_fetch,
    web_search,
)
from dragoman.client import (
    Finish,
    HostedCallEnd,
    HostedCallStart,
    Model,
    ServerTool,
    TextDelta,
    UserMessage,
)
from dragoman.core import jsontext
from gateway.canned import Answer, Canned
from gateway.hosted_stand import PAGE, SEARCHED, calls_of, text_of
from gateway.running import running
from mcp_servers import sky_server

CHAT = "openai-chat"
UPSTREAMS = ("openai-chat", "anthropic", "openai-responses", "gemini")
FOUND = {"results": [{"url": PAGE, "title": "Paris", "content": "18 degrees"}]}
WEATHER = ("get_weather", '{"city": "Oslo"}')


@pytest.fixture
def backend() -> Iterator[ServerTool]:
    """A search whose backend speaks the API of SearXNG."""
    with running(Canned(Answer(200, jsontext.encode(FOUND)))) as url:
        yield web_search("searxng", url=url)


@contextlib.contextmanager
def serving(*answers: Answer, protocol: str = CHAT) -> Iterator[tuple[Model, Canned]]:
    upstream = Canned(*answers)
    none = {"*": {"hosted_tools": []}}
    with running(upstream) as url:
        base = f"{url}/v1" if protocol.startswith("openai") else url
        yield (
            Provider("one", protocol=protocol, base_url=base, api_key="k", profiles=none).model("m"),
            upstream,
        )


@pytest.mark.parametrize("protocol", UPSTREAMS)
def test_a_search_runs_here(protocol: str, backend: ServerTool) -> None:
    answers = calls_of(protocol, SEARCHED), text_of(protocol, f"[18 degrees]({PAGE}).")
    with serving(*answers, protocol=protocol) as (model, upstream):
        result = generate("Weather?", model, tools=[backend])
    assert result.content == f"Let me look. [18 degrees]({PAGE})."
    assert (result.finish_reason, result.usage.input, result.usage.output) == ("stop", 14, 6)
    (call,) = result.hosted_calls
    assert (call.name, call.arguments, call.failed) == ("web_search", {"query": "paris weather"}, False)
    assert call.sources == ({"url": PAGE, "title": "Paris"},)
    assert result.tool_calls == []
    assert "hosted.emulated" in [loss.code for loss in result.losses]
    assert "18 degrees" in jsontext.dumps(upstream.requests[1].json)


@pytest.mark.parametrize("protocol", UPSTREAMS)
def test_events_of_a_stream(protocol: str, backend: ServerTool) -> None:
    answers = calls_of(protocol, SEARCHED, stream=True), text_of(protocol, "Warm.", True)
    with serving(*answers, protocol=protocol) as (model, _):
        with stream("Weather?", model, tools=[backend]) as events:
            seen = list(events)
        result = events.result
    kinds = [type(event) for event in seen]
    assert kinds.index(HostedCallStart) < kinds.index(HostedCallEnd) < len(kinds) - 1
    assert kinds[-1] is Finish
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Let me look. Warm."
    (end,) = [event.call for event in seen if isinstance(event, HostedCallEnd)]
    assert [end] == result.hosted_calls
    assert result.content == "Let me look. Warm."


def test_a_later_request_has_the_call_and_its_result(backend: ServerTool) -> None:
    answers = calls_of(CHAT, SEARCHED), text_of(CHAT, "Warm."), text_of(CHAT, "Yes.")
    with serving(*answers) as (model, upstream):
        first = generate("Weather?", model, tools=[backend])
        stored = load_messages(dump_messages([UserMessage("Weather?"), first]))
        generate([*stored, UserMessage("Sure?")], model, tools=[backend])
        generate([*stored, UserMessage("Sure?")], model)
    roles = [message["role"] for message in upstream.requests[2].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    told = jsontext.dumps(upstream.requests[3].json["messages"])  # without the tool: as text
    assert "18 degrees" in told
    assert "tool_calls" not in told


def test_a_reply_that_also_calls_a_tool_of_the_program(backend: ServerTool) -> None:
    def mine() -> str:
        """Mine."""
        return "mine says"

    with serving(calls_of(CHAT, SEARCHED, ("mine", "{}")), text_of(CHAT, "Done.")) as (model, upstream):
        done = run("Weather?", model, tools=[backend, mine])
    assert done.content == "Done."
    assert len(done.results) == 2
    results = [message for message in upstream.requests[1].json["messages"] if message["role"] == "tool"]
    assert ["18 degrees" in each["content"] for each in results] == [True, False]
    assert results[1]["content"] == "mine says"


def test_a_provider_that_has_the_tool_runs_it(backend: ServerTool) -> None:
    answer = text_of("anthropic", "Warm.")
    upstream = Canned(answer)
    with running(upstream) as url:
        model = Provider("one", protocol="anthropic", base_url=url, api_key="k").model("claude-sonnet-4-5")
        result = generate("Weather?", model, tools=[backend])
    (tool,) = upstream.requests[0].json["tools"]
    assert tool["type"].startswith("web_search_")
    assert result.hosted_calls == []


def test_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEARXNG_URL", "BRAVE_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serving(text_of(CHAT, "x")) as (model, _), pytest.raises(ConfigError, match="SEARXNG_URL"):
        generate("Weather?", model, tools=[web_search()])
    monkeypatch.setenv("BRAVE_API_KEY", "secret")
    assert web_search().settings["backend"] == "brave"
    assert "secret" not in repr(web_search())
    with pytest.raises(ConfigError, match="http address"):
        mcp("ftp://x")


def test_a_page_is_read(backend: ServerTool) -> None:
    page = Canned(Answer(200, b"<h1>Paris</h1>18 degrees", content_type="text/html"))
    with running(page) as url:
        fetch = web_fetch(allowed_hosts=[url.removeprefix("http://")])
        call = ("web_fetch", jsontext.dumps({"url": url}))
        with serving(calls_of(CHAT, call), text_of(CHAT, "Read.")) as (model, _):
            result = generate(f"What does {url} say?", model, tools=[fetch])
    assert "18 degrees" in result.hosted_calls[0].content


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with sky_server() as url:
        yield url


def test_an_mcp_server(server: str) -> None:
    with serving(calls_of(CHAT, WEATHER), text_of(CHAT, "Warm.")) as (model, _):
        result = generate("Weather?", model, tools=[mcp(server, allowed_tools=["get_weather"])])
    (call,) = result.hosted_calls
    assert (call.content, call.server) == ("72°F in Oslo", "127_0_0_1")


def test_an_mcp_program() -> None:
    code = (
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('sky')\n"
        "@server.tool()\n"
        "def get_weather(city: str) -> str:\n"
        "    return f'72°F in {city}'\n"
        "server.run('stdio')\n"
    )
    with serving(calls_of(CHAT, WEATHER), text_of(CHAT, "Warm.")) as (model, _):
        result = generate("Weather?", model, tools=[mcp([sys.executable, "-c", code], name="sky")])
    assert result.hosted_calls[0].content == "72°F in Oslo"


def test_a_failure_of_the_provider_in_a_later_round(backend: ServerTool) -> None:
    down = Answer(400, jsontext.encode({"error": {"message": "no", "type": "x"}}))
    with serving(calls_of(CHAT, SEARCHED), down) as (model, _), pytest.raises(UpstreamError, match="no"):
        generate("Weather?", model, tools=[backend])
    answers = calls_of(CHAT, SEARCHED, stream=True), down
    with (
        serving(*answers) as (model, _),
        stream("Weather?", model, tools=[backend]) as events,
        pytest.raises(UpstreamError, match="no"),
    ):
        list(events)


def test_async_and_leaving_early(backend: ServerTool) -> None:
    """Leaving a stream ends the task that plays it."""

    async def go(model: Model) -> Any:
        async with astream("Weather?", model, tools=[backend]) as events:
            async for event in events:
                assert isinstance(event, TextDelta)
                break
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*tasks, return_exceptions=True)
        return await agenerate("Weather?", model, tools=[backend])

    answers = (
        calls_of(CHAT, SEARCHED, stream=True),
        calls_of(CHAT, SEARCHED),
        text_of(CHAT, "Warm."),
    )
    with serving(*answers) as (model, _):
        assert asyncio.run(go(model)).content.endswith("Warm.")
