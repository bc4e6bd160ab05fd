"""Responses streams as we write them, with the official SDK as the referee."""

from collections.abc import Iterable
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from dragoman.core.codec import Frame
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    unfold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal
from dragoman.framing import sse
from dragoman.protocols.openai_responses import CODEC

EVENT = TypeAdapter[Any](ResponseStreamEvent)
OWN = "openai-responses"
START = ResponseStart("resp_1", "m", created=7)
END = ResponseEnd(Stop("end"), Usage(3, 2))


def write(events: Iterable[Event], request: Request | None = None) -> tuple[list[Frame], list[str]]:
    losses = Losses()
    encoder, grammar = CODEC.stream_encoder(losses, request), CODEC.grammar()
    frames = [frame for event in events for frame in encoder.feed(event)]
    frames += encoder.close()
    for frame in frames:
        list(grammar.feed(frame))
    list(grammar.close())
    return frames, [str(loss) for loss in losses]


def part(part: AnyPart, *deltas: str, complete: bool = True, index: int = 0, **more: Any) -> list[Event]:
    changes = [PartDelta(index, text) for text in deltas] + ([PartDelta(index, **more)] if more else [])
    return [PartStart(index, part), *changes, PartEnd(index, complete)]


def encoded(*parts: list[Event], end: ResponseEnd = END, request: Request | None = None) -> list[Wire]:
    frames, _ = write([START, *(event for events in parts for event in events), end], request)
    return [frame.data for frame in frames]


def kinds(bodies: list[Wire]) -> list[str]:
    return [body["type"].removeprefix("response.") for body in bodies]


def client(frames: list[Frame]) -> openai.OpenAI:
    """The SDK, connected to a server that answers with `frames`."""
    printer = sse.Encoder()
    data = b"".join(piece for frame in frames for piece in printer.feed(frame))

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    transport = httpx2.MockTransport(answer)
    return openai.OpenAI(
        api_key="k", base_url="http://x/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


ITEMS: dict[str, tuple[list[list[Event]], list[str], list[Wire]]] = {
    "text": (
        [part(Text(), "hel", "lo")],
        [
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
        ],
        [
            {
                "id": "msg_1_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}],
            }
        ],
    ),
    "an empty text": ([part(Text())], [], []),
    "a refusal": (
        [part(Refusal(), "no")],
        [
            "output_item.added",
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done",
            "output_item.done",
        ],
        [
            {
                "id": "msg_1_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "no"}],
            }
        ],
    ),
    "citations come when the text is whole": (
        [part(Text(), "hello", citation=Citation("u", "t"))],
        [
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.annotation.added",
            "output_text.done",
            "content_part.done",
            "output_item.done",
        ],
        [
            {
                "id": "msg_1_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "hello",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "start_index": 0,
                                "end_index": 5,
                                "title": "t",
                                "url": "u",
                            }
                        ],
                        "logprobs": [],
                    }
                ],
            }
        ],
    ),
    "reasoning": (
        [part(Reasoning(), "hm", state=State("gemini", "sig"))],
        [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ],
        [
            {
                "id": "rs_1_0",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": seal("gemini", "sig", ""),
            }
        ],
    ),
    "hidden reasoning": (
        [part(Reasoning(hidden=True), state=State(OWN, "gAAA", "rs_9"))],
        ["output_item.added", "output_item.done"],
        [{"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}],
    ),
    "reasoning without anything": ([part(Reasoning())], [], []),
    "G18 a call": (
        [part(ToolCall("call_1", "f", namespace="n"), '{"a"', ":1}")],
        [
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ],
        [
            {
                "id": "fc_1_0",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "f",
                "namespace": "n",
                "arguments": '{"a":1}',
            }
        ],
    ),
    "G64 a call without arguments": (
        [part(ToolCall("call_1", "f"))],
        [
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ],
        [
            {
                "id": "fc_1_0",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "f",
                "arguments": "{}",
            }
        ],
    ),
    "G90 a custom call": (
        [part(ToolCall("call_1", "p", kind="custom"), "*** x")],
        [
            "output_item.added",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.done",
            "output_item.done",
        ],
        [
            {
                "id": "ctc_1_0",
                "type": "custom_tool_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "p",
                "input": "*** x",
            }
        ],
    ),
    "G93 a local shell call": (
        [part(ToolCall("c", "local_shell", kind="local_shell"), '{"command":["ls"]}')],
        ["output_item.added", "output_item.done"],
        [
            {
                "id": "lsh_1_0",
                "type": "local_shell_call",
                "status": "completed",
                "call_id": "c",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            }
        ],
    ),
    "a hosted call of our own": (
        [
            part(
                Foreign(
                    OWN,
                    {
                        "type": "web_search_call",
                        "id": "ws_1",
                        "status": "completed",
                        "action": {"type": "search", "query": "q"},
                    },
                )
            )
        ],
        [
            "output_item.added",
            "web_search_call.in_progress",
            "web_search_call.searching",
            "web_search_call.completed",
            "output_item.done",
        ],
        [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            }
        ],
    ),
    "a part of another origin": ([part(Foreign("gemini", {"x": 1}))], [], []),
    "a picture": (
        [part(Media("image", "image/png", Base64("iVBOR")))],
        ["output_item.added", "output_item.done"],
        [
            {
                "id": "ig_1_0",
                "type": "image_generation_call",
                "status": "completed",
                "output_format": "png",
                "result": "iVBOR",
            }
        ],
    ),
}


@pytest.mark.parametrize("name", ITEMS)
def test_parts_become_items(name: str):
    parts, steps, items = ITEMS[name]
    bodies = encoded(*parts)
    assert kinds(bodies) == ["created", "in_progress", *steps, "completed"]
    assert bodies[-1]["response"]["output"] == items
    done = [body["item"] for body in bodies if body["type"] == "response.output_item.done"]
    assert done == items
    assert [body["sequence_number"] for body in bodies] == list(range(len(bodies)))
    for body in bodies:
        EVENT.validate_python(body)


WHOLE = Response(
    "msg_9",
    "m",
    (
        Reasoning("hm", state=State("anthropic", "sig")),
        Text("well", (Citation("u", "t"),)),
        ToolCall("call_1", "f", '{"a":1}'),
        ToolCall("call_2", "p", "*** x", "custom"),
        Refusal("no"),
    ),
    Stop("tool_calls"),
    Usage(10, 7, 4, 1, 3),
)


def test_the_sdk_accumulates_what_we_write():
    frames, _ = write(unfold(WHOLE))
    with client(frames).responses.stream(model="m", input="hi") as stream:
        seen = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "well"
    assert [item.type for item in final.output] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
        "message",
    ]
    call = final.output[2]
    assert call.type == "function_call"
    assert (call.call_id, call.name, call.arguments) == ("call_1", "f", '{"a":1}')
    assert final.usage is not None
    assert final.usage.input_tokens_details.cached_tokens == 4
    assert final.usage.output_tokens_details.reasoning_tokens == 3
    last = [event for event in seen if event.type == "response.function_call_arguments.delta"][-1]
    assert last.snapshot == '{"a":1}'


def test_g19_the_stream_says_what_the_whole_says():
    frames, _ = write(unfold(WHOLE))
    assert frames[-1].data["response"] == CODEC.encode_response(WHOLE, Losses())


def test_g21_one_id_throughout():
    frames, _ = write(unfold(WHOLE))
    ids = {frame.data["response"]["id"] for frame in frames if "response" in frame.data}
    assert ids == {"resp_msg_9"}


def test_frames_are_named_by_their_type():
    frames, _ = write(unfold(WHOLE))
    assert all(frame.event == frame.data["type"] for frame in frames)


def test_items_are_announced_empty():
    bodies = encoded(*ITEMS["G18 a call"][0], part(Text(), "x", index=1), part(Reasoning(), "y", index=2))
    items = [body["item"] for body in bodies if body["type"] == "response.output_item.added"]
    assert [item.get("status") for item in items] == ["in_progress", "in_progress", None]
    assert items[0]["arguments"] == ""
    assert (items[0]["call_id"], items[0]["name"]) == ("call_1", "f")
    assert items[1]["content"] == []
    assert items[2]["summary"] == []


def test_each_item_has_a_place_of_its_own():
    bodies = encoded(*(part(Text(), "x", index=i) for i in range(3)))
    assert [body["output_index"] for body in bodies if body["type"] == "response.output_item.added"] == [
        0,
        1,
        2,
    ]
    assert len({body["item_id"] for body in bodies if "item_id" in body}) == 3


ENDS: dict[str, tuple[Stop, str, Any]] = {
    "end": (Stop("end"), "response.completed", None),
    "calls": (Stop("tool_calls"), "response.completed", None),
    "length": (Stop("length"), "response.incomplete", {"reason": "max_output_tokens"}),
    "filtered": (Stop("content_filter"), "response.incomplete", {"reason": "content_filter"}),
}


@pytest.mark.parametrize("stop, kind, details", ENDS.values(), ids=ENDS)
def test_the_end(stop: Stop, kind: str, details: Any):
    last = encoded(part(Text(), "x"), end=ResponseEnd(stop, None))[-1]
    assert last["type"] == kind
    assert last["response"]["incomplete_details"] == details
    assert last["response"]["usage"]["total_tokens"] == 0  # OpenCode loops where it is missing


def test_usage_that_was_known_at_the_start():
    frames, _ = write([ResponseStart("r", "m", Usage(5)), ResponseEnd(Stop("end"))])
    assert frames[-1].data["response"]["usage"]["input_tokens"] == 5


def test_g28_a_call_that_was_cut_is_never_offered():
    """Agents run a call when its item is done, so that is left out; the response tells of it."""
    cut = [PartStart(0, ToolCall("call_1", "f")), PartDelta(0, '{"a'), PartEnd(0, complete=False)]
    bodies = encoded(cut, end=ResponseEnd(Stop("length"), Usage(1, 1)))
    assert kinds(bodies) == [
        "created",
        "in_progress",
        "output_item.added",
        "function_call_arguments.delta",
        "incomplete",
    ]
    (item,) = bodies[-1]["response"]["output"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a')


def test_g28_a_shell_call_that_was_cut_is_reported():
    call = ToolCall("c", "local_shell", kind="local_shell")
    cut = [PartStart(0, call), PartDelta(0, '{"comm'), PartEnd(0, complete=False)]
    frames, losses = write([START, *cut, ResponseEnd(Stop("length"))])
    assert frames[-1].data["response"]["output"] == []
    assert losses == ["dropped tool call: The reply was cut inside this call, so it must not run."]


def test_the_call_of_a_search_that_the_client_runs():
    tool = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    request = CODEC.decode_request({"model": "m", "input": "hi", "tools": [tool]}, Losses())
    bodies = encoded(part(ToolCall("c", "tool_search"), '{"q":', '"x"}'), request=request)
    assert kinds(bodies) == ["created", "in_progress", "output_item.added", "output_item.done", "completed"]
    assert bodies[-1]["response"]["output"] == [
        {
            "type": "tool_search_call",
            "id": "tsc_1_0",
            "call_id": "c",
            "execution": "client",
            "status": "completed",
            "arguments": {"q": "x"},
        }
    ]


def test_an_item_whose_type_is_no_text_is_passed_on():
    (odd,) = (
        body["item"]
        for body in encoded(part(Foreign(OWN, {"type": ["x"]})))
        if body["type"].endswith("item.done")
    )
    assert odd["type"] == ["x"]


def test_the_request_is_repeated():
    wire: Wire = {
        "model": "m",
        "input": "hi",
        "tools": [{"type": "function", "name": "f"}],
        "temperature": 0,
    }
    bodies = encoded(request=CODEC.decode_request(wire, Losses()))
    for body in bodies:
        filled = {"description": None, "parameters": None, "strict": False}
        assert body["response"]["tools"] == [{**wire["tools"][0], **filled}]
        assert body["response"]["temperature"] == 0


FAILURES: dict[str, tuple[Any, str]] = {
    "G36 context": ("context_too_long", "context_length_exceeded"),
    "G35 rate limit": ("rate_limit", "rate_limit_exceeded"),
    "billing": ("billing", "insufficient_quota"),
    "overloaded": ("overloaded", "server_is_overloaded"),
    "bad request": ("bad_request", "invalid_prompt"),
    "server": ("server", "server_error"),
    "G14 truncated": ("truncated", "server_error"),
    "forbidden": ("forbidden", "server_error"),
}


@pytest.mark.parametrize("kind, code", FAILURES.values(), ids=FAILURES)
def test_g16_failures(kind: Any, code: str):
    frames, _ = write([START, *part(Text(), "x"), ResponseFailed(Failure(kind, "no context window"))])
    last = frames[-1].data
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"] == {"code": code, "message": "no context window"}
    assert len(last["response"]["output"]) == 1


def test_a_failure_before_anything_else():
    frames, _ = write([ResponseFailed(Failure("server", "why"))])
    assert kinds([frame.data for frame in frames]) == ["created", "in_progress", "failed"]


def test_the_sdk_hands_on_a_failure():
    frames, _ = write(
        [START, PartStart(0, Text()), PartDelta(0, "x"), ResponseFailed(Failure("server", "why"))]
    )
    seen = list(client(frames).responses.create(model="m", input="hi", stream=True))
    assert seen[-1].type == "response.failed"
    assert seen[-1].response.error is not None
    assert seen[-1].response.error.message == "why"
    with client(frames).responses.stream(model="m", input="hi") as stream:
        assert [event.type for event in stream][-1] == "response.failed"


def test_signs_of_life_are_no_events():
    assert write([START, KeepAlive(), END])[0] == write([START, END])[0]
    assert CODEC.keep_alive.startswith(b":")


def test_the_terminal_marks_are_in_every_stream():
    for last in (END, ResponseEnd(Stop("length")), ResponseFailed(Failure("server", "x"))):
        data = b"".join(piece for frame in write([START, last])[0] for piece in sse.Encoder().feed(frame))
        assert any(mark in data for mark in CODEC.terminal)
    data = b"".join(sse.Encoder().feed(write([START, END])[0][0]))
    assert not any(mark in data for mark in CODEC.terminal)
