"""Gemini requests: what each field becomes, what goes back unchanged, what is lost and said so."""

import copy
from contextlib import suppress
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Message,
    Plain,
    Reasoning,
    Refusal,
    Request,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.profiles import profile_of
from dragoman.protocols.gemini import CODEC

PNG = "iVBORw0KGgo+/w=="
HELLO = {"role": "user", "parts": [{"text": "hello"}]}


def decode(body: Wire) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request(body, losses), [str(loss) for loss in losses]


def encode(request: Request) -> tuple[Wire, list[str]]:
    losses = Losses()
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def asked(*messages: Message, model: str = "gemini-3-pro", **more: Any) -> Request:
    return Request(model, messages, **more)


def contents(*messages: Message, model: str = "gemini-3-pro") -> list[Wire]:
    return encode(asked(*messages, model=model))[0]["contents"]


# Within Gemini: encode after decode is identity

SAME = {
    "text": {"contents": [HELLO]},
    "no contents": {"contents": []},
    "model and user in turn": {"contents": [HELLO, {"role": "model", "parts": [{"text": "hi"}]}, HELLO]},
    "neighbours of one role stay apart": {"contents": [HELLO, HELLO]},
    "missing role": {"contents": [{"parts": [{"text": "hello"}]}]},
    "null role": {"contents": [{"role": None, "parts": [{"text": "hello"}]}]},
    "role function": {"contents": [{"role": "function", "parts": [{"functionResponse": {"name": "f"}}]}]},
    "role tool": {"contents": [{"role": "tool", "parts": [{"text": "x"}]}]},
    "missing parts": {"contents": [{"role": "user"}]},
    "empty parts": {"contents": [{"role": "user", "parts": []}]},
    "empty text": {"contents": [{"role": "model", "parts": [{"text": ""}]}]},
    "an empty part": {"contents": [{"role": "user", "parts": [{}]}]},
    "system": {
        "contents": [HELLO],
        "systemInstruction": {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
    },
    "system without role": {"contents": [HELLO], "systemInstruction": {"parts": [{"text": "a"}]}},
    "system without parts": {"contents": [HELLO], "systemInstruction": {"role": "user", "parts": []}},
    "null system": {"contents": [HELLO], "systemInstruction": None, "tools": None, "toolConfig": None},
    "thoughts": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "said", "thought": False},
                ],
            }
        ]
    },
    "signed text, empty text, call, media, code": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"text": "a", "thoughtSignature": "c2ln"},
                    {"text": "", "thoughtSignature": "c2ln"},
                    {"text": "b", "thoughtSignature": ""},
                    {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2_-"},
                    {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2ln"},
                    {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"},
                ],
            }
        ]
    },
    "calls": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {
                            "name": "f",
                            "args": {"n": 10, "s": "é", "deep": {"a_b": [None]}},
                            "id": "1",
                        }
                    },
                    {"functionCall": {"name": "f"}},
                    {"functionCall": {"name": "f", "args": None}},
                    {"functionCall": {"name": "f", "args": {}, "unknown": 1}, "partMetadata": {"x": 1}},
                ],
            }
        ]
    },
    "results": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "before"},
                    {"functionResponse": {"name": "f", "id": "1", "response": {"output": "text"}}},
                    {"functionResponse": {"name": "f", "response": {"result": "text"}}},
                    {"functionResponse": {"name": "f", "response": {"output": {"a": 1}}}},
                    {"functionResponse": {"name": "f", "response": {"output": ["a", 1]}}},
                    {"functionResponse": {"name": "f", "response": {"error": "no"}}},
                    {"functionResponse": {"name": "f", "response": {"error": "no", "code": 1}}},
                    {"functionResponse": {"name": "f", "response": {"temperature": 20.50, "a_b": {}}}},
                    {"functionResponse": {"name": "f", "response": {}}},
                    {"functionResponse": {"name": "f"}},
                    {"functionResponse": {"name": "f", "response": {"x": 1}, "scheduling": "SILENT"}},
                    {
                        "functionResponse": {"name": "f", "response": {"output": "x"}},
                        "thoughtSignature": "c2ln",
                    },
                ],
            }
        ]
    },
    "results by name alone": {
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "g"}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "f", "response": {"output": "x"}}},
                    {"functionResponse": {"name": "g", "response": {"output": "x"}}},
                ],
            },
        ]
    },
    "results with media": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "name": "f",
                            "response": {"output": "see"},
                            "parts": [
                                {
                                    "inlineData": {
                                        "mimeType": "image/png",
                                        "data": PNG,
                                        "displayName": "a.png",
                                    }
                                },
                                {"fileData": {"mimeType": "image/png", "fileUri": "https://x.test/a.png"}},
                                {"somethingNew": {}},
                            ],
                        }
                    },
                    {"functionResponse": {"name": "f", "response": {"a": 1}, "parts": []}},
                    {"inlineData": {"mimeType": "image/png", "data": PNG}},
                ],
            }
        ]
    },
    "media": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": PNG}},
                    {"inlineData": {"mimeType": "image/png", "data": "_-8"}},
                    {"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8="}},
                    {"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8"}},
                    {"inlineData": {"mimeType": "text/plain", "data": "/w=="}},
                    {"inlineData": {"data": "AAAA", "displayName": "x", "unknown": 1}},
                    {"fileData": {"fileUri": "files/abc", "mimeType": "application/pdf"}},
                    {"fileData": {"fileUri": "https://youtu.be/x"}, "videoMetadata": {"fps": 0.2}},
                    {
                        "inlineData": {"mimeType": "image/png", "data": PNG},
                        "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
                    },
                ],
            }
        ]
    },
    "hosted parts": {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB", "args": {}}},
                    {"toolResponse": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                ],
            }
        ]
    },
    "unknown fields everywhere": {
        "contents": [{"role": "user", "parts": [{"text": "a", "new": 1}], "new": 2}],
        "systemInstruction": {"parts": [{"text": "a", "new": 3}], "new": 4},
        "new": {"a_b": 5},
        "newNull": None,
    },
    "all settings": {
        "contents": [HELLO],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "cachedContent": "cachedContents/1",
        "labels": {"team": "a", "n": 1},
        "serviceTier": "flex",
        "store": False,
        "generationConfig": {
            "temperature": 1.0,
            "topP": 0.9,
            "topK": 40,
            "candidateCount": 1,
            "maxOutputTokens": 100,
            "stopSequences": ["a"],
            "seed": 1,
            "presencePenalty": 0.5,
            "frequencyPenalty": 0.5,
            "responseLogprobs": True,
            "logprobs": 2,
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT"},
            "responseModalities": ["TEXT"],
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
            "speechConfig": {},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
        },
    },
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_within_gemini_a_body_returns_unchanged(body: Wire):
    before = copy.deepcopy(body)
    request, _ = decode(body)
    assert encode(request)[0] == before
    assert body == before


def test_numbers_keep_their_lexemes():
    arguments = '{"a":1.10,"b":1e5,"c":12345678901234567890}'
    part = f'{{"functionCall":{{"name":"f","args":{arguments}}}}}'
    request, _ = decode(jsontext.decode(f'{{"contents":[{{"role":"model","parts":[{part}]}}]}}'))
    (call,) = request.messages[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments == arguments
    body = encode(asked(user(Text("x")), assistant(call)))[0]
    assert f'"args":{arguments}' in jsontext.dumps(body)


# Other spellings of the same request

SNAKE = {
    "contents": [
        {
            "parts": [
                {"inline_data": {"mime_type": "image/png", "data": PNG}, "media_resolution": {"level": "X"}}
            ]
        },
        {
            "role": "model",
            "parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}, "thought_signature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [
                {
                    "function_response": {
                        "name": "f",
                        "response": {"file_uri": 1},
                        "parts": [{"file_data": {"file_uri": "https://x.test/a", "mime_type": "image/png"}}],
                    }
                }
            ],
        },
    ],
    "system_instruction": {"parts": [{"text": "be brief"}]},
    "tools": [
        {
            "function_declarations": [
                {"name": "f", "parameters_json_schema": {"type": "object", "properties": {"mime_type": {}}}}
            ]
        },
        {"google_search": {"exclude_domains": ["a.test"]}},
    ],
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
    "safety_settings": [],
}
CAMEL = {
    "contents": [
        {
            "parts": [
                {"inlineData": {"mimeType": "image/png", "data": PNG}, "mediaResolution": {"level": "X"}}
            ]
        },
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "f", "args": {"a_b": 1}}, "thoughtSignature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "f",
                        "response": {"file_uri": 1},
                        "parts": [{"fileData": {"fileUri": "https://x.test/a", "mimeType": "image/png"}}],
                    }
                }
            ],
        },
    ],
    "systemInstruction": {"parts": [{"text": "be brief"}]},
    "tools": [
        {
            "functionDeclarations": [
                {"name": "f", "parametersJsonSchema": {"type": "object", "properties": {"mime_type": {}}}}
            ]
        },
        {"googleSearch": {"exclude_domains": ["a.test"]}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "safetySettings": [],
}


def test_snake_case_means_the_same_and_goes_back_in_camel_case():
    assert encode(decode(SNAKE)[0])[0] == CAMEL
    assert decode(SNAKE)[0] == decode(CAMEL)[0]


SLOPPY = {
    "contents is a string": ({"contents": "hello"}, {"contents": [HELLO]}),
    "contents is one content": ({"contents": HELLO}, {"contents": [HELLO]}),
    "contents holds strings": ({"contents": ["hello"]}, {"contents": [HELLO]}),
    "parts is one part": (
        {"contents": [{"role": "user", "parts": {"text": "hello"}}]},
        {"contents": [HELLO]},
    ),
    "parts is a string": ({"contents": [{"role": "user", "parts": "hello"}]}, {"contents": [HELLO]}),
    "parts holds strings": ({"contents": [{"role": "user", "parts": ["hello"]}]}, {"contents": [HELLO]}),
    "system is a string": (
        {"contents": [HELLO], "systemInstruction": "be brief"},
        {"contents": [HELLO], "systemInstruction": {"parts": [{"text": "be brief"}]}},
    ),
    "tools is one entry": (
        {"contents": [HELLO], "tools": {"function_declarations": [{"name": "f"}]}},
        {"contents": [HELLO], "tools": [{"functionDeclarations": [{"name": "f"}]}]},
    ),
    "the JavaScript SDK's config": (
        {
            "model": "models/gemini-3-pro",
            "contents": "hello",
            "config": {
                "systemInstruction": "be brief",
                "tools": [{"functionDeclarations": [{"name": "f"}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
                "temperature": 0,
                "max_output_tokens": 5,
            },
        },
        {
            "contents": [HELLO],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "generationConfig": {"temperature": 0, "maxOutputTokens": 5},
        },
    ),
    "config beside the real thing": (
        {
            "contents": "hello",
            "config": {"temperature": 0, "topK": 1},
            "generationConfig": {"temperature": 1},
        },
        {"contents": [HELLO], "generationConfig": {"temperature": 1, "topK": 1}},
    ),
}


@pytest.mark.parametrize("body, proper", SLOPPY.values(), ids=SLOPPY)
def test_sloppy_bodies_are_read_and_go_on_proper(body: Wire, proper: Wire):
    assert encode(decode(body)[0])[0] == proper


def test_what_config_says_beyond_the_wire_is_reported():
    _, losses = decode({"contents": "x", "config": {"httpOptions": {"timeout": 1}}})
    assert losses == ["dropped config: only gemini understands it"]


MODELS = {
    "none": ({}, ""),
    "named": ({"model": "gemini-3-pro"}, "gemini-3-pro"),
    "with its collection": ({"model": "models/gemini-3-pro"}, "gemini-3-pro"),
    "tuned": ({"model": "tunedModels/mine"}, "tunedModels/mine"),
}


@pytest.mark.parametrize("said, model", MODELS.values(), ids=MODELS)
def test_the_model_is_read_from_the_body_but_never_written_there(said: Wire, model: str):
    request, _ = decode({"contents": [HELLO], **said})
    assert (request.model, request.stream) == (model, False)
    assert encode(request)[0] == {"contents": [HELLO]}
    assert encode(asked(user(Text("hello")), stream=True))[0] == {"contents": [HELLO]}


# Parts and what they become

PARTS = {
    "text": ({"text": "a"}, Text("a"), []),
    "thought": ({"text": "a", "thought": True}, Reasoning("a"), []),
    "signed thought": (
        {"text": "a", "thought": True, "thoughtSignature": "c2ln"},
        Reasoning("a", state=State("gemini", "c2ln")),
        [],
    ),
    "nothing but a signature": (
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
        Reasoning("", hidden=True, state=State("gemini", "c2ln")),
        [],
    ),
    "signed text": ({"text": "a", "thoughtSignature": "c2_-"}, Text("a", state=State("gemini", "c2_-")), []),
    "empty signed text": (
        {"text": "", "thoughtSignature": "c2ln"},
        Text("", state=State("gemini", "c2ln")),
        [],
    ),
    "sealed state of another": (
        {"text": "a", "thought": True, "thoughtSignature": seal_state(State("anthropic", "sig"), "gemini")},
        Reasoning("a", state=State("anthropic", "sig")),
        [],
    ),
    "call": (
        {"functionCall": {"id": "1", "name": "f", "args": {"a": "é"}}, "thoughtSignature": "c2ln"},
        ToolCall("1", "f", '{"a":"é"}', state=State("gemini", "c2ln")),
        [],
    ),
    "call without id": ({"functionCall": {"name": "f", "args": {}}}, ToolCall("", "f", "{}"), []),
    "G64 call without arguments": ({"functionCall": {"name": "f"}}, ToolCall("", "f", ""), []),
    "image": (
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        Media("image", "image/png", Base64(PNG)),
        [],
    ),
    "URL-safe, unpadded base64": (
        {"inlineData": {"mimeType": "audio/wav", "data": "_-8"}},
        Media("audio", "audio/wav", Base64("/+8=")),
        [],
    ),
    "one letter of the other alphabet": (
        {"inlineData": {"mimeType": "audio/wav", "data": "__8="}},
        Media("audio", "audio/wav", Base64("//8=")),
        [],
    ),
    "text file that is no base64": (
        {"inlineData": {"mimeType": "text/plain", "data": "aGk!!!!="}},
        Media("document", "text/plain", Base64("aGk!!!!=")),
        [],
    ),
    "a file of others at such a path": (
        {"fileData": {"fileUri": "https://x.test/files/a"}},
        Media("document", "", Url("https://x.test/files/a")),
        [],
    ),
    "video": (
        {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}},
        Media("video", "video/mp4", Base64("AAAA")),
        [],
    ),
    "pdf": (
        {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        Media("document", "application/pdf", Base64("AAAA")),
        [],
    ),
    "text file": (
        {"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8=", "displayName": "a.txt"}},
        Media("document", "text/plain", Plain("hello"), "a.txt"),
        [],
    ),
    "text file that is no text": (
        {"inlineData": {"mimeType": "text/csv", "data": "/w=="}},
        Media("document", "text/csv", Base64("/w==")),
        [],
    ),
    "uploaded file": (
        {
            "fileData": {
                "mimeType": "image/png",
                "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x",
            }
        },
        Media(
            "image", "image/png", FileId("https://generativelanguage.googleapis.com/v1beta/files/x", "gemini")
        ),
        [],
    ),
    "uploaded file by name": (
        {"fileData": {"fileUri": "files/x"}},
        Media("document", "", FileId("files/x", "gemini")),
        [],
    ),
    "file in a bucket": (
        {"fileData": {"fileUri": "gs://b/x"}},
        Media("document", "", FileId("gs://b/x", "gemini")),
        [],
    ),
    "URL": (
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.test/a.png"}},
        Media("image", "image/png", Url("https://x.test/a.png")),
        [],
    ),
    "resolution": (
        {
            "inlineData": {"mimeType": "image/png", "data": PNG},
            "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
        },
        Media("image", "image/png", Base64(PNG), detail="low"),
        [],
    ),
    "resolution that nobody else knows": (
        {
            "inlineData": {"mimeType": "image/png", "data": PNG},
            "mediaResolution": {"level": "MEDIA_RESOLUTION_MEDIUM"},
        },
        Media("image", "image/png", Base64(PNG)),
        ["dropped contents[0].parts[0].mediaResolution: only gemini understands it"],
    ),
    "unknown beside a text": (
        {"text": "a", "speechMetadata": {}},
        Text("a"),
        ["dropped contents[0].parts[0].speechMetadata: only gemini understands it"],
    ),
    "unknown inside a call": (
        {"functionCall": {"name": "f", "new": 1}},
        ToolCall("", "f", ""),
        ["dropped contents[0].parts[0].functionCall.new: only gemini understands it"],
    ),
    "code becomes text": (
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        Foreign("gemini", {"executableCode": {"language": "PYTHON", "code": "1+1"}}, "```\n1+1\n```"),
        ["changed contents[0].parts[0]: only gemini understands it: sent as text"],
    ),
    "what code printed becomes text": (
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        Foreign(
            "gemini",
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            "Output:\n```\n2\n```",
        ),
        ["changed contents[0].parts[0]: only gemini understands it: sent as text"],
    ),
    "hosted call": (
        {"toolCall": {"id": "1"}, "thoughtSignature": "c2ln"},
        Foreign("gemini", {"toolCall": {"id": "1"}}, state=State("gemini", "c2ln")),
        ["dropped contents[0].parts[0]: only gemini understands a part with toolCall"],
    ),
}


def bare(part: Any) -> Any:
    """A part without its extras, which only Gemini reads."""
    from msgspec.structs import replace

    if isinstance(part, ToolResult):
        part = replace(part, content=tuple(bare(item) for item in part.content))
    return replace(part, extras=None)


@pytest.mark.parametrize("wire, part, losses", PARTS.values(), ids=PARTS)
def test_parts(wire: Wire, part: Any, losses: list[str]):
    request, lost = decode({"contents": [{"role": "model", "parts": [wire]}]})
    (got,) = request.messages[0].parts
    assert bare(got) == part
    assert got.where == "contents[0].parts[0]"
    assert lost == losses


RESULTS = {
    "output": ({"name": "f", "id": "1", "response": {"output": "ok"}}, ToolResult("1", "f", (Text("ok"),))),
    "result": ({"name": "f", "response": {"result": "ok"}}, ToolResult("", "f", (Text("ok"),))),
    "output that is JSON": (
        {"name": "f", "response": {"output": {"a": [1]}}},
        ToolResult("", "f", (Text('{"a":[1]}'),)),
    ),
    "empty output": ({"name": "f", "response": {"output": ""}}, ToolResult("", "f")),
    "error": (
        {"name": "f", "response": {"error": "no"}},
        ToolResult("", "f", (Text('{"error":"no"}'),), failed=True),
    ),
    "error: null is none": (
        {"name": "f", "response": {"error": None}},
        ToolResult("", "f", (Text('{"error":null}'),)),
    ),
    "G60 any other object": (
        {"name": "f", "response": {"temperature": 20.5, "unit": "C"}},
        ToolResult("", "f", (Text('{"temperature":20.5,"unit":"C"}'),)),
    ),
    "G60 output beside others": (
        {"name": "f", "response": {"output": "x", "exit_code": 0}},
        ToolResult("", "f", (Text('{"output":"x","exit_code":0}'),)),
    ),
    "empty object": ({"name": "f", "response": {}}, ToolResult("", "f", (Text("{}"),))),
    "nothing": ({"name": "f"}, ToolResult("", "f")),
    "media inside": (
        {
            "name": "f",
            "response": {"output": "see"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a.png"}}],
        },
        ToolResult("", "f", (Text("see"), Media("image", "image/png", Base64(PNG), "a.png"))),
    ),
}


@pytest.mark.parametrize("wire, result", RESULTS.values(), ids=RESULTS)
def test_results(wire: Wire, result: ToolResult):
    request, losses = decode({"contents": [{"role": "user", "parts": [{"functionResponse": wire}]}]})
    assert bare(request.messages[0].parts[0]) == result
    assert losses == []


def test_media_beside_a_result_stay_media_of_the_user():
    body = {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "read_file", "response": {"output": "Binary content."}}},
                    {"inlineData": {"mimeType": "image/png", "data": PNG}},
                ],
            }
        ]
    }
    request, _ = decode(body)
    assert [type(part) for part in request.messages[0].parts] == [ToolResult, Media]


# Requests of others


ENCODED = {
    "text": (user(Text("a")), [{"role": "user", "parts": [{"text": "a"}]}]),
    "empty text is left out": (user(Text("")), []),
    "refusal is text": (assistant(Refusal("no")), [{"role": "model", "parts": [{"text": "no"}]}]),
    "reasoning without state": (
        assistant(Reasoning("hm"), Text("a")),
        [{"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a"}]}],
    ),
    "own state returns byte for byte": (
        assistant(Text("a", state=State("gemini", "c2_-"))),
        [{"role": "model", "parts": [{"text": "a", "thoughtSignature": "c2_-"}]}],
    ),
    "own state of an empty text": (
        assistant(Text("", state=State("gemini", "c2ln"))),
        [{"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]}],
    ),
    "image": (
        user(Media("image", "image/png", Base64(PNG))),
        [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}],
    ),
    "image in detail": (
        user(Media("image", "image/png", Base64(PNG), detail="high")),
        [
            {
                "role": "user",
                "parts": [
                    {
                        "inlineData": {"mimeType": "image/png", "data": PNG},
                        "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
                    }
                ],
            }
        ],
    ),
    "plain document": (
        user(Media("document", "text/plain", Plain("hello"))),
        [{"role": "user", "parts": [{"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8="}}]}],
    ),
    "own file": (
        user(Media("document", "application/pdf", FileId("files/x", "gemini"))),
        [{"role": "user", "parts": [{"fileData": {"mimeType": "application/pdf", "fileUri": "files/x"}}]}],
    ),
    "neighbours of one role become one content": (
        [user(Text("a")), user(Text("b")), assistant(Text("c")), assistant(Text("d"))],
        [
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        ],
    ),
    "foreign parts of others are left out": (
        assistant(Text("a"), Foreign("anthropic", {"type": "x"})),
        [{"role": "model", "parts": [{"text": "a"}]}],
    ),
}


@pytest.mark.parametrize("messages, wire", ENCODED.values(), ids=ENCODED)
def test_messages_of_others(messages: Any, wire: list[Wire]):
    messages = messages if isinstance(messages, list) else [messages]
    assert contents(*messages) == wire


def test_calls_and_results_of_others():
    """G40, G41, G45: one content for all results, in order and by name, before everything else."""
    turns = [
        user(Text("go")),
        assistant(Text("ok"), ToolCall("1", "f", '{"a":1}'), ToolCall("2", "g", "")),
        user(
            Text("and"),
            ToolResult("1", content=(Text("x"),)),
            ToolResult("2", content=(Text("boom"),), failed=True),
        ),
    ]
    assert contents(*turns, model="gemini-2.5-pro")[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "ok"},
                {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}},
                {"functionCall": {"id": "2", "name": "g", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}},
                {"functionResponse": {"id": "2", "name": "g", "response": {"error": "boom"}}},
                {"text": "and"},
            ],
        },
    ]


ANSWERS = {
    "text": ("ok", {"output": "ok"}),
    "nothing": ("", {"output": ""}),
    "an object goes as it is": ('{"temperature": 20.50}', {"temperature": 20.5}),
    "an empty object": ("{}", {}),
    "G59 an array is wrapped": ("[1, 2]", {"output": [1, 2]}),
    "a number stays text": ("72", {"output": "72"}),
    "a JSON string stays text": ('"a"', {"output": '"a"'}),
    "broken JSON stays text": ('{"a":', {"output": '{"a":'}),
    "an object that only has an output": ('{"output": "ok"}', {"output": "ok"}),
    "an object that has an output among others": (
        '{"output": "ok", "metadata": {"exit_code": 0}}',
        {"output": {"output": "ok", "metadata": {"exit_code": 0}}},
    ),
    "an object that looks like an error": ('{"error": "none"}', {"output": {"error": "none"}}),
}


@pytest.mark.parametrize("text, response", ANSWERS.values(), ids=ANSWERS)
def test_what_a_result_says(text: str, response: Wire):
    body = contents(user(ToolResult("1", "f", (Text(text),))))
    assert body[0]["parts"][0]["functionResponse"]["response"] == response


FAILURES = {
    "text": ("boom", {"error": "boom"}),
    "an error of Gemini's form": ('{"error": "boom"}', {"error": "boom"}),
    "another object": ('{"code": 1}', {"error": '{"code": 1}'}),
}


@pytest.mark.parametrize("text, response", FAILURES.values(), ids=FAILURES)
def test_what_a_failure_says(text: str, response: Wire):
    body = contents(user(ToolResult("1", "f", (Text(text),), failed=True)))
    assert body[0]["parts"][0]["functionResponse"]["response"] == response


IMAGE = Media("image", "image/png", Base64(PNG), "a.png", where="m")


def test_media_in_results_stand_inside_for_gemini_3():
    """G71."""
    body, losses = encode(asked(user(ToolResult("1", "f", (Text("see"), IMAGE)))))
    assert body["contents"][0]["parts"] == [
        {
            "functionResponse": {
                "id": "1",
                "name": "f",
                "response": {"output": "see"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
            }
        }
    ]
    assert losses == ["dropped m.name: Gemini's media have no names"]


def test_media_in_results_stand_beside_for_older_models():
    """Seed 001: the bytes follow all results, and a result that was only media says so."""
    results = [ToolResult("1", "f", (IMAGE,), where="r"), ToolResult("2", "g", (Text("ok"),))]
    body, losses = encode(asked(user(*results), model="gemini-2.5-flash"))
    note = "Binary content of type image/png was processed."
    assert body["contents"][0]["parts"] == [
        {"functionResponse": {"id": "1", "name": "f", "response": {"output": note}}},
        {"functionResponse": {"id": "2", "name": "g", "response": {"output": "ok"}}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
    ]
    assert losses == [
        f"invented r: a result needs a text: {note}",
        "changed m: it cannot stand inside a result of this model: it stands beside it",
        "dropped m.name: Gemini's media have no names",
    ]


BESIDE = {
    "a URL": Media("image", "image/png", Url("https://x.test/a.png")),
    "sound": Media("audio", "audio/mpeg", Base64("AAAA")),
    "an animation": Media("image", "image/gif", Base64("AAAA")),
}


@pytest.mark.parametrize("media", BESIDE.values(), ids=BESIDE)
def test_media_that_no_result_holds(media: Media):
    body = contents(user(ToolResult("1", "f", (Text("see"), IMAGE, media)), Text("so?")))
    result, beside, text = body[0]["parts"]
    assert [list(part) for part in result["functionResponse"]["parts"]] == [["inlineData"]]
    assert beside == contents(user(media))[0]["parts"][0]
    assert text == {"text": "so?"}


def test_detail_inside_a_result():
    body, losses = encode(
        asked(
            user(ToolResult("1", "f", (Media("image", "image/png", Base64(PNG), detail="low", where="m"),)))
        )
    )
    assert body["contents"][0]["parts"][0]["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": PNG}}
    ]
    assert losses == ["dropped m.detail: Gemini sees media of results as it likes"]


SYSTEM = {
    "system": (asked(user(Text("a")), system=(Text("s"), Text("t"))), ["s", "t"], []),
    "G56 leading system and developer messages": (
        asked(Message("system", (Text("s"),)), Message("developer", (Text("t"),)), user(Text("a"))),
        ["s", "t"],
        [],
    ),
    "G54 in mid-conversation": (
        asked(user(Text("a")), Message("system", (Text("t"),), where="messages[1]"), system=(Text("s"),)),
        ["s"],
        ["changed messages[1]: Gemini has no system text inside the conversation: it is sent as the user's"],
    ),
}


@pytest.mark.parametrize("request_, texts, losses", SYSTEM.values(), ids=SYSTEM)
def test_system_text(request_: Request, texts: list[str], losses: list[str]):
    body, lost = encode(request_)
    assert body["systemInstruction"] == {"parts": [{"text": text} for text in texts]}
    assert body["contents"][0]["parts"][0] == {"text": "a"}
    assert lost == losses


def test_later_system_text_is_user_text_in_its_place():
    """G54: in front it would invalidate the cached prefix; results still follow their calls."""
    mind = Message("system", (Text("mind"),))
    call = Message("assistant", (ToolCall("1", "f", "{}"),))
    body, _ = encode(
        asked(user(Text("a")), call, mind, user(ToolResult("1", "f", (Text("x"),))), user(Text("b")))
    )
    assert "systemInstruction" not in body
    assert [part.get("text", "result") for part in body["contents"][2]["parts"]] == ["result", "mind", "b"]


def test_several_system_parts_are_all_read():
    """G55."""
    request, _ = decode({"contents": [HELLO], "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]}})
    assert [part.text for part in request.system] == ["a", "b"]


LOST = {
    "foreign state": (
        assistant(Text("a", state=State("anthropic", "x"), where="m")),
        ["dropped m: its state was made by anthropic, which alone may see it"],
    ),
    "hidden reasoning of another": (
        assistant(Reasoning(hidden=True, where="m")),
        ["dropped m: hidden reasoning that Gemini did not make"],
    ),
    "citations": (
        assistant(Text("a", (Citation("https://x.test"),), where="m")),
        ["dropped m.citations: Gemini takes no citations back"],
    ),
    "a file of another": (
        user(Media("image", "", FileId("f1", "openai-responses"), where="m")),
        ["dropped m: only openai-responses can open this image"],
    ),
    "a file of another in a result": (
        user(ToolResult("1", "f", (Media("image", "", FileId("f1", "anthropic"), where="m"),))),
        ["dropped m: only anthropic can open this image"],
    ),
    "G72 a URL": (
        user(Media("image", "", Url("https://x.test/a.png?b"), where="m")),
        [],
    ),
    "a type that nobody said": (
        user(Media("image", "", Base64(PNG), where="m")),
        ["invented m.mimeType: Gemini requires it: image/png"],
    ),
    "the name of a file": (
        user(Media("document", "application/pdf", Base64("AAAA"), "a.pdf", where="m")),
        ["dropped m.name: Gemini's media have no names"],
    ),
    "several texts in a result": (
        user(ToolResult("1", "f", (Text("a"), Text("b")), where="m")),
        ["changed m: the texts of a result are joined"],
    ),
    "G66 arguments that are no object": (
        assistant(ToolCall("1", "f", "[1]", state=State("gemini", "c2ln"), where="m")),
        ["changed m.arguments: no JSON object: sent as _raw_arguments"],
    ),
    "a result whose call is gone": (
        user(ToolResult("1", where="m")),
        ["invented m.name: no call in the conversation has this id"],
    ),
    "an image as system text": (
        Message("system", (Media("image", "image/png", Base64(PNG), where="m"),)),
        ["dropped m: Gemini takes text only from the system"],
    ),
}


@pytest.mark.parametrize("message, losses", LOST.values(), ids=LOST)
def test_losses_are_reported(message: Message, losses: list[str]):
    _, lost = encode(asked(message, user(Text("go on"))))
    assert lost == losses


def test_foreign_state_is_never_written():
    body, _ = encode(
        asked(
            assistant(
                Reasoning("hm", state=State("anthropic", "secret")),
                ToolCall("1", "f", "{}", state=State("anthropic", "secret")),
            )
        )
    )
    assert "secret" not in jsontext.dumps(body)
    assert "ZHJhZ29t" not in jsontext.dumps(body)


ENDINGS = {
    "https://x.test/a.jpg?size=1.png": "image/jpeg",
    "https://x.test/a.PNG": "image/png",
    "https://x.test/a.pdf": "application/pdf",
    "https://x.test/a.mp3": "audio/mpeg",
    "https://x.test/a": None,
}


@pytest.mark.parametrize("url, media_type", ENDINGS.items(), ids=ENDINGS)
def test_the_type_follows_from_the_url(url: str, media_type: str | None):
    (part,) = contents(user(Media("image", "", Url(url))))[0]["parts"]
    assert part["fileData"] == {"fileUri": url, **({"mimeType": media_type} if media_type else {})}


def test_a_conversation_that_ends_with_the_assistant():
    """G53."""
    _, losses = encode(asked(user(Text("a")), Message("assistant", (Text("b"),), where="messages[1]")))
    assert losses == [
        "changed messages[1]: Gemini does not continue the assistant's last message, but answers it"
    ]


# G97, G99: signatures

SENTINEL = "skip_thought_signature_validator"
MADE = State("gemini", "c2ln")


def call(id: str, state: State | None = None) -> ToolCall:
    return ToolCall(id, "f", "{}", state=state)


def result(id: str, *beside: Any) -> Message:
    return user(ToolResult(id, "f", (Text("ok"),)), *beside)


SIGNED = {
    "the first call of every step of the turn": (
        [user(Text("a")), assistant(call("1"), call("2")), result("1"), assistant(call("3")), result("3")],
        [[SENTINEL, None], [SENTINEL]],
    ),
    "its own signature stays": (
        [user(Text("a")), assistant(call("1", MADE), call("2")), result("1")],
        [["c2ln", None]],
    ),
    "earlier turns too, or the prefix would change": (
        [
            user(Text("a")),
            assistant(call("1")),
            result("1"),
            assistant(Text("b")),
            user(Text("c")),
            assistant(call("2")),
            result("2"),
        ],
        [[SENTINEL], [SENTINEL]],
    ),
    "text beside a result does not begin a turn": (
        [user(Text("a")), assistant(call("1")), result("1", Text("and")), assistant(call("2")), result("2")],
        [[SENTINEL], [SENTINEL]],
    ),
}


@pytest.mark.parametrize("messages, signatures", SIGNED.values(), ids=SIGNED)
def test_calls_that_gemini_did_not_make(messages: list[Message], signatures: list[list[str | None]]):
    body, losses = encode(asked(*messages))
    found = [
        [part.get("thoughtSignature") for part in content["parts"] if "functionCall" in part]
        for content in body["contents"]
        if content["role"] == "model" and any("functionCall" in part for part in content["parts"])
    ]
    assert found == signatures
    invented = [loss for loss in losses if loss.startswith("invented")]
    assert invented == [f"invented f: a signature, as Gemini did not make the call: {SENTINEL}"] * (
        str(signatures).count(SENTINEL) > 0
    )


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-1.5-flash", "models/gemini-2.0-flash-001"])
def test_older_models_want_no_signature(model: str):
    body = contents(user(Text("a")), assistant(call("1")), result("1"), model=model)
    assert "thoughtSignature" not in body[1]["parts"][0]


# State that we streamed in a part of its own

SEAL = seal_state(State("anthropic", "sig"), "gemini")
TRAILERS = {
    "after the pieces of a thought": (
        [
            [
                {"text": "a", "thought": True},
                {"text": "b", "thought": True},
                {"text": "", "thought": True, "thoughtSignature": SEAL},
            ]
        ],
        [Reasoning("ab", state=State("anthropic", "sig"))],
    ),
    "a content for every chunk": (
        [
            [{"text": "a", "thought": True}],
            [{"text": "b", "thought": True}],
            [{"text": "", "thought": True, "thoughtSignature": SEAL}],
            [{"text": "c"}],
        ],
        [Reasoning("ab", state=State("anthropic", "sig")), Text("c")],
    ),
    "after nothing": (
        [[{"text": "", "thought": True, "thoughtSignature": SEAL}]],
        [Reasoning("", hidden=True, state=State("anthropic", "sig"))],
    ),
    "not across another part": (
        [
            [
                {"text": "a", "thought": True},
                {"text": "b"},
                {"text": "", "thought": True, "thoughtSignature": SEAL},
            ]
        ],
        [Reasoning("a"), Text("b"), Reasoning("", hidden=True, state=State("anthropic", "sig"))],
    ),
    "of a text": (
        [[{"text": "a"}, {"text": "", "thoughtSignature": SEAL}]],
        [Text("a", state=State("anthropic", "sig"))],
    ),
    "Gemini's own is never moved": (
        [[{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}]],
        [Text("a"), Text("", state=State("gemini", "c2ln"))],
    ),
}


@pytest.mark.parametrize("model_contents, parts", TRAILERS.values(), ids=TRAILERS)
def test_state_comes_back_to_its_text(model_contents: list[list[Wire]], parts: list[Any]):
    body = {"contents": [HELLO, *({"role": "model", "parts": parts} for parts in model_contents)]}
    request, _ = decode(body)
    assert [bare(part) for message in request.messages[1:] for part in message.parts] == parts


# Malformed wire

MALFORMED = {
    "no contents": ({}, "contents", "expected an array, got nothing"),
    "contents": ({"contents": 1}, "contents", "expected an array, got the number 1"),
    "content": ({"contents": [1]}, "contents[0]", "expected an object, got the number 1"),
    "role": (
        {"contents": [{"role": "system", "parts": []}]},
        "contents[0].role",
        "expected user or model, got 'system'",
    ),
    "role type": ({"contents": [{"role": 1}]}, "contents[0].role", "expected a string, got the number 1"),
    "parts": (
        {"contents": [{"parts": 1}]},
        "contents[0].parts",
        "expected an array of parts, got the number 1",
    ),
    "parts false": ({"contents": [{"parts": False}]}, "contents[0].parts", "expected an array, got false"),
    "part": ({"contents": [{"parts": [1]}]}, "contents[0].parts[0]", "expected an object, got the number 1"),
    "text": (
        {"contents": [{"parts": [{"text": 1}]}]},
        "contents[0].parts[0].text",
        "expected a string, got the number 1",
    ),
    "thought": (
        {"contents": [{"parts": [{"text": "a", "thought": "yes"}]}]},
        "contents[0].parts[0].thought",
        "expected true or false, got the string 'yes'",
    ),
    "signature": (
        {"contents": [{"parts": [{"text": "a", "thoughtSignature": 1}]}]},
        "contents[0].parts[0].thoughtSignature",
        "expected a string, got the number 1",
    ),
    "call": (
        {"contents": [{"parts": [{"functionCall": "f"}]}]},
        "contents[0].parts[0].functionCall",
        "expected an object, got the string 'f'",
    ),
    "call without name": (
        {"contents": [{"parts": [{"functionCall": {}}]}]},
        "contents[0].parts[0].functionCall.name",
        "expected a string, got nothing",
    ),
    "arguments": (
        {"contents": [{"parts": [{"function_call": {"name": "f", "args": "{}"}}]}]},
        "contents[0].parts[0].functionCall.args",
        "expected an object, got the string '{}'",
    ),
    "response": (
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": "ok"}}]}]},
        "contents[0].parts[0].functionResponse.response",
        "expected an object, got the string 'ok'",
    ),
    "response parts": (
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "parts": {}}}]}]},
        "contents[0].parts[0].functionResponse.parts",
        "expected an array, got an object",
    ),
    "inline data": (
        {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png"}}]}]},
        "contents[0].parts[0].inlineData.data",
        "expected a string, got nothing",
    ),
    "file": (
        {"contents": [{"parts": [{"fileData": {}}]}]},
        "contents[0].parts[0].fileData.fileUri",
        "expected a string, got nothing",
    ),
    "system": (
        {"contents": [], "systemInstruction": 1},
        "systemInstruction",
        "expected an object, got the number 1",
    ),
    "system with media": (
        {"contents": [], "systemInstruction": {"parts": [{"inlineData": {"data": ""}}]}},
        "systemInstruction.parts",
        "expected parts that are texts",
    ),
    "generationConfig": (
        {"contents": [], "generationConfig": []},
        "generationConfig",
        "expected an object, got an array",
    ),
    "not JSON": (
        {
            "contents": [
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": object()}}}]}
            ]
        },
        "contents[0].parts[0].functionCall.args",
        "expected JSON, got object is not JSON",
    ),
}


@pytest.mark.parametrize("body, path, problem", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: Wire, path: str, problem: str):
    with pytest.raises(WireError) as error:
        decode(body)
    assert (error.value.protocol, error.value.path, error.value.problem) == ("gemini", path, problem)


def test_schemas_and_arguments_that_are_nested_absurdly():
    """How deep is too deep, Python decides; what it cannot take is the sender's error and nothing else."""
    deep: Any = {}
    for _ in range(50_000):
        deep = {"items": deep}
    for body in (
        {"contents": [{"parts": [{"functionCall": {"name": "f", "args": deep}}]}]},
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": deep}}]}]},
        {"contents": [], "tools": [{"functionDeclarations": [{"name": "f", "parameters": deep}]}]},
    ):
        with suppress(WireError):
            decode(body)
