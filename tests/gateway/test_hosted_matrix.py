"""A search that the gateway executes: every client over every upstream, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Text, ToolCall, ToolResult
from dragoman.hosted.loop import HostedTools
from dragoman.protocols import upstream as codec_of
from gateway.canned import Answer, Canned, provider
from gateway.hosted_stand import (
    CLIENTS,
    MINE,
    NONE,
    SEARCHED,
    TOOL,
    Search,
    calls_of,
    following,
    path_and_body,
    text_of,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway

UPSTREAMS = (
    "openai-chat",
    "anthropic",
    "openai-responses",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
)
WAYS = [
    pytest.param(client, upstream, stream, id=f"{client}-{upstream}-{'streamed' if stream else 'whole'}")
    for client in CLIENTS
    for upstream in UPSTREAMS
    for stream in (False, True)
]


@pytest.mark.parametrize(("client", "upstream", "stream"), WAYS)
def test_a_search_takes_two_rounds(client: str, upstream: str, stream: bool) -> None:
    answers = calls_of(upstream, SEARCHED, stream=stream), text_of(upstream, "It is 18 degrees.", stream)
    path, body = path_and_body(client, stream)
    (got,), model, search, record = exchange(upstream, answers, path, body)
    assert got.status == 200, got.body
    assert search.queries == ["paris weather"]
    assert b"It is 18 degrees." in got.body
    assert "hosted.emulated" in got.headers["x-dragoman-losses"]
    first, second = (neutral(upstream, request.json) for request in model.requests)
    assert [tool.name for tool in first.tools] == ["web_search"]
    assert pairs(second) == [("web_search", "1. Paris (https://e.org/p)\n18 degrees")]
    assert (record["input"], record["output"]) == (14, 6)


@pytest.mark.parametrize(("client", "upstream", "stream"), WAYS)
def test_a_mixed_reply_and_the_next_request(client: str, upstream: str, stream: bool) -> None:
    """The client gets its own call; what was found comes back with its next request."""
    both = calls_of(upstream, SEARCHED, ("mine", "{}"), stream=stream)
    path, body = path_and_body(client, stream)
    body["tools"] = [*TOOL[client].get("tools", []), MINE[client]]
    then = text_of(upstream, "Done.", stream)
    got, model, search, _ = exchange(
        upstream, (both, then), path, body, lambda first: following(client, body, first, stream)
    )
    assert [each.status for each in got] == [200, 200]
    assert b"Done." in got[1].body
    assert search.queries == ["paris weather"]
    second = neutral(upstream, model.requests[1].json)
    said = jsontext.dumps(model.requests[1].json)
    assert "18 degrees" in said
    assert ("mine", "mine says") in pairs(second)


def exchange(upstream: str, answers: tuple[Answer, ...], path: str, body: Any, follow: Any = None) -> Any:
    """What the client got, what the upstream was sent, the searches, and the line of the log."""
    model, search = Canned(*answers), Search()
    config = provider("one", "URL", upstream) + NONE
    with (
        running(model) as url,
        gateway(config.replace("URL", url), hosted=HostedTools([search])) as stand,
    ):
        got = [send(stand.url, "POST", path, jsontext.encode(body))]
        if follow:
            got.append(send(stand.url, "POST", path, jsontext.encode(follow(got[0]))))
        return got, model, search, stand.last()


def neutral(upstream: str, body: Any) -> Request:
    return codec_of(upstream).decode_request(body, Losses())


def pairs(request: Request) -> list[tuple[str, str]]:
    """Each call by its name, with the text of its result."""
    parts = [part for message in request.messages for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    assert len(results) == len(calls)
    texts = {
        result.call_id or result.name: "".join(part.text for part in result.content if isinstance(part, Text))
        for result in results
    }
    return [(call.name, texts[call.id or call.name]) for call in calls]
