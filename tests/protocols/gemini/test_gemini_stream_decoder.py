"""Gemini chunks to events: parts, growing calls, sources, failures, streamed equals whole."""

import json
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
    unfold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Response,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.gemini import CODEC
from protocols.gemini.streams import (
    CALL,
    CALLS,
    END,
    SIG,
    START,
    STOP,
    TEXT,
    THOUGHT,
    chunk,
    events,
    frames,
    response,
)

PARTS = {
    "text continues": (
        [chunk(TEXT), chunk({"text": "b"}), chunk({"text": ""}, finish="STOP")],
        [PartStart(0, Text()), PartDelta(0, "a"), PartDelta(0, "b"), PartEnd(0), END],
    ),
    "thoughts, then text": (
        [chunk(THOUGHT), chunk(THOUGHT), chunk(TEXT), STOP],
        [
            PartStart(0, Reasoning()),
            PartDelta(0, "hm"),
            PartDelta(0, "hm"),
            PartEnd(0),
            PartStart(1, Text()),
            PartDelta(1, "a"),
            PartEnd(1),
            END,
        ],
    ),
    "G11 thought, text and call in one chunk": (
        [chunk(THOUGHT, TEXT, CALL, finish="STOP")],
        [
            PartStart(0, Reasoning()),
            PartDelta(0, "hm"),
            PartEnd(0),
            PartStart(1, Text()),
            PartDelta(1, "a"),
            PartEnd(1),
            PartStart(2, ToolCall("1", "f")),
            PartDelta(2, '{"n":1.0}'),
            PartEnd(2),
            CALLS,
        ],
    ),
    "G01 two calls in one chunk": (
        [chunk(CALL, {"functionCall": {"name": "f"}, "thoughtSignature": "c2ln"}), STOP],
        [
            PartStart(0, ToolCall("1", "f")),
            PartDelta(0, '{"n":1.0}'),
            PartEnd(0),
            PartStart(1, ToolCall("", "f")),
            PartDelta(1, state=SIG),
            PartEnd(1),
            CALLS,
        ],
    ),
    "a signed text stands alone": (
        [chunk(TEXT), chunk({"text": "b", "thoughtSignature": "c2ln"}), chunk({"text": "c"}), STOP],
        [
            PartStart(0, Text()),
            PartDelta(0, "a"),
            PartEnd(0),
            PartStart(1, Text()),
            PartDelta(1, "b"),
            PartDelta(1, state=SIG),
            PartEnd(1),
            PartStart(2, Text()),
            PartDelta(2, "c"),
            PartEnd(2),
            END,
        ],
    ),
    "the signature of an empty text at the end": (
        [chunk(TEXT), chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP")],
        [
            PartStart(0, Text()),
            PartDelta(0, "a"),
            PartEnd(0),
            PartStart(1, Text()),
            PartDelta(1, state=SIG),
            PartEnd(1),
            END,
        ],
    ),
    "media and foreign parts come whole": (
        [
            chunk({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"toolCall": {"id": "1"}}),
            chunk({"executableCode": {"code": "1"}}),
            STOP,
        ],
        [
            PartStart(0, Media("image", "image/png", Base64("AAAA"))),
            PartEnd(0),
            PartStart(1, Foreign("gemini", {"toolCall": {"id": "1"}})),
            PartEnd(1),
            PartStart(2, Foreign("gemini", {"executableCode": {"code": "1"}})),
            PartEnd(2),
            END,
        ],
    ),
    "the finish reason in every chunk": (
        [chunk(TEXT, finish="STOP"), chunk({"text": "b"}, finish="STOP")],
        [PartStart(0, Text()), PartDelta(0, "a"), PartDelta(0, "b"), PartEnd(0), END],
    ),
    "G12 text with the finish reason": (
        [chunk(TEXT, finish="MAX_TOKENS")],
        [PartStart(0, Text()), PartDelta(0, "a"), PartEnd(0), ResponseEnd(Stop("length", "MAX_TOKENS"))],
    ),
    "nothing but an end": ([STOP], [END]),
    "an end that is not taken back": ([STOP, chunk(finish="FINISH_REASON_UNSPECIFIED")], [END]),
    "no content": ([{"candidates": [{"finishReason": "STOP"}]}], [END]),
    "content without parts": (
        [{"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}],
        [END],
    ),
    "blocked": (
        [{"promptFeedback": {"blockReason": "SAFETY"}}],
        [KeepAlive(), ResponseEnd(Stop("content_filter", "SAFETY"))],
    ),
    "G29 a call that the model could not form": (
        [chunk(finish="MALFORMED_FUNCTION_CALL")],
        [ResponseEnd(Stop("malformed_call", "MALFORMED_FUNCTION_CALL"))],
    ),
    "G13 usage alone": (
        [chunk(TEXT), STOP, {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}}],
        [
            PartStart(0, Text()),
            PartDelta(0, "a"),
            KeepAlive(),
            PartEnd(0),
            ResponseEnd(Stop("end", "STOP"), Usage(3, 1)),
        ],
    ),
    "an empty chunk keeps alive": ([{}, STOP], [KeepAlive(), END]),
    "[DONE] says nothing": ([STOP, b"[DONE]"], [END]),
    "chunks in an array": ([[chunk(TEXT), STOP]], [PartStart(0, Text()), PartDelta(0, "a"), PartEnd(0), END]),
    "other candidates are passed over": (
        [
            chunk(TEXT),
            {"candidates": [{"index": 1, "content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]},
            STOP,
        ],
        [PartStart(0, Text()), PartDelta(0, "a"), PartEnd(0), END],
    ),
}


@pytest.mark.parametrize("chunks, expected", PARTS.values(), ids=PARTS)
def test_chunks(chunks: list[Any], expected: list[Event]):
    assert events(*chunks) == [START, *expected]


def test_the_start_and_cumulative_usage():
    named = {"responseId": "r1", "modelVersion": "gemini-3-pro", "createTime": "1970-01-01T00:01:00Z"}
    first = {"promptTokenCount": 100, "cachedContentTokenCount": 64, "thoughtsTokenCount": 20}
    out = events(
        chunk(TEXT, **named, usageMetadata=first),
        chunk(TEXT, usageMetadata={**first, "candidatesTokenCount": 4}),
        chunk(finish="STOP", usageMetadata={**first, "candidatesTokenCount": 9, "totalTokenCount": 129}),
        {"usageMetadata": {"trafficType": "X"}},
    )
    assert out[0] == ResponseStart("r1", "gemini-3-pro", Usage(100, 20, 64, 0, 20), 60)
    assert out[-1] == ResponseEnd(Stop("end", "STOP"), Usage(100, 29, 64, 0, 20))


ENDS_BADLY = {
    "G14 without a finish reason": ([chunk(TEXT)], "truncated", "finishReason"),
    "unspecified": ([chunk(TEXT, finish="FINISH_REASON_UNSPECIFIED")], "truncated", "finishReason"),
    "nothing at all": ([], "truncated", "finishReason"),
    "G15 an error": (
        [chunk(TEXT), {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}],
        "overloaded",
        "busy",
    ),
    "an error in an array": (
        [[{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}]],
        "rate_limit",
        "slow",
    ),
}


@pytest.mark.parametrize("chunks, kind, message", ENDS_BADLY.values(), ids=ENDS_BADLY)
def test_failures(chunks: list[Any], kind: str, message: str):
    out = events(*chunks)
    assert isinstance(out[-1], ResponseFailed)
    assert out[-1].failure.kind == kind
    assert message in out[-1].failure.message
    assert sum(isinstance(event, ResponseFailed | ResponseEnd) for event in out) == 1


def test_nothing_follows_an_error():
    out = events({"error": {"code": 500, "message": "x"}}, chunk(TEXT), STOP)
    assert [type(event) for event in out] == [ResponseFailed]


# Vertex: arguments in pieces


def piece(**call: Any) -> Wire:
    return chunk({"functionCall": call})


def arg(path: str, more: bool = False, **value: Any) -> Wire:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


GROWN = {
    "a string in pieces": (
        [
            piece(name="f", willContinue=True),
            piece(partialArgs=[arg("$.city", True, stringValue="Bos")], willContinue=True),
            piece(partialArgs=[arg("$.city", stringValue="ton")], willContinue=True),
            piece(),
        ],
        [("f", '{"city":"Boston"}', True)],
    ),
    "ended by its last piece": (
        [piece(name="f", id="9", willContinue=True), piece(partialArgs=[arg("$.n", numberValue=1.0)])],
        [("f", '{"n":1.0}', True)],
    ),
    "every kind of value, nested": (
        [
            piece(name="f", willContinue=True),
            piece(
                partialArgs=[
                    arg("$.a.b[0].c", stringValue="x"),
                    arg("$.a.b[1]", boolValue=False),
                    arg("$['d e']", nullValue="NULL_VALUE"),
                    arg('$["f"].g', numberValue=3),
                ],
                willContinue=True,
            ),
            piece(),
        ],
        [("f", '{"a":{"b":[{"c":"x"},false]},"d e":null,"f":{"g":3}}', True)],
    ),
    "no arguments": ([piece(name="f", willContinue=True), piece()], [("f", "", True)]),
    "a name alone is a whole call": ([piece(name="f")], [("f", "", True)]),
    "all at once after all": (
        [piece(name="f", args={"a": 1}, willContinue=True), piece()],
        [("f", '{"a":1}', True)],
    ),
    "all at once in a later piece": (
        [piece(name="f", willContinue=True), piece(args={"a": 1})],
        [("f", '{"a":1}', True)],
    ),
    "the next call ends it": (
        [
            piece(name="f", willContinue=True),
            piece(partialArgs=[arg("$.a", numberValue=1)], willContinue=True),
            piece(name="g", args={}),
        ],
        [("f", '{"a":1}', True), ("g", "{}", True)],
    ),
    "an end without a beginning": ([piece()], []),
    "G28 cut inside a string": (
        [
            piece(name="f", willContinue=True),
            piece(partialArgs=[arg("$.a", True, stringValue="x")], willContinue=True),
        ],
        [("f", '{"a":"x"}', False)],
    ),
}


@pytest.mark.parametrize("chunks, calls", GROWN.values(), ids=GROWN)
def test_arguments_in_pieces(chunks: list[Wire], calls: list[tuple[str, str, bool]]):
    whole = fold(events(*chunks, STOP))
    assert [(c.name, c.arguments, c.complete) for c in whole.parts if isinstance(c, ToolCall)] == calls


def test_a_growing_call_that_the_limit_cut_is_not_complete():
    out = events(
        piece(name="f", willContinue=True),
        piece(partialArgs=[arg("$.a", numberValue=1)], willContinue=True),
        chunk(finish="MAX_TOKENS"),
    )
    assert PartEnd(0, complete=False) in out
    assert out[-1] == ResponseEnd(Stop("length", "MAX_TOKENS"))


def test_the_signature_of_a_growing_call():
    signed = chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "c2ln"})
    (call,) = fold(events(signed, piece(), STOP)).parts
    assert call == ToolCall("", "f", state=SIG)


def test_an_empty_signature_is_none():
    unsigned = chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": ""})
    (call,) = fold(events(unsigned, piece(), STOP)).parts
    assert call.state is None


def test_the_end_is_sent_once():
    decoder = CODEC.stream_decoder(Losses())
    list(decoder.feed(Frame("", jsontext.encode(STOP))))
    assert list(decoder.close()) == [END]
    assert list(decoder.close()) == []


# Sources

SOURCES = {
    "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
    "groundingSupports": [{"segment": {"startIndex": 2, "endIndex": 4}, "groundingChunkIndices": [0]}],
}


def grounded(*parts: Wire, finish: str = "STOP") -> Wire:
    body = chunk(*parts, finish=finish)
    body["candidates"][0]["groundingMetadata"] = SOURCES
    return body


CITED = {
    "with the last chunk": [chunk({"text": "é"}), grounded({"text": "ab"})],
    "with the signature that ends the text": [
        chunk({"text": "éab"}),
        grounded({"text": "", "thoughtSignature": "c2ln"}),
    ],
    "before more text": [chunk({"text": "é"}), grounded({"text": "a"}), chunk({"text": "b"})],
}


@pytest.mark.parametrize("chunks", CITED.values(), ids=CITED)
def test_sources_come_to_their_text(chunks: list[Wire]):
    text = fold(events(*chunks)).parts[0]
    assert isinstance(text, Text)
    assert (text.text, text.citations) == ("éab", (Citation("https://a.test", "A", start=1, end=3),))


def test_sources_that_come_too_late_are_reported():
    losses = Losses()
    whole = fold(events(chunk({"text": "éab"}), chunk(CALL), grounded(), losses=losses))
    assert isinstance(whole.parts[0], Text)
    assert whole.parts[0].citations == ()
    assert [str(loss) for loss in losses] == [
        "dropped candidates[0].groundingMetadata: Sources came after their text had ended."
    ]


LOST = {
    "unknown beside the candidates": (
        {**chunk(finish="STOP"), "new": 1},
        "dropped new: Only gemini has this field.",
    ),
    "a source without a text": (
        {"candidates": [{"groundingMetadata": SOURCES, "finishReason": "STOP"}]},
        "dropped candidates[0].groundingMetadata.groundingChunks[0]: There is no text that it could support.",
    ),
    "unknown beside a candidate": (
        {
            "candidates": [
                {"content": {"parts": []}, "logprobsResult": {}, "finishReason": "STOP", "avgLogprobs": 1}
            ]
        },
        "dropped candidates[0].logprobsResult: Only gemini has this field.",
    ),
    "another candidate": (
        {"candidates": [{"finishReason": "STOP"}, {"index": 1}]},
        "dropped candidates[1]: Only the first candidate is passed on.",
    ),
    "unknown in a part": (
        chunk({"text": "a", "new": 1}, finish="STOP"),
        "dropped candidates[0].content.parts[0].new: Only gemini has this field.",
    ),
}


@pytest.mark.parametrize("body, loss", LOST.values(), ids=LOST)
def test_losses_are_reported(body: Wire, loss: str):
    losses = Losses()
    events(body, losses=losses)
    assert [str(item) for item in losses] == [loss]


# Malformed chunks

MALFORMED = {
    "not JSON": (b"{", "chunk"),
    "a number": (b"1", "chunk"),
    "an array of numbers": ([1], "chunk"),
    "candidates": ({"candidates": 1}, "candidates"),
    "candidate": ({"candidates": [1]}, "candidates[0]"),
    "content": ({"candidates": [{"content": 1}]}, "candidates[0].content"),
    "parts": ({"candidates": [{"content": {"parts": {}}}]}, "candidates[0].content.parts"),
    "part": (chunk(1), "candidates[0].content.parts[0]"),  # pyright: ignore[reportArgumentType] - that is the point
    "text": (chunk({"text": 1}), "candidates[0].content.parts[0].text"),
    "thought": (chunk({"text": "a", "thought": 1}), "candidates[0].content.parts[0].thought"),
    "call": (chunk({"functionCall": 1}), "candidates[0].content.parts[0].functionCall"),
    "name": (chunk({"functionCall": {"args": {}}}), "candidates[0].content.parts[0].functionCall.name"),
    "arguments": (
        chunk({"functionCall": {"name": "f", "args": [1]}}),
        "candidates[0].content.parts[0].functionCall.args",
    ),
    "pieces without a call": (
        chunk({"functionCall": {"partialArgs": [arg("$.a", numberValue=1)]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs",
    ),
    "pieces": (
        chunk({"functionCall": {"name": "f", "partialArgs": 1}}),
        "candidates[0].content.parts[0].functionCall.partialArgs",
    ),
    "a piece without a value": (
        chunk({"functionCall": {"name": "f", "partialArgs": [arg("$.a")]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs[0]",
    ),
    "a piece without a place": (
        chunk({"functionCall": {"name": "f", "partialArgs": [arg("a", numberValue=1)]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs[0].jsonPath",
    ),
    "a piece at a place that is none": (
        chunk({"functionCall": {"name": "f", "partialArgs": [arg("$.a[x]", numberValue=1)]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs[0].jsonPath",
    ),
    "a piece absurdly deep": (
        chunk({"functionCall": {"name": "f", "partialArgs": [arg("$" + ".a" * 101, numberValue=1)]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs[0].jsonPath",
    ),
    "a piece far beyond the end of an array": (
        chunk({"functionCall": {"name": "f", "partialArgs": [arg("$.a[5]", numberValue=1)]}}),
        "candidates[0].content.parts[0].functionCall.partialArgs[0].jsonPath",
    ),
    "a piece inside a number": (
        chunk(
            {
                "functionCall": {
                    "name": "f",
                    "partialArgs": [arg("$.a", numberValue=1), arg("$.a.b", numberValue=1)],
                }
            }
        ),
        "candidates[0].content.parts[0].functionCall.partialArgs[1].jsonPath",
    ),
    "finish reason": ({"candidates": [{"finishReason": 99}]}, "candidates[0].finishReason"),
    "usage": ({"usageMetadata": 1}, "usageMetadata"),
    "count": ({"usageMetadata": {"promptTokenCount": "x"}}, "usageMetadata.promptTokenCount"),
    "id": ({"responseId": 1}, "responseId"),
}


@pytest.mark.parametrize("body, path", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: Any, path: str):
    with pytest.raises(WireError) as error:
        events(body, STOP)
    assert (error.value.protocol, error.value.path) == ("gemini", path)


# There and back, and beside the whole


WHOLES = {
    "text": response(Text("a"), usage=Usage(1, 1)),
    "thought, text, calls": response(
        Reasoning("hm"),
        Text("é"),
        ToolCall("1", "f", '{"a":1.10}', state=SIG),
        ToolCall("2", "f", "{}"),
        stop=Stop("tool_calls", "STOP"),
        usage=Usage(9, 5, 1, 0, 2),
    ),
    "image": response(Media("image", "image/png", Base64("AAAA")), usage=Usage()),
}


def neutral(whole: Response) -> Response:
    return replace(
        whole,
        extras=None,
        stop=replace(whole.stop, raw=""),
        parts=tuple(replace(part, extras=None) for part in whole.parts),
    )


@pytest.mark.parametrize("whole", WHOLES.values(), ids=WHOLES)
def test_streamed_equals_whole(whole: Response):
    streamed = fold(events(*frames(*unfold(whole))))
    decoded = CODEC.decode_response(CODEC.encode_response(whole, Losses()), Losses())
    assert neutral(streamed) == neutral(decoded) == neutral(whole)


def test_a_truncated_stream_never_ends_well():
    chunks = frames(*unfold(WHOLES["thought, text, calls"]))
    for cut in range(len(chunks)):
        with pytest.raises(UpstreamError):
            fold(events(*chunks[:cut]))
    assert json.dumps(chunks[-1])
