"""Upstreams that keep the conversation, behind the gateway: only what is new is sent, whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from gateway.canned import provider
from gateway.conversations.stateful_upstream import StatefulUpstream, Wire
from gateway.running import running
from gateway.sdks import MODES, PNG, SDKS, Output, sdk_of, speaking
from gateway.stands import CLIENT_KEY, Stand, gateway

MODEL = "kept:qwen3-max"
OTHER_KEY = "another-key-55d1"
RESULT = '{"dependencies":{"express":"^4.18.0","axios":"^1.4.0"}}'
CYCLES: dict[str, tuple[str, str, Wire, str, str]] = {
    "read": (
        "What's in the package.json file?",
        "I'll read the package.json file.",
        {"filePath": "/home/user/package.json"},
        RESULT,
        "The package.json file contains 2 dependencies: express version ^4.18.0 and axios version ^1.4.0.",
    ),
    "bash": (
        "Install the lodash package",
        "I'll install lodash using npm.",
        {"command": "npm install lodash", "description": "Install lodash utility library"},
        "added 1 package in 2.3s",
        "Successfully installed lodash: added 1 package in 2.3s.",
    ),
}


@pytest.fixture
def upstream() -> Iterator[tuple[StatefulUpstream, str]]:
    app = StatefulUpstream()
    with running(app) as url:
        yield app, url


@pytest.fixture
def kept(upstream: tuple[StatefulUpstream, str]) -> StatefulUpstream:
    return upstream[0]


@pytest.fixture
def stand(upstream: tuple[StatefulUpstream, str]) -> Iterator[Stand]:
    with gateway(configuration(upstream[1])) as stand:
        yield stand


def configuration(url: str, store: str = "memory:", more: str = "") -> str:
    return (
        f'[server]\nkeys = ["{CLIENT_KEY}", "{OTHER_KEY}"]\n[store]\nurl = "{store}"\n'
        + provider("kept", f"{url}/v1", "qwen-chat")
        + provider("hermes", f"{url}/v1", "qwen-chat", dialect='"hermes"')
        + more
    )


def schema(names: Any) -> Wire:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": [*names],
    }


def chat(url: str, key: str = CLIENT_KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


def reply_to(stand: Stand, *messages: Any, key: str = CLIENT_KEY, model: str = MODEL, **more: Any) -> Wire:
    """The assistant's message, as a client appends it to its history."""
    reply = chat(stand.url, key).chat.completions.create(model=model, messages=list(messages), **more)
    return {"role": "assistant", "content": reply.choices[0].message.content}


def new(body: Wire) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


# The cycles of the seed


def check_cycle(kept: StatefulUpstream, name: str) -> None:
    """What the upstream saw of a cycle."""
    question, _, _, result, _ = CYCLES[name]
    first, second = kept.requests
    assert [role for role, _ in new(first)] == ["system", "user"]
    assert f"## {name}\nDescription: Runs {name}." in first["messages"][0]["content"]
    assert (first["parent_id"], new(first)[1]) == (None, ("user", question))
    assert (second["chat_id"], second["parent_id"]) == (first["chat_id"], "reply-1")
    assert new(second) == [("user", f"Tool Result from {name}:\n{result}")]
    assert second["model"] == "qwen3-max"


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize("name", CYCLES)
def test_a_cycle_with_the_openai_sdk(stand: Stand, kept: StatefulUpstream, name: str, streamed: bool) -> None:
    question, words, arguments, result, answer = CYCLES[name]
    function = {"name": name, "description": f"Runs {name}.", "parameters": schema(arguments)}
    settings: Any = {"model": MODEL, "tools": [{"type": "function", "function": function}]}
    completions = chat(stand.url).chat.completions

    def spoken(messages: Any) -> Any:
        if not streamed:
            return completions.create(messages=messages, **settings).choices[0]
        with completions.stream(messages=messages, **settings) as stream:
            return stream.get_final_completion().choices[0]

    history: list[Any] = [user(question)]
    first = spoken(history)
    assert (first.finish_reason, first.message.content) == ("tool_calls", words)
    (call,) = first.message.tool_calls
    assert (call.function.name, jsontext.decode(call.function.arguments)) == (name, arguments)
    history += [first.message, {"role": "tool", "tool_call_id": call.id, "content": result}]
    second = spoken(history)
    assert (second.finish_reason, second.message.content) == ("stop", answer)
    check_cycle(kept, name)
    assert stand.last()["upstream"] == "qwen-chat"


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize("name", CYCLES)
def test_a_cycle_with_an_anthropic_client(
    stand: Stand, kept: StatefulUpstream, name: str, streamed: bool
) -> None:
    question, words, arguments, result, answer = CYCLES[name]
    tool = {"name": name, "description": f"Runs {name}.", "input_schema": schema(arguments)}
    settings: Any = {"model": MODEL, "max_tokens": 100, "tools": [tool]}
    messages = anthropic.Anthropic(base_url=stand.url, api_key=CLIENT_KEY, max_retries=0).messages

    def spoken(history: Any) -> Any:
        if not streamed:
            return messages.create(messages=history, **settings)
        with messages.stream(messages=history, **settings) as stream:
            return stream.get_final_message()

    history: list[Any] = [user(question)]
    first = spoken(history)
    text, call = first.content
    assert (first.stop_reason, text.text, call.name, call.input) == ("tool_use", words, name, arguments)
    answered = {"type": "tool_result", "tool_use_id": call.id, "content": result}
    history += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [answered]}]
    second = spoken(history)
    assert (second.stop_reason, second.content[0].text) == ("end_turn", answer)
    assert first.id != second.id  # the upstream gave neither a Chat id
    check_cycle(kept, name)


# Every client, through a dialect with several calls, images, failures and reasoning


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", SDKS)
def test_a_conversation(stand: Stand, kept: StatefulUpstream, client: str, mode: str) -> None:
    sdk = sdk_of(client, stand.url)
    speak = speaking(sdk, mode)
    history = sdk.user("Show me a picture of Oslo and Rome")
    first = speak(sdk.request("hermes:text-model", history))
    assert [call.arguments for call in first.calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    history += sdk.results(first, [Output("here it is", PNG), Output("no camera there", failed=True)])
    second = speak(sdk.request("hermes:text-model", history))
    assert "take_picture returned: here it is" in second.text
    assert "no camera there" in second.text
    history += [*sdk.reply_turns(second), *sdk.user("And the weather in Bern?")]
    third = speak(sdk.request("hermes:text-model", history))
    assert [call.arguments for call in third.calls] == [{"city": "Bern"}]
    history += sdk.results(third, [Output("rain")])
    assert speak(sdk.request("hermes:text-model", history)).text == "get_weather returned: rain"

    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1", "reply-2", "reply-3"]
    assert len({body["chat_id"] for body in kept.requests}) == 1
    assert all(role == "user" for body in kept.requests[1:] for role, _ in new(body))
    assert new(kept.requests[2]) == [("user", "And the weather in Bern?")]


# Where a conversation goes on, and where one begins

ONE, TWO = user("one"), user("two")


def test_the_upstream_stores_the_conversation(stand: Stand, kept: StatefulUpstream) -> None:
    first = reply_to(stand, ONE)
    second = reply_to(stand, ONE, first, TWO)
    question = user("What did I say?")
    assert reply_to(stand, ONE, first, TWO, second, question)["content"] == "You said: one | two"
    assert [len(body["messages"]) for body in kept.requests] == [1, 1, 1]


def test_a_branch_goes_on_from_the_reply_before_it(stand: Stand, kept: StatefulUpstream) -> None:
    first = reply_to(stand, ONE)
    second = reply_to(stand, ONE, first, TWO)
    reply_to(stand, ONE, first, TWO, second, user("three"))
    reply_to(stand, ONE, first, user("two and a half"))
    assert reply_to(stand, ONE, first, user("What did I say?"))["content"] == "You said: one"
    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1", "reply-2", "reply-1", "reply-1"]
    assert len({body["chat_id"] for body in kept.requests}) == 1


BEGINS: dict[str, tuple[list[Wire], Wire]] = {
    "an edited prompt": ([user("uno")], {}),
    "a system text": ([{"role": "system", "content": "Be brief."}, ONE], {}),
    "another model": ([ONE], {"model": "kept:qwen3-coder"}),
    "a tool": (
        [ONE],
        {"tools": [{"type": "function", "function": {"name": "now", "parameters": schema(())}}]},
    ),
}


@pytest.mark.parametrize("name", BEGINS)
def test_what_changed_begins_anew_with_everything(stand: Stand, kept: StatefulUpstream, name: str) -> None:
    front, more = BEGINS[name]
    first = reply_to(stand, ONE)
    reply_to(stand, *front, first, TWO, **more)
    assert kept.requests[1]["parent_id"] is None
    assert kept.requests[1]["chat_id"] != kept.requests[0]["chat_id"]
    everything = [text for role, text in new(kept.requests[1]) if role != "system"]
    assert everything == [front[-1]["content"], first["content"], "two"]


def test_an_edited_reply_begins_anew(stand: Stand, kept: StatefulUpstream) -> None:
    reply_to(stand, ONE)
    reply_to(stand, ONE, {"role": "assistant", "content": "I never said that"}, TWO)
    assert [body["parent_id"] for body in kept.requests] == [None, None]


def test_a_key_cannot_continue_the_conversation_of_another(stand: Stand, kept: StatefulUpstream) -> None:
    mine, theirs = reply_to(stand, ONE), reply_to(stand, ONE, key=OTHER_KEY)
    assert mine == theirs  # word for word, and yet two conversations
    reply_to(stand, ONE, mine, TWO)
    reply_to(stand, ONE, theirs, TWO, key=OTHER_KEY)
    chats = [body["chat_id"] for body in kept.requests]
    assert chats[0] != chats[1]
    assert chats[2:] == chats[:2]


# What goes wrong


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize("reply", ("", "reply-1"))
def test_a_forgotten_one_begins_anew(
    stand: Stand, kept: StatefulUpstream, reply: str, streamed: bool
) -> None:
    first = reply_to(stand, ONE)
    kept.forget(kept.requests[0]["chat_id"], reply)
    completions: Any = chat(stand.url).chat.completions
    request = {"model": MODEL, "messages": [ONE, first, TWO]}
    if streamed:
        with completions.stream(**request) as stream:
            text = stream.get_final_completion().choices[0].message.content
    else:
        text = completions.create(**request).choices[0].message.content
    assert text == "Number 2: two"
    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1", None]
    assert len(kept.requests[2]["messages"]) == 3
    assert stand.last()["tries"] == 2
    reply_to(stand, ONE, first, TWO, {"role": "assistant", "content": text}, user("three"))
    assert kept.requests[3]["chat_id"] == kept.requests[2]["chat_id"]
    assert new(kept.requests[3]) == [("user", "three")]


def test_it_begins_anew_once(stand: Stand, kept: StatefulUpstream) -> None:
    first = reply_to(stand, ONE)
    kept.faults = [400, 400]
    with pytest.raises(openai.BadRequestError, match="as the test wished"):
        reply_to(stand, ONE, first, TWO)
    assert [len(body["messages"]) for body in kept.requests] == [1, 1, 3]


def test_a_retry_goes_on_from_the_same_reply(stand: Stand, kept: StatefulUpstream) -> None:
    first = reply_to(stand, ONE)
    kept.faults = [500, None]
    assert reply_to(stand, ONE, first, TWO)["content"] == "Number 2: two"
    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1", "reply-1"]


def test_a_reply_that_was_cut_is_not_kept(stand: Stand, kept: StatefulUpstream) -> None:
    kept.faults = ["cut"]
    received = ""
    completions: Any = chat(stand.url).chat.completions
    with pytest.raises(openai.APIError):  # noqa: PT012 - pieces come before it breaks
        for chunk in completions.create(model=MODEL, messages=[ONE], stream=True):
            received += chunk.choices[0].delta.content or ""
    assert received == "Number 1: one"
    reply_to(stand, ONE, {"role": "assistant", "content": received}, TWO)
    assert [body["parent_id"] for body in kept.requests] == [None, None]


def test_at_the_same_time(stand: Stand, kept: StatefulUpstream) -> None:
    """Requests that go on from one reply are branches: each is answered from its own."""
    first = reply_to(stand, ONE)
    replies: dict[int, Wire] = {}

    def ask(number: int) -> None:
        branch = [ONE, first, user(f"branch {number}")]
        branch.append(reply_to(stand, *branch))
        replies[number] = reply_to(stand, *branch, user("What did I say?"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: text["content"] for number, text in replies.items()} == {
        number: f"You said: one | branch {number}" for number in range(8)
    }
    assert all(len(body["messages"]) == 1 for body in kept.requests)


def test_a_fallback_that_keeps_nothing(upstream: tuple[StatefulUpstream, str]) -> None:
    kept, url = upstream
    with running(DemoApp()) as other:
        models = '[models]\nboth = ["kept:qwen3-max", "plain:demo"]\n'
        with gateway(configuration(url, more=provider("plain", other) + models)) as stand:
            first = reply_to(stand, ONE, model="both")
            kept.faults = [401]
            second = reply_to(stand, ONE, first, TWO, model="both")
            assert second["content"] == "You said: two"
            assert stand.last()["provider"] == "plain"
            reply_to(stand, ONE, first, TWO, second, user("three"), model="both")
    assert [len(body["messages"]) for body in kept.requests] == [1, 1, 5]
    assert kept.requests[2]["parent_id"] is None


def test_without_a_store_everything_is_sent_anew(upstream: tuple[StatefulUpstream, str]) -> None:
    kept, url = upstream
    with gateway(configuration(url, "sqlite:////nowhere/at/all/dragoman.db")) as stand:
        first = reply_to(stand, ONE)
        assert reply_to(stand, ONE, first, TWO)["content"] == "Number 2: two"
        records = [line for line in map(jsontext.decode, stand.lines) if "session" in line]
        assert stand.last()["status"] == 200
    assert [len(body["messages"]) for body in kept.requests] == [1, 3]
    assert [line["session"] for line in records] == [
        "everything will be sent anew",
        "everything is sent anew",
        "everything will be sent anew",
    ]
    assert all(line["store"] and line["id"] for line in records)
