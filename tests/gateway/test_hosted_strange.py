"""Models, clients and names that do what nobody expects of them: broken arguments, equal ids, a history of
which half is missing, tools of one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Text, ToolCall, ToolResult
from dragoman.hosted.loop import HostedTools
from dragoman.protocols import upstream as codec_of
from gateway.canned import Canned
from gateway.hosted_stand import (
    CLIENTS,
    MINE,
    SEARCHED,
    WEATHER,
    Search,
    calls_of,
    following,
    over_each,
    path_and_body,
    replies,
    text_of,
)
from gateway.plain import Got, send
from gateway.stands import Stand

UPSTREAMS = (
    "openai-chat",
    "anthropic",
    "openai-responses",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
)
FOUND = "18 degrees"


class Over:
    def __init__(self, stand: Stand, models: dict[str, Canned], search: Search) -> None:
        self.stand, self.models, self.search = stand, models, search

    def ask(self, client: str, upstream: str, body: Any, *answers: Any, stream: bool = False) -> Got:
        """`client` asks the model of `upstream`, which gives these answers."""
        self.models[upstream].answers, self.models[upstream].requests = [*answers], []
        self.search.queries = []
        path, _ = path_and_body(client, stream)
        if "model" in body:
            body = {**body, "model": f"{upstream}:m"}
        return send(self.stand.url, "POST", path.replace("one:m", f"{upstream}:m"), jsontext.encode(body))

    def told(self, upstream: str) -> Request:
        """What the model was last sent. Each call in it has its result."""
        request = codec_of(upstream).decode_request(self.models[upstream].requests[-1].json, Losses())
        parts = [part for message in request.messages for part in message.parts]
        calls = [part.id or part.name for part in parts if isinstance(part, ToolCall)]
        results = [part.call_id or part.name for part in parts if isinstance(part, ToolResult)]
        assert sorted(calls) == sorted(results)
        assert upstream == "gemini" or len({*calls}) == len(calls)
        return request

    def said(self, upstream: str) -> str:
        return self.models[upstream].requests[-1].body.decode()


@pytest.fixture(scope="module")
def over() -> Iterator[Over]:
    search = Search()
    with over_each(UPSTREAMS, HostedTools([search])) as (stand, models):
        yield Over(stand, models, search)


# Models

BROKEN = {
    "an array": "[]",
    "a text": '"x"',
    "nothing": "",
    "null": "null",
    "another type": '{"query": 5}',
    "half a character": '{"query": "\\ud800"}',
    "no JSON": "NaN",
}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_arguments_of_a_broken_kind(over: Over, client: str, upstream: str) -> None:
    """The model reads what is wrong with them, and the reply goes on."""
    for name, arguments in BROKEN.items():
        for stream in (False, True):
            _, body = path_and_body(client, stream)
            answers = (
                calls_of(upstream, ("web_search", arguments), stream=stream),
                text_of(upstream, "Done.", stream),
            )
            got = over.ask(client, upstream, body, *answers, stream=stream)
            assert (got.status, b"Done." in got.body) == (200, True), (name, got.body)
            over.told(upstream)
            assert over.search.queries or "Error: " in over.said(upstream)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_calls_without_ids_or_with_one_for_all(over: Over, client: str, upstream: str) -> None:
    for ids in (("", ""), ("c", "c"), ("c", "")):
        for stream in (False, True):
            calls = [
                ToolCall(id, "web_search", f'{{"query": "{query}"}}')
                for id, query in zip(ids, "ab", strict=True)
            ]
            answers = replies(upstream, (Text("Look. "), *calls), stream), text_of(upstream, "Done.", stream)
            _, body = path_and_body(client, stream)
            got = over.ask(client, upstream, body, *answers, stream=stream)
            assert (got.status, b"Done." in got.body) == (200, True), got.body
            assert sorted(over.search.queries) == ["a", "b"]
            over.told(upstream)


# Names

OWN: dict[str, Any] = {
    "anthropic": {"name": "web_search", "input_schema": WEATHER},
    "openai-responses": {"type": "function", "name": "web_search", "parameters": WEATHER},
    "openai-chat": {"type": "function", "function": {"name": "web_search", "parameters": WEATHER}},
    "gemini": {"functionDeclarations": [{"name": "web_search"}]},
    "gemini-interactions": {"type": "function", "name": "web_search", "parameters": WEATHER},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_tool_of_the_client_with_the_same_name(
    over: Over, client: str, upstream: str, stream: bool
) -> None:
    """Each is called by its own name, and the client gets the calls of its own alone."""
    _, body = path_and_body(client, stream)
    body = {**body, "tools": [*body.get("tools", []), OWN[client]]}
    both = calls_of(upstream, ("web_search_hosted", '{"query": "q"}'), ("web_search", "{}"), stream=stream)
    got = over.ask(client, upstream, body, both, stream=stream)
    assert got.status == 200, got.body
    assert over.search.queries == ["q"]
    assert sorted(tool.name for tool in over.told(upstream).tools) == ["web_search", "web_search_hosted"]
    again = following(client, body, got, stream)
    then = over.ask(client, upstream, again, text_of(upstream, "Done.", stream), stream=stream)
    assert (then.status, b"Done." in then.body) == (200, True), then.body
    over.told(upstream)
    assert over.said(upstream).count(FOUND) == over.said(upstream).count("mine says") == 1


# a choice where a function of the client has the name of the search -> the names that it allows then
FORCED: dict[str, tuple[str, Any, list[str]]] = {
    "a hosted tool": ("openai-responses", {"type": "web_search"}, ["web_search_hosted"]),
    "the function of its name": (
        "openai-responses",
        {"type": "function", "name": "web_search"},
        ["web_search"],
    ),
    "either of them": (
        "openai-responses",
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "web_search"}, {"type": "function", "name": "web_search"}],
        },
        ["web_search", "web_search_hosted"],
    ),
}


@pytest.mark.parametrize("case", FORCED)
def test_a_choice_among_tools_of_one_name(over: Over, case: str) -> None:
    client, choice, names = FORCED[case]
    _, body = path_and_body(client, False)
    body = {**body, "tools": [*body["tools"], OWN[client]], "tool_choice": choice}
    for upstream in UPSTREAMS:
        got = over.ask(client, upstream, body, text_of(upstream, "Done."))
        assert got.status == 200, got.body
        told = over.told(upstream)
        chosen = told.tool_choice
        assert chosen
        assert chosen.mode == "required"
        assert sorted(chosen.names or [tool.name for tool in told.tools]) == names


# Histories


def items_of(client: str, reply: Any) -> list[Any]:
    match client:
        case "anthropic":
            return reply["content"]
        case "openai-responses":
            return reply["output"]
        case "openai-chat":
            return [reply["choices"][0]["message"]]
        case "gemini":
            return reply["candidates"][0]["content"]["parts"]
        case _:
            return reply["steps"]


def continued(client: str, body: Any, items: list[Any]) -> Any:
    """The next request of a client that sends these items back, and no result of its own."""
    says = {"role": "user", "content": "And?"}
    match client:
        case "anthropic":
            return {**body, "messages": [*body["messages"], {"role": "assistant", "content": items}, says]}
        case "openai-responses":
            return {**body, "input": [{"role": "user", "content": "Weather?"}, *items, says]}
        case "openai-chat":
            return {**body, "messages": [*body["messages"], *items, says]}
        case "gemini":
            turns = [{"role": "model", "parts": items}, {"role": "user", "parts": [{"text": "And?"}]}]
            return {**body, "contents": [*body["contents"], *turns]}
        case _:
            last = {"type": "user_input", "content": [{"type": "text", "text": "And?"}]}
            return {**body, "input": [*body["input"], *items, last]}


def damaged(items: list[Any]) -> Iterator[tuple[list[Any], bool]]:
    """The items without one, with one of them twice, reversed; whether the results must still be there."""
    for i, item in enumerate(items):
        kind = item.get("type") or ("functionCall" if "functionCall" in item else "")
        yield items[:i] + items[i + 1 :], kind in ("function_call", "tool_use", "text", "message")
        yield items[: i + 1] + items[i:], True
    yield items[::-1], True
    yield [], False


@pytest.mark.parametrize("mixed", [False, True], ids=["ours", "mixed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_half_a_history(over: Over, client: str, mixed: bool) -> None:
    _, body = path_and_body(client, False)
    body = {**body, "tools": [*body.get("tools", []), MINE[client]]}
    calls = [SEARCHED, ("mine", "{}")] if mixed else [SEARCHED]
    chat = "openai-chat"
    got = over.ask(client, chat, body, calls_of(chat, *calls), text_of(chat, "It is warm."))
    holds = mixed or client in ("anthropic", "gemini-interactions")  # the others show the answer alone
    for upstream in UPSTREAMS:
        for items, complete in damaged(items_of(client, got.json)):
            then = over.ask(client, upstream, continued(client, body, items), text_of(upstream, "Done."))
            assert (then.status, b"Done." in then.body) == (200, True), then.body
            over.told(upstream)
            assert not (holds and complete) or FOUND in over.said(upstream), items
