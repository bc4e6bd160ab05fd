"""The restorer: what comes back to the client, part by part."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core.codec import ProtocolLimits
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Message,
    Reasoning,
    Request,
    State,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Usage,
)
from dragoman.protocols import codec
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.restorer import Restorer
from transforms.prepared import prepare

PLAIN = ProtocolLimits()
SIGNING = ProtocolLimits(call_state=True, text_state=True)
FORGETFUL = ProtocolLimits(reasoning_state=False)
STRINGS: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
NUMBERS: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
END = ResponseEnd(Stop("end"), Usage(1, 1))


def restored(
    events: list[Event],
    *tools: ToolDeclaration,
    client: ProtocolLimits = PLAIN,
    upstream: ProtocolLimits = PLAIN,
) -> tuple[list[Event], list[str]]:
    losses = Losses()
    ledger = Ledger(client, upstream, "them", "them", losses)
    prepare(ledger, Request("m", (Message("user", (Text("go"),)),), tools=tools))
    stage = Restorer(ledger)
    return [out for event in events for out in stage.feed(event)], [str(loss) for loss in losses]


def call(*pieces: str, id: str = "1", name: str = "f") -> list[Event]:
    return [PartStart(0, ToolCall(id, name)), *[PartDelta(0, piece) for piece in pieces], PartEnd(0)]


def test_a_call_of_strings_streams_on() -> None:
    events = call('{"a":', '"x"}')
    assert restored(events, ToolDeclaration("f", parameters=STRINGS))[0] == events


def test_a_call_with_numbers_is_held_and_mended() -> None:
    out, losses = restored(call('{"a":', '"5"}'), ToolDeclaration("f", parameters=NUMBERS))
    assert out == call('{"a":5}')
    assert len(losses) == 1


def test_G65_an_object_encoded_twice_is_mended_even_where_strings_stream() -> None:
    out, _ = restored(call('"{\\"a\\":', '\\"x\\"}"'), ToolDeclaration("f", parameters=STRINGS))
    assert out == call('{"a":"x"}')


STATE_FIRST = {
    "an object": (['{"a":', '"x"}'], ['{"a":', '"x"}']),
    "an object encoded twice": (['"{\\"a\\":', '\\"x\\"}"'], ['{"a":"x"}']),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", STATE_FIRST)
def test_state_that_comes_before_the_arguments_of_a_call_is_not_lost(name: str) -> None:
    """Two providers of one protocol; calls of this tool are not held."""
    pieces, expected = STATE_FIRST[name]
    signing = ProtocolLimits(call_state=True)
    start, *rest = call(*pieces)
    signed = PartDelta(0, state=State("them", "s"))
    declared = ToolDeclaration("f", parameters=STRINGS)
    out, _ = restored([start, signed, *rest], declared, client=signing, upstream=PLAIN)
    start, *deltas, end = call(*expected)
    assert out == [start, *deltas, signed, end]


def test_G86_the_declared_spelling_of_a_name() -> None:
    out, losses = restored(call("{}", name="default_api:F"), ToolDeclaration("f", parameters=STRINGS))
    assert out == call("{}")
    assert "The declared tool is f." in losses[0]


STOPS = {
    "G26 a complete call means tool calls": ([*call("{}"), END], "tool_calls"),
    "G27 tool calls without a call": ([ResponseEnd(Stop("tool_calls"))], "end"),
    "G28 a cut call is no call": (
        [
            PartStart(0, ToolCall("1", "f")),
            PartDelta(0, '{"a'),
            PartEnd(0, False),
            ResponseEnd(Stop("length")),
        ],
        "length",
    ),
    "a length stop stays one": ([*call("{}"), ResponseEnd(Stop("length"))], "length"),
    "the end is the end": ([END], "end"),
}


@pytest.mark.parametrize("events, reason", STOPS.values(), ids=STOPS)
def test_stop_reason_from_content(events: list[Event], reason: str) -> None:
    last = restored(events)[0][-1]
    assert isinstance(last, ResponseEnd)
    assert last.stop.reason == reason


def test_G29_a_malformed_call_is_a_failure() -> None:
    (last,) = restored([ResponseEnd(Stop("malformed_call", "MALFORMED_FUNCTION_CALL"))])[0]
    assert isinstance(last, ResponseFailed)
    assert "MALFORMED_FUNCTION_CALL" in last.failure.message


def test_G33_input_tokens_are_estimated_at_the_start() -> None:
    (start,) = restored([ResponseStart("r", "m")])[0]
    assert isinstance(start, ResponseStart)
    assert start.usage is not None
    (known,) = restored([ResponseStart("r", "m", Usage(7))])[0]
    assert isinstance(known, ResponseStart)
    assert known.usage == Usage(7)


def test_G97_a_signature_of_a_call_travels_in_its_id() -> None:
    events = [
        PartStart(0, ToolCall("1", "f")),
        PartDelta(0, "{}"),
        PartDelta(0, state=State("them", "sig")),
        PartEnd(0),
    ]
    out, _ = restored(events, upstream=SIGNING)
    start = out[0]
    assert isinstance(start, PartStart)
    assert isinstance(start.part, ToolCall)
    echoed = Message("assistant", (ToolCall(start.part.id, "f", "{}"),))
    ledger = Ledger(PLAIN, SIGNING, "them", "them", Losses())
    prepared = prepare(ledger, Request("m", (echoed,)))
    assert prepared.messages[0].parts == (ToolCall("1", "f", "{}", state=State("them", "sig")),)


def test_a_signature_of_a_text_travels_behind_it() -> None:
    events = [PartStart(0, Text()), PartDelta(0, "hi"), PartDelta(0, state=State("them", "sig")), PartEnd(0)]
    out, _ = restored(events, upstream=SIGNING)
    assert [type(event) for event in out] == [PartStart, PartDelta, PartEnd, PartStart, PartDelta, PartEnd]
    carried = out[4]
    assert isinstance(carried, PartDelta)
    echoed = Message("assistant", (Text("hi"), Reasoning(hidden=True, state=carried.state)))
    ledger = Ledger(PLAIN, SIGNING, "them", "them", Losses())
    assert prepare(ledger, Request("m", (echoed,))).messages[0].parts == (
        Text("hi", state=State("them", "sig")),
    )


def test_reasoning_travels_in_an_id_where_its_own_slot_is_not_echoed() -> None:
    thought = [
        PartStart(0, Reasoning()),
        PartDelta(0, "hm"),
        PartDelta(0, state=State("them", "sig")),
        PartEnd(0),
    ]
    out, _ = restored([*thought, *call("{}")], client=FORGETFUL)
    start = next(event for event in out if isinstance(event, PartStart) and isinstance(event.part, ToolCall))
    assert isinstance(start.part, ToolCall)
    echoed = Message("assistant", (ToolCall(start.part.id, "f", "{}"),))
    ledger = Ledger(FORGETFUL, PLAIN, "them", "them", Losses())
    assert prepare(ledger, Request("m", (echoed,))).messages[0].parts == (
        Reasoning("hm", state=State("them", "sig")),
        ToolCall("1", "f", "{}"),
    )


def test_G98_what_is_too_long_for_an_id_is_withheld_and_reported() -> None:
    long = State("them", "s" * 10_000)
    out, losses = restored(
        [PartStart(0, ToolCall("1", "f")), PartDelta(0, state=long), PartEnd(0)], upstream=SIGNING
    )
    start = out[0]
    assert isinstance(start, PartStart)
    assert isinstance(start.part, ToolCall)
    assert start.part.id == "1"
    assert any("too long" in loss for loss in losses)


def test_an_invented_id_never_repeats_one_of_the_history() -> None:
    history = Message("assistant", (ToolCall("call_dgm_4", "f", "{}"),))
    ledger = Ledger(PLAIN, PLAIN, "them", "them", Losses())
    prepare(ledger, Request("m", (history,)))
    (start, *_) = Restorer(ledger).feed(PartStart(0, ToolCall("", "f")))
    assert isinstance(start, PartStart)
    assert isinstance(start.part, ToolCall)
    assert start.part.id == "call_dgm_5"


def test_G125_an_answer_without_the_call_that_was_required_is_reported() -> None:
    losses = Losses()
    ledger = Ledger(PLAIN, PLAIN, "them", "them", losses)
    request = Request(
        "m",
        (Message("user", (Text("go"),)),),
        tools=(ToolDeclaration("f"),),
        tool_choice=ToolChoice("required"),
    )
    prepare(ledger, request)
    assert list(Restorer(ledger).feed(END)) == [END]
    assert [loss.where for loss in losses] == ["tool_choice"]


TWICE = '"{\\"a\\": 1}"'


@pytest.mark.parametrize(
    "given, expected, codes",
    [
        (TWICE, '{"a": 1}', ["call.arguments.changed"]),
        ('"only a text"', '"only a text"', []),
        ('{"a":1}', '{"a":1}', []),
    ],
)
def test_arguments_of_the_history_that_were_encoded_twice(
    given: str, expected: str, codes: list[str]
) -> None:
    losses = Losses()
    ledger = Ledger(PLAIN, PLAIN, "them", "them", losses)
    messages = (Message("assistant", (ToolCall("1", "f", given),)), Message("user", (ToolResult("1", "f"),)))
    prepared = prepare(ledger, Request("m", messages))
    sent = prepared.messages[0].parts[0]
    assert isinstance(sent, ToolCall)
    assert sent.arguments == expected
    assert [loss.code for loss in losses] == codes


@pytest.mark.parametrize("protocol", ["anthropic", "openai-chat"])
def test_strict_is_left_off_where_a_map_would_have_to_be_empty(protocol: str) -> None:
    losses = Losses()
    limits = codec(protocol).client_limits
    schema = {"type": "object", "properties": {"env": {"type": "object"}}, "additionalProperties": False}
    ledger = Ledger(PLAIN, limits, "them", protocol, losses)
    tool = ToolDeclaration("f", parameters=schema, strict=True)
    sent = prepare(ledger, Request("m", (Message("user", (Text("go"),)),), tools=(tool,)))
    assert isinstance(sent.tools[0], ToolDeclaration)
    assert not sent.tools[0].strict
    assert (sent.tools[0].parameters or {})["properties"]["env"].get("additionalProperties") is None
    assert "tool.strict.changed" in [loss.code for loss in losses]
