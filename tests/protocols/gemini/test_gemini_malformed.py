"""Wrong types at every place of a wire that has everything: a WireError, or a reading that can be written."""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.gemini import CODEC

PARTS = [
    {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
    {"text": "a"},
    {"functionCall": {"id": "1", "name": "f", "args": {"n": 1}}, "thoughtSignature": "c2ln"},
    {
        "inlineData": {"mimeType": "text/plain", "data": "aGk=", "displayName": "a"},
        "mediaResolution": {"level": "X"},
    },
    {"fileData": {"fileUri": "files/x", "mimeType": "image/png"}, "videoMetadata": {"fps": 1}},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
]
RESULT = {
    "functionResponse": {
        "id": "1",
        "name": "f",
        "response": {"output": "ok"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    }
}
SCHEMA = {
    "type": "OBJECT",
    "nullable": True,
    "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING", "enum": ["x"]}, "minItems": "1"}},
    "anyOf": [{"type": "INTEGER", "enum": ["1"]}],
    "required": ["a"],
    "defs": {"b": {"ref": "x"}},
    "additionalProperties": False,
    "example": 1,
}
REQUEST = {
    "model": "models/gemini-3-pro",
    "contents": [{"role": "user", "parts": [{"text": "a"}, RESULT]}, {"role": "model", "parts": PARTS}],
    "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
    "tools": [
        {"functionDeclarations": [{"name": "f", "description": "d", "parameters": SCHEMA}]},
        {
            "functionDeclarations": [{"name": "g", "parametersJsonSchema": SCHEMA}],
            "googleSearch": {"excludeDomains": ["x"]},
        },
        {"mcpServers": [{"name": "m", "streamableHttpTransport": {"url": "u", "headers": {}}}]},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]},
        "retrievalConfig": {},
    },
    "generationConfig": {
        "temperature": 1,
        "maxOutputTokens": 5,
        "stopSequences": ["x"],
        "responseLogprobs": True,
        "responseMimeType": "application/json",
        "responseSchema": SCHEMA,
        "responseModalities": ["TEXT"],
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 5, "thinkingLevel": "LOW"},
    },
    "labels": {"a": "b"},
    "serviceTier": "flex",
    "store": True,
    "safetySettings": [],
    "config": {"temperature": 1, "tools": [{"urlContext": {}}]},
}
RESPONSE = {
    "candidates": [
        {
            "content": {"role": "model", "parts": PARTS},
            "finishReason": "STOP",
            "index": 0,
            "groundingMetadata": {
                "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
                "groundingSupports": [
                    {"segment": {"startIndex": 0, "endIndex": 1, "text": "a"}, "groundingChunkIndices": [0]}
                ],
            },
            "logprobsResult": {},
        }
    ],
    "promptFeedback": {"blockReason": "X"},
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "thoughtsTokenCount": 1},
    "modelVersion": "m",
    "responseId": "r",
    "createTime": "2026-01-01T00:00:00Z",
}
GROWING = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {
                        "functionCall": {
                            "name": "f",
                            "willContinue": False,
                            "partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}],
                        },
                        "thoughtSignature": "c2ln",
                    }
                ]
            },
            "finishReason": "STOP",
        }
    ]
}
ERROR = {
    "error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "1s"}]}
}
WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    "",
    "x",
    [],
    {},
    [1],
    [None],
    [{}],
    {"a": 1},
    {"text": "a"},
]


def read_request(body: Wire) -> None:
    CODEC.encode_request(CODEC.decode_request(body, Losses()), Losses())


def read_response(body: Wire) -> None:
    CODEC.decode_error(body, 0)
    CODEC.encode_response(CODEC.decode_response(body, Losses()), Losses())


def read_chunk(body: Wire) -> None:
    decoder = CODEC.stream_decoder(Losses())
    events = [*decoder.feed(Frame("", jsontext.encode(body))), *decoder.close()]
    with suppress(UpstreamError):
        fold(events)


WIRES: dict[str, tuple[Callable[[Wire], None], Wire]] = {
    "request": (read_request, REQUEST),
    "response": (read_response, RESPONSE),
    "chunk": (read_chunk, RESPONSE),
    "growing call": (read_chunk, GROWING),
}


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in `value`, the whole aside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from spots(inner, (*path, key))


def spoiled(wire: Wire, path: tuple[Any, ...], wrong: Any) -> Wire:
    body = copy.deepcopy(wire)
    place: Any = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = copy.deepcopy(wrong)
    return body


@pytest.mark.parametrize("read, wire", WIRES.values(), ids=WIRES)
def test_wrong_types_at_every_place(read: Callable[[Wire], None], wire: Wire):
    read(copy.deepcopy(wire))
    refused: list[WireError] = []
    for path in spots(wire):
        for wrong in WRONG:
            try:
                read(spoiled(wire, path, wrong))
            except WireError as error:
                refused.append(error)
    assert len(refused) > 10
    assert {error.protocol for error in refused} == {"gemini"}


def test_an_error_is_one_whatever_is_wrong_with_it():
    for path in spots(ERROR["error"]):
        for wrong in WRONG:
            body = spoiled(ERROR, ("error", *path), wrong)
            assert CODEC.decode_error(body, 0), body
            decoder = CODEC.stream_decoder(Losses())
            events = [*decoder.feed(Frame("", jsontext.encode(body))), *decoder.close()]
            with pytest.raises(UpstreamError):
                fold(events)
