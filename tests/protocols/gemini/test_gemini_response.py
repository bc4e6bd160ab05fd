"""Whole Gemini responses, both ways."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.core.seal import unseal_state
from dragoman.protocols.gemini import CODEC


def decode(body: Wire) -> tuple[Response, list[str]]:
    losses = Losses()
    return CODEC.decode_response(body, losses), [str(loss) for loss in losses]


def encode(response: Response) -> tuple[Wire, list[str]]:
    losses = Losses()
    return CODEC.encode_response(response, losses), [str(loss) for loss in losses]


def answer(*parts: Wire, **candidate: Any) -> Wire:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}]}


def bare(part: Any) -> Any:
    return replace(part, extras=None)


SAME = {
    "everything": {
        **answer(
            {"text": "hm", "thought": True},
            {"text": "a", "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "1", "name": "f", "args": {"n": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.n", "numberValue": 1}]}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}, "thoughtSignature": "c2ln"},
            finishReason="STOP",
            index=0,
            finishMessage="done",
            safetyRatings=[{"category": "X"}],
            avgLogprobs=-0.1,
            groundingMetadata={"groundingChunks": [{"web": {"uri": "u", "title": "t"}}]},
            new=1,
        ),
        "usageMetadata": {
            "promptTokenCount": 1,
            "candidatesTokenCount": 2,
            "totalTokenCount": 3,
            "trafficType": "X",
        },
        "modelVersion": "gemini-3-pro",
        "responseId": "r1",
        "createTime": "2026-05-04T20:01:02.264968Z",
        "new": {"a_b": 1},
    },
    "seed 000: no finish reason, no usage": answer({"text": "a"}),
    "no content": {"candidates": [{"finishReason": "SAFETY"}]},
    "null content": {"candidates": [{"content": None, "finishReason": "SAFETY"}]},
    "content without parts": {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]},
    "empty parts": {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]},
    "unknown finish reason": answer({"text": "a"}, finishReason="TIRED"),
    "several candidates": {
        "candidates": [answer({"text": "a"})["candidates"][0], {"content": {"parts": []}, "index": 1}]
    },
    "blocked": {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}},
    "blocked with an empty list": {"candidates": [], "promptFeedback": {"blockReason": "OTHER"}},
    "feedback beside an answer": {
        **answer({"text": "a"}, finishReason="STOP"),
        "promptFeedback": {"safetyRatings": []},
    },
    "empty text": answer({"text": ""}, finishReason="STOP"),
    "nulls": {**answer({"text": "a"}, finishReason=None), "usageMetadata": None, "promptFeedback": None},
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_within_gemini_a_response_returns_unchanged(body: Wire):
    before = copy.deepcopy(body)
    assert encode(decode(body)[0])[0] == before
    assert body == before


def test_a_response():
    body = {
        **answer(
            {"text": "hm", "thought": True},
            {"text": "let me see"},
            {"functionCall": {"id": "1", "name": "f", "args": {"a": 1.0}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "g"}},
            finishReason="STOP",
        ),
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 64,
            "candidatesTokenCount": 40,
            "thoughtsTokenCount": 20,
            "toolUsePromptTokenCount": 7,
            "totalTokenCount": 167,
        },
        "modelVersion": "gemini-3-pro",
        "responseId": "r1",
        "createTime": "1970-01-01T00:01:00Z",
    }
    response, losses = decode(body)
    assert (response.id, response.model, response.created) == ("r1", "gemini-3-pro", 60)
    assert [bare(part) for part in response.parts] == [
        Reasoning("hm"),
        Text("let me see"),
        ToolCall("1", "f", '{"a":1.0}', state=State("gemini", "c2ln")),
        ToolCall("", "g", ""),
    ]
    assert response.stop == Stop("tool_calls", "STOP")  # G26
    assert response.usage == Usage(input=107, output=60, cached=64, reasoning=20)  # G31, G32
    assert losses == []


STOPS = {
    "STOP": "end",
    "stop": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "PUP_LIMITED_DISABLED": "content_filter",
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "TOO_MANY_TOOL_CALLS": "malformed_call",
    "MALFORMED_RESPONSE": "malformed_call",
    "CONTINUATION": "pause",
    "OTHER": "other",
    "NO_IMAGE": "other",
    "TIRED": "other",
}


@pytest.mark.parametrize("raw, reason", STOPS.items(), ids=STOPS)
def test_finish_reasons(raw: str, reason: StopReason):
    """G29."""
    response, _ = decode(answer({"text": "a"}, finishReason=raw))
    assert response.stop == Stop(reason, raw)


BLOCKED = {
    "blocked": ({"promptFeedback": {"blockReason": "SAFETY"}}, Stop("content_filter", "SAFETY")),
    "no finish reason": (answer({"text": "a"}), Stop("end", "")),
    "a call and no finish reason": (answer({"functionCall": {"name": "f"}}), Stop("tool_calls", "")),
    "a call that was not whole": (
        answer({"functionCall": {"name": "f"}}, finishReason="MAX_TOKENS"),
        Stop("length", "MAX_TOKENS"),
    ),
    "nothing at all": ({"usageMetadata": {}}, Stop("other", "")),
}


@pytest.mark.parametrize("body, stop", BLOCKED.values(), ids=BLOCKED)
def test_other_ends(body: Wire, stop: Stop):
    assert decode(body)[0].stop == stop


LOST = {
    "other candidates": (
        {"candidates": [{"content": {"parts": []}}, {}]},
        ["dropped candidates[1]: Only the first candidate is passed on."],
    ),
    "hosted parts": (
        answer({"executableCode": {"code": "1"}}),
        ["dropped candidates[0].content.parts[0]: Only gemini understands a part with executableCode."],
    ),
    "log probabilities": (
        answer(logprobsResult={}),
        ["dropped candidates[0].logprobsResult: Only gemini has this field."],
    ),
    "a new field": ({**answer(), "new": 1}, ["dropped new: Only gemini has this field."]),
    "bookkeeping is quiet": (
        {
            **answer(index=0, avgLogprobs=1, score=-0.1, safetyRatings=[], finishMessage="x"),
            "modelStatus": {},
            "usageMetadata": {},
        },
        [],
    ),
}


@pytest.mark.parametrize("body, losses", LOST.values(), ids=LOST)
def test_losses_are_reported(body: Wire, losses: list[str]):
    assert decode(body)[1] == losses


# To clients


ENDED = Stop("end")


def response(*parts: Any, stop: Stop = ENDED, usage: Usage | None = None) -> Response:
    return Response("r1", "some-model", parts, stop, usage)


def test_a_response_of_another():
    parts = [
        Reasoning("hm", state=State("gemini", "c2ln")),
        Text("see"),
        ToolCall("1", "f", '{"a":1.10}', state=State("gemini", "c2_-")),
        ToolCall("2", "g", ""),
    ]
    body, losses = encode(response(*parts, stop=Stop("tool_calls", "tool_use"), usage=Usage(10, 5, 4, 1, 2)))
    assert jsontext.decode(jsontext.encode(body)) == {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                        {"text": "see"},
                        {
                            "functionCall": {"id": "1", "name": "f", "args": {"a": 1.1}},
                            "thoughtSignature": "c2_-",
                        },
                        {"functionCall": {"id": "2", "name": "g", "args": {}}},
                    ],
                    "role": "model",
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 3,
            "totalTokenCount": 15,
            "cachedContentTokenCount": 4,
            "thoughtsTokenCount": 2,
        },
        "modelVersion": "some-model",
        "responseId": "r1",
    }
    assert b'"args":{"a":1.10}' in jsontext.encode(body)
    assert losses == []


def parts_of(body: Wire) -> list[Wire]:
    return body["candidates"][0]["content"]["parts"]


ENCODED_PARTS = {
    "nothing": ([], [{"text": ""}]),
    "empty texts are left out": ([Text(""), Text("a")], [{"text": "a"}]),
    "state of an empty text survives": (
        [Text("", state=State("gemini", "c2ln"))],
        [{"text": "", "thoughtSignature": "c2ln"}],
    ),
    "hidden reasoning": (
        [Reasoning(hidden=True, state=State("gemini", "c2ln"))],
        [{"text": "", "thought": True, "thoughtSignature": "c2ln"}],
    ),
    "image": (
        [Media("image", "image/png", Base64("AAAA"))],
        [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    ),
    "foreign parts of others": ([Foreign("anthropic", {"a": 1}), Text("a")], [{"text": "a"}]),
    "own foreign parts": ([Foreign("gemini", {"toolCall": {}})], [{"toolCall": {}}]),
    "a result, which no answer has": (
        [ToolResult("1", "f", (Media("image", "image/png", Base64("AAAA")),))],
        [
            {
                "functionResponse": {
                    "id": "1",
                    "name": "f",
                    "response": {"output": ""},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
                }
            }
        ],
    ),
    "G66 broken arguments": (
        [ToolCall("1", "f", '{"a":')],
        [{"functionCall": {"id": "1", "name": "f", "args": {"_raw_arguments": '{"a":'}}}],
    ),
}


@pytest.mark.parametrize("parts, wire", ENCODED_PARTS.values(), ids=ENCODED_PARTS)
def test_parts_of_others(parts: list[Any], wire: list[Wire]):
    assert parts_of(encode(response(*parts))[0]) == wire


def test_foreign_state_travels_sealed():
    body, _ = encode(response(Reasoning("hm", state=State("anthropic", "a+b/c=", "id"))))
    (part,) = parts_of(body)
    assert unseal_state(part["thoughtSignature"], "gemini") == State("anthropic", "a+b/c=", "id")


def test_an_incomplete_call_is_left_out():
    """G28."""
    body, losses = encode(response(Text("a"), ToolCall("1", "f", '{"a', complete=False), stop=Stop("length")))
    assert parts_of(body) == [{"text": "a"}]
    assert body["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert losses == ["dropped tool call: The reply was cut inside this call, so it must not run."]


ENCODED_STOPS = {
    "end": (Stop("end", "stop"), "STOP"),
    "calls": (Stop("tool_calls", "tool_calls"), "STOP"),
    "stop sequence": (Stop("stop_sequence", "stop_sequence", "END"), "STOP"),
    "length": (Stop("length", "max_tokens"), "MAX_TOKENS"),
    "context full": (Stop("context_full", "model_context_window_exceeded"), "MAX_TOKENS"),
    "filter": (Stop("content_filter", "content_filter"), "SAFETY"),
    "refusal": (Stop("refusal", "refusal"), "SAFETY"),
    "pause": (Stop("pause", "pause_turn"), "OTHER"),
    "malformed call": (Stop("malformed_call"), "MALFORMED_FUNCTION_CALL"),
    "other": (Stop("other", "steered"), "OTHER"),
    "a word of Gemini's own": (Stop("content_filter", "SPII"), "SPII"),
    "a word that no longer holds": (Stop("tool_calls", "OTHER"), "STOP"),
}


@pytest.mark.parametrize("stop, word", ENCODED_STOPS.values(), ids=ENCODED_STOPS)
def test_stops_of_others(stop: Stop, word: str):
    assert encode(response(Text("a"), stop=stop))[0]["candidates"][0]["finishReason"] == word


def test_a_refusal_is_text_that_safety_ended():
    body, _ = encode(response(Refusal("no")))
    assert parts_of(body) == [{"text": "no"}]
    assert body["candidates"][0]["finishReason"] == "SAFETY"


# Sources: bytes of the answer <-> characters of a text

A, B = {"web": {"uri": "https://a.test", "title": "A"}}, {"web": {"uri": "https://b.test", "title": "B"}}


def support(start: int, end: int, *chunks: int) -> Wire:
    return {
        "segment": {"startIndex": start, "endIndex": end, "text": ""},
        "groundingChunkIndices": list(chunks),
    }


SOURCES = {
    "a segment": (["one two"], [support(0, 3, 0)], [[Citation("https://a.test", "A", start=0, end=3)]]),
    "two sources for it": (
        ["one two"],
        [support(4, 7, 0, 1)],
        [[Citation("https://a.test", "A", start=4, end=7), Citation("https://b.test", "B", start=4, end=7)]],
    ),
    "bytes are not characters": (
        ["é 😀 x"],
        [support(3, 7, 0)],
        [[Citation("https://a.test", "A", start=2, end=3)]],
    ),
    "in the second text": (
        ["é", "two"],
        [support(2, 5, 1)],
        [[], [Citation("https://b.test", "B", start=0, end=3)]],
    ),
    "thoughts do not count": (
        ["one", {"text": "hm", "thought": True}, "two"],
        [support(3, 6, 0)],
        [[], [Citation("https://a.test", "A", start=0, end=3)]],
    ),
    "beyond the end": (["one"], [support(1, 99, 0)], [[Citation("https://a.test", "A", start=1, end=3)]]),
    "the start is not said when it is 0": (
        ["one"],
        [{"segment": {"endIndex": 2}, "groundingChunkIndices": [0]}],
        [[Citation("https://a.test", "A", start=0, end=2)]],
    ),
    "sources without segments": (
        ["one"],
        None,
        [[Citation("https://a.test", "A"), Citation("https://b.test", "B")]],
    ),
    "no text": ([], [support(0, 1, 0)], []),
}


@pytest.mark.parametrize("texts, supports, citations", SOURCES.values(), ids=SOURCES)
def test_sources(texts: list[Any], supports: list[Wire] | None, citations: list[list[Citation]]):
    parts = [{"text": text} if isinstance(text, str) else text for text in texts]
    metadata = {"groundingChunks": [A, B], **({"groundingSupports": supports} if supports else {})}
    body = answer(*parts, groundingMetadata=metadata)
    decoded, _ = decode(body)
    assert [list(part.citations) for part in decoded.parts if isinstance(part, Text)] == citations
    assert encode(decoded)[0] == body


def test_a_source_without_a_url_is_lost():
    metadata = {
        "groundingChunks": [{"retrievedContext": {"text": "x"}}, A],
        "groundingSupports": [support(0, 1, 0, 1)],
    }
    decoded, losses = decode(answer({"text": "one"}, groundingMetadata=metadata))
    assert isinstance(decoded.parts[0], Text)
    assert [citation.url for citation in decoded.parts[0].citations] == ["https://a.test"]
    assert losses == ["dropped candidates[0].groundingMetadata.groundingChunks[0]: This source has no URL."]


UNUSED = {
    "that no support names": ([{"text": "one"}], [A, B], "This source supports nothing in the text."),
    "without a text": ([{"functionCall": {"name": "f"}}], [A], "There is no text that it could support."),
}


@pytest.mark.parametrize("parts, chunks, why", UNUSED.values(), ids=UNUSED)
def test_an_unused_source_is_lost(parts: list[Wire], chunks: list[Wire], why: str):
    metadata = {"groundingChunks": chunks, "groundingSupports": [support(0, 1, 0)]}
    _, losses = decode(answer(*parts, groundingMetadata=metadata))
    place = f"candidates[0].groundingMetadata.groundingChunks[{len(chunks) - 1}]"
    assert losses == [f"dropped {place}: {why}"]


def test_citations_of_others():
    texts = [
        Text("é one", (Citation("https://a.test", "A", start=2, end=5),)),
        Text(
            "two",
            (
                Citation("https://b.test", where="c"),
                Citation("https://a.test", "A", "cited", where="e[1]"),
                Citation("", where="d"),  # its decoder reported it
            ),
        ),
    ]
    body, losses = encode(response(*texts))
    assert body["candidates"][0]["groundingMetadata"] == {
        "groundingChunks": [A, {"web": {"uri": "https://b.test", "title": "https://b.test"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 3, "endIndex": 6, "text": "one"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 6, "endIndex": 9, "text": "two"}, "groundingChunkIndices": [1]},
            {"segment": {"startIndex": 6, "endIndex": 9, "text": "two"}, "groundingChunkIndices": [0]},
        ],
    }
    assert losses == ["dropped e: Gemini has no field for the quoted words."]


MALFORMED = {
    "candidates": ({"candidates": {}}, "candidates", "expected an array, got an object"),
    "candidate": ({"candidates": [1]}, "candidates[0]", "expected an object, got the number 1"),
    "content": (
        {"candidates": [{"content": "x"}]},
        "candidates[0].content",
        "expected an object, got the string 'x'",
    ),
    "parts": (
        {"candidates": [{"content": {"parts": 1}}]},
        "candidates[0].content.parts",
        "expected an array of parts, got the number 1",
    ),
    "part": (
        answer({"text": 1}),
        "candidates[0].content.parts[0].text",
        "expected a string, got the number 1",
    ),
    "finish reason": (
        answer(finishReason=99),
        "candidates[0].finishReason",
        "expected a string, got the number 99",
    ),
    "usage": ({"usageMetadata": 1}, "usageMetadata", "expected an object, got the number 1"),
    "count": (
        {"usageMetadata": {"promptTokenCount": "1"}},
        "usageMetadata.promptTokenCount",
        "expected a number, got the string '1'",
    ),
    "id": ({"responseId": 1}, "responseId", "expected a string, got the number 1"),
    "grounding": (
        answer({"text": "a"}, groundingMetadata=1),
        "candidates[0].groundingMetadata",
        "expected an object, got the number 1",
    ),
    "sources": (
        answer({"text": "a"}, groundingMetadata={"groundingChunks": 1}),
        "candidates[0].groundingMetadata.groundingChunks",
        "expected an array, got the number 1",
    ),
    "source number": (
        answer(
            {"text": "a"}, groundingMetadata={"groundingChunks": [A], "groundingSupports": [support(0, 1, 7)]}
        ),
        "candidates[0].groundingMetadata.groundingSupports[0].groundingChunkIndices",
        "expected numbers of groundingChunks",
    ),
}


@pytest.mark.parametrize("body, path, problem", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: Wire, path: str, problem: str):
    with pytest.raises(WireError) as error:
        decode(body)
    assert (error.value.protocol, error.value.path, error.value.problem) == ("gemini", path, problem)


def test_enums_as_numbers():
    """Google's Go clients ask for them (enum-encoding=int)."""
    response = CODEC.decode_response(answer({"text": "hi"}, finishReason=2), Losses())
    assert response.stop == Stop("length", "MAX_TOKENS")
    blocked = CODEC.decode_response({"promptFeedback": {"blockReason": 1}}, Losses())
    assert blocked.stop == Stop("content_filter", "SAFETY")
