"""Events to Gemini chunks."""

from typing import Any

import pytest

from dragoman.core.events import (
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
    Base64,
    Citation,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Response,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.protocols.gemini import CODEC
from protocols.gemini.streams import SIG, frames, response

# To clients


NAMES = {"modelVersion": "m", "responseId": "r1"}


def sent(*parts: Wire) -> list[Wire]:
    return [
        {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **NAMES}
        for part in parts
    ]


def last(finish: str = "STOP", usage: Wire | None = None, **candidate: Any) -> Wire:
    usage = usage or {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}
    content = {"parts": [{"text": ""}], "role": "model"}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0, **candidate}],
        "usageMetadata": usage,
        **NAMES,
    }


ENCODED = {
    "nothing": (response(), [last()]),
    "text": (response(Text("a")), [*sent({"text": "a"}), last()]),
    "thought": (response(Reasoning("a")), [*sent({"text": "a", "thought": True}), last()]),
    "a signed thought is followed by its state": (
        response(Reasoning("a", state=SIG)),
        [
            *sent({"text": "a", "thought": True}, {"text": "", "thought": True, "thoughtSignature": "c2ln"}),
            last(),
        ],
    ),
    "hidden reasoning": (
        response(Reasoning(hidden=True, state=SIG)),
        [*sent({"text": "", "thought": True, "thoughtSignature": "c2ln"}), last()],
    ),
    "the state of a text": (
        response(Text("a", state=SIG)),
        [*sent({"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}), last()],
    ),
    "calls": (
        response(
            ToolCall("1", "f", '{"a":1}', state=SIG), ToolCall("2", "g"), stop=Stop("tool_calls", "tool_use")
        ),
        [
            *sent(
                {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "2", "name": "g", "args": {}}},
            ),
            last(),
        ],
    ),
    "a refusal": (response(Refusal("no")), [*sent({"text": "no"}), last("SAFETY")]),
    "media": (
        response(Media("image", "image/png", Base64("AAAA"))),
        [*sent({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}), last()],
    ),
    "foreign parts": (
        response(Foreign("gemini", {"toolCall": {}}), Foreign("anthropic", {})),
        [*sent({"toolCall": {}}), last()],
    ),
    "usage": (
        response(usage=Usage(10, 5, 4, 0, 2)),
        [
            last(
                usage={
                    "promptTokenCount": 10,
                    "candidatesTokenCount": 3,
                    "totalTokenCount": 15,
                    "cachedContentTokenCount": 4,
                    "thoughtsTokenCount": 2,
                }
            )
        ],
    ),
    "G28 a call that was cut": (
        response(ToolCall("1", "f", '{"a', complete=False), stop=Stop("length")),
        [last("MAX_TOKENS")],
    ),
    "citations": (
        response(Text("é"), Text("ab", (Citation("https://a.test", "A", start=1, end=2),))),
        [
            *sent({"text": "é"}, {"text": "ab"}),
            last(
                groundingMetadata={
                    "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
                    "groundingSupports": [
                        {
                            "segment": {"startIndex": 3, "endIndex": 4, "text": "b"},
                            "groundingChunkIndices": [0],
                        }
                    ],
                }
            ),
        ],
    ),
}


@pytest.mark.parametrize("whole, chunks", ENCODED.values(), ids=ENCODED)
def test_events(whole: Response, chunks: list[Wire]):
    assert frames(*unfold(whole)) == chunks


def test_a_call_goes_out_once_and_whole():
    """G10: `{}` already parses, and is not all."""
    pieces = ["{", "}", ' \n{"a":', "1", "2}"]
    start = [ResponseStart("r1", "m"), PartStart(0, ToolCall("1", "f"))]
    before = frames(*start, *(PartDelta(0, piece) for piece in pieces[2:]))
    assert before == []
    out = frames(*start, *(PartDelta(0, piece) for piece in pieces[2:]), PartEnd(0))
    assert out == sent({"functionCall": {"id": "1", "name": "f", "args": {"a": 12}}})


def test_a_cut_call_is_reported():
    losses = Losses()
    frames(*unfold(response(ToolCall("1", "f", "{", complete=False))), losses=losses)
    assert [str(loss) for loss in losses] == [
        "dropped tool call: The reply was cut inside this call, so it must not run."
    ]


def test_failures_have_the_error_first():
    (body,) = frames(ResponseFailed(Failure("overloaded", "busy", 529, retry_after=3)))
    assert list(body) == ["error"]
    assert body["error"]["code"] == 503
    assert body["error"]["status"] == "UNAVAILABLE"


def test_keep_alives_say_nothing():
    assert frames(ResponseStart("r1", "m"), KeepAlive()) == []
    assert CODEC.keep_alive == b"\n"


def test_usage_of_the_start_stands_where_the_end_says_none():
    out = frames(ResponseStart("r1", "m", Usage(7)), ResponseEnd(Stop("end")))
    assert out[-1]["usageMetadata"]["promptTokenCount"] == 7
