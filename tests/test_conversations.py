"""An upstream that keeps the conversation: only what is new is sent, and a reply names the next parent."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman import Exchange
from dragoman.core import jsontext

Wire = dict[str, Any]

READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a file",
        "parameters": {
            "type": "object",
            "properties": {"filePath": {"type": "string"}},
            "required": ["filePath"],
        },
    },
}
ASKED = {"role": "user", "content": "What's in the package.json file?"}
SAID = "I'll read the package.json file.\n\n<read>\n<filePath>/home/user/package.json</filePath>\n</read>"
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read", "arguments": '{"filePath":"/home/user/package.json"}'},
}
CALLED = {"role": "assistant", "content": "I'll read the package.json file.", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": '{"dependencies":{"express":"^4.18.0"}}'}


def request(*messages: Wire, **more: Any) -> Wire:
    return {"model": "qwen3-max", "messages": list(messages), "tools": [READ], "stream": True, **more}


def whole(text: str, **names: Any) -> Wire:
    return {**names, "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


def frames(*bodies: Wire) -> bytes:
    events = b"".join(b"data: %b\n\n" % jsontext.encode(body) for body in bodies)
    return events + b"data: [DONE]\n\n"


def delta(text: str, **names: Any) -> Wire:
    return {"choices": [{"delta": {"content": text}}], **names}


def begun(body: bytes) -> tuple[Exchange, Wire]:
    """The seed's first exchange, answered with `body`."""
    exchange = Exchange("openai-chat", "qwen-chat")
    sent = exchange.request(request(ASKED))
    stream = exchange.stream()
    stream.feed(body)
    stream.close()
    return exchange, sent


def kept_from(body: bytes) -> Wire | None:
    exchange, sent = begun(body)
    handle = exchange.next_session[1] if exchange.next_session else None
    assert not handle or handle["chat_id"] in (sent["chat_id"], "theirs")
    return handle


def test_the_cycle_of_the_seed() -> None:
    first, sent = begun(frames({"response.created": {"response_id": "reply-1"}}, delta(SAID)))
    assert list(sent) == ["chat_id", "parent_id", "model", "messages", "stream"]
    assert sent["parent_id"] is None
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert "## read\nDescription: Read a file" in sent["messages"][0]["content"]
    assert first.session_key == ""
    assert not first.losses or [loss.kind for loss in first.losses] == ["invented"]  # the id of the call

    assert first.next_session
    name, handle = first.next_session
    second = Exchange("openai-chat", "qwen-chat")
    again = second.request(request(ASKED, CALLED, RESULT))
    assert len(again["messages"]) == 4
    assert again["chat_id"] != sent["chat_id"]
    assert second.session_key == name
    assert second.resume(handle) == {
        "chat_id": sent["chat_id"],
        "parent_id": "reply-1",
        "model": "qwen3-max",
        "messages": [
            {"role": "user", "content": 'Tool Result from read:\n{"dependencies":{"express":"^4.18.0"}}'}
        ],
        "stream": True,
    }


PARENTS: dict[str, tuple[bytes, str | None]] = {
    "ahead": (frames({"response.created": {"response_id": "r", "parent_id": "u"}}, delta("a")), "r"),
    "ahead, as a parent": (
        frames({"response.created": {"parent_id": "p", "message_id": "m"}}, delta("a")),
        "p",
    ),
    "beside the choices": (frames(delta("a", response_id="r"), delta("b", response_id="r")), "r"),
    "as a parent": (frames(delta("a", parent_id="p")), "p"),
    "at the end": (frames(delta("a"), {"choices": [], "parent_id": "p"}), "p"),
    "Chat's own": (frames(delta("a", id="c")), "c"),
    "a parent that only repeats ours": (frames(delta("a", id="c", parent_id=None)), "c"),
    "in a whole body": (jsontext.encode(whole("a", response_id="r", id="c")), "r"),
    "in an envelope": (
        jsontext.encode({"success": True, "data": whole("a", parent_id="p", chat_id="")}),
        "p",
    ),
    "another chat": (frames(delta("a", parent_id="p", chat_id="theirs")), "p"),
    "nowhere": (frames(delta("a")), None),
    "cut": (b"data: %b\n\n" % jsontext.encode(delta("a", response_id="r")), None),
    "failed": (frames(delta("a", response_id="r"), {"error": {"message": "no"}}), None),
}


@pytest.mark.parametrize("name", PARENTS)
def test_where_the_next_parent_stands(name: str) -> None:
    body, parent = PARENTS[name]
    handle = kept_from(body)
    assert (handle["parent_id"] if handle else None) == parent
    if name == "another chat":
        assert handle
        assert handle["chat_id"] == "theirs"


def test_names_of_the_session_are_no_losses_and_no_text() -> None:
    exchange = Exchange("anthropic", "qwen-chat")
    exchange.request({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
    reply = exchange.response(whole("hello", chat_id="c", parent_id="p", response_id="r", message_id="m"))
    assert [block["text"] for block in reply["content"]] == ["hello"]
    assert exchange.losses == []


def follows(*messages: Wire, **more: Any) -> bool:
    """Whether this goes on where the seed's first exchange ended."""
    first, _ = begun(frames(delta(SAID, response_id="r")))
    assert first.next_session
    exchange = Exchange("openai-chat", "qwen-chat")
    exchange.request(request(*messages, **more))
    return exchange.session_key == first.next_session[0]


ANEW = {"name": "read", "arguments": '{ "filePath": "\\/home/user/package.json" }'}
NEXT = {"role": "user", "content": "Never mind."}
GOES_ON = {
    "with the result": (ASKED, CALLED, RESULT),
    "with another question": (ASKED, CALLED, NEXT),
    "with both": (ASKED, CALLED, RESULT, NEXT),
    "trimmed and printed anew": (
        ASKED,
        {
            "role": "assistant",
            "content": "  I'll read the package.json file.\n",
            "tool_calls": [
                {
                    **CALL,
                    "function": {"name": "read", "arguments": '{ "filePath": "\\/home/user/package.json" }'},
                }
            ],
        },
        RESULT,
    ),
}
BEGINS = {
    "edited prompt": (({**ASKED, "content": "What?"}, CALLED, RESULT), {}),
    "edited reply": ((ASKED, {**CALLED, "content": "I'll look."}, RESULT), {}),
    "another call": ((ASKED, {"role": "assistant", "content": CALLED["content"]}, NEXT), {}),
    "system text": (({"role": "system", "content": "Be brief."}, ASKED, CALLED, RESULT), {}),
    "tools": ((ASKED, CALLED, RESULT), {"tools": []}),
    "a forced call": ((ASKED, CALLED, RESULT), {"tool_choice": "required"}),
    "model": ((ASKED, CALLED, RESULT), {"model": "other"}),
    "the same again": ((ASKED,), {}),
    "nothing new": ((ASKED, CALLED), {}),
    "a turn of somebody else": ((ASKED, CALLED, RESULT, {"role": "assistant", "content": "x"}, NEXT), {}),
}


@pytest.mark.parametrize("name", GOES_ON)
def test_it_goes_on(name: str) -> None:
    assert follows(*GOES_ON[name])


@pytest.mark.parametrize("name", BEGINS)
def test_it_begins_anew(name: str) -> None:
    messages, more = BEGINS[name]
    assert not follows(*messages, **more)


def test_a_late_result_is_sent_with_everything() -> None:
    """Pairing puts it before the last reply, and so it would be missing among what is new."""
    exchange = Exchange("openai-chat", "qwen-chat", dialect="hermes")
    spoken = {"role": "assistant", "content": "Still waiting."}
    exchange.request(request(ASKED, CALLED, NEXT, spoken, RESULT))
    assert exchange.session_key == ""


def test_calls_without_ids_are_answered_in_their_order() -> None:
    """As some clients of Gemini send them: no result is a late one, because nothing tells so."""

    def call(path: str) -> Wire:
        return {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"filePath": path}}}]}

    def result(text: str) -> Wire:
        response = {"name": "read", "response": {"result": text}}
        return {"role": "user", "parts": [{"functionResponse": response}]}

    contents = [{"role": "user", "parts": [{"text": "Read."}]}, call("/a"), result("a")]
    tools = [{"functionDeclarations": [{"name": "read", "parameters": {"type": "OBJECT"}}]}]
    first = Exchange("gemini", "qwen-chat")
    first.request({"contents": contents, "tools": tools}, model="m")
    first.response(whole("<read>\n<filePath>/b</filePath>\n</read>", response_id="r"))
    second = Exchange("gemini", "qwen-chat")
    second.request({"contents": [*contents, call("/b"), result("b")], "tools": tools}, model="m")
    assert first.next_session
    assert second.session_key == first.next_session[0]


def test_an_upstream_that_forgets() -> None:
    exchange = Exchange("openai-chat", "qwen-chat")
    exchange.request(request(ASKED))
    body = {
        "success": False,
        "data": {"code": "Bad", "details": "Invalid input chat parent_id x is not exist."},
    }
    exchange.response(body)
    assert exchange.failure
    assert (exchange.failure.kind, "parent_id x" in exchange.failure.message) == ("not_found", True)


def test_only_upstreams_keep_conversations() -> None:
    with pytest.raises(dragoman.ConfigError, match="Unknown protocol 'qwen-chat'"):
        Exchange("qwen-chat", "openai-chat")
