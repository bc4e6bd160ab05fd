"""Message threads by the official SDK: its own loops, over every upstream, on each database."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, messages, over_canned, stored_at
from gateway.plain import send
from gateway.running import running
from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand, gateway

THINKING: Any = {"type": "enabled", "budget_tokens": 1024}


@beta_tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"rain in {city}"


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.mark.parametrize("mode", ("whole", "streamed"))
def test_the_tool_runner_with_a_thread(stand: Stand, mode: str):
    """Two rounds of tools in one thread; thinking with its state, which the upstream checks."""
    for upstream in UPSTREAMS:
        thread = messages(stand).beta.messages.thread(
            model=f"{upstream}:{MODELS[upstream]}",
            max_tokens=2048,
            tools=[get_weather],
            thinking=THINKING,
            system="Be brief.",
            messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
        )
        for city in ("Oslo", "Bern"):
            if city == "Bern":
                thread.append({"role": "user", "content": "And what is the weather in Bern?"})
            runner: Any = thread.tool_runner(stream=mode == "streamed")
            last = runner.until_done()
            assert text_of(last) == f"get_weather returned: rain in {city}"
            assert thread.previous_message_id == last.id
    records = stand.finished()
    assert [line["status"] for line in records] == [200] * (4 * len(UPSTREAMS))  # nothing was sent again
    assert sum(line.get("calls", 0) for line in records) == 2 * len(UPSTREAMS)


def test_the_asynchronous_tool_runner_with_a_thread(stand: Stand):
    async def run() -> str:
        async with anthropic.AsyncAnthropic(base_url=stand.url, api_key=CLIENT_KEY, max_retries=0) as client:
            runner = client.beta.messages.tool_runner(
                model=f"gemini:{MODELS['gemini']}",
                max_tokens=2048,
                tools=[beta_async],
                messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
            )
            return text_of(await runner.until_done())

    assert asyncio.run(run()) == "get_weather returned: snow in Oslo"


@anthropic.beta_async_tool(name="get_weather")
async def beta_async(city: str) -> str:
    """Tells the weather of a city."""
    return f"snow in {city}"


def test_the_upstream_gets_everything(database: Database):
    canned = Canned(Answer(200, chat("one")), Answer(200, chat("two")))
    with over_canned(canned, database.url) as stand:
        thread = messages(stand).beta.messages.thread(
            model="m", max_tokens=9, system="Be brief.", tools=[get_weather]
        )
        marked: Any = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
        thread.send({"role": "user", "content": marked})
        thread.send({"role": "user", "content": "b"})
    first, second = (each.json for each in canned.requests)
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][0] == first["messages"][0]
    assert second["tools"] == first["tools"]
    assert "thread" not in second


def body_of(**more: Any) -> bytes:
    messages = [{"role": "user", "content": "a"}]
    return jsontext.encode({"model": "m", "max_tokens": 9, "messages": messages, **more})


def continuing(id: str) -> Any:
    return {"type": "continue", "previous_message_id": id}


def test_tools_and_system_are_those_of_the_beginning():
    canned = Canned(Answer(200, chat("one")))
    with over_canned(canned, "memory:") as stand:
        create = body_of(thread={"type": "create"}, system="Be brief.")
        id = send(stand.url, "POST", "/v1/messages", create).json["id"]
        same = send(stand.url, "POST", "/v1/messages", body_of(thread=continuing(id), system="Be brief."))
        assert same.status == 200
        other = send(stand.url, "POST", "/v1/messages", body_of(thread=continuing(id), system="Rhyme."))
        assert other.status == 400
        assert other.json["error"]["details"]["error_code"] == "thread_fingerprint_mismatch"
        assert "system" in other.json["error"]["message"]


WRONG = {"an unknown type": {"type": "resume"}, "no id": {"type": "continue"}, "no object": "create"}


@pytest.mark.parametrize("thread", WRONG.values(), ids=WRONG)
def test_a_wrong_thread_is_named(thread: Any):
    with over_canned(Canned(Answer(200, chat("one"))), "memory:") as stand:
        got = send(stand.url, "POST", "/v1/messages", body_of(thread=thread))
        assert (got.status, "thread" in got.json["error"]["message"]) == (400, True)


def test_a_lost_thread_is_sent_again_whole(database: Database):
    """The SDK starts a new one by itself, when the old one is not found."""
    canned = Canned(Answer(200, chat("one")), Answer(200, chat("two")), Answer(200, chat("three")))
    with over_canned(canned, database.url) as stand:
        thread = messages(stand).beta.messages.thread(model="m", max_tokens=9)
        thread.send({"role": "user", "content": "a"})
        database.rows("delete from dragoman_turns")
        thread.send({"role": "user", "content": "b"})
        assert text_of(thread.send({"role": "user", "content": "c"})) == "three"
    assert [m["content"] for m in canned.requests[-1].json["messages"]] == ["a", "one", "b", "two", "c"]


def test_nobody_continues_the_thread_of_another_key(stand: Stand):
    model = f"gemini:{MODELS['gemini']}"
    mine = messages(stand).beta.messages.thread(model=model, max_tokens=99)
    id = mine.send({"role": "user", "content": "hi"}).id
    with pytest.raises(anthropic.NotFoundError):
        messages(stand, OTHER_KEY).beta.messages.create(
            model=model, max_tokens=9, messages=[{"role": "user", "content": "x"}], thread=continuing(id)
        )


@pytest.mark.parametrize("mode", ("whole", "streamed"))
def test_a_thread_that_cannot_be_stored_is_an_error(tmp_path: Any, mode: str):
    reply = (
        Answer(200, chat("one"))
        if mode == "whole"
        else Answer(200, *chunks("one"), content_type="text/event-stream")
    )
    with over_canned(Canned(reply), f"sqlite:///{tmp_path}/no/such/folder/s.db") as stand:
        more: Any = {"stream": True} if mode == "streamed" else {}
        got = send(stand.url, "POST", "/v1/messages", body_of(thread={"type": "create"}, **more))
        assert "could not be stored" in got.failure("anthropic").message
        assert b"message_stop" not in got.body


def test_a_provider_that_keeps_threads_gets_them_unchanged():
    message = {"id": "msg_theirs", "type": "message", "role": "assistant", "model": "m", "content": []}
    body = jsontext.encode(
        {**message, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    )
    canned = Canned(Answer(200, body))
    with over_canned(canned, "memory:", "anthropic", keeps="true") as stand:
        thread = messages(stand).beta.messages.thread(model="m", max_tokens=9)
        assert thread.send({"role": "user", "content": "a"}).id == "msg_theirs"
        thread.send({"role": "user", "content": "b"})
    assert canned.requests[0].json["thread"] == {"type": "create"}
    assert canned.requests[1].json["thread"] == continuing("msg_theirs")
    assert "message-threads" in canned.requests[1].headers["anthropic-beta"]


def test_a_fallback_that_does_not_keep_is_kept_here():
    """The first of two targets keeps threads itself and is down: the second gets no thread, we keep it."""
    down, up = Canned(Answer(503, error("busy"))), Canned(Answer(200, chat("one")))
    with running(down) as url, running(up) as other:
        text = provider("keeps", url, "anthropic", keeps="true") + provider("up", other)
        text += '[models]\nm = ["keeps:m", "up:m"]\n'
        with gateway(text + stored_at("memory:")) as stand:
            thread = messages(stand).beta.messages.thread(model="m", max_tokens=9)
            thread.send({"role": "user", "content": "a"})
            thread.send({"role": "user", "content": "b"})
    assert down.requests[0].json["thread"] == {"type": "create"}
    assert [m["content"] for m in up.requests[1].json["messages"]] == ["a", "one", "b"]
