"""Results of executed tools until the next request: clients that bring nothing back, and several workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.hosted import HostedResult
from dragoman.core.model import (
    Base64,
    HostedKind,
    HostedTool,
    Media,
    Text,
    ToolCall,
    ToolDeclaration,
)
from dragoman.hosted.executor import CallLimits, DeclaredFunctions, HostedContext
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.returning import mark
from dragoman.protocols import protocol
from gateway.canned import Answer, Canned, provider
from gateway.conversations.databases import PostgresDatabase
from gateway.hosted_stand import (
    CLIENTS,
    MINE,
    NONE,
    SEARCHED,
    Search,
    calls_of,
    following,
    path_and_body,
    text_of,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import Stand, gateway

CHAT = "openai-chat"
UPSTREAMS = (CHAT, "anthropic", "openai-responses", "gemini")
MIXED = SEARCHED, ("mine", "{}")


@contextlib.contextmanager
def searching(
    upstream: str, *answers: Answer, limits: CallLimits | None = None
) -> Iterator[tuple[Stand, Canned, Search]]:
    model, search = Canned(*answers), Search()
    with (
        running(model) as url,
        gateway(provider("one", url, upstream) + NONE, hosted=HostedTools([search], limits)) as stand,
    ):
        yield stand, model, search


def asked(stand: Stand, stream: bool, forgets: bool = True) -> tuple[str, Any]:
    """A mixed reply, and the next request of a client that echoes no reasoning."""
    path, body = path_and_body(CHAT, stream, tools=[MINE[CHAT]])
    got = send(stand.url, "POST", path, jsontext.encode(body))
    assert got.status == 200, got.body
    again = following(CHAT, body, got, stream)
    for message in again["messages"]:
        if forgets:
            message.pop("reasoning_details", None)
            message.pop("reasoning", None)
    return path, again


def told(model: Canned) -> str:
    return jsontext.dumps(model.requests[-1].json)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("order", [MIXED, MIXED[::-1]], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_results_wait_in_the_store(upstream: str, order: Any, stream: bool) -> None:
    answers = calls_of(upstream, *order, stream=stream), text_of(upstream, "Done.", stream)
    with searching(upstream, *answers) as (stand, model, search):
        path, again = asked(stand, stream)
        got = send(stand.url, "POST", path, jsontext.encode(again))
    assert (got.status, search.queries) == (200, ["paris weather"])
    assert b"Done." in got.body
    assert "18 degrees" in told(model)
    assert "mine says" in told(model)
    assert "ZHJhZ29t" not in told(model)  # the mark in the id is gone
    assert "hosted.result" not in got.headers["x-dragoman-losses"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_without_the_store_the_call_is_made_again_and_reported(upstream: str, stream: bool) -> None:
    """The next request comes to another gateway."""
    with searching(upstream, calls_of(upstream, *MIXED, stream=stream)) as (stand, _, _):
        path, again = asked(stand, stream)
    with searching(upstream, text_of(upstream, "Done.", stream)) as (stand, model, search):
        got = send(stand.url, "POST", path, jsontext.encode(again))
    assert (got.status, search.queries) == (200, ["paris weather"])
    assert "18 degrees" in told(model)
    assert "ZHJhZ29t" not in told(model)
    assert "hosted.result.changed" in got.headers["x-dragoman-losses"]


def test_a_client_that_brings_them_back_needs_neither() -> None:
    with searching(CHAT, calls_of(CHAT, *MIXED)) as (stand, _, _):
        path, again = asked(stand, False, forgets=False)
    with searching(CHAT, text_of(CHAT, "Done.")) as (stand, model, search):
        got = send(stand.url, "POST", path, jsontext.encode(again))
    assert (got.status, search.queries) == (200, [])
    assert told(model).count("18 degrees") == 1
    assert "hosted.result" not in got.headers["x-dragoman-losses"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("order", [MIXED, MIXED[::-1]], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("kept", ["call ids", "thoughts"])
def test_a_gemini_client_keeps_call_ids_or_thoughts(kept: str, order: Any, stream: bool) -> None:
    """Gemini CLI keeps no thoughts, OpenCode no ids."""
    path, body = path_and_body("gemini", stream)
    body = {**body, "tools": [*body["tools"], MINE["gemini"]]}
    with searching(CHAT, calls_of(CHAT, *order, stream=stream), text_of(CHAT, "Done.", stream)) as each:
        stand, model, search = each
        got = send(stand.url, "POST", path, jsontext.encode(body))
        again = following("gemini", body, got, stream)
        for content in again["contents"]:
            content["parts"] = [
                part for part in content["parts"] if kept == "thoughts" or "thought" not in part
            ]
            for part in content["parts"] if kept == "thoughts" else ():
                for field in ("functionCall", "functionResponse"):
                    part.get(field, {}).pop("id", None)
        send(stand.url, "POST", path, jsontext.encode(again))
    assert search.queries == ["paris weather"]
    assert told(model).count("18 degrees") == 1
    assert told(model).count("mine says") == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_what_an_earlier_round_found_comes_back_too(client: str, stream: bool) -> None:
    """The model searches, and then calls a tool of the client."""
    path, body = path_and_body(client, stream)
    body = {**body, "tools": [*body.get("tools", []), MINE[client]]}
    rounds = [calls_of(CHAT, each, stream=stream) for each in MIXED]
    with searching(CHAT, *rounds, text_of(CHAT, "Done.", stream)) as (stand, model, search):
        got = send(stand.url, "POST", path, jsontext.encode(body))
        again = jsontext.encode(following(client, body, got, stream))
        then = send(stand.url, "POST", path, again)
    assert (then.status, search.queries) == (200, ["paris weather"])
    assert told(model).count("18 degrees") == 1
    assert told(model).count("mine says") == 1


class Camera(Search):
    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        return HostedResult((Media("image", "image/png", Base64("iVBORw0K")),))


@pytest.mark.parametrize("client", ["gemini", CHAT])
def test_an_image_is_read_in_its_reply_alone(client: str) -> None:
    path, body = path_and_body(client, False)
    body = {**body, "tools": [*body.get("tools", []), MINE[client]]}
    model = Canned(calls_of(CHAT, SEARCHED), calls_of(CHAT, *MIXED), text_of(CHAT, "Done."))
    with running(model) as url, gateway(provider("one", url), hosted=HostedTools([Camera()])) as stand:
        got = send(stand.url, "POST", path, jsontext.encode(body))
        then = send(stand.url, "POST", path, jsontext.encode(following(client, body, got, False)))
    assert then.status == 200
    assert "iVBORw0K" in model.requests[1].body.decode()
    assert "Binary content of type image/png was processed." in told(model)
    assert "result.media.dropped" in got.headers["x-dragoman-losses"]


def test_what_cannot_be_called_again_is_reported() -> None:
    """The next request declares no search, and comes to another gateway."""
    with searching(CHAT, calls_of(CHAT, *MIXED)) as (stand, _, _):
        path, again = asked(stand, False)
        del again["web_search_options"]
    with searching(CHAT, text_of(CHAT, "Done.")) as (stand, model, search):
        got = send(stand.url, "POST", path, jsontext.encode(again))
    assert (got.status, search.queries) == (200, [])
    assert "cannot be called again" in told(model)
    assert "hosted.result.dropped" in got.headers["x-dragoman-losses"]


def test_no_more_calls_run_again_than_a_request_may_have() -> None:
    """A client writes the ids that say what was called. The model needs the newest."""
    path, body = path_and_body(CHAT, False, tools=[MINE[CHAT]])
    for number in range(5):
        executed = ToolCall(f"ours_{number}", "web_search", f'{{"query": "q{number}"}}')
        id = mark(ToolCall(f"call_{number}", "mine", "{}"), [executed], protocol(CHAT).codec.client_limits).id
        call = {"id": id, "type": "function", "function": {"name": "mine", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": id, "content": "mine says"}
        body["messages"] = [*body["messages"], {"role": "assistant", "tool_calls": [call]}, result]
    limits = CallLimits(rounds=1, calls_at_once=2)
    with searching(CHAT, text_of(CHAT, "Done."), limits=limits) as (stand, model, search):
        got = send(stand.url, "POST", path, jsontext.encode(body))
    assert (got.status, sorted(search.queries)) == (200, ["q3", "q4"])
    assert told(model).count("cannot be called again") == 3


class Danger:
    """A tool that must not run twice, and needs an approval."""

    kind: HostedKind = "mcp"

    def __init__(self) -> None:
        self.ran = 0

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        return DeclaredFunctions((ToolDeclaration("drop", "Deletes it", {}),), frozenset({"drop"}))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        self.ran += 1
        return HostedResult((Text(f"deleted, {self.ran}"),))

    async def close(self) -> None: ...


@pytest.fixture(params=["sqlite", "postgresql"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    database = PostgresDatabase.made(request.getfixturevalue("postgres"))
    yield database.url
    database.drop()


def test_an_approved_call_runs_once_whichever_worker_is_asked(store: str) -> None:
    """Two gateways on one store; the answer comes to both at once, and once more later."""
    model, danger = Canned(calls_of(CHAT, ("drop", "{}")), text_of(CHAT, "It is gone.")), Danger()
    tools = [{"type": "mcp", "server_label": "s", "server_url": "https://mcp.example.com/mcp"}]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(running(model))
        config = provider("one", url) + f'\n[store]\nurl = "{store}"\n'
        stands = [stack.enter_context(gateway(config, hosted=HostedTools([danger]))) for _ in range(2)]
        body = {"model": "one:m", "input": "Delete it.", "tools": tools}
        first = send(stands[0].url, "POST", "/v1/responses", jsontext.encode(body)).json
        answer = {
            "type": "mcp_approval_response",
            "approval_request_id": first["output"][-1]["id"],
            "approve": True,
        }
        body = {**body, "input": [answer], "previous_response_id": first["id"]}

        def approve(stand: Stand) -> Any:
            return send(stand.url, "POST", "/v1/responses", jsontext.encode(body)).json

        with ThreadPoolExecutor(4) as pool:
            replies = [*pool.map(approve, [*stands, *stands]), approve(stands[1])]
    assert danger.ran == 1
    assert {reply["output"][0]["output"] for reply in replies} == {"deleted, 1"}
