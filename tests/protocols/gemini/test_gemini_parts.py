"""Parts and results of Gemini requests: what each of them becomes."""

from typing import Any

import pytest

from dragoman.core.model import (
    Base64,
    FileId,
    Foreign,
    Media,
    Plain,
    Reasoning,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.core.seal import seal_state
from protocols.gemini.requests import PNG, bare, decode

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
    "call whose arguments came value by value": (
        {
            "functionCall": {
                "name": "f",
                "partialArgs": [
                    {"jsonPath": "$.n", "numberValue": 1},
                    {"jsonPath": "$.a.b", "stringValue": "x", "willContinue": True},
                    {"jsonPath": "$.a.b", "stringValue": "y"},
                ],
                "willContinue": False,
            }
        },
        ToolCall("", "f", '{"n":1,"a":{"b":"xy"}}'),
        [],
    ),
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
        ["dropped contents[0].parts[0].mediaResolution: Only gemini has this field."],
    ),
    "unknown beside a text": (
        {"text": "a", "speechMetadata": {}},
        Text("a"),
        ["dropped contents[0].parts[0].speechMetadata: Only gemini has this field."],
    ),
    "unknown inside a call": (
        {"functionCall": {"name": "f", "new": 1}},
        ToolCall("", "f", ""),
        ["dropped contents[0].parts[0].functionCall.new: Only gemini has this field."],
    ),
    "code becomes text": (
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        Foreign("gemini", {"executableCode": {"language": "PYTHON", "code": "1+1"}}, "```\n1+1\n```"),
        ["changed contents[0].parts[0]: Only gemini has this part. It was sent as text."],
    ),
    "what code printed becomes text": (
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        Foreign(
            "gemini",
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            "Output:\n```\n2\n```",
        ),
        ["changed contents[0].parts[0]: Only gemini has this part. It was sent as text."],
    ),
    "hosted call": (
        {"toolCall": {"id": "1"}, "thoughtSignature": "c2ln"},
        Foreign("gemini", {"toolCall": {"id": "1"}}, state=State("gemini", "c2ln")),
        ["dropped contents[0].parts[0]: Only gemini understands a part with toolCall."],
    ),
}


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
