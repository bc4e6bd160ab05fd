"""Bodies between equal protocols, spoiled in every way: refused with the same words as ever, or passed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import Got, asking, send
from gateway.running import running
from gateway.stands import Stand, gateway

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGE = {"role": "assistant", "content": "é→", "tool_calls": [CALL]}
REPLY = chat("", model="one:m", choices=[{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}])
HUGE = b"7" * 5000


class Line:
    """A gateway between two Chat speakers."""

    def __init__(self, stand: Stand, upstream: Canned) -> None:
        self.stand, self.upstream = stand, upstream

    def ask(self, body: bytes, reply: bytes = REPLY) -> Got:
        self.upstream.requests.clear()
        self.upstream.answers = [Answer(200, reply)]
        return send(self.stand.url, "POST", "/v1/chat/completions", body)

    @property
    def passed(self) -> list[bytes]:
        return [request.body for request in self.upstream.requests]


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    upstream = Canned(Answer(200, REPLY))
    with running(upstream) as url, gateway(provider("one", url) + provider("two", url)) as stand:
        yield Line(stand, upstream)


def around(what: bytes) -> bytes:
    return b'{%b, "model": "one:m", "messages": [], "tools": [{}]}' % what


REFUSED: dict[str, tuple[bytes, str]] = {
    "no UTF-8": (around(b'"x":"\xff"'), "invalid JSON: not valid UTF-8"),
    "no UTF-8 in a name": (around(b'"\xff":1'), "invalid JSON: not valid UTF-8"),
    "half a character": (around(b'"x":"\xc3 \xa9"'), "invalid JSON: not valid UTF-8"),
    "no UTF-8, for a model that nobody has": (
        b'{"model":"m","x":"\xff"}',
        "invalid JSON: not valid UTF-8",
    ),
    "a control character": (
        around(b'"x":"\n"'),
        "invalid JSON: JSON is malformed: invalid character (byte 6)",
    ),
    "a bad escape": (
        around(b'"x":"\\u12G4"'),
        "invalid JSON: JSON is malformed: invalid character in unicode escape (byte 11)",
    ),
    "a cut body": (around(b'"x":1')[:-9], "invalid JSON: Input data was truncated"),
    "something behind": (b"{} x", "invalid JSON: JSON is malformed: trailing characters (byte 4)"),
    "nested too deeply": (around(b'"x":' + b"[" * 99_999), "invalid JSON: nested too deeply"),
    "a huge number": (around(b'"x":' + HUGE), "invalid JSON: Integer value out of range - at `$[...]`"),
    "two objects": (b"[{},{}]", "expected an object, got an array"),
    "a number": (b"5", "expected an object, got the number 5"),
    "a string": (b'"x"', "expected an object, got the string 'x'"),
    "null": (b"null", "expected an object, got null"),
    "nothing": (b"", "invalid JSON: Input data was truncated"),
}


@pytest.mark.parametrize(("body", "words"), REFUSED.values(), ids=REFUSED)
def test_a_request_is_refused(line: Line, body: bytes, words: str) -> None:
    got = line.ask(body)
    assert (got.status, got.failure("openai-chat").message) == (400, f"openai-chat: body: {words}")
    assert line.passed == []


# A model that nobody has, by what stands there
UNKNOWN = {"null": "", "5": "5", "1.10": "1.1", '""': "", "[]": "", '{"a":1}': "{'a': 1}", "true": "True"}


@pytest.mark.parametrize(("model", "name"), UNKNOWN.items(), ids=UNKNOWN)
def test_what_is_no_name_of_a_model(line: Line, model: str, name: str) -> None:
    got = line.ask(b'{"model":"one:m","model":%b}' % model.encode())
    assert got.status == (404 if name else 400)
    opening = "" if name else "model: The request names none. "
    message = got.failure("openai-chat").message
    assert message.startswith(f"{opening}Unknown model {name!r}.")


# What stands around the model, and how many tools the journal tells; it passes to the byte
PASSED: dict[str, tuple[bytes, int]] = {
    "space": (b'{ "x" : 1.10 ,\r\n"model" : "one:m" } ', 0),
    "letters that are not ASCII": ('{"x":"é→😀","model":"one:m"}'.encode(), 0),
    "escapes": (b'{"x":"caf\\u00e9 \\ud83d\\ude00 \\/","model":"one:m"}', 0),
    "numbers": (b'{"x":[1e400,-0,1.10,123456789012345678901234567890],"model":"one:m"}', 0),
    "digits": (b'{"x":"%b","model":"one:m"}' % HUGE, 0),
    "the model once more, inside": (b'{"model":"one:m","x":{"model":"one:m"},"tools":[{},{}]}', 2),
    "the model in a text": (b'{"x":"\\"model\\":\\"one:m\\"","model":"one:m","tools":null}', 0),
    "tools of the wrong kind": (b'{"model":"one:m","tools":{"a":{}}}', 0),
    "tools that are none": (b'{"model":"one:m","tools":[1,{},"x",[],null,{}]}', 2),
    "tools given twice": (b'{"model":"one:m","tools":7,"tools":[{}]}', 1),
    "functions": (b'{"model":"one:m","tools":[],"functions":[{},{}]}', 2),
    "another stream": (b'{"model":"one:m","stream":0}', 0),
}


@pytest.mark.parametrize(("body", "tools"), PASSED.values(), ids=PASSED)
def test_a_request_passes(line: Line, body: bytes, tools: int) -> None:
    line.stand.begin()
    got = line.ask(body)
    assert (got.status, got.body) == (200, REPLY)
    place = body.rindex(b'"one:m"') if body.startswith(b'{"x":"\\"') else body.index(b'"one:m"')
    assert line.passed == [body[:place] + b'"m"' + body[place + 7 :]]
    assert line.stand.last().get("tools", 0) == tools


# Bodies whose text does not tell plainly where the model is: printed anew
PRINTED: dict[str, tuple[bytes, bytes]] = {
    "given twice": (b'{"model":"one:m", "model":"one:m"}', b'{"model":"m"}'),
    "given twice, once in escapes": (b'{"model":"one:m", "mod\\u0065l":"one:m"}', b'{"model":"m"}'),
    "given in escapes, and inside": (
        b'{"x":{"model":"one:m"}, "mod\\u0065l":"one:m"}',
        b'{"x":{"model":"one:m"},"model":"m"}',
    ),
    "inside before": (b'{"x":{"model":"one:m"}, "model":"one:m"}', b'{"x":{"model":"one:m"},"model":"m"}'),
    "a name in escapes": (b'{"model": "\\u006fne:m"}', b'{"model":"m"}'),
    "half a surrogate pair": (
        b'{"model":"one:m", "x":"\\ud83d 1.10"}',
        '{"model":"m","x":"\ufffd 1.10"}'.encode(),
    ),
}


@pytest.mark.parametrize(("body", "passed"), PRINTED.values(), ids=PRINTED)
def test_a_request_is_printed_anew(line: Line, body: bytes, passed: bytes) -> None:
    assert line.ask(body).status == 200
    assert line.passed == [passed]


ASK = b'{"model":"one:m","messages":[]}'
MALFORMED: dict[str, tuple[bytes, str]] = {
    "no UTF-8": (REPLY.replace("é".encode(), b"\xe9"), "invalid JSON: not valid UTF-8"),
    "a cut body": (REPLY[:-2], "invalid JSON: Input data was truncated"),
    "a huge number": (b'{"x":%b}' % HUGE, "invalid JSON: Integer value out of range - at `$[...]`"),
    "a web page": (b"<html>", "invalid JSON: JSON is malformed: invalid character (byte 0)"),
    "a number": (b"7", "expected an object, got the number 7"),
}


@pytest.mark.parametrize(("reply", "words"), MALFORMED.values(), ids=MALFORMED)
def test_a_reply_that_cannot_be_read(line: Line, reply: bytes, words: str) -> None:
    got = line.ask(ASK, reply)
    assert got.status == 500
    expected = f"malformed upstream answer: openai-chat: body: {words}"
    assert got.failure("openai-chat").message == expected
    assert len(line.passed) > 1  # it was tried again


ERRORS: dict[str, tuple[bytes, int, str]] = {
    "an object": (b'{"error":{"message":"m","code":"rate_limit_exceeded"}}', 429, "m"),
    "a text": (b'{"error":"m"}', 500, "m"),
    "beside an answer": (REPLY[:-1] + b',"error":{"message":"m"}}', 500, "m"),
    "the whole body": (b'{"object":"error","message":"m","x":1}', 500, "m"),
    "without words": (b'{"object":"error","x":1}', 500, '{"object":"error","x":1}'),
    "in an array": (b'[{"error":{"message":"m"}}]', 500, "m"),
}


@pytest.mark.parametrize(("reply", "status", "words"), ERRORS.values(), ids=ERRORS)
def test_an_error_that_says_200(line: Line, reply: bytes, status: int, words: str) -> None:
    got = line.ask(ASK, reply)
    assert (got.status, got.failure("openai-chat").message) == (status, words)


def reply_with(**changed: Any) -> bytes:
    return jsontext.encode({**jsontext.decode(REPLY), **changed})


# What the journal tells of a reply that passes: input, output, calls
COUNTED: dict[str, tuple[bytes, tuple[Any, Any, Any]]] = {
    "as it should be": (REPLY, (7, 3, 1)),
    "an error that is none": (reply_with(error={}), (7, 3, 1)),
    "in an array": (b"[%b]" % REPLY, (7, 3, 1)),
    "half a surrogate pair": (REPLY[:-1] + b',"x":"\\ud83d"}', (7, 3, 1)),
    "usage of the wrong kind": (reply_with(usage=7), (None, None, 1)),
    "a count of the wrong kind": (
        reply_with(usage={"prompt_tokens": "7", "completion_tokens": 3}),
        (0, 3, 1),
    ),
    "choices of the wrong kind": (reply_with(choices="x"), (7, 3, None)),
    "choices that are none": (reply_with(choices=[7, {"message": MESSAGE}, {"message": None}]), (7, 3, 1)),
    "calls that are none": (reply_with(choices=[{"message": {"tool_calls": [7, CALL, CALL]}}]), (7, 3, 2)),
    "calls of the wrong kind": (reply_with(choices=[{"message": {"tool_calls": "x"}}]), (7, 3, None)),
}


@pytest.mark.parametrize(("reply", "counts"), COUNTED.values(), ids=COUNTED)
def test_a_reply_passes_and_is_counted(line: Line, reply: bytes, counts: tuple[Any, Any, Any]) -> None:
    line.stand.begin()
    got = line.ask(ASK, reply)
    assert (got.status, got.body) == (200, reply)
    last = line.stand.last()
    assert (last.get("input"), last.get("output"), last.get("calls")) == counts


def test_a_fallback_to_another_protocol_reads_the_rest() -> None:
    first = Canned(Answer(503, b"{}"))
    second = Canned(Answer(503, b"{}"))
    with running(first) as here, running(second) as there:
        models = '[models]\nm = ["one:m", "two:m"]\n'
        with gateway(provider("one", here) + provider("two", there, "anthropic") + models) as stand:
            body = asking("openai-chat", "how are you", "m")[1]
            send(stand.url, "POST", "/v1/chat/completions", jsontext.encode(body))
    assert first.requests[0].json == body
    assert second.requests[0].json["messages"] == [{"role": "user", "content": "how are you"}]


def test_a_thread_and_remote_tools_are_seen_at_anthropic() -> None:
    upstream = Canned(Answer(400, b"{}"))
    with running(upstream) as url, gateway(provider("one", url, "anthropic")) as stand:
        path, body = asking("anthropic", "hi", "one:m")
        for more in ({"mcp_servers": []}, {"mcp_servers": None}, {"x": {"mcp_servers": []}}):
            send(stand.url, "POST", path, jsontext.encode({**body, **more}))
        got = send(stand.url, "POST", path, jsontext.encode({**body, "thread": 7}))
        send(stand.url, "POST", path, jsontext.encode({**body, "thread": {"type": "create"}}))
    betas = [request.headers.get("anthropic-beta") for request in upstream.requests]
    assert betas == ["mcp-client-2025-11-20", "mcp-client-2025-11-20", None, None]
    assert got.failure("anthropic").message.startswith("anthropic: thread: expected create")
    assert "thread" not in upstream.requests[-1].json


# The upstream knows the model under another name than the client


@pytest.mark.parametrize("cut", [(b"", b""), (b"[", b"]"), (b' { "x": {"model": "one:m"},', b"")], ids=str)
def test_a_reply_names_the_model_that_was_asked_for(line: Line, cut: tuple[bytes, bytes]) -> None:
    theirs = REPLY.replace(b'"model":"one:m"', b'"model":"m-2026-11-01"')
    reply = cut[0] + (theirs[1:] if cut[0].startswith(b" ") else theirs) + cut[1]
    got = line.ask(ASK, reply)
    decoded = jsontext.decode(got.body)
    assert decoded["model"] == "one:m"
    assert decoded["choices"] == jsontext.decode(REPLY)["choices"]


@pytest.mark.parametrize("named", ["models/b", "b", "models/a"])
def test_a_body_names_the_model_of_its_path(named: str) -> None:
    """Gemini's body may repeat it: what is sent to the model `a` must not ask for `b`."""
    body = jsontext.encode({"contents": [{"role": "user", "parts": [{"text": "b"}]}], "model": named})
    sent = dragoman.Exchange("gemini", "gemini").request_bytes(body, model="a")
    assert jsontext.decode(sent)["model"] == "models/a"
    assert dragoman.Exchange("gemini", "gemini").request(body, model="a")["model"] == "models/a"
    assert dragoman.Exchange("gemini", "gemini").request_bytes(body, model=named) == body
