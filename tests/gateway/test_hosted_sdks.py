"""The runners of the vendors' SDKs with hosted tools, over upstreams of each protocol that have none: MCP
servers and approvals, searches beside tools of the program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import anthropic
import google.genai
import openai
import pytest
from google.genai import types

from dragoman.core import jsontext
from dragoman.gateway.config import load
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.settings import build_executors
from dragoman.http.client import Client
from gateway.canned import Answer, Canned
from gateway.hosted_stand import PAGE, SEARCHED, Search, calls_of, lacking, text_of
from gateway.running import running
from gateway.stands import Stand, gateway
from mcp_servers import sky_server

UPSTREAMS = (
    "openai-chat",
    "anthropic",
    "openai-responses",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
)
WAYS = [
    pytest.param(upstream, stream, id=f"{upstream}-{'streamed' if stream else 'whole'}")
    for upstream in UPSTREAMS
    for stream in (False, True)
]
WEATHER = ("get_weather", '{"city": "Oslo"}')
MINE = ("mine", "{}")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with sky_server() as url:
        yield url


@contextlib.contextmanager
def serving(upstream: str, server: str, *answers: Answer) -> Iterator[tuple[Stand, Canned]]:
    settings = load(f'[hosted.mcp]\nallowed_hosts = ["{server.split("/")[2]}"]\n', {}).hosted
    assert settings
    hosted = HostedTools([Search(), *build_executors(settings, Client(environ={})).values()])
    model = Canned(*answers)
    with running(model) as url, gateway(lacking(upstream, url), hosted=hosted) as stand:
        yield stand, model


def responded(client: openai.OpenAI, stream: bool, **body: Any) -> Any:
    if not stream:
        return client.responses.create(**body)
    with client.responses.stream(**body) as events:
        return events.get_final_response() if [*events] else None


@pytest.mark.parametrize(("upstream", "stream"), WAYS)
def test_openai_approves_a_call_and_denies_another(server: str, upstream: str, stream: bool) -> None:
    answers = calls_of(upstream, WEATHER, stream=stream), text_of(upstream, "Warm.", stream)
    tools: Any = [{"type": "mcp", "server_label": "sky", "server_url": server}]
    with serving(upstream, server, *answers[:1], *answers[:1], answers[1]) as (stand, model):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        body: Any = {"model": f"{upstream}:m", "tools": tools}
        first = responded(client, stream, input="Oslo?", **body)
        listed, question = first.output[0], first.output[-1]
        no = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": False}
        second = responded(client, stream, input=[no], previous_response_id=first.id, **body)
        question = second.output[-1]
        yes = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}
        third = responded(client, stream, input=[yes], previous_response_id=second.id, **body)
    assert (listed.type, len(listed.tools), question.name) == ("mcp_list_tools", 3, "get_weather")
    call, said = third.output
    assert (call.type, call.output, call.approval_request_id) == ("mcp_call", "72°F in Oslo", question.id)
    assert said.content[0].text == "Warm."
    told = model.requests[-1].body.decode()
    assert "did not allow this call" in told
    assert "72°F in Oslo" in jsontext.dumps(model.requests[-1].json)


@pytest.mark.parametrize(("upstream", "stream"), WAYS)
def test_the_tool_runner_of_anthropic(server: str, upstream: str, stream: bool) -> None:
    """A search, a call of the MCP server and a tool of the program in one reply: the runner runs its own
    alone, and sends the blocks of the others back."""
    ran: list[str] = []

    @anthropic.beta_tool
    def mine() -> str:
        """Mine."""
        ran.append("mine")
        return "mine says"

    all_three = calls_of(upstream, SEARCHED, WEATHER, MINE, stream=stream)
    with serving(upstream, server, all_three, text_of(upstream, "Warm.", stream)) as (stand, model):
        client = anthropic.Anthropic(base_url=stand.url, api_key="k")
        runner: Any = client.beta.messages.tool_runner(
            model=f"{upstream}:m",
            max_tokens=99,
            messages=[{"role": "user", "content": "Oslo?"}],
            tools=[
                mine,
                {"type": "web_search_20250305", "name": "web_search"},
                {"type": "mcp_toolset", "mcp_server_name": "sky"},
            ],
            mcp_servers=[{"type": "url", "name": "sky", "url": server}],
            betas=["mcp-client-2025-11-20"],
            stream=stream,
        )
        if stream:
            replies = []
            for events in runner:
                for _ in events:
                    pass
                replies.append(events.get_final_message())
        else:
            replies = [*runner]
    assert ran == ["mine"]
    kinds = [block.type for block in replies[0].content]
    assert {"server_tool_use", "web_search_tool_result", "mcp_tool_use", "mcp_tool_result"} < {*kinds}
    assert (replies[0].stop_reason, replies[1].stop_reason) == ("tool_use", "end_turn")
    assert replies[1].content[-1].text == "Warm."
    told = jsontext.dumps(model.requests[-1].json)
    for found in ("18 degrees", "72°F in Oslo", "mine says"):
        assert told.count(found) == 1, found


@pytest.mark.parametrize(("upstream", "stream"), WAYS)
def test_google_genai_searches_and_calls_functions_by_itself(
    server: str, upstream: str, stream: bool
) -> None:
    ran: list[str] = []

    def mine() -> str:
        """Mine."""
        ran.append("mine")
        return "mine says"

    both = calls_of(upstream, SEARCHED, MINE, stream=stream)
    said = f"It is [18 degrees]({PAGE})."
    with serving(upstream, server, both, text_of(upstream, said, stream)) as (stand, model):
        client = google.genai.Client(api_key="k", http_options=types.HttpOptions(base_url=stand.url))
        config = types.GenerateContentConfig(tools=[mine, types.Tool(google_search=types.GoogleSearch())])
        asked: Any = {"model": f"{upstream}:m", "contents": "Oslo?", "config": config}
        if stream:
            text = "".join(each.text or "" for each in client.models.generate_content_stream(**asked))
        else:
            text = client.models.generate_content(**asked).text or ""
    assert ran == ["mine"]
    assert text.endswith(said)
    told = jsontext.dumps(model.requests[-1].json)
    assert "18 degrees" in told
    assert told.count("mine says") == 1


@pytest.mark.parametrize(("upstream", "stream"), WAYS)
def test_google_genai_and_an_mcp_server(server: str, upstream: str, stream: bool) -> None:
    answers = calls_of(upstream, WEATHER, stream=stream), text_of(upstream, "Warm.", stream)
    with serving(upstream, server, *answers) as (stand, model):
        client = google.genai.Client(api_key="k", http_options=types.HttpOptions(base_url=stand.url))
        transport = types.StreamableHttpTransport(url=server)
        far = types.McpServer(name="sky", streamable_http_transport=transport)
        config = types.GenerateContentConfig(tools=[types.Tool(mcp_servers=[far])])
        asked: Any = {"model": f"{upstream}:m", "contents": "Oslo?", "config": config}
        if stream:
            text = "".join(each.text or "" for each in client.models.generate_content_stream(**asked))
        else:
            text = client.models.generate_content(**asked).text or ""
    assert text.endswith("Warm.")
    assert "72°F in Oslo" in jsontext.dumps(model.requests[-1].json)


@pytest.mark.parametrize(("upstream", "stream"), WAYS)
def test_interactions_and_an_mcp_server(server: str, upstream: str, stream: bool) -> None:
    """The steps show its call and its result, and the next interaction has them, by id."""
    answers = calls_of(upstream, WEATHER, stream=stream), text_of(upstream, "Warm.", stream)
    with serving(upstream, server, *answers, text_of(upstream, "Warm.")) as (stand, model):
        client = google.genai.Client(api_key="k", http_options=types.HttpOptions(base_url=stand.url))
        asked: Any = {
            "model": f"{upstream}:m",
            "tools": [{"type": "mcp_server", "name": "sky", "url": server}],
        }
        if stream:
            events: list[Any] = list(client.interactions.create(input="Oslo?", stream=True, **asked))
            kinds = [event.step.type for event in events if event.event_type == "step.start"]
            id = next(event for event in events if event.event_type == "interaction.created").interaction.id
        else:
            first: Any = client.interactions.create(input="Oslo?", **asked)
            kinds, id = [step.type for step in first.steps], first.id
        then: Any = client.interactions.create(input="Sure?", previous_interaction_id=id, **asked)
    assert kinds[-3:] == ["mcp_server_tool_call", "mcp_server_tool_result", "model_output"]
    assert then.steps[-1].content[0].text == "Warm."
    assert jsontext.dumps(model.requests[-1].json).count("72°F in Oslo") == 1
