"""Requests and replies of Converse itself: read and written again they are what they were, and what they
mean to the other protocols."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import ResponseEnd, ResponseStart, fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    FileId,
    Foreign,
    HostedTool,
    Media,
    Plain,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Usage,
)
from dragoman.protocols import upstream

CONVERSE = upstream("bedrock-converse")
NAME = "bedrock-converse"
PNG = "iVBORw0KGgo="
SPEC = {"name": "look", "description": "Looks.", "inputSchema": {"json": {"type": "object"}}, "strict": True}


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": [*blocks]}]


def request(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": user(*(blocks or ({"text": "hi"},))), **fields}


# Requests of this wire, and the losses that they would be elsewhere
REQUESTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "settings": (
        request(
            inferenceConfig={"maxTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["X"]},
            outputConfig={
                "effort": "high",
                "textFormat": {
                    "type": "json_schema",
                    "structure": {"jsonSchema": {"schema": '{"type":"object"}', "name": "mood"}},
                },
            },
            additionalModelRequestFields={
                "top_k": 5,
                "thinking": {"type": "enabled", "budget_tokens": 2000},
            },
            serviceTier={"type": "priority"},
            requestMetadata={"a": "b"},
        ),
        [],
    ),
    "fields that only Bedrock has": (
        request(
            guardrailConfig={"guardrailIdentifier": "g", "guardrailVersion": "1"},
            performanceConfig={"latency": "optimized"},
            promptVariables={"x": {"text": "y"}},
            additionalModelResponseFieldPaths=["/stop_sequence"],
            additionalModelRequestFields={"anthropic_beta": ["b"]},
        ),
        [
            "additionalModelRequestFields.anthropic_beta",
            "guardrailConfig",
            "performanceConfig",
            "promptVariables",
            "additionalModelResponseFieldPaths",
        ],
    ),
    "system text with a point, and what is no text": (
        request(system=[{"text": "Be brief."}, {"cachePoint": {"type": "default"}}, {"guardContent": {}}]),
        ["system[2]"],
    ),
    "tools, a choice, a system tool": (
        request(
            toolConfig={
                "tools": [{"toolSpec": SPEC}, {"systemTool": {"name": "nova_grounding"}}],
                "toolChoice": {"tool": {"name": "look"}},
            }
        ),
        ["toolConfig.tools[1]"],
    ),
    "any tool": (request(toolConfig={"tools": [{"toolSpec": SPEC}], "toolChoice": {"any": {}}}), []),
    "a tool if it likes": (
        request(toolConfig={"tools": [{"toolSpec": SPEC}], "toolChoice": {"auto": {}}}),
        [],
    ),
    "media": (
        request(
            {"text": "Compare."},
            {"image": {"format": "png", "source": {"bytes": PNG}}},
            {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://b/k", "bucketOwner": "1"}}}},
            {"document": {"format": "pdf", "name": "Report", "source": {"bytes": "JVBERi0="}}},
            {"document": {"format": "txt", "name": "Note", "source": {"text": "note"}}},
            {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}},
            {"audio": {"format": "wav", "source": {"bytes": "AAAA"}}},
        ),
        ["messages[0].content[2].image.source.s3Location.bucketOwner"],
    ),
    "a document of blocks": (
        request(
            {"text": "Read."},
            {"document": {"format": "txt", "name": "N", "source": {"content": [{"text": "a"}]}}},
        ),
        ["messages[0].content[1]"],
    ),
    "a call and its result": (
        {
            "messages": [
                {"role": "user", "content": [{"text": "hi"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
                        {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
                        {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": 1.0}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "toolResult": {
                                "toolUseId": "t1",
                                "content": [
                                    {"json": {"sky": "grey"}},
                                    {"text": "so"},
                                    {"searchResult": {"source": "s"}},
                                ],
                                "status": "error",
                            }
                        },
                        {"cachePoint": {"type": "default", "ttl": "1h"}},
                    ],
                },
            ],
            "toolConfig": {"tools": [{"toolSpec": SPEC}]},
        },
        ["messages[2].content[0].toolResult.content[2]"],
    ),
    "a call that Bedrock ran": (
        {
            "messages": [
                {"role": "user", "content": [{"text": "hi"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"toolUse": {"type": "server_tool_use", "toolUseId": "t", "name": "n", "input": {}}},
                        {
                            "toolResult": {
                                "type": "nova_grounding_result",
                                "toolUseId": "t",
                                "content": [{"text": "[HIDDEN]"}],
                            }
                        },
                        {
                            "citationsContent": {
                                "content": [{"text": "So."}],
                                "citations": [{"title": "T", "location": {"documentChar": {"start": 1}}}],
                            }
                        },
                    ],
                },
            ]
        },
        [
            "messages[1].content[0]",
            "messages[1].content[1]",
            "messages[1].content[2].citationsContent.citations[0]",
        ],
    ),
    "blocks that are newer than this code": (
        request({"text": "a"}, {"hologram": {}}),
        ["messages[0].content[1]"],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_goes_back_as_it_came(name: str) -> None:
    wire, elsewhere = REQUESTS[name]
    losses = Losses()
    decoded = CONVERSE.decode_request({**wire, "model": "m"}, losses)
    written = Losses()
    assert CONVERSE.encode_request(decoded, written) == wire
    assert ([loss.where for loss in losses], [*written]) == (elsewhere, [])


def test_what_a_request_means() -> None:
    wire = {**REQUESTS["settings"][0], **REQUESTS["tools, a choice, a system tool"][0]}
    decoded = CONVERSE.decode_request(wire, Losses())
    settings = decoded.settings
    assert (settings.max_tokens, settings.temperature, settings.top_p, settings.top_k) == (9, 0.5, 0.9, 5)
    assert (settings.stop, settings.effort, settings.budget) == (("X",), "high", 2000)
    assert (settings.service_tier, settings.metadata) == ("priority", {"a": "b"})
    assert settings.output
    assert (settings.output.kind, settings.output.name) == ("schema", "mood")
    first, second = decoded.tools
    assert isinstance(first, ToolDeclaration)
    assert isinstance(second, HostedTool)
    assert (first.name, first.strict, second.kind) == ("look", True, "other")
    assert decoded.tool_choice
    assert (decoded.tool_choice.mode, decoded.tool_choice.names) == ("required", ("look",))


@pytest.mark.parametrize(
    "thinking, budget", [({"type": "adaptive"}, -1), ({"type": "disabled"}, 0), ("x", None), ({}, None)]
)
def test_what_thinking_means(thinking: Any, budget: int | None) -> None:
    wire = request(additionalModelRequestFields={"thinking": thinking})
    assert CONVERSE.decode_request(wire, Losses()).settings.budget == budget


def test_what_media_means() -> None:
    blocks = CONVERSE.decode_request(REQUESTS["media"][0], Losses()).messages[0].parts[1:]
    found = [(part.kind, part.media_type, part.name) for part in blocks if isinstance(part, Media)]
    assert found == [
        ("image", "image/png", ""),
        ("image", "image/jpeg", ""),
        ("document", "application/pdf", "Report"),
        ("document", "text/plain", "Note"),
        ("video", "video/mp4", ""),
        ("audio", "audio/wav", ""),
    ]
    sources = [part.source for part in blocks if isinstance(part, Media)]
    assert sources[1:4] == [FileId("s3://b/k", NAME), Base64("JVBERi0="), Plain("note")]


def test_settings_that_were_changed_since() -> None:
    """A body wins over what came: the tools of the request that is sent now."""
    wire = REQUESTS["any tool"][0]
    decoded = CONVERSE.decode_request(wire, Losses())
    assert CONVERSE.encode_request(decoded, Losses())["toolConfig"] == wire["toolConfig"]
    assert decoded.tool_choice == ToolChoice("required", extras={NAME: {"any": {}}})


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a role": ({"messages": [{"role": "tool", "content": []}]}, "expected user, assistant or system"),
    "content that is text": (
        {"messages": [{"role": "user", "content": "hi"}]},
        "expected an array of blocks",
    ),
    "a block that is text": (request("hi"), "expected an object"),
    "stop sequences": (request(inferenceConfig={"stopSequences": [1]}), "expected an array of strings"),
    "a choice": (
        request(toolConfig={"tools": [{"toolSpec": SPEC}], "toolChoice": {"none": {}}}),
        "expected auto, any or tool",
    ),
    "a schema": (
        request(outputConfig={"textFormat": {"structure": {"jsonSchema": {"schema": "["}}}}),
        "expected the text of a JSON object",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_malformed(name: str) -> None:
    wire, problem = WRONG[name]
    with pytest.raises(WireError, match=problem):
        CONVERSE.decode_request(wire, Losses())


# Neutral parts -> the blocks of a reply, and the losses
PNG_PART = Media("image", "image/png", Base64(PNG))
PARTS: dict[str, tuple[Any, list[Any], list[str]]] = {
    "a call": (
        ToolCall("t1", "look", '{"a":1}'),
        [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {"a": 1}}}],
        [],
    ),
    "a call without arguments": (
        ToolCall("t1", "look", ""),
        [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}],
        [],
    ),
    "a call whose arguments are no object": (
        ToolCall("t1", "look", "[1]", where="x"),
        [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {"_raw_arguments": "[1]"}}}],
        ["call.arguments.changed"],
    ),
    "a free call": (
        ToolCall("t1", "look", "text", kind="custom"),
        [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {"input": "text"}}}],
        [],
    ),
    "a call that was cut": (ToolCall("t1", "look", "{", complete=False), [], ["call.incomplete.dropped"]),
    "a result": (ToolResult("t1", where="r"), [], ["result.place.dropped"]),
    "an image": (PNG_PART, [{"image": {"format": "png", "source": {"bytes": PNG}}}], []),
    "a document": (
        Media("document", "application/pdf", Base64("JVBERi0=")),
        [],
        ["media.document.dropped"],
    ),
    "a refusal": (Refusal("No."), [{"text": "No."}], ["message.refusal.changed"]),
    "a thought that another signed": (
        Reasoning("Hm.", state=State("anthropic", "s")),
        [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "…"}}}],
        [],
    ),
    "an empty thought": (Reasoning(""), [], []),
    "a citation": (
        Text("So.", (Citation("https://e.x", "T", "q"),)),
        [
            {
                "citationsContent": {
                    "content": [{"text": "So."}],
                    "citations": [
                        {
                            "title": "T",
                            "sourceContent": [{"text": "q"}],
                            "location": {"web": {"url": "https://e.x"}},
                        }
                    ],
                }
            }
        ],
        [],
    ),
    "a part of another protocol": (Foreign("anthropic", {"type": "x"}), [], []),
}


def reply(part: Any) -> Response:
    return Response("id", "m", (part,), Stop("end"), Usage(20, 9, 8, 2))


def hide_signature(blocks: list[Any]) -> list[Any]:
    """A seal is long."""
    for block in blocks:
        text = block.get("reasoningContent", {}).get("reasoningText", {})
        if "signature" in text:
            text["signature"] = "…"
    return blocks


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_reply(name: str) -> None:
    part, blocks, codes = PARTS[name]
    losses = Losses()
    wire = CONVERSE.encode_response(reply(part), losses)
    assert hide_signature(wire["output"]["message"]["content"]) == blocks
    assert [loss.code for loss in losses] == codes
    assert wire["usage"] == {
        "inputTokens": 10,
        "outputTokens": 9,
        "totalTokens": 29,
        "cacheReadInputTokens": 8,
        "cacheWriteInputTokens": 2,
    }


STREAMED = ("a call", "an image", "a refusal", "a citation", "a thought that another signed")


@pytest.mark.parametrize("name", STREAMED)
def test_a_part_in_a_stream_means_what_it_does_whole(name: str) -> None:
    part = PARTS[name][0]
    encoder, decoder, checker = (
        CONVERSE.stream_encoder(Losses(), None),
        CONVERSE.stream_decoder(Losses()),
        None,
    )
    checker = CONVERSE.grammar()
    frames = [frame for event in unfold(reply(part)) for frame in encoder.feed(event)]
    for frame in frames:
        assert [*checker.feed(frame)]
    assert [*checker.close()] == []
    streamed = fold([event for frame in frames for event in decoder.feed(printed(frame))])
    whole = CONVERSE.decode_response(CONVERSE.encode_response(reply(part), Losses()), Losses())
    meant = [[_bare(each) for each in response.parts] for response in (streamed, whole)]
    assert meant[0] == meant[1]
    assert (streamed.usage, streamed.stop) == (whole.usage, whole.stop)


def _bare(part: Any) -> tuple[Any, ...]:
    """Without places and what only the wire knows."""
    match part:
        case Text(text, citations):
            return (text, [(each.url, each.title, each.cited) for each in citations])
        case ToolCall(id, name, arguments):
            return (id, name, arguments)
        case Reasoning(text):
            return (text, part.hidden, part.state)
        case Media(kind, media_type, source):
            return (kind, media_type, source)
        case _:
            return (part,)


def test_what_has_no_form_in_a_stream() -> None:
    losses = Losses()
    encoder = CONVERSE.stream_encoder(losses, None)
    part = Media("audio", "audio/wav", Base64("AAAA"), where="a")
    for event in unfold(reply(part)):
        list(encoder.feed(event))
    assert [loss.code for loss in losses] == ["media.audio.dropped"]


def test_a_stream_returns_what_the_model_added() -> None:
    encoder = CONVERSE.stream_encoder(Losses(), None)
    added = {NAME: {"additionalModelResponseFields": {"x": 1}}}
    frames = [
        *encoder.feed(ResponseStart("", "")),
        *encoder.feed(ResponseEnd(Stop("end", "end_turn"), Usage(1, 1), added)),
    ]
    assert frames[1] == Frame(
        "messageStop", {"stopReason": "end_turn", "additionalModelResponseFields": {"x": 1}}
    )


def frame(name: str, **fields: Any) -> Frame:
    return Frame(name, {"contentBlockIndex": 0, **fields})


# Frames that a decoder must survive -> the texts of what it makes of them, codes of the losses
ODD: dict[str, tuple[list[Frame], list[Any], list[str]]] = {
    "an event of a newer Bedrock": ([Frame("weather", {})], [], ["event.unknown.dropped"]),
    "a delta of a newer Bedrock": (
        [frame("contentBlockDelta", delta={"hologram": {}})],
        [],
        ["event.unknown.dropped"],
    ),
    "a call that Bedrock runs": (
        [
            frame("contentBlockStart", start={"toolUse": {"type": "server_tool_use", "toolUseId": "t"}}),
            frame("contentBlockDelta", delta={"toolUse": {"input": "{}"}}),
            frame("contentBlockStop"),
        ],
        [],
        ["part.unknown.dropped"],
    ),
    "an image in pieces": (
        [
            frame("contentBlockStart", start={"image": {"format": "png"}}),
            frame("contentBlockDelta", delta={"image": {"source": {"bytes": "iVBO"}}}),
            frame("contentBlockDelta", delta={"image": {"source": {"bytes": "Rw0KGgo="}}}),
            frame("contentBlockStop"),
        ],
        [("image", "image/png", Base64(PNG))],
        [],
    ),
    "a block without content": ([frame("contentBlockStop")], [], []),
    "a block that starts and stops": (
        [frame("contentBlockStart", start={}), frame("contentBlockStop")],
        [],
        [],
    ),
    "a call that is left open": (
        [
            frame("contentBlockStart", start={"toolUse": {"toolUseId": "t", "name": "look"}}),
            frame("contentBlockDelta", delta={"toolUse": {"input": '{"a":1}'}}),
        ],
        [("t", "look", '{"a":1}')],
        [],
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_frames_that_are_odd(name: str) -> None:
    frames, parts, codes = ODD[name]
    losses = Losses()
    decoder = CONVERSE.stream_decoder(losses)
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    events = [
        event
        for each in (*frames, Frame("metadata", {"usage": usage}), Frame("messageStart", {}))
        for event in decoder.feed(printed(each))
    ]
    response = fold([*events, *decoder.close()])
    assert ([_bare(part) for part in response.parts], [loss.code for loss in losses]) == (parts, codes)


@pytest.mark.parametrize(
    "broken",
    [
        Frame("messageStart", b"["),
        Frame("messageStart", b"[]"),
        Frame("contentBlockStart", {"start": {}}),
        Frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": 1}),
        Frame("contentBlockDelta", {"contentBlockIndex": -1, "delta": {"text": "a"}}),
    ],
)
def test_frames_that_are_malformed(broken: Frame) -> None:
    with pytest.raises(WireError):
        list(CONVERSE.stream_decoder(Losses()).feed(printed(broken)))


def test_where_opaque_state_is() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
    hidden = {"reasoningContent": {"redactedContent": "h"}}
    whole = {"output": {"message": {"content": [thought, hidden, {"text": "a"}]}}}
    found = [(holder[field], field) for holder, field in CONVERSE.state_slots(whole)]
    assert found == [("s", "signature"), ("h", "redactedContent")]
    assert [
        field for _, field in CONVERSE.state_slots({"delta": {"reasoningContent": {"signature": "s"}}})
    ] == ["signature"]
    assert [*CONVERSE.state_slots({"output": 1})] == []


def printed(frame: Frame) -> Frame:
    return frame if isinstance(frame.data, bytes) else Frame(frame.event, jsontext.encode(frame.data))
