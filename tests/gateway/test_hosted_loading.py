"""Tools that are loaded while a conversation goes on: they stay out of the prompt until the model has found
them, and what the model has read stays at the beginning of what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Reasoning, Text, ToolCall, ToolResult
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.mcp_tools import McpExecutor
from dragoman.hosted.settings import McpSettings
from dragoman.hosted.tool_search import ToolSearchExecutor
from dragoman.protocols import upstream as codec_of
from gateway.canned import Canned, provider
from gateway.hosted_stand import (
    FETCHES,
    NONE,
    WEATHER,
    Shelf,
    anthropic_blocks,
    calls_of,
    following,
    frames_of,
    over_each,
    path_and_body,
    replies,
    text_of,
)
from gateway.plain import send
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
Fixed = tuple[Stand, dict[str, Canned]]


@pytest.fixture(scope="module")
def fixed() -> Iterator[Fixed]:
    with over_each(UPSTREAMS, HostedTools([ToolSearchExecutor()])) as found:
        yield found


@pytest.fixture(scope="module")
def sky() -> Iterator[str]:
    with sky_server() as url:
        yield url


def tools_of(client: str, search: Any) -> list[Any]:
    """Four tools, of which two are deferred, and a search between them."""
    rows = (("first", False), ("send_mail", True), ("other", True), ("last", False))
    made: list[Any] = []
    for name, deferred in rows:
        tool: Any = {"name": name, "description": f"It is for {name}", "input_schema": WEATHER}
        if client == "openai-responses":
            tool = {"type": "function", "parameters": tool.pop("input_schema"), **tool}
        made.append({**tool, "defer_loading": True} if deferred else tool)
    return [*made[:3], search, made[3]]


SEARCHES: dict[str, tuple[str, Any, str]] = {
    "by words": ("anthropic", "tool_search_tool_bm25", '{"query": "mail"}'),
    "by a pattern": ("anthropic", "tool_search_tool_regex", '{"pattern": "mail"}'),
    "of Responses": ("openai-responses", None, '{"query": "mail"}'),
}


def said_in(upstream: str, body: Any) -> list[Any]:
    """What the model reads of a conversation."""
    messages = codec_of(upstream).decode_request(body, Losses()).messages
    read: list[Any] = []
    for part in [part for message in messages for part in message.parts]:
        match part:
            case Text():
                read.append(part.text)
            case ToolCall():
                read.append((part.name, jsontext.decode(part.arguments)))
            case ToolResult():
                read.append([each.text for each in part.content if isinstance(each, Text)])
            case Reasoning():
                pass
            case _:
                read.append(part)
    return read


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("search", SEARCHES)
def test_deferred_tools_are_found_and_stay_where_they_were(
    fixed: Fixed, search: str, upstream: str, stream: bool
) -> None:
    (stand, models), (client, name, arguments) = fixed, SEARCHES[search]
    model = models[upstream]
    answers = (("tool_search", arguments), ("send_mail", "{}"))
    # without a word before them, as many models call
    model.answers = [replies(upstream, (ToolCall("c", *each),), stream) for each in answers]
    model.answers.append(text_of(upstream, "Done.", stream))
    model.requests = []
    path, body = path_and_body(client, stream)
    declared = {"type": f"{name}_20251119", "name": name} if name else {"type": "tool_search"}
    body = {**body, "model": f"{upstream}:m", "tools": tools_of(client, declared)}
    got = send(stand.url, "POST", path, jsontext.encode(body))
    then = send(stand.url, "POST", path, jsontext.encode(following(client, body, got, stream)))
    assert (got.status, then.status, b"Done." in then.body) == (200, 200, True), then.body
    sent = [codec_of(upstream).decode_request(each.json, Losses()) for each in model.requests]
    named = [[tool.name for tool in request.tools] for request in sent]
    before = ["first", "last", "tool_search"]
    assert named == [before, [*before, "send_mail"], [*before, "send_mail"]]
    first, second, third = (said_in(upstream, each.json) for each in model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def test_the_blocks_and_items_of_a_search(fixed: Fixed) -> None:
    """As the SDKs of the vendors read them."""
    stand, models = fixed
    models["openai-chat"].answers = [
        calls_of("openai-chat", ("tool_search", '{"query": "mail"}')),
        text_of("openai-chat", "Done."),
    ]
    sdk = anthropic.Anthropic(base_url=stand.url, api_key="k")
    search: Any = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    messages: Any = [{"role": "user", "content": "Hi"}]
    reply: Any = sdk.messages.create(
        model="openai-chat:m", max_tokens=99, messages=messages, tools=tools_of("anthropic", search)
    )
    call, result = reply.content[1:3]
    assert (call.type, call.name, call.input) == (
        "server_tool_use",
        "tool_search_tool_bm25",
        {"query": "mail"},
    )
    assert (result.type, result.tool_use_id) == ("tool_search_tool_result", call.id)
    assert result.content.type == "tool_search_tool_search_result"
    assert [found.tool_name for found in result.content.tool_references] == ["send_mail"]
    models["openai-chat"].answers = [
        calls_of("openai-chat", ("tool_search", '{"query": ""}')),
        text_of("openai-chat", "Done."),
    ]
    reply = sdk.messages.create(
        model="openai-chat:m", max_tokens=99, messages=messages, tools=tools_of("anthropic", search)
    )
    failed = reply.content[2].content
    assert (failed.type, failed.error_code) == ("tool_search_tool_result_error", "invalid_tool_input")
    models["openai-chat"].answers = [
        calls_of("openai-chat", ("tool_search", '{"query": "mail"}')),
        text_of("openai-chat", "Done."),
    ]
    tools: Any = tools_of("openai-responses", {"type": "tool_search"})
    items: Any = (
        openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        .responses.create(model="openai-chat:m", input="Hi", tools=tools)
        .output
    )
    assert [item.type for item in items] == ["message", "tool_search_call", "tool_search_output", "message"]
    assert (items[1].execution, items[1].arguments) == ("server", {"query": "mail"})
    assert [tool.name for tool in items[2].tools] == ["send_mail"]


@pytest.mark.parametrize("client", ["anthropic", "gemini-interactions"])
def test_what_was_found_and_read_is_the_same_in_the_next_request(client: str) -> None:
    """A search and a page: a cache of the upstream finds what it had before."""
    shelf, (path, body) = Shelf(), path_and_body(client, False)
    body["tools"] = [*body["tools"], FETCHES[client]]
    with running(shelf) as shelf.url:
        read = ("web_fetch", f'{{"url": "{shelf.url}/rivers"}}')  # clients print it without the space
        search = ("web_search", '{"query": "rivers"}')
        steps = (calls_of("openai-chat", search), calls_of("openai-chat", read))
        model = Canned(*steps, text_of("openai-chat", "Long."), text_of("openai-chat", "Yes."))
        host = shelf.url.removeprefix("http://")
        tables = f"""
[hosted.web_search]
backend = "searxng"
url = "{shelf.url}"
[hosted.web_fetch]
allowed_hosts = ["{host}"]
"""
        with running(model) as url, gateway(provider("one", url) + NONE + tables) as stand:
            got = send(stand.url, "POST", path, jsontext.encode(body)).json
            if client == "anthropic":
                turns = [{"role": "assistant", "content": got["content"]}, {"role": "user", "content": "?"}]
                again = {**body, "messages": [*body["messages"], *turns]}
            else:
                asked = {"type": "user_input", "content": [{"type": "text", "text": "?"}]}
                again = {**body, "input": [*body["input"], *got["steps"], asked]}
            send(stand.url, "POST", path, jsontext.encode(again))
    before, now = (request.json["messages"] for request in model.requests[-2:])
    assert now[: len(before)] == before
    assert "The Aare is long." in before[-1]["content"]


MCP: dict[str, Any] = {
    "anthropic": lambda url: {
        "mcp_servers": [{"type": "url", "name": "sky", "url": url}],
        "tools": [
            {
                "type": "mcp_toolset",
                "mcp_server_name": "sky",
                "default_config": {"defer_loading": True},
                "configs": {"search": {"defer_loading": False}},
            },
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        ],
    },
    "openai-responses": lambda url: {
        "tools": [
            {
                "type": "mcp",
                "server_label": "sky",
                "server_url": url,
                "require_approval": "never",
                "defer_loading": True,
            },
            {"type": "tool_search"},
        ]
    },
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", MCP)
def test_deferred_tools_of_an_mcp_server(sky: str, client: str, upstream: str, stream: bool) -> None:
    """Found in one reply, called in it, and still there in the next one."""
    servers = McpExecutor(McpSettings(allowed_hosts=(sky.split("/")[2],)))
    calls = ("tool_search", '{"query": "get weather"}'), ("get_weather", '{"city": "Oslo"}')
    with over_each([upstream], HostedTools([servers, ToolSearchExecutor()])) as (stand, models):
        model = models[upstream]
        model.answers = [calls_of(upstream, each, stream=stream) for each in calls]
        model.answers += [text_of(upstream, "Warm.", stream)] * 2
        path, body = path_and_body(client, stream)
        body = {**body, "model": f"{upstream}:m", **MCP[client](sky)}
        got = send(stand.url, "POST", path, jsontext.encode(body))
        assert (got.status, b"in Oslo" in got.body) == (200, True), got.body
        again = answered(client, body, got, stream)
        assert send(stand.url, "POST", path, jsontext.encode(again)).status == 200
    sent = [codec_of(upstream).decode_request(each.json, Losses()) for each in model.requests]
    named = [[tool.name for tool in request.tools] for request in sent]
    first = ["search", "tool_search"] if client == "anthropic" else ["tool_search"]
    assert named[0] == first
    assert named[1] == named[2] == named[3]
    assert named[1][: len(first)] == first
    assert "get_weather" in named[1]
    second, last = (said_in(upstream, model.requests[i].json) for i in (1, 3))
    assert last[: len(second)] == second


def answered(client: str, body: Any, got: Any, stream: bool) -> Any:
    if client == "anthropic":
        content = anthropic_blocks(got.body) if stream else got.json["content"]
        turns = [{"role": "assistant", "content": content}, {"role": "user", "content": "Sure?"}]
        return {**body, "messages": [*body["messages"], *turns]}
    output = frames_of(got.body)[-1]["response"]["output"] if stream else got.json["output"]
    asked = {"role": "user", "content": "Weather?"}
    return {**body, "input": [asked, *output, {"role": "user", "content": "Sure?"}]}
