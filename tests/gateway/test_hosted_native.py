"""What the gateway executed, in a conversation that goes on at a provider which runs its tools itself: it
gets calls, results and text as anybody's, and nothing that looks as if it had made it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, ToolCall, ToolResult
from dragoman.core.seal import MAGIC
from dragoman.hosted.loop import HostedTools
from dragoman.protocols import codec
from gateway.canned import Canned, provider
from gateway.hosted_stand import (
    CLIENTS,
    MINE,
    NONE,
    PAGE,
    SEARCHED,
    TOOL,
    Search,
    calls_of,
    following,
    frames_of,
    path_and_body,
    text_of,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway

NATIVE = ("anthropic", "openai-responses", "gemini", "gemini-interactions")
WAYS = [
    pytest.param(client, upstream, stream, id=f"{client}-{upstream}-{'streamed' if stream else 'whole'}")
    for client in CLIENTS
    for upstream in NATIVE
    for stream in (False, True)
]


def continued(client: str, upstream: str, stream: bool, follow: Any, *first: Any) -> tuple[Any, Any, Search]:
    """The first reply of a model without hosted tools, and what the vendor is sent then."""
    model, vendor, search = Canned(*first), Canned(text_of(upstream, "Done.", stream)), Search()
    path, body = path_and_body(client, stream)
    body["tools"] = [*TOOL[client].get("tools", []), MINE[client]]
    with running(model) as url, running(vendor) as native:
        config = provider("one", url) + NONE + provider("two", native, upstream)
        with gateway(config, hosted=HostedTools([search])) as stand:
            got = send(stand.url, "POST", path, jsontext.encode(body))
            again = follow(client, body, got, stream)
            data = jsontext.encode(again).replace(b"one:m", b"two:m")
            then = send(stand.url, "POST", path.replace("one:m", "two:m"), data)
    assert (got.status, then.status) == (200, 200), then.body
    assert b"Done." in then.body
    return then, vendor.requests[-1].json, search


@pytest.mark.parametrize(("client", "upstream", "stream"), WAYS)
def test_a_mixed_reply_goes_on_at_the_vendor(client: str, upstream: str, stream: bool) -> None:
    both = calls_of("openai-chat", SEARCHED, ("mine", "{}"), stream=stream)
    _, sent, search = continued(client, upstream, stream, following, both)
    request = codec(upstream).decode_request(sent, Losses())
    parts = [part for message in request.messages for part in message.parts]
    calls = [part.name for part in parts if isinstance(part, ToolCall)]
    results = [part for part in parts if isinstance(part, ToolResult)]
    said = jsontext.dumps(sent)
    assert MAGIC not in said
    assert "_dragoman_" not in said
    assert said.count("18 degrees") == 1
    assert "mine" in calls
    assert "web_search" not in calls  # the name of the vendor's own tool
    assert len(calls) == len(results)
    assert search.queries == ["paris weather"]
    assert [tool.kind for tool in request.tools if isinstance(tool, HostedTool)] == ["web_search"]


def answered(client: str, body: Any, got: Any, stream: bool) -> Any:
    """The client's next request after a reply that used hosted tools alone."""
    if client == "anthropic":
        turns = [{"role": "assistant", "content": got.json["content"]}, {"role": "user", "content": "And?"}]
        return {**body, "messages": [*body["messages"], *turns]}
    if client == "openai-responses":
        return {**body, "input": [*got.json["output"], {"role": "user", "content": "And?"}]}
    steps = [*got.json["steps"], {"type": "user_input", "content": [{"type": "text", "text": "And?"}]}]
    return {**body, "input": steps}


@pytest.mark.parametrize("upstream", NATIVE)
@pytest.mark.parametrize("client", ["anthropic", "openai-responses", "gemini-interactions"])
def test_items_of_executed_calls_go_on_at_the_vendor(client: str, upstream: str) -> None:
    """As text, with what was found where the client's items hold it."""
    first = calls_of("openai-chat", SEARCHED), text_of("openai-chat", f"It is warm. [Paris]({PAGE})")
    _, sent, _ = continued(client, upstream, False, answered, *first)
    said = jsontext.dumps(sent)
    assert MAGIC not in said  # in the index of the citation neither
    assert "_dragoman_" not in said
    assert "paris weather" in said
    assert "It is warm." in said
    assert ("18 degrees" in said) is (client != "openai-responses")


@pytest.mark.parametrize("client", ["anthropic", "gemini-interactions"])
def test_they_are_calls_again_where_the_tool_is_offered(client: str) -> None:
    path, body = path_and_body(client, False)
    answers = (
        calls_of("openai-chat", SEARCHED),
        text_of("openai-chat", "Warm."),
        text_of("openai-chat", "Ok."),
    )
    model = Canned(*answers)
    with running(model) as url, gateway(provider("one", url), hosted=HostedTools([Search()])) as stand:
        got = send(stand.url, "POST", path, jsontext.encode(body))
        then = send(stand.url, "POST", path, jsontext.encode(answered(client, body, got, False)))
    assert "part.unknown" not in then.headers["x-dragoman-losses"]
    second, third = (request.json["messages"] for request in model.requests[1:])
    roles = ["assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in third][-4:] == roles
    (first_call,), (then_call,) = (
        [call for message in messages for call in message.get("tool_calls", ())]
        for messages in (second, third)
    )
    assert then_call["id"] == first_call["id"]
    assert then_call["function"]["name"] == first_call["function"]["name"]


def test_nothing_sealed_is_left_in_the_frames_of_a_vendor() -> None:
    """A client of Chat keeps nothing but the call: its id has the mark, and no search is declared now."""

    def bare(client: str, body: Any, got: Any, stream: bool) -> Any:
        again = following(client, body, got, stream)
        for message in again["messages"]:
            message.pop("reasoning_details", None)
            message.pop("reasoning", None)
        return {key: value for key, value in again.items() if key != "web_search_options"}

    both = calls_of("openai-chat", SEARCHED, ("mine", "{}"))
    then, sent, search = continued("openai-chat", "anthropic", False, bare, both)
    said = jsontext.dumps(sent)
    assert MAGIC not in said
    assert "18 degrees" in said
    assert search.queries == ["paris weather"]
    assert not frames_of(then.body)
