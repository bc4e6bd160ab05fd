"""Executed hosted tools on the other ways of a request: WebSocket, in the background, in batches, and in a
turn that was paused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from dragoman.core import jsontext
from dragoman.hosted.executor import CallLimits
from dragoman.hosted.loop import HostedTools
from gateway.canned import Answer, Canned, provider
from gateway.hosted_stand import (
    ASKED,
    FETCHES,
    MINE,
    SEARCHED,
    TOOL,
    Search,
    Shelf,
    calls_of,
    path_and_body,
    text_of,
)
from gateway.plain import send
from gateway.running import running
from gateway.sockets import ask, connected, create, events
from gateway.stands import Stand, gateway
from waiting import wait_until

CHAT = "openai-chat"
ENDED = ("completed", "failed", "incomplete", "cancelled")


@contextlib.contextmanager
def searching(
    *answers: Answer, config: str = "", limits: CallLimits | None = None
) -> Iterator[tuple[Stand, Canned, Search]]:
    model, search = Canned(*answers), Search()
    with (
        running(model) as url,
        gateway(provider("one", url) + config, hosted=HostedTools([search], limits)) as stand,
    ):
        yield stand, model, search


def test_over_websocket() -> None:
    """A mixed reply, which the next message continues from what the connection remembers."""
    both = calls_of(CHAT, SEARCHED, ("mine", "{}"), stream=True)
    tools = [*TOOL["openai-responses"]["tools"], MINE["openai-responses"]]
    body: Any = {"model": "one:m", "store": False, "tools": tools}
    with searching(both, text_of(CHAT, "Done.", True)) as (stand, model, search), connected(stand) as socket:
        create(socket, input="Weather?", **body)
        got = events(socket)
        (call,) = [item for item in got[-1]["response"]["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "mine says"}
        second = ask(socket, input=[result], previous_response_id=got[-1]["response"]["id"], **body)
    assert "response.web_search_call.completed" in [event["type"] for event in got]
    assert [event["sequence_number"] for event in got] == list(range(len(got)))
    assert second["output"][0]["content"][0]["text"] == "Done."
    assert search.queries == ["paris weather"]
    texts = [
        message["content"] for message in model.requests[1].json["messages"] if message["role"] == "tool"
    ]
    assert len(texts) == 2
    assert "18 degrees" in texts[0] + texts[1]


def test_in_the_background(tmp_path: Path) -> None:
    store = f'\n[store]\nurl = "sqlite:///{tmp_path}/store.db"\n'
    answers = calls_of(CHAT, SEARCHED), text_of(CHAT, "It is 18 degrees.")
    with searching(*answers, config=store) as (stand, _, search):
        client = openai.OpenAI(base_url=f"{stand.url}/v1", api_key="k")
        id = client.responses.create(
            model="one:m", input="Weather?", tools=[{"type": "web_search"}], background=True
        ).id
        wait_until(lambda: client.responses.retrieve(id).status in ENDED)
        reply = client.responses.retrieve(id)
    assert (reply.status, search.queries) == ("completed", ["paris weather"])
    assert [item.type for item in reply.output] == ["message", "web_search_call", "message"]


def test_in_a_batch(tmp_path: Path) -> None:
    store = f'\n[store]\nurl = "sqlite:///{tmp_path}/store.db"\n'
    answers = calls_of(CHAT, SEARCHED), text_of(CHAT, "It is 18 degrees.")
    with searching(*answers, config=store) as (stand, _, search):
        client = anthropic.Anthropic(base_url=stand.url, api_key="k")
        params: Any = {**ASKED["anthropic"][1], **TOOL["anthropic"]}
        id = client.messages.batches.create(requests=[{"custom_id": "a", "params": params}]).id
        wait_until(lambda: client.messages.batches.retrieve(id).processing_status == "ended")
        (got,) = client.messages.batches.results(id)
    assert got.result.type == "succeeded"
    kinds = [block.type for block in got.result.message.content]
    assert kinds == ["text", "server_tool_use", "web_search_tool_result", "text"]
    assert search.queries == ["paris weather"]


def test_a_paused_turn_goes_on() -> None:
    """The client sends the reply back as it is; the model sees its calls and their results."""
    answers = calls_of(CHAT, SEARCHED), text_of(CHAT, "It is 18 degrees.")
    path, body = path_and_body("anthropic", False)
    with searching(*answers, limits=CallLimits(rounds=1)) as (stand, model, _):
        first = send(stand.url, "POST", path, jsontext.encode(body)).json
        echoed = {"role": "assistant", "content": first["content"]}
        again = {**body, "messages": [*body["messages"], echoed]}
        second = send(stand.url, "POST", path, jsontext.encode(again)).json
    assert first["stop_reason"] == "pause_turn"
    assert second["content"][0]["text"] == "It is 18 degrees."
    messages = model.requests[1].json["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert "18 degrees" in messages[-1]["content"]


def test_two_rounds_of_an_earlier_turn_are_two_rounds_again() -> None:
    """So the beginning of the conversation stays what it was, and the upstream's cache finds it."""
    second = ("web_search", '{"query": "and rome"}')
    answers = calls_of(CHAT, SEARCHED), calls_of(CHAT, second), text_of(CHAT, "Both."), text_of(CHAT, "Yes.")
    path, body = path_and_body("anthropic", False)
    with searching(*answers) as (stand, model, _):
        first = send(stand.url, "POST", path, jsontext.encode(body)).json
        turns = [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": "Sure?"}]
        again = {**body, "messages": [*body["messages"], *turns]}
        send(stand.url, "POST", path, jsontext.encode(again))
    before, now = model.requests[2].json["messages"], model.requests[3].json["messages"]
    roles = ["user", "assistant", "tool", "assistant", "tool"]
    assert [message["role"] for message in before] == roles
    assert [message["role"] for message in now] == [*roles, "assistant", "user"]
    ids = [[call["id"] for call in message.get("tool_calls", ())] for message in before]
    assert ids == [[call["id"] for call in message.get("tool_calls", ())] for message in now[: len(before)]]


def test_a_recording_shows_what_the_gateway_executed() -> None:
    """With the round, how long it took, and no secrets."""
    secret = ("web_search", '{"query": "sk-of-the-upstream"}')
    answers = calls_of(CHAT, SEARCHED, secret), text_of(CHAT, "It is 18 degrees.")
    path, body = path_and_body("anthropic", False)
    config = "\n[inspector]\nenabled = true\nkeep = 0\n"
    with searching(*answers, config=config) as (stand, _, _):
        send(stand.url, "POST", path, jsontext.encode(body))
        recorder = stand.gateway.recorder
        assert recorder
        recorder.secrets = lambda: ("sk-of-the-upstream",)
        recording = recorder.store.get(recorder.store.ids()[0])
    assert recording
    assert len(recording.attempts) == 2
    search, other = recording.hosted
    assert (search.round, search.kind, search.arguments, search.error) == (0, *SEARCHED, "")
    assert "18 degrees" in search.result
    assert search.began > 0
    assert "sk-of-the-upstream" not in other.arguments


@contextlib.contextmanager
def reading(shelf: Shelf, *steps: str) -> Iterator[tuple[Stand, Canned]]:
    """Steps of the model: to "search", to "read" what was found, or what it says."""
    with running(shelf) as backend:
        shelf.url = backend
        read = ("web_fetch", jsontext.dumps({"url": f"{backend}/rivers"}))
        calls = {"search": calls_of(CHAT, SEARCHED), "read": calls_of(CHAT, read)}
        model = Canned(*(calls.get(step) or text_of(CHAT, step) for step in steps))
        tables = f"""
[hosted.web_search]
backend = "searxng"
url = "{backend}"
[hosted.web_fetch]
allowed_hosts = ["{backend.removeprefix("http://")}"]
"""
        with running(model) as url, gateway(provider("one", url) + tables) as stand:
            yield stand, model


@pytest.mark.parametrize("client", FETCHES)
def test_a_page_that_a_search_found_is_read(client: str) -> None:
    """In the same reply: what a tool found may be fetched."""
    shelf, (path, body) = Shelf(), path_and_body(client, False)
    with reading(shelf, "search", "read", "The Aare.") as (stand, model):
        body = {**body, "tools": [*body["tools"], FETCHES[client]]}
        assert send(stand.url, "POST", path, jsontext.encode(body)).status == 200
    assert shelf.fetched == ["/rivers"]
    assert "The Aare is long." in model.requests[-1].json["messages"][-1]["content"]


def test_a_page_of_an_earlier_reply_is_read() -> None:
    shelf, (path, body) = Shelf(), path_and_body("anthropic", False)
    body["tools"] = [*body["tools"], FETCHES["anthropic"]]
    with reading(shelf, "search", "Found.", "read", "Long.") as (stand, _):
        first = send(stand.url, "POST", path, jsontext.encode(body)).json
        turns = [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": "Read it."}]
        again = {**body, "messages": [*body["messages"], *turns]}
        second = send(stand.url, "POST", path, jsontext.encode(again)).json
    assert shelf.fetched == ["/rivers"]
    assert "The Aare is long." in jsontext.dumps(second["content"])
