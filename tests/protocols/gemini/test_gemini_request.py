"""Gemini requests: what goes back unchanged, other spellings, the model, and malformed bodies."""

import copy
from contextlib import suppress
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.model import Text, ToolCall, Wire
from protocols.gemini.requests import HELLO, PNG, assistant, decode, encode, request_of, user

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
                    {"functionResponse": {"name": "f"}, "thought": False},
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
    body = encode(request_of(user(Text("x")), assistant(call)))[0]
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


def test_a_field_that_is_spelled_both_ways_is_read_once_and_the_other_is_reported():
    systems = {"systemInstruction": "be brief", "system_instruction": "be long"}
    request, losses = decode({"contents": [HELLO], **systems, "generationConfig": {"topP": 0.5, "top_p": 1}})
    assert [text.text for text in request.system] == ["be brief"]
    assert request.settings.top_p == 0.5
    assert losses == [
        "dropped generationConfig.top_p: Only gemini has this field.",
        "dropped system_instruction: Only gemini has this field.",
    ]


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
    assert losses == ["dropped config: Only gemini has this field."]


MODELS = {
    "none": ({}, ""),
    "named": ({"model": "gemini-3-pro"}, "gemini-3-pro"),
    "with its collection": ({"model": "models/gemini-3-pro"}, "gemini-3-pro"),
    "tuned": ({"model": "tunedModels/mine"}, "tunedModels/mine"),
}


@pytest.mark.parametrize("body, model", MODELS.values(), ids=MODELS)
def test_the_model_is_read_from_the_body_but_never_written_there(body: Wire, model: str):
    request, _ = decode({"contents": [HELLO], **body})
    assert (request.model, request.stream) == (model, False)
    assert encode(request)[0] == {"contents": [HELLO]}
    assert encode(request_of(user(Text("hello")), stream=True))[0] == {"contents": [HELLO]}


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
