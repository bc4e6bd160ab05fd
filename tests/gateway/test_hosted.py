"""Hosted tools that the upstream lacks, executed by the gateway: every client, whole and streamed."""

from __future__ import annotations

import asyncio
import socket
from http.client import HTTPConnection
from threading import Event
from typing import Any

import anthropic
import openai
import pytest

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.model import ToolCall
from dragoman.gateway.config import load
from dragoman.gateway.observability.redaction import secrets_of
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.hosted.executor import CallLimits
from dragoman.hosted.loop import HostedTools
from gateway.canned import Answer, Canned, chat, chunks, provider
from gateway.hosted_stand import (
    ASKED,
    CLIENTS,
    MINE,
    PAGE,
    SEARCHED,
    SSE,
    TOOL,
    Search,
    following,
    frames_of,
    path_and_body,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway
from waiting import LONG, wait_until

OFTEN = RetryPolicy(keep_alive_after=0.05, keep_alive_every=0.05)


def calls(*named: tuple[str, str], stream: bool = False, text: str = "Let me look. ") -> Answer:
    """A reply of the Chat API that calls these tools."""
    made = [
        {
            "index": i,
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for i, (name, arguments) in enumerate(named)
    ]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    if not stream:
        message = {"role": "assistant", "content": text, "tool_calls": made}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return Answer(200, jsontext.encode({"id": "c", "model": "m", "choices": [choice], "usage": usage}))
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text}, {"tool_calls": made}, {}]
    rows = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    rows[-1]["choices"][0]["finish_reason"] = "tool_calls"  # type: ignore[index]
    rows.append({**base, "choices": [], "usage": usage})
    return Answer(200, *(b"data: %b\n\n" % jsontext.encode(row) for row in rows), b"data: [DONE]\n\n", **SSE)


def says(text: str, stream: bool = False) -> Answer:
    return Answer(200, *chunks(text), **SSE) if stream else Answer(200, chat(text))


OWN_CALL = {
    "anthropic": [b'"tool_use"'],
    "openai-responses": [b"function_call"],
    "openai-chat": [b"tool_calls"],
    "gemini": [b"functionCall"],
    "gemini-interactions": [b'"function_call"'],
}


def asked(client: str, upstream: Canned, search: Search, stream: bool = False, **more: Any) -> Any:
    path, body = ASKED[client]
    if stream and client == "gemini":
        path = path.replace("generateContent", "streamGenerateContent?alt=sse")
    elif stream:
        body = {**body, "stream": True}
    with running(upstream) as url, gateway(provider("one", url), hosted=HostedTools([search])) as stand:
        got = send(stand.url, "POST", path, jsontext.encode({**body, **TOOL[client], **more}))
        search.record = stand.last()
    assert search.closed
    return got


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_search_takes_two_rounds(client: str, stream: bool) -> None:
    upstream = Canned(calls(SEARCHED, stream=stream), says("It is 18 degrees.", stream))
    got = asked(client, upstream, search := Search(), stream)
    assert got.status == 200
    assert search.queries == ["paris weather"]
    assert b"It is 18 degrees." in got.body
    assert not any(word in got.body for word in OWN_CALL[client])
    assert "hosted.emulated" in got.headers["x-dragoman-losses"]
    first, second = (request.json for request in upstream.requests)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["web_search"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert "18 degrees" in second["messages"][-1]["content"]
    assert search.record["output"] >= 6 or stream


def test_the_blocks_of_anthropic_whole_and_streamed() -> None:
    found: list[list[str]] = []
    for stream in (False, True):
        upstream = Canned(calls(SEARCHED, stream=stream), says("It is 18 degrees.", stream))
        with running(upstream) as url, gateway(provider("one", url), hosted=HostedTools([Search()])) as stand:
            client = anthropic.Anthropic(base_url=stand.url, api_key="k")
            body: Any = {**ASKED["anthropic"][1], **TOOL["anthropic"]}
            if stream:
                with client.messages.stream(**body) as events:
                    kinds = [event.type for event in events]
                    reply = events.get_final_message()
                assert (kinds.count("message_start"), kinds.count("message_stop")) == (1, 1)
            else:
                reply = client.messages.create(**body)
                assert (reply.usage.input_tokens, reply.usage.output_tokens) == (14, 6)
        found.append([block.type for block in reply.content])
        call: Any = reply.content[1]
        result: Any = reply.content[2]
        assert (call.name, call.input) == ("web_search", {"query": "paris weather"})
        assert (result.tool_use_id, result.content[0].url) == (call.id, "https://e.org/p")
        assert reply.stop_reason == "end_turn"
    assert found == [["text", "server_tool_use", "web_search_tool_result", "text"]] * 2


def test_the_items_of_responses_whole_and_streamed() -> None:
    for stream in (False, True):
        upstream = Canned(calls(SEARCHED, stream=stream), says("It is 18 degrees.", stream))
        with running(upstream) as url, gateway(provider("one", url), hosted=HostedTools([Search()])) as stand:
            client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
            body: Any = {"model": "one:m", "input": "Weather?", **TOOL["openai-responses"]}
            if stream:
                with client.responses.stream(**body) as events:
                    kinds = [event.type for event in events]
                    reply: Any = events.get_final_response()
                assert (kinds.count("response.created"), kinds.count("response.completed")) == (1, 1)
            else:
                reply = client.responses.create(**body)
                assert reply.usage.output_tokens == 6
            stored = client.responses.retrieve(reply.id)  # the turn is stored once, with all rounds
        assert [item.type for item in reply.output] == ["message", "web_search_call", "message"]
        assert reply.output[1].action.query == "paris weather"
        assert reply.output_text == "Let me look. It is 18 degrees."
        assert [item.type for item in stored.output] == [item.type for item in reply.output]


def test_calls_run_side_by_side_and_a_forced_choice_holds_for_the_first_round() -> None:
    both = [("web_search", '{"query": "a"}'), ("web_search", '{"query": "b"}')]
    upstream = Canned(calls(*both), says("Both."))
    search = Search(0.05)
    asked("anthropic", upstream, search, tool_choice={"type": "tool", "name": "web_search"})
    assert search.most_at_once == 2
    first, second = (request.json for request in upstream.requests)
    assert first["tool_choice"] == {"type": "function", "function": {"name": "web_search"}}
    assert second.get("tool_choice") in (None, "auto")


FAULTS: dict[str, tuple[Search, tuple[str, str], str]] = {
    "it raises": (Search(broken=True), SEARCHED, "unavailable"),
    "no arguments": (Search(), ("web_search", "{}"), "invalid_tool_input"),
    "half a character": (Search(text="\ud800"), SEARCHED, "unavailable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_that_fails_is_an_item_of_the_protocol(fault: str) -> None:
    search, call, code = FAULTS[fault]
    upstream = Canned(calls(call), says("Sorry."))
    got = asked("anthropic", upstream, search)
    error = {"type": "web_search_tool_result_error", "error_code": code}
    assert got.json["content"][2]["content"] == error
    assert "Error:" in upstream.requests[1].json["messages"][-1]["content"]
    assert got.json["content"][-1]["text"] == "Sorry."


def test_uses_are_limited_by_the_client() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    upstream = Canned(calls(SEARCHED), calls(SEARCHED), says("Enough."))
    got = asked("anthropic", upstream, search := Search(), tools=[tool])
    results = [block for block in got.json["content"] if block["type"] == "web_search_tool_result"]
    assert results[1]["content"]["error_code"] == "max_uses_exceeded"
    assert len(search.queries) == 1


def test_a_model_that_never_stops_is_paused() -> None:
    upstream = Canned(calls(SEARCHED))
    got = asked("anthropic", upstream, Search())
    assert got.json["stop_reason"] == "pause_turn"
    assert len(upstream.requests) == 10


def test_a_large_result_is_cut() -> None:
    upstream = Canned(calls(SEARCHED), says("Long."))
    asked("openai-chat", upstream, Search(text="é" * 300_000))
    content = upstream.requests[1].json["messages"][-1]["content"]
    assert len(content.encode()) < 257 * 1024
    assert content.endswith("the rest was cut.]")


def test_what_the_client_is_shown_of_a_large_result_is_cut() -> None:
    """It comes back with each of its requests."""
    upstream = Canned(calls(SEARCHED), says("Long."))
    got = asked("anthropic", upstream, Search(text="é" * 300_000))
    assert len(got.body) < 700 * 1024  # twice in base64


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_mixed_reply_and_the_next_request(client: str, stream: bool) -> None:
    """The client gets its own call; what was found comes back with its next request."""
    upstream = Canned(calls(SEARCHED, ("mine", "{}"), stream=stream), says("Done.", stream))
    path, body = ASKED[client]
    tools = [*TOOL[client].get("tools", []), MINE[client]]
    body = {**body, **TOOL[client], "tools": tools}
    if client == "gemini" and stream:
        path = path.replace("generateContent", "streamGenerateContent?alt=sse")
    elif stream:
        body["stream"] = True
    search = Search()
    with running(upstream) as url, gateway(provider("one", url), hosted=HostedTools([search])) as stand:
        got = send(stand.url, "POST", path, jsontext.encode(body))
        assert search.queries == ["paris weather"]
        next_body = following(client, body, got, stream)
        again = send(stand.url, "POST", path, jsontext.encode(next_body))
    assert (got.status, again.status) == (200, 200)
    assert b"Done." in again.body
    assert search.queries == ["paris weather"]
    assert len(upstream.requests) == 2
    sent = upstream.requests[1].json["messages"]
    assert "18 degrees" in jsontext.dumps(sent)
    results = [message for message in sent if message["role"] == "tool"]
    assert "mine says" in jsontext.dumps(results)


def test_several_answers_are_refused() -> None:
    got = asked("openai-chat", Canned(says("x")), Search(), n=2)
    assert got.status == 400
    assert "Do not ask for several" in got.json["error"]["message"]


def test_a_failure_in_a_later_round() -> None:
    """A status for a whole reply; in a stream, which has begun, an event. The first round is counted."""
    down, search = Answer(400, jsontext.encode({"error": {"message": "no", "type": "x"}})), Search()
    got = asked("anthropic", Canned(calls(SEARCHED), down), search)
    assert (got.status, got.json["error"]["message"]) == (400, "no")
    assert (search.record["input"], search.record["output"]) == (7, 3)
    got = asked("anthropic", Canned(calls(SEARCHED, stream=True), down), search, stream=True)
    assert (search.record["input"], search.record["output"]) == (7, 3)
    frames = frames_of(got.body)
    assert (got.status, frames[0]["type"], frames[-1]["type"]) == (200, "message_start", "error")
    assert frames[-1]["error"]["message"] == "no"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_texts_of_two_rounds_are_two_paragraphs(stream: bool) -> None:
    """A client of Chat gets them as one text, and citations point into it."""
    rounds = calls(SEARCHED, stream=stream, text="Let me look."), says(f"It is [mild]({PAGE}).", stream)
    got = asked("openai-chat", Canned(*rounds), Search(), stream=stream)
    text = f"Let me look.\n\nIt is [mild]({PAGE})."
    assert got.text("openai-chat") == text
    place = text.index("[")
    assert b'"start_index":%d,"end_index":%d' % (place, len(text) - 1) in got.body


SILENT = {
    "a call of the client": [("mine",)],
    "both": [("web_search", "mine")],
    "one after the other": [("web_search",), ("mine",)],
    "a search, and no answer": [("web_search",), ()],
    "nothing": [()],
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("case", SILENT)
def test_a_stream_without_text(case: str, client: str) -> None:
    """Nothing may go out before the end of the last round."""
    arguments = {"web_search": SEARCHED[1], "mine": "{}"}
    rounds = [
        calls(*((name, arguments[name]) for name in names), stream=True, text="") for names in SILENT[case]
    ]
    tools = {"tools": [*TOOL[client].get("tools", []), MINE[client]]}
    got = asked(client, Canned(*rounds), Search(), stream=True, **tools)
    assert got.status == 200
    called = [part.name for part in got.response(client).parts if isinstance(part, ToolCall)]
    assert called == ["mine"] * any("mine" in names for names in SILENT[case])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_later_round_that_fails_at_once_leaves_no_trace(client: str) -> None:
    """Its first bytes hold content and an error. The client sees the next attempt, without a gap."""
    begun, error = chunks("Lost. ")[:2], jsontext.encode({"error": {"message": "overloaded", "code": 503}})
    broken = Answer(200, b"".join(begun) + b"data: %b\n\n" % error, **SSE)
    upstream = Canned(calls(SEARCHED, stream=True), broken, says("It is warm.", stream=True))
    search = Search()
    got = asked(client, upstream, search, stream=True)
    assert got.text(client).endswith("It is warm.")
    assert (b"Lost" in got.body, len(upstream.requests), len(search.queries)) == (False, 3, 1)


def test_a_tool_that_the_upstream_runs_itself_is_left_to_it() -> None:
    upstream, search = (
        Canned(Answer(200, b'{"type": "error", "error": {"type": "x", "message": "no"}}')),
        Search(),
    )
    with (
        running(upstream) as url,
        gateway(provider("one", url, "anthropic"), hosted=HostedTools([search])) as stand,
    ):
        path, body = ASKED["anthropic"]
        send(stand.url, "POST", path, jsontext.encode({**body, **TOOL["anthropic"]}))
    assert upstream.requests[0].json["tools"] == TOOL["anthropic"]["tools"]
    assert not search.queries


def test_a_text_dialect_calls_hosted_tools_too() -> None:
    said = '<tool_call>{"name": "web_search", "arguments": {"query": "paris"}}</tool_call>'
    upstream, search = Canned(says(said), says("It is 18 degrees.")), Search()
    config = provider("one", "URL", dialect='"hermes"')
    with running(upstream) as url, gateway(config.replace("URL", url), hosted=HostedTools([search])) as stand:
        path, body = ASKED["anthropic"]
        got = send(stand.url, "POST", path, jsontext.encode({**body, **TOOL["anthropic"]}))
    kinds = [block["type"] for block in got.json["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]
    assert search.queries == ["paris"]


def test_a_client_that_leaves_ends_the_calls() -> None:
    path, body = ASKED["anthropic"]
    search = Search(60)
    data = jsontext.encode({**body, **TOOL["anthropic"], "stream": True})
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    upstream = Canned(calls(SEARCHED, stream=True))
    with running(upstream) as url, gateway(provider("one", url), hosted=HostedTools([search])) as stand:
        host, _, port = stand.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
            wait_until(lambda: search.at_once)
        wait_until(lambda: search.cancelled == 1)


def test_a_slow_call_is_a_failure_and_keep_alives_go_on() -> None:
    limits = CallLimits(seconds=0.3)
    upstream, search = Canned(calls(SEARCHED, stream=True), says("Sorry.", stream=True)), Search(60)
    path, body = ASKED["anthropic"]
    with (
        running(upstream) as url,
        gateway(provider("one", url), OFTEN, hosted=HostedTools([search], limits)) as stand,
    ):
        data = jsontext.encode({**body, **TOOL["anthropic"], "stream": True})
        got = send(stand.url, "POST", path, data)
    frames = frames_of(got.body)
    (result,) = [
        frame["content_block"]["content"]
        for frame in frames
        if frame.get("content_block", {}).get("type") == "web_search_tool_result"
    ]
    assert result["error_code"] == "unavailable"
    assert "longer than 0.3 s" in upstream.requests[1].json["messages"][-1]["content"]
    assert "ping" in [frame["type"] for frame in frames]
    assert search.cancelled == 1


# client -> what stands in its stream while a tool runs
KEEP_ALIVES = {
    "anthropic": b"event: ping\n",
    "openai-responses": b"event: response.in_progress\n",
    "openai-chat": b": keep-alive\n\n",
    "gemini": b"\n\n\n\n",
    "gemini-interactions": b": keep-alive\n\n",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_is_kept_alive_while_a_tool_runs(client: str) -> None:
    """The search ends once the client has seen a sign of life."""
    upstream, search, seen = (
        Canned(calls(SEARCHED, stream=True), says("Done.", stream=True)),
        Search(),
        Event(),
    )
    execute = search.execute

    async def wait(*given: Any) -> Any:
        assert await asyncio.to_thread(seen.wait, LONG)
        return await execute(*given)

    search.execute = wait  # type: ignore[method-assign]
    path, body = path_and_body(client, True)
    begins = client == "openai-responses"  # with one
    with (
        running(upstream) as url,
        gateway(provider("one", url), OFTEN, hosted=HostedTools([search])) as stand,
    ):
        connection = HTTPConnection(stand.url.removeprefix("http://"), timeout=LONG)
        connection.request("POST", path, jsontext.encode(body), {"content-type": "application/json"})
        reply, got = connection.getresponse(), b""
        while piece := reply.read1():
            got += piece
            if got.count(KEEP_ALIVES[client]) > begins:
                seen.set()
    assert seen.is_set()
    assert b"Done." in got


CONFIG = """
[hosted.web_search]
backend = "searxng"
url = "http://127.0.0.1:1"
api_key = "env:SEARCH_KEY"
[hosted.limits]
rounds = 3
"""


def test_the_configuration() -> None:
    config = load(CONFIG, {"SEARCH_KEY": "secret"})
    assert config.hosted
    assert config.hosted.web_search
    assert (config.hosted.web_search.api_key, config.hosted.limits.rounds) == ("secret", 3)
    assert not config.hosted.web_fetch.enabled
    assert not config.hosted.mcp.enabled
    assert "secret" in [*secrets_of(config)]
    assert load("", {}).hosted is None
    with pytest.raises(ConfigError, match="Unknown key"):
        load("[hosted]\nhops = 3\n", {})


class Backend:
    """Speaks the API of SearXNG."""

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        page = {"url": "https://e.org/p", "title": "Paris", "content": "18 degrees"}
        await Canned(Answer(200, jsontext.encode({"results": [page]})))(scope, receive, give)


def test_a_configured_backend_answers() -> None:
    upstream = Canned(calls(SEARCHED), says("It is 18 degrees."))
    path, body = ASKED["anthropic"]
    with running(upstream) as url, running(Backend()) as backend:
        hosted = f'[hosted.web_search]\nbackend = "searxng"\nurl = "{backend}"\n'
        with gateway(provider("one", url) + hosted) as stand:
            got = send(stand.url, "POST", path, jsontext.encode({**body, **TOOL["anthropic"]}))
    assert got.json["content"][2]["content"][0]["url"] == "https://e.org/p"
    assert "18 degrees" in upstream.requests[1].json["messages"][-1]["content"]
