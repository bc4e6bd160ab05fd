"""Whole replies, both ways."""

import copy
from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.core.seal import unseal_state
from dragoman.protocols.anthropic import CODEC

OWN = {"anthropic": {}}
TEXT = {"type": "text", "text": "hi"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}


def reply(*content: Wire, **more: Any) -> Wire:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        **more,
    }


def short(block: Wire) -> Wire:
    """`block` without the fields that only fill its shape."""
    filling = (("citations", None), ("caller", {"type": "direct"}))
    return {key: value for key, value in block.items() if (key, value) not in filling}


def decode(body: Wire) -> tuple[Response, list[str]]:
    losses, given = Losses(), copy.deepcopy(body)
    response = CODEC.decode_response(body, losses)
    assert CODEC.encode_response(response, Losses()) == body == given
    return response, [loss.where for loss in losses]


# name: (reply, stop)
STOPS: dict[str, tuple[Wire, Stop]] = {
    "the end": (reply(TEXT, stop_reason="end_turn", stop_sequence=None), Stop("end", "end_turn")),
    "a call": (reply(CALL, stop_reason="tool_use"), Stop("tool_calls", "tool_use")),
    "too long": (reply(TEXT, stop_reason="max_tokens"), Stop("length", "max_tokens")),
    "G30 a stop sequence": (
        reply(TEXT, stop_reason="stop_sequence", stop_sequence="END"),
        Stop("stop_sequence", "stop_sequence", "END"),
    ),
    "G29 a refusal": (reply(stop_reason="refusal", stop_details=None), Stop("refusal", "refusal")),
    "G30 a pause": (reply(TEXT, stop_reason="pause_turn"), Stop("pause", "pause_turn")),
    "a pause to compact": (reply(TEXT, stop_reason="compaction"), Stop("pause", "compaction")),
    "G30 a full context": (
        reply(TEXT, stop_reason="model_context_window_exceeded"),
        Stop("context_full", "model_context_window_exceeded"),
    ),
    "something newer than we are": (reply(TEXT, stop_reason="bored"), Stop("other", "bored")),
    "nothing given, and no call": ({"role": "assistant", "content": [TEXT]}, Stop("end")),
    "nothing given, but a call": ({"role": "assistant", "content": [TEXT, CALL]}, Stop("tool_calls")),
    "null, and a call": (reply(CALL, stop_reason=None), Stop("tool_calls")),
}


@pytest.mark.parametrize(("body", "stop"), STOPS.values(), ids=STOPS)
def test_stops_are_read_and_go_back(body: Wire, stop: Stop) -> None:
    response, losses = decode(body)
    assert response.stop == stop
    unsaid = ["stop_sequence"] if stop.sequence else []  # elsewhere
    assert losses == (["stop_reason"] if stop.reason in ("pause", "other") else unsaid)


# name: (usage, neutral usage)
USAGES: dict[str, tuple[Wire, Usage]] = {
    "plain": ({"input_tokens": 5, "output_tokens": 7}, Usage(5, 7)),
    "G31 cached": (
        {
            "input_tokens": 5,
            "cache_read_input_tokens": 20,
            "cache_creation_input_tokens": 3,
            "output_tokens": 7,
        },
        Usage(28, 7, 20, 3),
    ),
    "thinking": (
        {"input_tokens": 5, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}},
        Usage(5, 7, reasoning=4),
    ),
    "bookkeeping": (
        {
            "input_tokens": 5,
            "output_tokens": 7,
            "cache_read_input_tokens": None,
            "cache_creation": {"ephemeral_5m_input_tokens": 0},
            "server_tool_use": {"web_search_requests": 0},
            "service_tier": "standard",
            "inference_geo": "global",
            "iterations": [],
        },
        Usage(5, 7),
    ),
}


@pytest.mark.parametrize(("wire", "usage"), USAGES.values(), ids=USAGES)
def test_usage_is_read_and_goes_back(wire: Wire, usage: Usage) -> None:
    response, losses = decode(reply(TEXT, stop_reason="end_turn", usage=wire))
    assert response.usage == usage
    assert losses == []


# name: (usage, what a client gets)
COUNTED: dict[str, tuple[Usage | None, Wire]] = {
    "nothing": (
        None,
        {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    ),
    "G31 cached tokens are not counted twice": (
        Usage(100, 7, 60, 10),
        {
            "input_tokens": 30,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 60,
            "output_tokens": 7,
        },
    ),
    "G31 never less than nothing": (
        Usage(10, 7, 60),
        {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 60,
            "output_tokens": 7,
        },
    ),
    "G32 thinking": (
        Usage(1, 7, reasoning=4),
        {
            "input_tokens": 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    ),
}


@pytest.mark.parametrize(("usage", "wire"), COUNTED.values(), ids=COUNTED)
def test_usage_from_elsewhere(usage: Usage | None, wire: Wire) -> None:
    body = CODEC.encode_response(Response("x", "m", (), Stop("end"), usage), Losses())
    assert body["usage"] == {
        "output_tokens_details": {"thinking_tokens": 0},
        "cache_creation": {
            "ephemeral_5m_input_tokens": wire["cache_creation_input_tokens"],
            "ephemeral_1h_input_tokens": 0,
        },
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": None,
        "speed": None,
        **wire,
    }


def test_a_reply_says_what_others_will_miss() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    body = reply(
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        stop_reason="refusal",
        stop_details=details,
        container={"id": "c"},
        diagnostics={"x": 1},
        context_management={"applied_edits": []},
        new=1,
    )
    response, losses = decode(body)
    assert losses == ["content[0]", "stop_details", "container", "new"]
    assert response.parts == (Foreign("anthropic", body["content"][0]),)


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_g28_a_call_at_the_end_of_a_reply_that_was_cut_is_not_whole(reason: str) -> None:
    response, _ = decode(reply(CALL, CALL | {"id": "toolu_2"}, stop_reason=reason))
    assert [part.complete for part in response.parts] == [True, False]  # type: ignore[union-attr]
    response, _ = decode(reply(CALL, TEXT, stop_reason=reason))
    assert response.parts[0].complete  # type: ignore[union-attr]


# Replies from elsewhere: name: (parts, stop, content, stop_reason, losses)
SIGNED = State("gemini", "c2ln")
CUT = "dropped C: The reply was cut inside this call, so it must not run."
ENCODED: dict[str, tuple[list[AnyPart], Stop, list[Wire], str, list[str]]] = {
    "text": ([Text("hi")], Stop("end", "stop"), [TEXT], "end_turn", []),
    "G51 empty text": ([Text(""), Text("hi"), Reasoning("")], Stop("end"), [TEXT], "end_turn", []),
    "blank text": ([Text("\n")], Stop("end"), [{"type": "text", "text": "\n"}], "end_turn", []),
    "G26 a call": ([ToolCall("toolu_1", "f", '{"a":1}')], Stop("tool_calls", "STOP"), [CALL], "tool_use", []),
    "G28 a cut call": (
        [Text("hi"), ToolCall("toolu_1", "f", '{"a":', complete=False, where="C")],
        Stop("length"),
        [TEXT],
        "max_tokens",
        [CUT],
    ),
    "unsigned reasoning": (
        [Reasoning("hm")],
        Stop("end"),
        [{"type": "thinking", "thinking": "hm", "signature": ""}],
        "end_turn",
        [],
    ),
    "an image": (
        [Text("hi"), Media("image", "image/png", Base64("x"), where="M")],
        Stop("end"),
        [TEXT],
        "end_turn",
        ["dropped M: An Anthropic client expects no image in a reply."],
    ),
    "a result": (
        [ToolResult("t", where="T")],
        Stop("end"),
        [],
        "end_turn",
        ["dropped T: A reply cannot hold the result of a tool."],
    ),
    "foreign": ([Foreign("gemini", {})], Stop("end"), [], "end_turn", []),
    "G29 filtered": ([Text("hi")], Stop("content_filter", "SAFETY"), [TEXT], "refusal", []),
    "G30 full": ([Text("hi")], Stop("context_full"), [TEXT], "model_context_window_exceeded", []),
    "G30 paused": ([Text("hi")], Stop("pause"), [TEXT], "pause_turn", []),
    "something strange": ([Text("hi")], Stop("other", "weird"), [TEXT], "end_turn", []),
    "their word for the end is ours for something else": (
        [Text("hi")],
        Stop("end", "tool_use"),
        [TEXT],
        "end_turn",
        [],
    ),
}


@pytest.mark.parametrize(("parts", "stop", "content", "reason", "lost"), ENCODED.values(), ids=ENCODED)
def test_replies_from_elsewhere(
    parts: list[AnyPart], stop: Stop, content: list[Wire], reason: str, lost: list[str]
) -> None:
    losses = Losses()
    body = CODEC.encode_response(Response("r1", "m", tuple(parts), stop), losses)
    assert (body["id"], body["type"], body["role"], body["model"]) == ("msg_r1", "message", "assistant", "m")
    assert [short(block) for block in body["content"]] == content
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, None)
    assert [str(loss) for loss in losses] == lost


def test_a_stop_sequence_from_elsewhere() -> None:
    body = CODEC.encode_response(Response("", "m", (), Stop("stop_sequence", "stop", "END")), Losses())
    assert (body["id"], body["stop_reason"], body["stop_sequence"]) == (
        "msg_dragoman",
        "stop_sequence",
        "END",
    )


@pytest.mark.parametrize("reason", ["end", "refusal", "content_filter"])
def test_g29_a_refusal_is_written_in_every_place_where_clients_look(reason: Any) -> None:
    body = CODEC.encode_response(
        Response("r", "m", (Refusal("I "), Refusal("won't.")), Stop(reason)), Losses()
    )
    assert [block["text"] for block in body["content"]] == ["I ", "won't."]
    assert body["stop_reason"] == "refusal"
    assert body["stop_details"] == {"type": "refusal", "category": None, "explanation": "I won't."}


def test_foreign_state_travels_sealed_to_the_client() -> None:
    parts = (Reasoning("hm", state=SIGNED), Reasoning(hidden=True, state=SIGNED))
    thinking, redacted = CODEC.encode_response(Response("r", "m", parts, Stop("end")), Losses())["content"]
    assert unseal_state(thinking["signature"], "anthropic") == SIGNED
    assert unseal_state(redacted["data"], "anthropic") == SIGNED


def test_citations_that_we_made_are_known_when_they_come_back() -> None:
    cited = Text("hi", (Citation("https://a", "A", "x"),))
    (block,) = CODEC.encode_response(Response("r", "m", (cited,), Stop("end")), Losses())["content"]
    (citation,) = block["citations"]
    assert citation["type"] == "web_search_result_location"
    assert (citation["url"], citation["title"], citation["cited_text"]) == ("https://a", "A", "x")
    request = {"model": "m", "messages": [{"role": "assistant", "content": [block]}]}
    (text,) = CODEC.decode_request(request, Losses()).messages[0].parts
    assert isinstance(text, Text)
    assert text.citations == cited.citations


def test_a_stop_that_no_longer_holds_is_not_repeated() -> None:
    from msgspec.structs import replace

    response, _ = decode(reply(CALL, stop_reason="end_turn"))
    called = replace(response, stop=replace(response.stop, reason="tool_calls"))
    assert CODEC.encode_response(called, Losses())["stop_reason"] == "tool_use"


def test_a_lone_string_is_read_too() -> None:
    response = CODEC.decode_response({"role": "assistant", "content": "hi"}, Losses())
    assert response.parts == (Text("hi"),)


# name: (block, where the loss is)
CALLERS: dict[str, tuple[Wire, list[str]]] = {
    "direct": ({"type": "direct"}, []),
    "code": ({"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}, ["content[0].caller"]),
}


@pytest.mark.parametrize(("caller", "lost"), CALLERS.values(), ids=CALLERS)
def test_the_caller_of_a_call(caller: Wire, lost: list[str]) -> None:
    _, losses = decode(reply({"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": caller}))
    assert losses == lost


def test_requests_of_hosted_tools_are_reported() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 2}}
    _, losses = decode(reply(TEXT, usage=usage))
    assert losses == ["usage.server_tool_use"]


def test_null_as_r_writes_it() -> None:
    body = reply(TEXT, stop_reason="end_turn", stop_sequence={})
    assert CODEC.decode_response(body, Losses()).stop == Stop("end", "end_turn")
