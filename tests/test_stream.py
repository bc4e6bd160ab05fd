"""Streams through the public contract: how they end, and what comes before and after."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import ResponseEnd
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Reasoning, Response, State, Stop, Text, ToolCall, Usage
from dragoman.forwarding import ForwardedStream, state_tagger
from dragoman.framing import sse
from dragoman.protocols import codec, names
from laws.test_exchange_laws import stream_wire

PAIRS = list(product(names(), names()))
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
REPLY = Response("r", "m", (Text("Hi."), ToolCall("call_1", "f", '{"a":1}')), Stop("tool_calls"), Usage(1, 2))


@every_pair
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_what_follows_a_broken_frame_is_passed_over(client: str, upstream: str, cut: int) -> None:
    if client == upstream:
        return
    pieces = stream_wire(upstream, REPLY)
    stream = dragoman.Exchange(client, upstream).stream()
    for piece in [*pieces[:cut], b"event: x\ndata: {broken\n\n"]:
        stream.feed(piece)
    assert stream.failure is not None
    assert [stream.feed(piece) for piece in pieces[cut:]] == [b""] * len(pieces[cut:])
    assert stream.close() == b""


@every_pair
@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_stream_ends_once_however_often_it_is_closed(
    client: str, upstream: str, array: bool, whole: bool
) -> None:
    pieces = stream_wire(upstream, REPLY)
    stream = dragoman.Exchange(client, upstream).stream(array and client == "gemini")
    for piece in pieces if whole else pieces[:2]:
        stream.feed(piece)
    stream.close()
    assert stream.close() == b""


CHUNK = b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}\n\n'
CUT_CALL = (
    b'{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{"}}]}}'
)


@pytest.mark.parametrize("client", [name for name in names() if name != "openai-chat"])
def test_a_call_cut_without_a_reason_ends_as_a_cut_reply(client: str) -> None:
    stream = dragoman.Exchange(client, "openai-chat").stream()
    out = stream.feed(CHUNK % CUT_CALL + b"data: [DONE]\n\n") + stream.close()
    reader = codec(client).stream_decoder(Losses())
    frames, grammar = [*sse.Decoder().feed(out)], codec(client).grammar()
    checked = [passed for frame in frames for passed in grammar.feed(frame)]
    events = [*(event for frame in checked for event in reader.feed(frame)), *reader.close()]
    assert [event.stop.reason for event in events if isinstance(event, ResponseEnd)] == ["length"]


def test_a_ping_before_the_beginning_makes_no_chunk() -> None:
    stream = dragoman.Exchange("openai-chat", "anthropic").stream()
    assert stream.feed(b'event: ping\ndata: {"type":"ping"}\n\n') == b""


# Within one protocol


@pytest.mark.parametrize("name", names())
def test_a_whole_body_becomes_the_expected_stream(name: str) -> None:
    body = jsontext.encode(codec(name).encode_response(REPLY, Losses()))
    stream = dragoman.Exchange(name, name).stream()
    out = b"".join(stream.feed(bytes([byte])) for byte in b"\n" + body) + stream.close()
    frames, grammar = sse.Decoder(), codec(name).grammar()
    assert [list(grammar.feed(frame)) for frame in frames.feed(out)]
    assert stream.failure is None
    assert out.count(b"Hi.") >= 1


@pytest.mark.parametrize("name", names())
def test_a_whole_error_is_the_error_of_the_stream(name: str) -> None:
    _, body = codec(name).encode_error(Failure("rate_limit", "slow down", 429))
    stream = dragoman.Exchange(name, name).stream()
    out = stream.feed(jsontext.encode(body)) + stream.close()
    assert stream.failure is not None
    assert stream.failure.kind == "rate_limit"
    assert out.count(b"slow down") == 1


def test_G17_a_finish_reason_is_an_end_without_done() -> None:
    data = CHUNK % b'{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}'
    stream = dragoman.Exchange("openai-chat", "openai-chat").stream()
    assert stream.feed(data) + stream.close() == data


ROLE = CHUNK % b'{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}'
USAGE = b'data: {"id":"c1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}\n\n'
FINISH = CHUNK % b'{"index":0,"delta":{},"finish_reason":"stop"}'
TEXT = CHUNK % b'{"index":0,"delta":{"content":"Hi."}}'


@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b"data: [DONE]"], ids=["whole", "no-blank-line"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("before", [b"", b": hi\n\n", ROLE, USAGE, ROLE + USAGE])
def test_an_end_before_any_answer_is_a_failure(before: bytes, size: int, end: bytes) -> None:
    """As it is for the clients of other protocols."""
    for client in names():
        stream = dragoman.Exchange(client, "openai-chat").stream()
        data = before + end
        out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.close()
        assert (stream.failure.kind if stream.failure else "") == "truncated", client
        assert b"[DONE]" not in out
        assert stream.feed(TEXT) + stream.close() == b""


@pytest.mark.parametrize("before", [TEXT, ROLE + TEXT, FINISH, ROLE + FINISH + USAGE, b": hi\n\n" + TEXT])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_end_after_an_answer_passes(before: bytes, size: int) -> None:
    stream, data = dragoman.Exchange("openai-chat", "openai-chat").stream(), before + b"data: [DONE]\n\n"
    out = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size)) + stream.close()
    assert (out, stream.failure) == (data, None)


@pytest.mark.parametrize("client", [name for name in names() if name != "gemini"])
def test_G07_a_call_without_a_name_is_reported_and_not_offered(client: str) -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("", "f")]
    body = {"candidates": [{"content": {"role": "model", "parts": calls}, "finishReason": "STOP"}]}
    exchange = dragoman.Exchange(client, "gemini")
    assert [call.name for call in dragoman.parse_tool_calls(exchange.response(body), client)] == ["f"]
    assert [loss.where for loss in exchange.losses if loss.kind == "dropped"] == [
        "candidates[0].content.parts[0]"
    ]


# Forwarded streams: the end is an event, not bytes that look like one

SAYS_END = {
    "anthropic": ["event: message_stop", '"type":"message_stop"', "event: error"],
    "openai-chat": ["data: [DONE]", '"finish_reason":"stop"', 'data: {"error": 1}'],
    "openai-responses": ["event: response.completed", '"type":"response.completed"'],
    "gemini": ['"finishReason"', '"error"'],
    "gemini-interactions": ["interaction.completed", '"error"'],
}


@pytest.mark.parametrize("name", names())
def test_A3_a_text_that_names_an_end_is_none(name: str) -> None:
    for says in SAYS_END[name]:
        arguments = jsontext.dumps({"finishReason": "x", "error": "y", "note": says})
        reply = Response(
            "r", "m", (Text(says), ToolCall("c", "f", arguments)), Stop("tool_calls"), Usage(1, 2)
        )
        pieces = stream_wire(name, reply)
        last = next(at for at in range(len(pieces), 0, -1) if not ends(name, pieces[:at]))
        stream = dragoman.Exchange(name, name).stream()
        for piece in pieces[:last]:
            stream.feed(piece)
        assert not stream.ended
        stream.close()
        assert stream.failure


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", names())
def test_A3_the_end_is_found_among_many_events(name: str, line_end: bytes) -> None:
    pieces = stream_wire(name, REPLY)
    for count in range(1, len(pieces) + 1):
        whole = b"".join(pieces[:count] * 2).replace(b"\n", line_end)
        stream = dragoman.Exchange(name, name).stream()
        stream.feed(whole)
        assert stream.ended == ends(name, [whole, b"\n"])


def ends(name: str, pieces: list[bytes]) -> bool:
    return any(codec(name).is_end(frame) for frame in sse.Decoder().feed(b"".join(pieces)))


@pytest.mark.parametrize("name", names())
def test_A3_a_cut_anywhere_is_a_failure_until_the_last_event_is_whole(name: str) -> None:
    whole = b"".join(stream_wire(name, REPLY))
    for cut in range(1, len(whole)):
        stream = dragoman.Exchange(name, name).stream()
        out = stream.feed(whole[:cut]) + stream.close()
        is_whole = ends(name, [whole[:cut] + b"\n\n"])
        assert (stream.failure is None) == is_whole
        for frame in sse.Decoder().feed(out + b"\n\n"):
            assert frame.data == b"[DONE]" or jsontext.is_complete(frame.data.decode())


@pytest.mark.parametrize("name", names())
def test_accounting_sees_all_that_passes_however_it_is_cut(name: str) -> None:
    whole = b"".join(stream_wire(name, REPLY) * 20)
    for size in (1, 7, 300, 5000, len(whole)):
        stream = dragoman.Exchange(name, name).stream()
        assert isinstance(stream, ForwardedStream)
        seen: list[bytes] = []
        stream.observe = seen.append
        passed = [stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)]
        passed.append(stream.close())
        assert b"".join(seen) == b"".join(passed) == whole


# The model that a reply names


def renamed(name: str, upstream: str, response: Response, size: int, how: str) -> list[str]:
    exchange = dragoman.Exchange(name, upstream, reply_model="asked/\u00fcber")
    body = jsontext.encode(codec(upstream).encode_response(response, Losses()))
    field, envelope = codec(name).model_field, codec(name).envelope
    if how == "whole":
        return [exchange.response(body)[field], jsontext.decode(exchange.response_bytes(body))[field]]
    stream, data = exchange.stream(), b"".join(stream_wire(upstream, response))
    out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size)) + stream.close()
    events = [jsontext.decode(frame.data) for frame in sse.Decoder().feed(out) if frame.data != b"[DONE]"]
    replies = [event.get(envelope, event) for event in events]
    return [reply[field] for reply in replies if field in reply]


@every_pair
@pytest.mark.parametrize("how", ["whole", "streamed"])
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_A7_a_reply_names_the_model_that_was_asked_for(
    client: str, upstream: str, how: str, size: int
) -> None:
    arguments = jsontext.dumps({"model": "m", "modelVersion": "m"})
    reply = Response(
        "r", "m", (Text('"model":"m"'), ToolCall("c", "f", arguments)), Stop("tool_calls"), Usage()
    )
    assert set(renamed(client, upstream, reply, size, how)) == {"asked/\u00fcber"}


@pytest.mark.parametrize("name", names())
def test_A7_and_nothing_else_changes(name: str) -> None:
    arguments = jsontext.dumps({"model": "m", "modelVersion": "m"})
    reply = Response(
        "r", "m", (Text('"model":"m"'), ToolCall("c", "f", arguments)), Stop("tool_calls"), Usage()
    )
    stream = dragoman.Exchange(name, name, reply_model="b").stream()
    out = b"".join(map(stream.feed, stream_wire(name, reply))) + stream.close()
    field = codec(name).model_field.encode()
    there = b"".join(stream_wire(name, replace(reply, model="b")))
    assert out.replace(b'"%b":"b"' % field, b"") == there.replace(b'"%b":"b"' % field, b"")


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", names())
def test_A7_however_lines_end_and_events_arrive(name: str, line_end: bytes) -> None:
    stream = dragoman.Exchange(name, name, reply_model="b").stream()
    pieces = [piece.replace(b"\n", line_end) for piece in stream_wire(name, REPLY)]
    out = b"".join(map(stream.feed, pieces)) + stream.close()
    field = codec(name).model_field.encode()
    assert out == b"".join(pieces).replace(b'"%b":"m"' % field, b'"%b":"b"' % field)


@pytest.mark.parametrize("name", names())
def test_A7_a_comment_comes_first(name: str) -> None:
    """In a read of its own, as OpenRouter and DeepSeek send it while the model has not begun."""
    stream = dragoman.Exchange(name, name, reply_model="b").stream()
    pieces = [b": OPENROUTER PROCESSING\n\n", *stream_wire(name, REPLY)]
    out = b"".join(map(stream.feed, pieces)) + stream.close()
    field = codec(name).model_field.encode()
    assert out == b"".join(pieces).replace(b'"%b":"m"' % field, b'"%b":"b"' % field)


UNNAMED = {
    "an empty name first, as Azure sends it": b'{"choices":[],"model":"","prompt_filter_results":[]}',
    "no name first": b'{"choices":[]}',
}


@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize("first", UNNAMED.values(), ids=UNNAMED)
def test_A7_an_event_that_names_no_model_comes_first(first: bytes, size: int) -> None:
    stream = dragoman.Exchange("openai-chat", "openai-chat", reply_model="b").stream()
    data = b"".join([b"data: %b\n\n" % first, *stream_wire("openai-chat", REPLY)])
    out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size)) + stream.close()
    assert out == data.replace(b'"model":""', b'"model":"b"').replace(b'"model":"m"', b'"model":"b"')


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_no_event_is_lost_where_state_is_tagged(line_end: bytes) -> None:
    reply = Response(
        "r",
        "m",
        (Reasoning("Hm.", state=State("anthropic", "c2lnbmVk")), Text("Hi.")),
        Stop("end"),
        Usage(1, 2),
    )
    pieces = [piece.replace(b"\n", line_end) for piece in stream_wire("anthropic", reply)]
    tagger = state_tagger("anthropic", "somewhere", True)
    whole = tagger.events(b"".join(pieces))
    assert b"".join(map(tagger.events, pieces)).replace(line_end, b"\n") == whole.replace(line_end, b"\n")
