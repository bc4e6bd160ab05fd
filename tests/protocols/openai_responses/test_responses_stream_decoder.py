"""Responses streams as upstreams really send them, read into neutral events."""

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    fold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.openai_responses import CODEC

OWN = "openai-responses"
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def made(**more: Any) -> Wire:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "status": "in_progress",
        "model": "m",
        "output": [],
        **more,
    }


def event(kind: str, **body: Any) -> Wire:
    return {"type": f"response.{kind}", **body}


CREATED = event("created", response=made())


def ended(*output: Wire, status: str = "completed", **more: Any) -> Wire:
    return event(status, response=made(status=status, output=list(output), usage=USAGE, **more))


def message(*content: Wire, at: int = 0, **more: Any) -> Wire:
    return {
        "id": f"msg_{at}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": list(content),
        **more,
    }


def text(content: str, *annotations: Wire) -> Wire:
    return {"type": "output_text", "text": content, "annotations": list(annotations), "logprobs": []}


def call(arguments: str, at: int = 0, **more: Any) -> Wire:
    item = {
        "id": f"fc_{at}",
        "type": "function_call",
        "call_id": f"call_{at}",
        "name": "f",
        "status": "completed",
    }
    return {**item, "arguments": arguments, **more}


def bare_call(call_id: str) -> Wire:
    return {"type": "function_call", "call_id": call_id, "name": "f"}


def added(item: Wire, at: int = 0) -> Wire:
    blank = {"content": []} if item["type"] == "message" else {}
    blank |= {key: "" for key in ("arguments", "input") if key in item}
    blank |= {"summary": []} if item["type"] == "reasoning" else {}
    return event("output_item.added", output_index=at, item={**item, "status": "in_progress", **blank})


def done(item: Wire, at: int = 0) -> Wire:
    return event("output_item.done", output_index=at, item=item)


def delta(kind: str, content: str, at: int = 0, **more: Any) -> Wire:
    return event(f"{kind}.delta", item_id=f"x_{at}", output_index=at, delta=content, **more)


def argument(content: str, at: int = 0) -> Wire:
    return delta("function_call_arguments", content, at)


def frames(*events: Wire | bytes) -> list[Frame]:
    return [
        Frame("", item) if isinstance(item, bytes) else Frame(item.get("type", ""), jsontext.encode(item))
        for item in events
    ]


def read(*events: Wire | bytes) -> tuple[list[Event], list[str]]:
    losses = Losses()
    decoder = CODEC.stream_decoder(losses)
    out = [step for frame in frames(*events) for step in decoder.feed(frame)]
    return [*out, *decoder.close()], [str(loss) for loss in losses]


def bare(part: Any) -> Any:
    if isinstance(part, Text):
        part = replace(part, citations=tuple(replace(citation, extras=None) for citation in part.citations))
    return replace(part, extras=None)


HELLO = message(text("hello"))
THOUGHT: Wire = {
    "id": "rs_0",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "first"}, {"type": "summary_text", "text": "second"}],
    "encrypted_content": "final",
}
STATE = State(OWN, "final", "rs_0")
URL = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 5}
CITED = Citation("u", "t", start=0, end=5)
LENGTH = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}

# Every way of telling the same ends in the same parts
RAW = {"type": "reasoning_text", "text": "raw"}
GPT_OSS: list[Wire] = [
    added({"type": "reasoning", "id": "rs_0", "summary": []}),
    event("reasoning_part.added", output_index=0, content_index=0, part=RAW | {"text": ""}),
    delta("reasoning_text", "raw", content_index=0),
    event("reasoning_text.done", output_index=0, content_index=0, text="raw"),
    event("reasoning_part.done", output_index=0, content_index=0, part=RAW),
    done({"type": "reasoning", "id": "rs_0", "content": [RAW], "item_id": "rs_0", "output_index": 0}),
    ended(),
]

STREAMS: dict[str, tuple[list[Wire | bytes], list[AnyPart]]] = {
    "text": (
        [
            CREATED,
            event("in_progress", response=made()),
            added(HELLO),
            event("content_part.added", output_index=0, content_index=0, part=text("")),
            delta("output_text", "hel", content_index=0),
            delta("output_text", "lo", content_index=0),
            event("output_text.done", output_index=0, content_index=0, text="hello"),
            event("content_part.done", output_index=0, content_index=0, part=text("hello")),
            done(HELLO),
            ended(HELLO),
        ],
        [Text("hello")],
    ),
    "deltas only": (
        [CREATED, added(HELLO), delta("output_text", "hello", content_index=0), ended()],
        [Text("hello")],
    ),
    "nothing was announced": ([CREATED, delta("output_text", "hello"), ended(HELLO)], [Text("hello")]),
    "no response.created": ([delta("output_text", "hello"), ended(HELLO)], [Text("hello")]),
    "only output_text.done": (
        [
            CREATED,
            added(HELLO),
            event("output_text.done", output_index=0, content_index=0, text="hello"),
            ended(),
        ],
        [Text("hello")],
    ),
    "only content_part.done": (
        [CREATED, event("content_part.done", output_index=0, content_index=0, part=text("hello")), ended()],
        [Text("hello")],
    ),
    "only the finished item": ([CREATED, done(HELLO), ended()], [Text("hello")]),
    "only the final response": (
        [CREATED, ended(HELLO, call("{}", 1))],
        [Text("hello"), ToolCall("call_1", "f", "{}")],
    ),
    "the end of the text comes late": (
        [CREATED, added(HELLO), delta("output_text", "hel", content_index=0), ended(HELLO)],
        [Text("hello")],
    ),
    "an item without its content (Hugging Face)": (
        [
            CREATED,
            added({"id": "msg_0", "type": "message", "role": "assistant"}),
            {
                "type": "response.output_text.delta",
                "item_id": "msg_0",
                "output_index": 0,
                "content_index": 0,
                "delta": "hello",
            },
            done({"id": "msg_0", "type": "message", "role": "assistant"}),
            ended({"id": "msg_0", "type": "message", "role": "assistant"}),
        ],
        [Text("hello")],
    ),
    "no output_index": (
        [
            CREATED,
            {"type": "response.output_item.added", "item": {**HELLO, "content": []}},
            {"type": "response.output_text.delta", "item_id": "msg_0", "delta": "hello"},
            {"type": "response.output_item.done", "item": HELLO},
            ended(HELLO),
        ],
        [Text("hello")],
    ),
    "no output_index and no item ids: a call that is done is the one of its call_id": (
        [
            CREATED,
            *(
                step
                for which in ("a", "b")
                for step in (
                    event("output_item.added", item=bare_call(which)),
                    event("function_call_arguments.delta", delta="{}"),
                    event("output_item.done", item={**bare_call(which), "arguments": "{}"}),
                )
            ),
            ended(*({**bare_call(which), "arguments": "{}"} for which in ("a", "b"))),
        ],
        [ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")],
    ),
    "no output_index and no ids: a message that is done is the one that is open": (
        [
            CREATED,
            event("output_item.added", item={"type": "message", "role": "assistant", "content": []}),
            event("output_text.delta", delta="hello"),
            event(
                "output_item.done", item={"type": "message", "role": "assistant", "content": [text("hello")]}
            ),
            ended(),
        ],
        [Text("hello")],
    ),
    "no output_index among several items": (
        [
            CREATED,
            {"type": "response.output_item.added", "item": {**HELLO, "content": []}},
            {"type": "response.output_item.added", "item": call("", 1)},
            {"type": "response.output_text.delta", "item_id": "msg_0", "delta": "hello"},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{}"},
            {"type": "response.output_item.done", "item": HELLO},
            ended(HELLO, call("{}", 1)),
        ],
        [ToolCall("call_1", "f", "{}"), Text("hello")],
    ),
    "ids that change on the way": (
        [
            CREATED,
            added(HELLO),
            delta("output_text", "hello", content_index=0),
            done({**HELLO, "id": "msg_other"}),
            ended({**HELLO, "id": "msg_third"}),
        ],
        [Text("hello")],
    ),
    "indices that do not match the output": (
        [
            CREATED,
            added(HELLO, 4),
            delta("output_text", "hello", 4, content_index=0),
            done(HELLO, 4),
            ended(HELLO),
        ],
        [Text("hello")],
    ),
    "two parts in a message": (
        [
            CREATED,
            added(HELLO),
            delta("output_text", "a", content_index=0),
            delta("output_text", "b", content_index=1),
            ended(message(text("a"), text("b"))),
        ],
        [Text("a"), Text("b")],
    ),
    "an empty message": ([CREATED, added(HELLO), done(message()), ended(message())], []),
    "an empty text": ([CREATED, added(HELLO), done(message(text(""))), ended(message(text("")))], []),
    "a refusal": (
        [
            CREATED,
            added(HELLO),
            event(
                "content_part.added", output_index=0, content_index=0, part={"type": "refusal", "refusal": ""}
            ),
            delta("refusal", "n", content_index=0),
            event("refusal.done", output_index=0, content_index=0, refusal="no"),
            ended(message({"type": "refusal", "refusal": "no"})),
        ],
        [Refusal("no")],
    ),
    "annotations": (
        [
            CREATED,
            added(HELLO),
            delta("output_text", "hello", content_index=0),
            event(
                "output_text.annotation.added",
                output_index=0,
                content_index=0,
                annotation_index=0,
                annotation=URL,
            ),
            done(message(text("hello", URL))),
            ended(message(text("hello", URL))),
        ],
        [Text("hello", (CITED,))],
    ),
    "annotations that are only in the item": (
        [
            CREATED,
            added(HELLO),
            delta("output_text", "hello", content_index=0),
            done(message(text("hello", URL))),
            ended(),
        ],
        [Text("hello", (CITED,))],
    ),
    "annotations of an empty text": (
        [CREATED, added(HELLO), done(message(text("", URL))), ended(message(text("", URL)))],
        [Text("", (CITED,))],
    ),
    "arguments": (
        [
            CREATED,
            added(call("{}")),
            argument('{"a"'),
            argument(":1}"),
            done(call('{"a":1}')),
            ended(call('{"a":1}')),
        ],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "G05 arguments only in .done": (
        [
            CREATED,
            added(call("{}")),
            event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
            done(call('{"a":1}')),
            ended(),
        ],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "G05 arguments only in the item": (
        [CREATED, added(call("{}")), done(call('{"a":1}')), ended()],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "G05 the last fragment is missing": (
        [
            CREATED,
            added(call("{}")),
            argument('{"a"'),
            event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
            ended(),
        ],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "arguments printed anew at the end": (
        [CREATED, added(call("{}")), argument('{"a":1}'), done(call('{ "a": 1 }')), ended()],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "G02 interleaved calls": (
        [
            CREATED,
            added(call("{}"), 0),
            added(call("{}", 1), 1),
            argument('{"a":', 0),
            argument('{"b":', 1),
            argument("1}", 0),
            argument("2}", 1),
            done(call('{"b":2}', 1), 1),
            done(call('{"a":1}', 0), 0),
            ended(call('{"a":1}'), call('{"b":2}', 1)),
        ],
        [ToolCall("call_0", "f", '{"a":1}'), ToolCall("call_1", "f", '{"b":2}')],
    ),
    "G18 everything at output_index 0": (
        [
            CREATED,
            added(HELLO),
            delta("output_text", "hello", content_index=0),
            added(call("{}")),
            argument('{"a":1}'),
            done(call('{"a":1}')),
            ended(HELLO, call('{"a":1}')),
        ],
        [Text("hello"), ToolCall("call_0", "f", '{"a":1}')],
    ),
    "G07 the name comes with the item": (
        [
            CREATED,
            event("output_item.added", output_index=0, item={"type": "function_call", "arguments": ""}),
            argument('{"a"'),
            argument(":1}"),
            done(call('{"a":1}')),
            ended(),
        ],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "no arguments at all": (
        [CREATED, added(call("")), done(call("")), ended(call(""))],
        [ToolCall("call_0", "f", "")],
    ),
    "announced twice": (
        [CREATED, added(call("{}")), added(call("{}")), argument('{"a":1}'), done(call('{"a":1}')), ended()],
        [ToolCall("call_0", "f", '{"a":1}')],
    ),
    "nothing is announced": (
        [CREATED, event("output_item.added", output_index=0, item=None), done(HELLO, 1), ended(HELLO)],
        [Text("hello")],
    ),
    "a namespace": (
        [CREATED, added(call("{}", namespace="n")), done(call("{}", namespace="n")), ended()],
        [ToolCall("call_0", "f", "{}", namespace="n")],
    ),
    "G90 a custom call": (
        [
            CREATED,
            added({"type": "custom_tool_call", "id": "ctc_0", "call_id": "c", "name": "p", "input": ""}),
            delta("custom_tool_call_input", "*** "),
            delta("custom_tool_call_input", "x"),
            event("custom_tool_call_input.done", output_index=0, input="*** x"),
            done({"type": "custom_tool_call", "id": "ctc_0", "call_id": "c", "name": "p", "input": "*** x"}),
            ended(),
        ],
        [ToolCall("c", "p", "*** x", "custom")],
    ),
    "a local shell call": (
        [
            CREATED,
            event(
                "output_item.done",
                output_index=0,
                item={
                    "type": "local_shell_call",
                    "call_id": "c",
                    "action": {"type": "exec", "command": ["ls"]},
                },
            ),
            ended(),
        ],
        [ToolCall("c", "local_shell", '{"command":["ls"]}', "local_shell")],
    ),
    "reasoning in sections": (
        [
            CREATED,
            added({**THOUGHT, "encrypted_content": "partial"}),
            event("reasoning_summary_part.added", output_index=0, summary_index=0, part={}),
            delta("reasoning_summary_text", "fir", summary_index=0),
            delta("reasoning_summary_text", "st", summary_index=0),
            event("reasoning_summary_text.done", output_index=0, summary_index=0, text="first"),
            event("reasoning_summary_part.done", output_index=0, summary_index=0, part={}),
            delta("reasoning_summary_text", "second", summary_index=1),
            done(THOUGHT),
            ended(THOUGHT),
        ],
        [Reasoning("first\n\nsecond", state=STATE)],
    ),
    "reasoning only in the item": (
        [CREATED, done(THOUGHT), ended()],
        [Reasoning("first\n\nsecond", state=STATE)],
    ),
    "G25 hidden reasoning": (
        [CREATED, added(THOUGHT), done({**THOUGHT, "summary": []}), ended({**THOUGHT, "summary": []})],
        [Reasoning(hidden=True, state=STATE)],
    ),
    "reasoning without anything": (
        [
            CREATED,
            added({"type": "reasoning", "id": "rs_0", "summary": []}),
            done({"type": "reasoning", "id": "rs_0"}),
            ended(),
        ],
        [],
    ),
    "reasoning text of open models": (
        [
            CREATED,
            added({"type": "reasoning", "id": "rs_0", "summary": []}),
            event(
                "content_part.added",
                output_index=0,
                content_index=0,
                part={"type": "reasoning_text", "text": ""},
            ),
            delta("reasoning_text", "raw", content_index=0),
            event("reasoning_text.done", output_index=0, content_index=0, text="raw"),
            event(
                "content_part.done",
                output_index=0,
                content_index=0,
                part={"type": "reasoning_text", "text": "raw"},
            ),
            done({"type": "reasoning", "id": "rs_0", "content": [{"type": "reasoning_text", "text": "raw"}]}),
            ended(),
        ],
        [Reasoning("raw")],
    ),
    "reasoning text of gpt-oss at Bedrock": ([CREATED, *GPT_OSS], [Reasoning("raw")]),
    "hosted calls": (
        [
            CREATED,
            event("output_item.added", output_index=0, item={"type": "web_search_call", "id": "ws_0"}),
            event("web_search_call.searching", output_index=0, item_id="ws_0"),
            done({"type": "web_search_call", "id": "ws_0", "status": "completed"}),
            ended({"type": "web_search_call", "id": "ws_0", "status": "completed"}),
        ],
        [Foreign(OWN, {"type": "web_search_call", "id": "ws_0", "status": "completed"})],
    ),
    "G17 [DONE] after the end": ([CREATED, done(HELLO), ended(HELLO), b"[DONE]"], [Text("hello")]),
    "G23 names only in the event line": ([], []),
    "G28 a call that was cut": (
        [
            CREATED,
            added(call("{}")),
            argument('{"a'),
            done(call('{"a', status="incomplete")),
            ended(call('{"a', status="incomplete"), **LENGTH),
        ],
        [ToolCall("call_0", "f", '{"a', complete=False)],
    ),
    "content_index counts on from the reasoning before the message": (
        [
            CREATED,
            added({**HELLO, "content": []}),
            event("content_part.added", output_index=0, content_index=1, part=HELLO["content"][0]),
            delta("output_text", "hel", content_index=1),
            done(HELLO),
            ended(HELLO),
        ],
        [Text("hello")],
    ),
    "G28 a call that was cut and never done": (
        [CREATED, added(call("{}")), argument('{"a'), ended(**LENGTH)],
        [ToolCall("call_0", "f", '{"a', complete=False)],
    ),
    "G28 a call that was cut and says it is whole": (
        [CREATED, added(call("{}")), argument('{"a'), done(call('{"a')), ended(call('{"a'), **LENGTH)],
        [ToolCall("call_0", "f", '{"a', complete=False)],
    ),
    "a whole call before the cut": (
        [
            CREATED,
            added(call("{}")),
            argument("{}"),
            done(call("{}")),
            added(HELLO, 1),
            delta("output_text", "h", 1),
            ended(**LENGTH),
        ],
        [ToolCall("call_0", "f", "{}"), Text("h")],
    ),
    "a custom call that was cut": (
        [
            CREATED,
            added({"type": "custom_tool_call", "id": "ctc_0", "call_id": "c", "name": "p", "input": ""}),
            delta("custom_tool_call_input", "*** "),
            ended(**LENGTH),
        ],
        [ToolCall("c", "p", "*** ", "custom", complete=False)],
    ),
}
STREAMS["G23 names only in the event line"] = (STREAMS["text"][0], [Text("hello")])


@pytest.mark.parametrize("name", STREAMS)
def test_streams_become_parts(name: str):
    events, parts = STREAMS[name]
    decoder = CODEC.stream_decoder(Losses())
    given = frames(*events)
    if "event line" in name:
        given = [
            Frame(frame.event, jsontext.encode({**jsontext.decode(frame.data), "type": None}))
            for frame in given
        ]
    response = fold([*(step for frame in given for step in decoder.feed(frame)), *decoder.close()])
    assert [bare(part) for part in response.parts] == parts
    assert response.usage == Usage(3, 2)


@pytest.mark.parametrize("name", STREAMS)
def test_events_are_in_order(name: str):
    """One start, one end, and every part opened once, filled while open, and closed."""
    events, _ = read(*STREAMS[name][0])
    assert isinstance(events[0], ResponseStart)
    assert isinstance(events[-1], ResponseEnd)
    assert sum(isinstance(step, ResponseStart | ResponseEnd | ResponseFailed) for step in events) == 2
    open: set[int] = set()
    for step in events:
        match step:
            case PartStart(index, _):
                assert index not in open
                open.add(index)
            case PartDelta(index):
                assert index in open
                assert step.text or step.state or step.citation
            case PartEnd(index):
                open.remove(index)
            case _:
                pass
    assert not open


TWINS = [
    "text",
    "two parts in a message",
    "a refusal",
    "annotations",
    "arguments",
    "G02 interleaved calls",
    "a namespace",
]


@pytest.mark.parametrize("name", TWINS)
def test_streamed_equals_whole(name: str):
    """The extras included: what goes back to this protocol is the same."""
    events = [item for item in STREAMS[name][0] if isinstance(item, dict)]
    final = events[-1]["response"]
    if not final["output"]:
        final = {**final, "output": [item["item"] for item in events if item["type"].endswith("item.done")]}
        events = [*events[:-1], {**events[-1], "response": final}]
    whole = CODEC.decode_response(final, Losses())
    streamed: Response = fold(read(*events)[0])
    assert streamed.extras == whole.extras
    assert (streamed.stop, streamed.usage, streamed.created) == (whole.stop, whole.usage, whole.created)
    assert [replace(part, extras=None) for part in streamed.parts if isinstance(part, ToolCall)] == [
        replace(part, extras=None) for part in whole.parts if isinstance(part, ToolCall)
    ]
    assert CODEC.encode_response(streamed, Losses())["output"] == final["output"]


STOPS: dict[str, tuple[Wire, Stop]] = {
    "end": (ended(HELLO), Stop("end", "completed")),
    "G26 calls": (ended(call("{}")), Stop("tool_calls", "completed")),
    "length": (ended(HELLO, **LENGTH), Stop("length", "max_output_tokens")),
    "filtered": (
        ended(HELLO, status="incomplete", incomplete_details={"reason": "content_filter"}),
        Stop("content_filter", "content_filter"),
    ),
    "the event says what the response leaves out": (
        event("incomplete", response={"incomplete_details": {"reason": "content_filter"}}),
        Stop("content_filter", "content_filter"),
    ),
}


@pytest.mark.parametrize("last, stop", STOPS.values(), ids=STOPS)
def test_the_stop_reason(last: Wire, stop: Stop):
    events, _ = read(CREATED, last)
    end = events[-1]
    assert isinstance(end, ResponseEnd)
    assert end.stop == stop


FAILED = event(
    "failed", response=made(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"})
)
NESTED = {
    "type": "error",
    "sequence_number": 2,
    "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"},
}
FLAT = {
    "type": "error",
    "code": "rate_limit_exceeded",
    "message": "slow",
    "param": None,
    "sequence_number": 2,
}
FAILURES: dict[str, tuple[list[Wire | bytes], str, str]] = {
    "response.failed": ([CREATED, FAILED], "rate_limit", "slow"),
    "G15 a nested error": ([CREATED, NESTED, FAILED], "rate_limit", "slow"),
    "G15 a flat error": ([CREATED, FLAT], "rate_limit", "slow"),
    "G15 an error at once": ([NESTED], "rate_limit", "slow"),
    "G15 an error without a type": ([{"error": {"code": "server_error", "message": "x"}}], "server", "x"),
    "failed without words": (
        [CREATED, event("failed", response=made(status="failed"))],
        "server",
        "the response failed without saying why",
    ),
    "G14 the stream stops": (
        [CREATED, added(HELLO), delta("output_text", "h", content_index=0)],
        "truncated",
        "the upstream's stream ended without response.completed",
    ),
    "G14 nothing came": ([], "truncated", "the upstream's stream ended without response.completed"),
    "cancelled": (
        [CREATED, event("cancelled", response=made(status="cancelled"))],
        "server",
        "the response failed without saying why",
    ),
    "G14 [DONE] alone": (
        [b"[DONE]"],
        "truncated",
        "the upstream's stream ended without response.completed",
    ),
    "G14 only [DONE]": (
        [CREATED, b"[DONE]"],
        "truncated",
        "the upstream's stream ended without response.completed",
    ),
}


@pytest.mark.parametrize("events, kind, message", FAILURES.values(), ids=FAILURES)
def test_failures(events: list[Wire | bytes], kind: str, message: str):
    steps, _ = read(*events)
    failures = [step.failure for step in steps if isinstance(step, ResponseFailed)]
    assert [(failure.kind, failure.message) for failure in failures] == [(kind, message)]
    assert not any(isinstance(step, ResponseEnd) for step in steps)
    with pytest.raises(UpstreamError):
        fold(steps)


def test_the_start_says_who_answers():
    events, _ = read(CREATED, ended())
    assert events[0] == ResponseStart("resp_1", "m", created=7)


def test_g24_signs_of_life():
    progress = event("code_interpreter_call_code.delta", output_index=0, delta="x")
    events, losses = read(CREATED, {"type": "keepalive", "sequence_number": 3}, progress, ended())
    assert events.count(KeepAlive()) == 2
    assert losses == []


def test_unknown_events_are_reported_once():
    events, losses = read(CREATED, event("audio.delta", delta="x"), event("audio.delta", delta="y"), ended())
    assert [type(step) for step in events] == [ResponseStart, ResponseEnd]
    assert losses == ["dropped event response.audio.delta: Only openai-responses has this event."]


LOSSES: dict[str, tuple[list[Wire], list[str]]] = {
    "the item differs from its deltas": (
        [added(HELLO), delta("output_text", "hi", content_index=0), done(HELLO), ended()],
        ["changed output[0].content[0]: The finished item differs from the stream. The stream counts."],
    ),
    "a call that never got a name": (
        [argument('{"a":1}'), ended()],
        ["dropped tool call: It never got a name."],
    ),
    "a late annotation": (
        [
            added(HELLO),
            event("content_part.done", output_index=0, content_index=0, part=text("hello")),
            event("output_text.annotation.added", output_index=0, content_index=0, annotation=URL),
            ended(HELLO),
        ],
        ["dropped output[0].content[0].annotations[0]: It came after the end of its text."],
    ),
    "an annotation of a file": (
        [
            added(HELLO),
            delta("output_text", "hello", content_index=0),
            event(
                "output_text.annotation.added",
                output_index=0,
                content_index=0,
                annotation={"type": "file_path"},
            ),
            done(message(text("hello", {"type": "file_path"}))),
            ended(),
        ],
        ["dropped output[0].content[0].annotations[0]: Only openai-responses has this citation."],
    ),
    "hosted calls": (
        [done({"type": "mcp_call", "id": "x"}), ended({"type": "mcp_call", "id": "x"})],
        ["dropped output[0]: Only openai-responses understands an item of type mcp_call."],
    ),
    "pieces that gpt-oss repeats": (GPT_OSS, []),
    "unknown fields of the response": (
        [ended(new=1)],
        ["dropped new: Only openai-responses has this field."],
    ),
}


@pytest.mark.parametrize("events, losses", LOSSES.values(), ids=LOSSES)
def test_losses(events: list[Wire], losses: list[str]):
    assert read(CREATED, *events)[1] == losses


MALFORMED: dict[str, tuple[Wire | bytes, str]] = {
    "no JSON": (b"{", "event (unnamed)"),
    "no object": (b"[]", "event (unnamed)"),
    "a type that is no text": ({"type": 5}, "type"),
    "a delta that is no text": (delta("output_text", 5, content_index=0), "delta"),  # pyright: ignore[reportArgumentType] - on purpose
    "an index that is no number": (delta("output_text", "x", [1], content_index=0), "output_index"),  # pyright: ignore[reportArgumentType] - on purpose
    "a content index that is no number": (delta("output_text", "x", content_index="a"), "content_index"),
    "arguments that are no text": (argument(None), "delta"),  # pyright: ignore[reportArgumentType] - on purpose
    "no arguments": (event("function_call_arguments.done", output_index=0), "arguments"),
    "an item that is no object": (event("output_item.added", output_index=0, item=[]), "output[0]"),
    "an item without a type": (event("output_item.done", output_index=0, item={}), "output[0]"),
    "no item": (event("output_item.done", output_index=0), "output[0]"),
    "a call without an id": (
        event("output_item.done", output_index=0, item={"type": "function_call"}),
        "output[0].call_id",
    ),
    "an annotation that is no object": (
        event("output_text.annotation.added", output_index=0, annotation=1),
        ".annotations[0]",
    ),
    "a response that is no object": (event("completed", response=[1]), "body"),
    "output that is no array": (event("completed", response=made(output={"a": 1})), "output"),
    "usage that is no object": (event("completed", response=made(usage=[1])), "usage"),
    "a delta after its part is done": (delta("output_text", "x", 9, content_index=0), "delta"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_events(name: str):
    wire, path = MALFORMED[name]
    decoder = CODEC.stream_decoder(Losses())
    before = [CREATED, event("content_part.done", output_index=9, content_index=0, part=text("hello"))]
    for frame in frames(*before):
        list(decoder.feed(frame))
    (spoiled,) = frames(wire)
    with pytest.raises(WireError) as raised:
        list(decoder.feed(spoiled))
    assert (raised.value.protocol, path in (raised.value.path or "body")) == (OWN, True)
