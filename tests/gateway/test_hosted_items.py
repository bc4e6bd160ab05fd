"""What clients see of executed calls: items while they run, citations, counts, MCP listings and approvals,
read by the vendors' own SDKs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
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
from gateway.canned import Answer, Canned, provider
from gateway.hosted_stand import (
    ASKED,
    NONE,
    PAGE,
    SEARCHED,
    TOOL,
    Search,
    calls_of,
    frames_of,
    path_and_body,
    text_of,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import Stand, gateway
from mcp_servers import sky_server
from waiting import LONG

CHAT = "openai-chat"
CITED = f"It is [18 degrees]({PAGE}) now."
LINK = f"[18 degrees]({PAGE})"


@contextlib.contextmanager
def searching(*answers: Answer, search: Any = None) -> Iterator[tuple[Stand, Canned]]:
    model = Canned(*answers)
    with (
        running(model) as url,
        gateway(provider("one", url), hosted=HostedTools([search or Search()])) as stand,
    ):
        yield stand, model


def test_a_stream_of_responses_shows_a_search_while_it_runs() -> None:
    """The item opens before the model has ended its round, and closes at the same place."""
    once = calls_of(CHAT, SEARCHED, stream=True), text_of(CHAT, CITED, True)
    with searching(*once, *once) as (stand, _):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        with client.responses.stream(model="one:m", input="W?", tools=[{"type": "web_search"}]) as events:
            seen = [event.type for event in events]
            reply = events.get_final_response()
        path, body = path_and_body("openai-responses", True)
        checked = send(stand.url, "POST", path, jsontext.encode(body)).response("openai-responses")
    item = "response.web_search_call"
    steps = [kind for kind in seen if kind.startswith(item) or "output_item" in kind]
    assert steps[2:7] == [
        "response.output_item.added",
        f"{item}.in_progress",
        f"{item}.searching",
        f"{item}.completed",
        "response.output_item.done",
    ]
    search: Any = reply.output[1]
    assert (search.status, search.action.sources[0].url) == ("completed", PAGE)
    assert reply.tool_usage
    assert reply.tool_usage.web_search.num_requests == 1
    assert len(checked.parts) == 3


def test_citations_of_responses() -> None:
    with searching(calls_of(CHAT, SEARCHED), text_of(CHAT, CITED)) as (stand, _):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        reply: Any = client.responses.create(model="one:m", input="W?", tools=[{"type": "web_search"}])
    (cited,) = reply.output[2].content[0].annotations
    assert (cited.type, cited.url, cited.title) == ("url_citation", PAGE, "Paris")
    assert CITED[cited.start_index : cited.end_index] == LINK


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_citations_and_counts_of_anthropic(stream: bool) -> None:
    with searching(calls_of(CHAT, SEARCHED, stream=stream), text_of(CHAT, CITED, stream)) as (stand, _):
        client = anthropic.Anthropic(base_url=stand.url, api_key="k")
        body: Any = {**ASKED["anthropic"][1], **TOOL["anthropic"]}
        if stream:
            with client.beta.messages.stream(**body) as events:
                reply: Any = events.get_final_message()
        else:
            reply = client.beta.messages.create(**body)
    (cited,) = reply.content[-1].citations
    assert (cited.type, cited.url, cited.cited_text) == ("web_search_result_location", PAGE, "18 degrees")
    assert reply.usage.server_tool_use.web_search_requests == 1
    assert [block.type for block in reply.content].count("server_tool_use") == 1
    rounds = [(each.type, each.input_tokens, each.output_tokens) for each in reply.usage.iterations]
    assert len(rounds) == 2
    assert {kind for kind, _, _ in rounds} == {"message"}
    assert sum(count for _, count, _ in rounds) == reply.usage.input_tokens
    assert sum(count for _, _, count in rounds) == reply.usage.output_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_citations_of_chat(stream: bool) -> None:
    with searching(calls_of(CHAT, SEARCHED, stream=stream), text_of(CHAT, CITED, stream)) as (stand, _):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        body: Any = {**ASKED[CHAT][1], **TOOL[CHAT]}
        if stream:
            deltas: list[Any] = [
                chunk.choices[0].delta
                for chunk in client.chat.completions.create(**body, stream=True)
                if chunk.choices
            ]
            found = [each for delta in deltas for each in getattr(delta, "annotations", None) or ()]
            cited = found[0]["url_citation"] if isinstance(found[0], dict) else found[0].url_citation
            url = cited["url"]
        else:
            message = client.chat.completions.create(**body).choices[0].message
            assert message.annotations
            url = message.annotations[0].url_citation.url
    assert url == PAGE


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_grounding_of_gemini(stream: bool) -> None:
    with searching(calls_of(CHAT, SEARCHED, stream=stream), text_of(CHAT, CITED, stream)) as (stand, _):
        options = types.HttpOptions(base_url=stand.url)
        client = google.genai.Client(api_key="k", http_options=options)
        asked: Any = {
            "model": "one:m",
            "contents": "W?",
            "config": types.GenerateContentConfig(tools=[types.Tool(google_search=types.GoogleSearch())]),
        }
        if stream:
            replies = list(client.models.generate_content_stream(**asked))
        else:
            replies = [client.models.generate_content(**asked)]
    found = [each.candidates[0].grounding_metadata for each in replies if each.candidates]
    (grounding,) = [each for each in found if each and each.grounding_chunks]
    assert grounding.grounding_chunks
    assert grounding.grounding_chunks[0].web
    assert grounding.grounding_chunks[0].web.uri == PAGE
    assert "".join(each.text or "" for each in replies).endswith(CITED)


def test_a_call_runs_while_the_round_streams_on() -> None:
    """The model goes on only once the search has begun. (A stream of Chat does not say where a call ends.)"""
    search, begun = Search(), threading.Event()
    execute = search.execute

    async def note(*given: Any) -> Any:
        begun.set()
        return await execute(*given)

    search.execute = note  # type: ignore[method-assign]
    first = calls_of("anthropic", SEARCHED, ("web_search", '{"query": "second"}'), stream=True)
    upstream = _Paused(first, begun, text_of("anthropic", "Done.", True))
    path, body = path_and_body("anthropic", True)
    config = provider("one", "URL", "anthropic") + NONE
    with (
        running(upstream) as url,
        gateway(config.replace("URL", url), hosted=HostedTools([search])) as stand,
    ):
        got = send(stand.url, "POST", path, jsontext.encode(body))
    assert b"Done." in got.body
    assert search.queries == ["paris weather", "second"]


class _Paused(Canned):
    """Its first answer waits before its last call, until a thread has set `go`."""

    def __init__(self, first: Answer, go: threading.Event, *then: Answer) -> None:
        super().__init__(first, *then)
        self._go = go

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        async def give_slowly(message: Any) -> None:
            if b"second" in message.get("body", b""):
                assert await asyncio.to_thread(self._go.wait, LONG)
            await give(message)

        await super().__call__(scope, receive, give_slowly)


def test_max_tool_calls_of_responses() -> None:
    path, body = path_and_body("openai-responses", False, max_tool_calls=1)
    search = Search()
    answers = calls_of(CHAT, SEARCHED), calls_of(CHAT, SEARCHED), text_of(CHAT, "Enough.")
    with searching(*answers, search=search) as (stand, model):
        got = send(stand.url, "POST", path, jsontext.encode(body))
    assert len(search.queries) == 1
    assert "answer with what you have" in model.requests[2].json["messages"][-1]["content"]
    assert got.json["output"][-1]["content"][0]["text"] == "Enough."


@pytest.mark.parametrize("client", ["openai-responses", "openai-chat", "gemini"])
def test_at_the_limit_a_model_must_answer(client: str) -> None:
    """These clients do not know that a turn may pause."""
    path, body = path_and_body(client, False)
    with searching(*[calls_of(CHAT, SEARCHED)] * 10, text_of(CHAT, "At last.")) as (stand, model):
        got = send(stand.url, "POST", path, jsontext.encode(body))
    assert b"At last." in got.body
    assert model.requests[9].json.get("tool_choice") in (None, "auto")
    assert model.requests[10].json["tool_choice"] == "none"


def test_a_budget_is_checked_between_rounds() -> None:
    """Each round takes ten tokens."""
    key = '[keys.alice]\nkey = "a-key"\ntokens_per_day = 15\n'
    path, body = path_and_body("anthropic", False)
    model, search = Canned(calls_of(CHAT, SEARCHED)), Search()
    config = provider("one", "URL") + key
    with (
        running(model) as url,
        gateway(config.replace("URL", url), hosted=HostedTools([search])) as stand,
    ):
        got = send(stand.url, "POST", path, jsontext.encode(body), key="a-key")
        record = stand.last()
    assert (got.status, got.json["stop_reason"]) == (200, "pause_turn")
    assert len(model.requests) == 2
    assert (record["hosted"], record["input"]) == ({"web_search": 2}, 14)


# MCP, against a server of the official SDK

WEATHER = ("get_weather", '{"city": "Oslo"}')


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with sky_server() as url:
        yield url


@contextlib.contextmanager
def connecting(server: str, *answers: Answer) -> Iterator[tuple[Stand, Canned]]:
    host = server.split("/")[2]
    settings = load(f'[hosted.mcp]\nallowed_hosts = ["{host}"]\n', {}).hosted
    assert settings
    hosted = HostedTools(build_executors(settings, Client(environ={})).values())
    model = Canned(*answers)
    with running(model) as url, gateway(provider("one", url), hosted=hosted) as stand:
        yield stand, model


def declared(server: str, **more: Any) -> Any:
    return [{"type": "mcp", "server_label": "sky", "server_url": server, **more}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_mcp_server_of_responses(server: str, stream: bool) -> None:
    answers = calls_of(CHAT, WEATHER, stream=stream), text_of(CHAT, "Warm.", stream)
    with connecting(server, *answers) as (stand, model):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        tools = declared(server, require_approval="never")
        if stream:
            with client.responses.stream(model="one:m", input="W?", tools=tools) as events:
                kinds = [event.type for event in events]
                reply: Any = events.get_final_response()
            assert kinds.count("response.mcp_list_tools.completed") == 1
            assert kinds.count("response.mcp_call.completed") == 1
            assert kinds.count("response.mcp_call_arguments.done") == 1
        else:
            reply = client.responses.create(model="one:m", input="W?", tools=tools)
        more: Any = {"input": "And?", "previous_response_id": reply.id, "tools": tools}
        again = ask(client, server, stream, **more)
    listed, _, call, said = reply.output
    assert (listed.type, [tool.name for tool in listed.tools]) == (
        "mcp_list_tools",
        ["get_weather", "set_weather", "search"],
    )
    assert (call.type, call.name, call.output, call.error) == (
        "mcp_call",
        "get_weather",
        "72°F in Oslo",
        None,
    )
    assert said.content[0].text == "Warm."
    assert "mcp_list_tools" not in [item.type for item in again.output]  # it stands in the conversation
    sent = model.requests[2].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]


def ask(client: openai.OpenAI, server: str, stream: bool, **body: Any) -> Any:
    body = {"model": "one:m", "tools": declared(server), **body}
    if not stream:
        return client.responses.create(**body)
    with client.responses.stream(**body) as events:
        return events.get_final_response() if [*events] else None


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "echoed"])
def test_a_call_that_the_client_approves(server: str, stored: bool, stream: bool) -> None:
    """Without `require_approval` every call asks, as at OpenAI."""
    answers = calls_of(CHAT, WEATHER, stream=stream), text_of(CHAT, "Warm.", stream)
    with connecting(server, *answers) as (stand, model):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        first = ask(client, server, stream, input="W?", store=stored)
        question = first.output[-1]
        assert (first.status, question.type, question.name) == (
            "completed",
            "mcp_approval_request",
            "get_weather",
        )
        assert len(model.requests) == 1
        answer = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}
        if stored:
            following: Any = {"input": [answer], "previous_response_id": first.id}
        else:
            echoed = [item.model_dump(exclude_none=True) for item in first.output]
            following = {"input": [{"role": "user", "content": "W?"}, *echoed, answer], "store": False}
        second = ask(client, server, stream, **following)
        third = ask(client, server, stream, **following)  # the client lost the reply and asks again
    call, said = second.output
    assert (call.type, call.output, call.approval_request_id) == ("mcp_call", "72°F in Oslo", question.id)
    assert said.content[0].text == "Warm."
    assert third.output[0].output == "72°F in Oslo"
    sent = model.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert "72°F" in sent[-1]["content"]


def test_a_call_that_the_client_denies(server: str) -> None:
    with connecting(server, calls_of(CHAT, WEATHER), text_of(CHAT, "As you like.")) as (stand, model):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        first = ask(client, server, False, input="W?")
        no = {
            "type": "mcp_approval_response",
            "approval_request_id": first.output[-1].id,
            "approve": False,
            "reason": "Not now.",
        }
        second = ask(client, server, False, input=[no], previous_response_id=first.id)
        third = ask(client, server, False, input="Hm.", previous_response_id=second.id)
    assert [item.type for item in second.output] == ["message"]
    for request in model.requests[1:]:
        (result,) = [message for message in request.json["messages"] if message["role"] == "tool"]
        assert "did not allow" in result["content"]
        assert "Not now." in result["content"]
    assert third.status == "completed"


QUESTION = {"type": "mcp_approval_request", "name": "x", "server_label": "sky", "arguments": "{}"}
QUESTION["id"] = "mcpr_1"
YES = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
WRONG: dict[str, list[Any]] = {
    "an unknown request": [YES],
    "two answers": [QUESTION, YES, {**YES, "approve": False}],
    "two requests": [QUESTION, QUESTION],
}


@pytest.mark.parametrize("case", WRONG)
def test_answers_that_fit_no_question(server: str, case: str) -> None:
    with connecting(server, text_of(CHAT, "x")) as (stand, _):
        body = {"model": "one:m", "input": WRONG[case], "tools": declared(server)}
        got = send(stand.url, "POST", "/v1/responses", jsontext.encode(body))
    assert got.status == 400
    assert "mcpr_" in got.json["error"]["message"]


def test_a_server_that_cannot_be_reached_is_listed_with_its_error(server: str) -> None:
    away = server.rpartition(":")[0] + ":1/mcp"
    path, body = path_and_body("openai-responses", True)
    with connecting(server, text_of(CHAT, "Sorry.", True)) as (stand, _):
        got = send(stand.url, "POST", path, jsontext.encode({**body, "tools": declared(away)}))
    kinds = [frame["type"] for frame in frames_of(got.body)]
    assert "response.mcp_list_tools.failed" in kinds
    item = frames_of(got.body)[-1]["response"]["output"][0]
    assert (item["type"], item["tools"]) == ("mcp_list_tools", [])
    assert item["error"]
