"""Responses over WebSocket: the official SDK, lanes, memory of the connection, limits, errors and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragoman.core import jsontext
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config, load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import HttpServer, run
from dragoman.protocols import server
from gateway.canned import Answer, Canned, chunks, error, provider
from gateway.conversations.stands import OTHER_KEY, over_canned, over_demo, responses
from gateway.running import running, wait_for
from gateway.sockets import LAST, ask, connected, create, events
from gateway.stands import HASTY, MODELS, UPSTREAMS, Stand, gateway
from waiting import LONG, wait_until

UP = {"model": "up:m", "store": False}
MISSING = "previous_response_not_found"


def text_of(response: Any) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))


@pytest.fixture(scope="module")
def stand(behind: tuple[Any, str]) -> Iterator[Stand]:
    with over_demo(behind[1], "memory:") as running:
        yield running


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_conversation_without_store(stand: Stand, upstream: str):
    tool = {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    request: dict[str, Any] = {"model": f"{upstream}:{MODELS[upstream]}", "store": False, "tools": [tool]}
    with connected(stand) as socket:
        first = ask(socket, input="Weather in Bern?", **request)
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        second = ask(socket, input=[result], previous_response_id=first["id"], **request)
        assert "rain" in text_of(second)
        assert (second["store"], second["previous_response_id"]) == (False, first["id"])


def test_the_official_sdk(stand: Stand):
    client = responses(stand)
    with client.responses.connect() as connection:
        for text in ("one", "two"):
            connection.response.create(model=f"openai-chat:{MODELS['openai-chat']}", input=text, store=False)
            for event in connection:
                if event.type == "response.completed":
                    assert event.response.output_text == f"You said: {text}"
                    break


def test_events_are_those_of_a_stream(stand: Stand):
    with connected(stand) as socket:
        create(
            socket, model=f"gemini:{MODELS['gemini']}", input="hi", stream=True, client_metadata={"a": "b"}
        )
        got = events(socket)
    assert [event["sequence_number"] for event in got] == list(range(len(got)))
    assert [event["type"] for event in got[:2]] == ["response.created", "response.in_progress"]
    assert all("stream_id" not in event for event in got)
    line = stand.last()
    assert (line["status"], line["stream"]) == (200, True)


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_wrong_key_is_refused_before_the_upgrade(stand: Stand, key: str):
    with pytest.raises(InvalidStatus) as refused, connected(stand, key):
        pass
    assert refused.value.response.status_code == 401


# What a connection remembers


def test_a_stored_response_is_continued_from_anywhere(stand: Stand):
    model = f"openai-chat:{MODELS['openai-chat']}"
    by_post = responses(stand).responses.create(model=model, input="one")
    with connected(stand) as socket:
        second = ask(socket, model=model, input="two", previous_response_id=by_post.id)
        third = ask(socket, model=model, input="three", store=False, previous_response_id=second["id"])
        stored = ask(socket, model=model, input="four", previous_response_id=third["id"])
    assert second["store"]
    assert not third["store"]
    again = responses(stand).responses.create(model=model, input="five", previous_response_id=stored["id"])
    assert again.output_text == "You said: five"
    items: list[Any] = responses(stand).responses.input_items.list(again.id, order="asc").data
    texts = [part.text for item in items if item.type == "message" for part in item.content]
    assert [text for text in texts if not text.startswith("You")] == ["one", "two", "three", "four", "five"]


def test_another_connection_or_key_does_not_know_it(stand: Stand):
    model = f"openai-chat:{MODELS['openai-chat']}"
    with connected(stand) as one, connected(stand) as other, connected(stand, OTHER_KEY) as foreign:
        first = ask(one, model=model, input="hi", store=False)
        stored = ask(one, model=model, input="hi")
        for socket, id in ((other, first["id"]), (foreign, first["id"]), (foreign, stored["id"])):
            refused = ask(socket, model=model, input="x", previous_response_id=id)
            assert (refused["status"], refused["error"]["code"]) == (400, MISSING)
            assert refused["error"]["message"] == f"Previous response with id '{id}' not found."
            assert refused["error"]["param"] == "previous_response_id"
        assert ask(other, model=model, input="x")["status"] == "completed"


def test_only_the_latest_of_a_lane_is_remembered(stand: Stand):
    request: dict[str, Any] = {"model": f"openai-chat:{MODELS['openai-chat']}", "input": "x", "store": False}
    with connected(stand) as socket:
        first = ask(socket, **request)
        ask(socket, **request)
        assert ask(socket, **request, previous_response_id=first["id"])["error"]["code"] == MISSING


def test_a_result_without_its_call_is_refused(stand: Stand):
    request: dict[str, Any] = {"model": f"openai-chat:{MODELS['openai-chat']}", "store": False}
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    with connected(stand) as socket:
        refused = ask(socket, input=[result], **request)
        assert (refused["status"], refused["error"]["code"]) == (400, "call_not_found")
        assert ask(socket, input=[call, result], **request)["status"] == "completed"


def test_a_failed_continuation_evicts_and_a_fork_does_not(stand: Stand):
    request: dict[str, Any] = {"model": f"openai-chat:{MODELS['openai-chat']}", "store": False}
    result = [{"type": "function_call_output", "call_id": "call_nobody", "output": "x"}]
    with connected(stand) as socket:
        first = ask(socket, input="hi", **request)
        follow = {**request, "previous_response_id": first["id"]}
        forked = ask(socket, input=result, stream_id="fork", **follow)
        assert "No tool call found" in forked["error"]["message"]
        assert ask(socket, input="again", stream_id="fork", **follow)["status"] == "completed"
        assert ask(socket, input=result, **follow)["type"] == "error"
        assert ask(socket, input="again", **follow)["error"]["code"] == MISSING


def test_a_warm_up_is_context_of_the_next_turn():
    with (
        over_canned(canned := Canned(Answer(200, *chunks("Hi."))), "memory:") as stand,
        connected(stand) as socket,
    ):
        warm = {"input": [{"role": "developer", "content": "Be kind."}], "instructions": "Be brief."}
        tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
        warmed = ask(socket, **UP, **warm, tools=[tool], generate=False)
        assert (warmed["status"], warmed["output"], warmed["usage"]["output_tokens"]) == ("completed", [], 0)
        assert warmed["usage"]["input_tokens"] > 0
        assert canned.requests == []
        ask(socket, **UP, input="hello", previous_response_id=warmed["id"])
    sent = canned.requests[0].json
    system, user = sent["messages"]
    assert [part["text"] for part in system["content"]] == ["Be brief.", "Be kind."]
    assert user["content"] == "hello"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["f"]
    assert "generate" not in sent


# Lanes


def test_lanes_run_side_by_side_and_each_in_order():
    slow = Answer(200, 2.5, *chunks("slow"))
    with (
        over_canned(canned := Canned(slow, Answer(200, *chunks("fast"))), "memory:") as stand,
        connected(stand) as socket,
    ):
        create(socket, **UP, input="1", stream_id="a")
        wait_until(lambda: canned.requests)
        create(socket, **UP, input="2", stream_id="a")
        create(socket, **UP, input="3", stream_id="b")
        ends: list[Any] = []
        while len(ends) < 3:
            event = jsontext.decode(socket.recv(LONG))
            ends += [event] if event["type"] in LAST else []
    assert [end["stream_id"] for end in ends] == ["b", "a", "a"]
    assert [text_of(end["response"]) for end in ends] == ["fast", "slow", "fast"]
    assert [each.json["messages"][0]["content"] for each in canned.requests] == ["1", "3", "2"]


@pytest.mark.parametrize("lane", ["", "a b", "x" * 257, 7, None])
def test_an_invalid_lane(stand: Stand, lane: Any):
    with connected(stand) as socket:
        refused = ask(socket, model="m", input="x", stream_id=lane)
        assert refused["error"]["code"] == "invalid_stream_id"
        assert "stream_id" not in refused


def test_too_many_lanes():
    with over_canned(Canned(Answer(200, *chunks("Hi."))), "memory:") as stand, connected(stand) as socket:
        for number in range(32):
            assert ask(socket, **UP, input="x", stream_id=f"lane-{number}")["status"] == "completed"
        refused = ask(socket, **UP, input="x", stream_id="one-more")
        assert (refused["error"]["code"], refused["stream_id"]) == (
            "websocket_stream_limit_reached",
            "one-more",
        )
        assert ask(socket, **UP, input="x")["status"] == "completed"
        assert ask(socket, **UP, input="x", stream_id="lane-7")["status"] == "completed"


def test_at_most_so_many_responses_at_once(monkeypatch: pytest.MonkeyPatch):
    limited(monkeypatch, in_flight=1)
    slow = Answer(200, 0.3, *chunks("slow"))
    with (
        over_canned(canned := Canned(slow, Answer(200, *chunks("fast"))), "memory:") as stand,
        connected(stand) as socket,
    ):
        create(socket, **UP, input="1", stream_id="a")
        create(socket, **UP, input="2", stream_id="b")
        assert text_of(events(socket)[-1]["response"]) == "slow"
        assert text_of(events(socket)[-1]["response"]) == "fast"
    assert len(canned.requests) == 2


# Errors


def test_an_error_of_the_upstream_is_an_error_message():
    refusal = Answer(429, error("slow down"), retry_after="7")
    with over_canned(Canned(refusal), "memory:") as stand, connected(stand) as socket:
        refused = ask(socket, **UP, input="x", stream_id="a")
        assert (refused["status"], refused["stream_id"]) == (429, "a")
        assert refused["error"]["message"] == "slow down"
        assert isinstance(refused["error"]["code"], str)
        assert refused["headers"]["retry-after"] == "7"
        assert "x-request-id" in refused["headers"]
        assert stand.last()["status"] == 429
        assert ask(socket, **UP, input="x")["status"] == 429  # the connection stays open


def test_a_failure_in_the_stream_is_an_event():
    broken = Answer(200, *chunks("Hel")[:2])
    with over_canned(Canned(broken), "memory:") as stand, connected(stand) as socket:
        create(socket, **UP, input="x")
        got = events(socket)
        assert (got[0]["type"], got[-1]["type"]) == ("response.created", "response.failed")


REFUSED = {
    "no JSON": "hi",
    "no object": "[1]",
    "no type": "{}",
    "an unknown type": '{"type": "session.update"}',
    "a wrong generate": '{"type": "response.create", "generate": 1}',
    "an unknown model": '{"type": "response.create", "model": "nobody:x", "input": "hi"}',
    "a wrong input": '{"type": "response.create", "model": "openai-chat:gpt-4.1", "input": 7}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_message_is_refused_and_nothing_else(stand: Stand, name: str):
    with connected(stand) as socket:
        socket.send(REFUSED[name])
        (refused,) = events(socket)
        assert refused["type"] == "error"
        assert refused["status"] in (400, 404)
        assert refused["error"]["message"]
        assert isinstance(refused["error"]["code"], str)
        model = f"openai-chat:{MODELS['openai-chat']}"
        assert ask(socket, model=model, input="hi", store=False)["status"] == "completed"


def test_steering_is_refused_and_an_acknowledgement_ignored(stand: Stand):
    with connected(stand) as socket:
        socket.send('{"type": "response.processed", "response_id": "resp_1"}')
        socket.send('{"type": "response.steer", "previous_response_id": "resp_1", "input": "stop"}')
        answer = jsontext.decode(socket.recv(LONG))
        assert (answer["type"], answer["error"]["code"]) == (
            "response.steer.failed",
            "steering_not_supported",
        )
        assert answer["steer"] == {"previous_response_id": "resp_1", "input": "stop"}


def test_rate_limits_count_each_response():
    text = '[server]\nkeys = ["k"]\n[keys.one]\nkey = "k1"\nrequests_per_minute = 2\n'
    with (
        running(Canned(Answer(200, *chunks("Hi.")))) as up,
        gateway(text + provider("up", up)) as stand,
        connected(stand, "k1") as socket,
    ):
        statuses = [ask(socket, **UP, input="x")["status"] for _ in range(3)]
    assert statuses == ["completed", "completed", 429]


def test_a_silent_upstream_is_bridged_by_events():
    """Codex counts no pings as a sign of life. The id of the first event can be continued."""
    quick = replace(HASTY, keep_alive_every=0.2, keep_alive_after=0.2)
    canned = Canned(Answer(200, 2.0, *chunks("Hi.")), Answer(200, *chunks("Again.")))
    with (
        running(canned) as up,
        gateway(provider("up", up), quick) as stand,
        connected(stand) as socket,
    ):
        create(socket, **UP, input="x")
        shown = events(socket)
        kinds = [event["type"] for event in shown]
        assert kinds[0] == "response.created"
        assert kinds.count("response.created") == 1
        assert kinds.count("response.in_progress") > 2
        assert [event["sequence_number"] for event in shown] == list(range(len(shown)))
        ids = {event["response"]["id"] for event in shown if "response" in event}
        assert len(ids) == 1
        again = ask(socket, **UP, input="y", previous_response_id=ids.pop())
        assert again["status"] == "completed"


# Ends


def test_a_client_that_leaves_cancels_its_response():
    with over_canned(canned := Canned(Answer(200, *chunks("Hi.")[:2], 30.0)), "memory:") as stand:
        with connected(stand) as socket:
            create(socket, **UP, input="x")
            wait_until(lambda: canned.requests)
            socket.recv(LONG)
        line = stand.last()
        assert line["status"] == "gone"


def limited(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    codec = server("openai-responses").websocket
    assert codec
    changed = replace(server("openai-responses"), websocket=replace(codec, **limits))
    monkeypatch.setattr(
        "dragoman.gateway.app.server", lambda name: changed if name == "openai-responses" else server(name)
    )


def test_a_connection_lasts_an_hour(monkeypatch: pytest.MonkeyPatch):
    limited(monkeypatch, seconds=2.0)
    with (
        over_canned(Canned(Answer(200, 2.5, *chunks("Hi."))), "memory:") as stand,
        connected(stand) as socket,
    ):
        assert ask(socket, **UP, input="x")["status"] == "completed"  # what is under way ends
        (expired,) = events(socket)
        assert expired["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed) as ended:
            socket.recv(LONG)
        assert ended.value.rcvd
        assert ended.value.rcvd.code == 1001


def test_a_shutdown_ends_responses_first():
    canned = Canned(Answer(200, 0.5, *chunks("Hi.")))
    with running(canned) as up:
        config = replace(load(provider("up", up), {}), store_url="memory:")
        server = HttpServer(Gateway(config, AccessLog(lambda line: None), HASTY), LONG)
        listener = bind(Config(port=0))
        thread = threading.Thread(target=run, args=(server, listener), daemon=True)
        thread.start()
        wait_for(lambda: server.started, thread)
        with connected(url(Config(port=0), listener)) as socket:
            create(socket, **UP, input="x")
            wait_until(lambda: canned.requests)
            server.end_soon()
            assert text_of(events(socket)[-1]["response"]) == "Hi."
            with pytest.raises(ConnectionClosed) as ended:
                socket.recv(LONG)
            assert ended.value.rcvd
            assert ended.value.rcvd.code == 1001
        thread.join(LONG)
        assert not thread.is_alive()


def test_memory_is_given_back(stand: Stand):
    before = stand.gateway.memory.used
    with connected(stand) as socket:
        ask(socket, model=f"openai-chat:{MODELS['openai-chat']}", input="x" * 10_000, store=False)
        assert stand.gateway.memory.used >= before + 10_000
    wait_until(lambda: stand.gateway.memory.used == before)


def test_waiting_requests_count_in_the_memory():
    with over_canned(canned := Canned(Answer(200, 0.5, *chunks("Hi."))), "memory:") as stand:
        memory = stand.gateway.memory
        with connected(stand) as socket:
            for _ in range(4):
                create(socket, **UP, input="x" * 10_000)
            wait_until(lambda: canned.requests and memory.used > 3 * 4 * 10_000)
            for _ in range(2):
                assert events(socket)[-1]["type"] == "response.completed"
        wait_until(lambda: memory.used == 0)


def test_a_summary_over_chat(stand: Stand):
    trigger = [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
    with connected(stand) as socket:
        got = ask(socket, model=f"openai-chat:{MODELS['openai-chat']}", input=trigger, store=False)
        assert [item["type"] for item in got["output"]] == ["compaction"]
        model = f"gemini:{MODELS['gemini']}"
        after = ask(socket, model=model, input="go on", previous_response_id=got["id"], store=False)
        assert after["status"] == "completed"


def test_an_open_connection_follows_a_reload() -> None:
    """It may live for an hour: its next message is answered by the configuration of that moment."""
    with gateway('[models]\n"m" = "demo:demo"\n') as stand, connected(stand) as socket:
        assert ask(socket, model="m", input="one", store=False)["status"] == "completed"
        stand.gateway.configure(replace(stand.gateway.config, max_body=10))
        create(socket, model="m", input="two", store=False)
        answer = jsontext.decode(socket.recv(60))
        assert (answer["type"], answer["status"]) == ("error", 413)
