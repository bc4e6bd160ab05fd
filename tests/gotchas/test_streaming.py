"""G01-G25: the grammar of streams."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from gotchas.exchanges import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    check,
    others,
    reply,
    request_body,
    streamed,
    through,
)
from seeds.wires import (
    PAIRS,
    PROTOCOLS,
    Call,
    Wire,
    chunk,
    dumps,
    fragment,
    frames,
    gathered,
    named_sse,
    read_calls,
    read_text,
    rows,
    sse,
    streamed_reply,
)

PARIS, OSLO = {"city": "Paris"}, {"city": "Oslo"}
BOTH = [("get_weather", PARIS), ("get_time", OSLO)]
over_chat = pytest.mark.parametrize("client", others(CHAT))
over_responses = pytest.mark.parametrize("client", others(RESPONSES))
every_pair = rows("client, upstream", PAIRS)


def called(client: str, body: Wire) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in read_calls(client, body)]


def chat(*deltas: Wire, finish: str | None = "tool_calls") -> bytes:
    return sse(*map(chunk, deltas), chunk({}, finish), "[DONE]")


def pieces(*entries: Wire) -> Wire:
    """Several fragments in one chunk."""
    return {"tool_calls": [entry for delta in entries for entry in delta["tool_calls"]]}


@over_chat
def test_G01_two_calls_in_one_chunk(client: str) -> None:
    whole = [fragment(i, dumps(args), f"c{i}", name) for i, (name, args) in enumerate(BOTH)]
    assert called(client, reply(client, CHAT, chat(pieces(*whole)))) == BOTH


@over_chat
def test_G02_interleaved_fragments_of_a_chat_stream(client: str) -> None:
    deltas = [
        fragment(0, "", "c0", "get_weather"),
        fragment(1, '{"ci', "c1", "get_time"),
        fragment(0, '{"city":'),
        fragment(1, 'ty":"Oslo"}'),
        fragment(0, '"Paris"}'),
    ]
    assert called(client, reply(client, CHAT, chat(*deltas))) == BOTH


def item(number: int, name: str, arguments: str, **more: Any) -> Wire:
    head = {"id": f"fc_{number}", "type": "function_call", "call_id": f"c{number}", "name": name}
    return {**head, "arguments": arguments, "status": "completed", **more}


def event(kind: str, place: int, **more: Any) -> Wire:
    return {"type": f"response.{kind}", "output_index": place, "item_id": f"fc_{place}", **more}


FIRST, SECOND = (item(i, name, dumps(args)) for i, (name, args) in enumerate(BOTH))
STARTED = [
    {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}},
    event("output_item.added", 0, item={**FIRST, "arguments": ""}),
    event("output_item.added", 1, item={**SECOND, "arguments": ""}),
]
DONE = {
    "type": "response.completed",
    "response": {"id": "resp_1", "status": "completed", "output": [FIRST, SECOND]},
}


@over_responses
def test_G02_interleaved_items_of_a_responses_stream(client: str) -> None:
    data = named_sse(
        *STARTED,
        event("function_call_arguments.delta", 1, delta='{"ci'),
        event("function_call_arguments.delta", 0, delta='{"city":'),
        event("function_call_arguments.delta", 1, delta='ty":"Oslo"}'),
        event("function_call_arguments.delta", 0, delta='"Paris"}'),
        event("output_item.done", 1, item=SECOND),
        event("output_item.done", 0, item=FIRST),
        DONE,
    )
    assert called(client, reply(client, RESPONSES, data)) == BOTH


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G03_block_indices_count_from_0_without_gaps(upstream: str) -> None:
    """A call first, though the upstream announces an empty text before it."""
    calls = [Call(f"c{i}", name, args) for i, (name, args) in enumerate(BOTH)]
    events = frames(streamed(ANTHROPIC, upstream, streamed_reply(upstream, "", calls)))
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    assert starts == [0, 1]


FIRST_CHUNKS = {
    "a call": fragment(0, "{}", "c0", "f"),
    "an empty text": {"role": "assistant", "content": ""},
    "reasoning": {"reasoning_content": "hm"},
    "nothing": {},
}


@pytest.mark.parametrize("delta", FIRST_CHUNKS.values(), ids=FIRST_CHUNKS)
def test_G04_message_start_comes_first_and_once(delta: Wire) -> None:
    events = frames(streamed(ANTHROPIC, CHAT, chat(delta, {"content": "ok"}, finish="stop")))
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    assert kinds.count("message_start") == 1


LATE_ARGUMENTS = {
    "in .done": [
        event("function_call_arguments.done", 0, arguments=dumps(PARIS)),
        event("function_call_arguments.done", 1, arguments=dumps(OSLO)),
    ],
    "in the items": [event("output_item.done", 0, item=FIRST), event("output_item.done", 1, item=SECOND)],
    "in the final response": [],
    "the rest in .done": [
        event("function_call_arguments.delta", 0, delta='{"city"'),
        event("function_call_arguments.done", 0, arguments=dumps(PARIS)),
        event("output_item.done", 0, item=FIRST),
    ],
}


@over_responses
@pytest.mark.parametrize("where", LATE_ARGUMENTS)
def test_G05_arguments_that_come_late(client: str, where: str) -> None:
    data = named_sse(*STARTED, *LATE_ARGUMENTS[where], DONE)
    assert called(client, reply(client, RESPONSES, data)) == BOTH


@over_chat
def test_G06_name_and_first_arguments_in_one_chunk(client: str) -> None:
    data = chat(fragment(0, '{"city":"Pa', "c0", "get_weather"), fragment(0, 'ris"}'))
    assert called(client, reply(client, CHAT, data)) == BOTH[:1]


@over_chat
def test_G07_a_name_that_comes_after_its_arguments(client: str) -> None:
    data = chat(fragment(0, '{"city":', "c0"), fragment(0, '"Paris"}', name="get_weather"))
    assert called(client, reply(client, CHAT, data)) == BOTH[:1]


@over_chat
def test_G07_a_call_that_never_gets_a_name_is_reported_and_not_offered(client: str) -> None:
    exchange = dragoman.Exchange(client, CHAT)
    data = chat({"content": "Hm."}, fragment(0, '{"city":"Paris"}', "c0"))
    body = gathered(client, through(exchange, data))
    assert read_calls(client, body) == []
    assert read_text(client, body) == "Hm."
    assert any("name" in loss.why for loss in exchange.losses)


@over_chat
def test_G08_a_name_that_is_repeated_in_every_chunk(client: str) -> None:
    data = chat(
        fragment(0, '{"city":', "c0", "get_weather"),
        fragment(0, '"Paris', "c0", "get_weather"),
        fragment(0, '"}', "c0", "get_weather"),
    )
    assert called(client, reply(client, CHAT, data)) == BOTH[:1]


@over_chat
def test_G08_a_name_in_pieces(client: str) -> None:
    data = chat(fragment(0, "", "c0", "get_"), fragment(0, "", name="weather"), fragment(0, dumps(PARIS)))
    assert called(client, reply(client, CHAT, data)) == BOTH[:1]


def unplaced(delta: Wire) -> Wire:
    (entry,) = delta["tool_calls"]
    return {"tool_calls": [{key: value for key, value in entry.items() if key != "index"}]}


INDICES = {
    "all 0, distinguished by id": [
        fragment(0, '{"city":', "c0", "get_weather"),
        fragment(0, '"Paris"}', "c0"),
        fragment(0, '{"city":"Oslo"}', "c1", "get_time"),
    ],
    "none": [
        unplaced(fragment(0, '{"city":"Paris"}', "c0", "get_weather")),
        unplaced(fragment(0, '{"city":"Oslo"}', "c1", "get_time")),
    ],
    "none, in fragments": [
        unplaced(fragment(0, '{"city":', "c0", "get_weather")),
        unplaced(fragment(0, '"Paris"}')),
        unplaced(fragment(0, '{"city":', "c1", "get_time")),
        unplaced(fragment(0, '"Oslo"}')),
    ],
    "from 1": [
        fragment(1, '{"city":"Paris"}', "c0", "get_weather"),
        fragment(2, '{"city":"Oslo"}', "c1", "get_time"),
    ],
}


@over_chat
@pytest.mark.parametrize("deltas", INDICES.values(), ids=INDICES)
def test_G09_indices_that_say_nothing(client: str, deltas: list[Wire]) -> None:
    assert called(client, reply(client, CHAT, chat(*deltas))) == BOTH


@over_chat
def test_G10_arguments_that_parse_before_they_are_whole(client: str) -> None:
    data = chat(fragment(0, "1", "c0", "count"), fragment(0, "2"), finish="tool_calls")
    (call,) = read_calls(client, reply(client, CHAT, data))
    assert dumps(12) in dumps(call.arguments)
    data = chat(fragment(0, '{"n":1}', "c0", "count"), fragment(0, " "), fragment(0, "\n"))
    assert called(client, reply(client, CHAT, data)) == [("count", {"n": 1})]


@over_chat
def test_G11_everything_in_one_chunk(client: str) -> None:
    delta = {"reasoning_content": "Hm.", "content": "Look:", **fragment(0, dumps(PARIS), "c0", "get_weather")}
    body = reply(client, CHAT, chat(delta))
    assert read_text(client, body) == "Look:"
    assert called(client, body) == BOTH[:1]
    assert "Hm." in dumps(body)


@over_chat
def test_G12_the_finish_stands_beside_the_content(client: str) -> None:
    data = sse(
        chunk({"content": "All of it."}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}), "[DONE]"
    )
    assert read_text(client, reply(client, CHAT, data)) == "All of it."
    data = sse(chunk(fragment(0, dumps(PARIS), "c0", "get_weather"), "tool_calls"), "[DONE]")
    assert called(client, reply(client, CHAT, data)) == BOTH[:1]


def output_tokens(client: str, body: Wire) -> int:
    match client:
        case "anthropic":
            return body["usage"]["output_tokens"]
        case "openai-responses":
            return body["usage"]["output_tokens"]
        case "gemini":
            return body["usageMetadata"]["candidatesTokenCount"]
        case _:
            return body["usage"]["completion_tokens"]


@over_chat
def test_G13_usage_in_a_chunk_without_choices(client: str) -> None:
    usage = {**chunk(usage={"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}), "choices": []}
    data = sse(chunk({"content": "ok"}), chunk({}, "stop"), usage, "[DONE]")
    assert output_tokens(client, reply(client, CHAT, data)) == 5


def test_G13_a_chat_upstream_is_asked_for_usage() -> None:
    out = dragoman.Exchange(ANTHROPIC, CHAT).request(request_body(ANTHROPIC, stream=True), model="m")
    assert out["stream_options"] == {"include_usage": True}


FAILED: dict[str, Any] = {
    CHAT: lambda last: "error" in last,
    RESPONSES: lambda last: last["type"] == "response.failed",
    ANTHROPIC: lambda last: last["type"] == "error",
    GEMINI: lambda last: "error" in last,
}


@rows("client, upstream", [(a, b) for a in PROTOCOLS for b in PROTOCOLS])
@pytest.mark.parametrize("cut", ["between events", "inside an event"])
def test_G14_a_stream_without_an_end_is_a_failure(client: str, upstream: str, cut: str) -> None:
    """Between equal protocols too, where events are passed on as they are."""
    data = streamed_reply(upstream, "Hello.", [Call("c0", "get_weather", PARIS)])
    if upstream == GEMINI:
        data = data.replace(b',"finishReason":"STOP"', b"")
    whole = data[: data.index(b"\n\n", len(data) // 3) + 2]
    stream = dragoman.Exchange(client, upstream).stream()
    out = stream.feed(whole if cut == "between events" else whole[:-9]) + stream.close()
    seen = frames(out)
    assert FAILED[client](seen[-1])
    assert "[DONE]" not in seen
    assert stream.failure is not None


ERRORS: dict[str, Any] = {
    CHAT: {"error": {"message": "Overloaded, sorry", "type": "server_error", "code": 503}},
    RESPONSES: {
        "type": "error",
        "code": "server_is_overloaded",
        "message": "Overloaded, sorry",
        "param": None,
    },
    ANTHROPIC: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, sorry"}},
    GEMINI: {"error": {"code": 503, "message": "Overloaded, sorry", "status": "UNAVAILABLE"}},
}


@every_pair
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "in the middle"])
def test_G15_an_error_inside_a_stream(client: str, upstream: str, begun: bool) -> None:
    before = streamed_reply(upstream, "Hello.")
    if upstream == GEMINI:
        before = before.replace(b',"finishReason":"STOP"', b"")
    before = before[: before.index(b"Hello.")]
    before = before[: before.rindex(b"\n\n") + 2] if b"\n\n" in before else b""
    error = ERRORS[upstream]
    data = named_sse(error) if "type" in error else sse(error)
    stream = dragoman.Exchange(client, upstream).stream()
    out = stream.feed((before if begun else b"") + data) + stream.close()
    check(client, out)
    last = frames(out)[-1]
    assert FAILED[client](last)
    assert "Overloaded, sorry" in dumps(last)
    assert stream.failure is not None
    assert stream.failure.kind == "overloaded"


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G16_codex_gets_errors_as_response_failed(upstream: str) -> None:
    error = ERRORS[upstream]
    data = named_sse(error) if "type" in error else sse(error)
    out = streamed(RESPONSES, upstream, data)
    assert b"event: error" not in out
    wire_error = frames(out)[-1]["response"]["error"]
    assert wire_error == {"code": "server_is_overloaded", "message": "Overloaded, sorry"}


@pytest.mark.parametrize("client", PROTOCOLS)
def test_G17_a_responses_stream_ends_with_its_last_event(client: str) -> None:
    data = streamed_reply(RESPONSES, "Hello.")
    assert b"[DONE]" not in data
    stream = dragoman.Exchange(client, RESPONSES).stream()
    out = stream.feed(data) + stream.close()
    assert stream.failure is None
    assert read_text(client, gathered(client, out)) == "Hello."


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G18_G19_G21_the_whole_set_of_events(upstream: str) -> None:
    calls = [Call(f"c{i}", name, args) for i, (name, args) in enumerate(BOTH)]
    events = frames(streamed(RESPONSES, upstream, streamed_reply(upstream, "Look:", calls)))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    added = [e for e in events if e["type"] == "response.output_item.added"]
    done = [e for e in events if e["type"] == "response.output_item.done"]
    assert [e["output_index"] for e in added] == [0, 1, 2]
    assert [e["item"]["id"] for e in added] == [e["item"]["id"] for e in done]
    kinds = [event["type"].removeprefix("response.") for event in events]
    for kind in ("content_part.added", "output_text.done", "content_part.done"):
        assert kinds.count(kind) == 1
    assert kinds.count("function_call_arguments.done") == 2
    ids = {e["item_id"] for e in events if "item_id" in e}
    assert ids == {e["item"]["id"] for e in added}
    # G19: the final response has everything
    final = events[-1]["response"]
    assert final["output"] == [e["item"] for e in done]
    assert called(RESPONSES, final) == BOTH
    # G21: under one id
    assert {e["response"]["id"] for e in events if "response" in e} == {final["id"]}


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G20_nothing_follows_message_stop(upstream: str) -> None:
    out = streamed(ANTHROPIC, upstream, streamed_reply(upstream, "Hello."))
    assert b"[DONE]" not in out
    assert frames(out)[-1] == {"type": "message_stop"}


SPOKEN = "Zürich → 東京 🌍\u2028."


@every_pair
def test_G22_characters_that_the_network_cuts_in_two(client: str, upstream: str) -> None:
    data = streamed_reply(upstream, SPOKEN, [Call("c0", "get_weather", {"city": SPOKEN})])
    stream = dragoman.Exchange(client, upstream).stream()
    out = b"".join(stream.feed(data[i : i + 1]) for i in range(len(data))) + stream.close()
    body = gathered(client, out)
    assert read_text(client, body) == SPOKEN
    assert called(client, body) == [("get_weather", {"city": SPOKEN})]


def lines_of_their_own(data: bytes) -> bytes:
    """Each JSON over several `data:` lines, as the grammar of server-sent events allows."""
    return data.replace(b"data: {", b"data: {\ndata: ")


FRAMINGS = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "no space": lambda data: data.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "comments": lambda data: b": hello\n\n" + data.replace(b"\n\n", b"\n: alive\n\n"),
    "ids and retries": lambda data: b"retry: 10\n\n" + data.replace(b"data: ", b"id: 7\ndata: "),
    "several lines": lines_of_their_own,
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "no blank line at the end": lambda data: data.rstrip(b"\n"),
}


@every_pair
@pytest.mark.parametrize("framing", FRAMINGS)
def test_G23_every_form_of_server_sent_events(client: str, upstream: str, framing: str) -> None:
    data = streamed_reply(upstream, "Hello.", [Call("c0", "get_weather", PARIS)])
    out = streamed(client, upstream, FRAMINGS[framing](data))
    assert out == streamed(client, upstream, data)


@pytest.mark.parametrize("client", others(ANTHROPIC))
def test_G24_a_ping_of_the_upstream_breaks_nothing(client: str) -> None:
    """Keep-alives on a clock are the gateway's to send."""
    data = streamed_reply(ANTHROPIC, "Hello.")
    pinged = data.replace(b"\n\n", b"\n\n" + named_sse({"type": "ping"}))
    assert read_text(client, reply(client, ANTHROPIC, pinged)) == "Hello."


def test_G24_a_ping_of_the_upstream_is_one_for_a_messages_client() -> None:
    begin, rest = streamed_reply(RESPONSES, "Hello.").split(b"\n\n", 1)
    stream = dragoman.Exchange(ANTHROPIC, RESPONSES).stream()
    stream.feed(begin + b"\n\n")
    assert frames(stream.feed(named_sse({"type": "keepalive"}))) == [{"type": "ping"}]
    assert b"Hello." in stream.feed(rest) + stream.close()


def gemini(part: Wire, **more: Any) -> Wire:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, **more}]}


SIGNED: dict[str, bytes] = {
    RESPONSES: named_sse(
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_1", "summary": []},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Hm.",
        },
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "b3BhcXVl",
            },
        },
        event("output_item.added", 1, item={**item(1, "get_weather", ""), "status": "in_progress"}),
        event("output_item.done", 1, item=item(1, "get_weather", dumps(PARIS))),
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ),
    GEMINI: sse(
        gemini({"text": "Hm.", "thought": True, "thoughtSignature": "b3BhcXVl"}),
        gemini({"text": "So."}, finishReason="STOP"),
    ),
}


@pytest.mark.parametrize("upstream", SIGNED)
def test_G25_the_signature_comes_before_the_end_of_its_block(upstream: str) -> None:
    events = frames(streamed(ANTHROPIC, upstream, SIGNED[upstream]))
    signed = [e for e in events if e.get("delta", {}).get("type") == "signature_delta"]
    assert len(signed) == 1
    at = events.index(signed[0])
    assert events[at + 1] == {"type": "content_block_stop", "index": signed[0]["index"]}
    thinking = [e for e in events if e.get("content_block", {}).get("type") == "thinking"]
    assert signed[0]["index"] in [e["index"] for e in thinking]


def test_G25_a_signature_in_a_part_of_its_own_comes_before_the_next_block() -> None:
    """Gemini gets its parts back as they were, so this one is a block of its own too."""
    data = sse(
        gemini({"text": "Hm.", "thought": True}),
        gemini({"text": "", "thought": True, "thoughtSignature": "b3BhcXVl"}),
        gemini({"text": "So."}, finishReason="STOP"),
    )
    content = reply(ANTHROPIC, GEMINI, data)["content"]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "text"]
