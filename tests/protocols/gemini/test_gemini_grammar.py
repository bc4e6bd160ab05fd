"""The grammar of Gemini streams: what google-genai and the agents on it need."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError
from dragoman.protocols.gemini.grammar import Grammar


def chunk(*parts: Any, role: str = "model", **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": role}, **candidate}]}


def check(*chunks: Any, printed: bool = False) -> None:
    grammar = Grammar()
    for item in chunks:
        frame = item if isinstance(item, Frame) else Frame("", jsontext.encode(item) if printed else item)
        assert list(grammar.feed(frame)) == [frame]
    assert list(grammar.close()) == []


STOP = chunk({"text": ""}, finishReason="STOP")
CALL = {"functionCall": {"id": "1", "name": "f", "args": {}}}
GOOD = {
    "text": [chunk({"text": "a"}), STOP],
    "a signed call": [chunk({**CALL, "thoughtSignature": "c2ln"}), STOP],
    "URL-safe signature": [chunk({"text": "", "thoughtSignature": "_-8="}), STOP],
    "call and end in one": [chunk(CALL, finishReason="STOP")],
    "usage only": [{"usageMetadata": {}}, STOP],
    "blocked": [{"promptFeedback": {"blockReason": "SAFETY"}}],
    "error": [chunk({"text": "a"}), {"error": {"code": 500}}],
    "no role": [{"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}],
    "no content": [{"candidates": [{"finishReason": "STOP"}]}],
    "Vertex: a call in pieces": [
        chunk({"functionCall": {"name": "f", "willContinue": True}}),
        chunk({"functionCall": {"partialArgs": [], "willContinue": True}}),
        chunk({"functionCall": {}}),
        STOP,
    ],
}


@pytest.mark.parametrize("chunks", GOOD.values(), ids=GOOD)
def test_good(chunks: list[Any]):
    check(*chunks)
    check(*chunks, printed=True)


BAD = {
    "an event name": ([Frame("message", chunk())], "an event named 'message'"),
    "no object": ([[1]], "a chunk that is no object"),
    "no end": ([chunk({"text": "a"})], "ends without finishReason"),
    "nothing": ([], "ends without finishReason"),
    "after the end": ([STOP, chunk({"text": "a"})], "after the end"),
    "after an error": ([{"error": {}}, STOP], "after the end"),
    "an error that is overlooked": ([{"usageMetadata": {}, "error": {}}], "not the first key"),
    "candidates": ([{"candidates": [1]}], "candidates that are no objects"),
    "role": ([chunk({"text": "a"}, role="assistant")], "content of role 'assistant'"),
    "no data": ([chunk({"thought": True})], "no data"),
    "two kinds of data": ([chunk({"text": "a", **CALL})], "each has one kind of data"),
    "text": ([chunk({"text": 1})], "a text that is no string"),
    "part": ([chunk(1)], "a part that is no object"),
    "a call without a name": ([chunk({"functionCall": {"args": {}}})], "without a name"),
    "G10 arguments that are text": (
        [chunk({"functionCall": {"name": "f", "args": "{"}})],
        "args are no object",
    ),
    "a call that is none": ([chunk({"functionCall": 1})], "a functionCall that is no object"),
    "a signature that is not base64": ([chunk({"text": "", "thoughtSignature": "a b!"})], "not base64"),
    "a signature that is not padded": ([chunk({"text": "", "thoughtSignature": "c2l"})], "not base64"),
    "a signature with a stray character": (
        [chunk({"text": "", "thoughtSignature": "c2ln!!!!"})],
        "not base64",
    ),
    "a signature that is none": ([chunk({"text": "", "thoughtSignature": 1})], "not base64"),
    "a finish reason that is none": ([chunk(finishReason=1)], "a finishReason that is no string"),
}


@pytest.mark.parametrize("chunks, problem", BAD.values(), ids=BAD)
def test_bad(chunks: list[Any], problem: str):
    with pytest.raises(GrammarError, match=problem):
        check(*chunks)
