"""Chat messages: what each of them means, and that it goes back unchanged."""

import copy

import pytest

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
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.protocols.openai_chat import CODEC
from protocols.openai_chat.conversations import OURS, PDF, PNG, assistant, bare, call, decode, encode, user

# What each message means. Every row also goes back unchanged.
MEANINGS: dict[str, tuple[Wire, Message, list[str]]] = {
    "system string": (
        {"role": "system", "content": "Be brief."},
        Message("system", (Text("Be brief."),)),
        [],
    ),
    "developer parts": (
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        Message("developer", (Text("a"), Text("b"))),
        [],
    ),
    "user string": ({"role": "user", "content": "hi"}, user(Text("hi")), []),
    "user one part": ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, user(Text("hi")), []),
    "user with name": (
        {"role": "user", "name": "ann", "content": "hi"},
        user(Text("hi")),
        ["dropped messages[0].name: Only openai-chat has this field."],
    ),
    "user empty": ({"role": "user", "content": ""}, user(), []),
    "user null name": ({"role": "user", "content": "hi", "name": None}, user(Text("hi")), []),
    "unknown field": (
        {"role": "user", "content": [{"type": "text", "text": "a", "x": 1}], "y": {"z": 1}},
        user(Text("a")),
        [
            "dropped messages[0].content[0].x: Only openai-chat has this field.",
            "dropped messages[0].y: Only openai-chat has this field.",
        ],
    ),
    "image by address": (
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}}],
        },
        user(Media("image", "", Url("https://a/b.png"), detail="low")),
        [],
    ),
    "image as data": (
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
        },
        user(Media("image", "image/png", Base64(PNG))),
        [],
    ),
    "image data with a parameter": (
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;x=1;base64,{PNG}"}}],
        },
        user(Media("image", "image/png", Base64(PNG))),
        [],
    ),
    "image as a string (Mistral)": (
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://a/b.png"}]},
        user(Media("image", "", Url("https://a/b.png"))),
        [],
    ),
    "audio": (
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}}],
        },
        user(Media("audio", "audio/mpeg", Base64("QQ=="))),
        [],
    ),
    "audio of another format": (
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "flac"}}],
        },
        user(Media("audio", "audio/flac", Base64("QQ=="))),
        [],
    ),
    "audio by address (DashScope)": (
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "https://a/b", "format": "wav"}}],
        },
        user(Media("audio", "audio/wav", Url("https://a/b"))),
        [],
    ),
    "audio as a string (Mistral)": (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": "UklGRg=="}]},
        user(Media("audio", "audio/wav", Base64("UklGRg=="))),
        [],
    ),
    "audio as an address (Mistral)": (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": "https://a/b"}]},
        user(Media("audio", "audio/mpeg", Url("https://a/b"))),
        [],
    ),
    "file by id": (
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
        user(Media("document", "", FileId("file-1", OURS))),
        [],
    ),
    "file as data": (
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                }
            ],
        },
        user(Media("document", "application/pdf", Base64(PDF), "a.pdf")),
        [],
    ),
    "file without a prefix": (
        {"role": "user", "content": [{"type": "file", "file": {"file_data": PDF}}]},
        user(Media("document", "application/pdf", Base64(PDF))),
        [],
    ),
    "file by address": (
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "https://a/b.pdf"}}]},
        user(Media("document", "", Url("https://a/b.pdf"))),
        [],
    ),
    "text file": (
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}}
            ],
        },
        user(Media("document", "text/plain", Plain("hi"), "a.txt")),
        [],
    ),
    "text file that is no text": (
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,/w=="}}
            ],
        },
        user(Media("document", "text/plain", Base64("/w=="), "a.txt")),
        [],
    ),
    "video (OpenRouter)": (
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}]},
        user(Media("video", "", Url("https://a/b.mp4"))),
        [],
    ),
    "document by address (Mistral)": (
        {"role": "user", "content": [{"type": "document_url", "document_url": "https://a/b.pdf"}]},
        user(Media("document", "application/pdf", Url("https://a/b.pdf"))),
        [],
    ),
    "document with a name (Mistral)": (
        {
            "role": "user",
            "content": [
                {"type": "document_url", "document_url": "https://a/b.pdf", "document_name": "c.pdf"}
            ],
        },
        user(Media("document", "application/pdf", Url("https://a/b.pdf"), "c.pdf")),
        [],
    ),
    "unknown part": (
        {"role": "user", "content": [{"type": "hologram", "x": 1}]},
        user(Foreign(OURS, {"type": "hologram", "x": 1})),
        ["dropped messages[0].content[0]: Only openai-chat understands a part of type hologram."],
    ),
    "assistant text": ({"role": "assistant", "content": "ok"}, assistant(Text("ok")), []),
    "assistant with null fields": (
        {"role": "assistant", "content": "ok", "refusal": None, "tool_calls": None, "audio": None},
        assistant(Text("ok")),
        [],
    ),
    "assistant refusal": (
        {"role": "assistant", "content": None, "refusal": "no"},
        assistant(Refusal("no")),
        [],
    ),
    "assistant refusal as a part": (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        assistant(Refusal("no")),
        [],
    ),
    "G52 call beside null": (
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "f", '{"a": 1.10}')]},
        assistant(ToolCall("c1", "f", '{"a": 1.10}')),
        [],
    ),
    "G52 call beside an empty string": (
        {"role": "assistant", "content": "", "tool_calls": [call("c1", "f")]},
        assistant(ToolCall("c1", "f", "{}")),
        [],
    ),
    "call without content": (
        {"role": "assistant", "tool_calls": [call("c1", "f"), call("c2", "g")]},
        assistant(ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")),
        [],
    ),
    "G64 empty arguments": (
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "f", "")]},
        assistant(ToolCall("c1", "f", "")),
        [],
    ),
    "G65 arguments as an object": (
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "f", {"a": [1]})]},
        assistant(ToolCall("c1", "f", '{"a":[1]}')),
        [],
    ),
    "call without id and type": (
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
        assistant(ToolCall("", "f", "")),
        [],
    ),
    "call with an index (Mistral)": (
        {"role": "assistant", "content": "", "tool_calls": [call("c1", "f", index=0)], "prefix": False},
        assistant(ToolCall("c1", "f", "{}")),
        [],
    ),
    "custom call": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}],
        },
        assistant(ToolCall("c1", "patch", "*** Begin", "custom")),
        [],
    ),
    "G97 signature of Gemini's endpoint": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("c1", "f", extra_content={"google": {"thought_signature": "c2ln"}})],
        },
        assistant(ToolCall("c1", "f", "{}", state=State("gemini", "c2ln"))),
        [],
    ),
    "legacy call": (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
        assistant(ToolCall("", "f", '{"a":1}')),
        [],
    ),
    "legacy call that is empty": (
        {"role": "assistant", "content": "x", "function_call": {"name": "", "arguments": ""}},
        assistant(Text("x")),
        [],
    ),
    "annotations": (
        {
            "role": "assistant",
            "content": "a fact",
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 6},
                }
            ],
        },
        assistant(Text("a fact", (Citation("https://a", "A", "", 0, 6),))),
        [],
    ),
    "spoken reply": (
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
        assistant(Foreign(OURS, {"audio": {"id": "audio_1"}})),
        ["dropped messages[0].audio: Only openai-chat understands spoken replies."],
    ),
    "G103 reasoning_content": (
        {"role": "assistant", "content": "ok", "reasoning_content": "hm"},
        assistant(Reasoning("hm"), Text("ok")),
        [],
    ),
    "G103 reasoning": (
        {"role": "assistant", "content": "ok", "reasoning": "hm"},
        assistant(Reasoning("hm"), Text("ok")),
        [],
    ),
    "G103 reasoning said twice": (
        {"role": "assistant", "content": "ok", "reasoning": "hm", "reasoning_content": "hm"},
        assistant(Reasoning("hm"), Text("ok")),
        [],
    ),
    "G103 reasoning_details": (
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}],
        },
        assistant(
            Reasoning(
                "hm", state=State(OURS, '[{"type":"reasoning.text","text":"hm","signature":"s","index":0}]')
            ),
            Text("ok"),
        ),
        [],
    ),
    "reasoning_details without text": (
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}],
        },
        assistant(
            Reasoning("", True, state=State(OURS, '[{"type":"reasoning.encrypted","data":"xyz"}]')),
            Text("ok"),
        ),
        [],
    ),
    "empty reasoning": (
        {"role": "assistant", "content": "ok", "reasoning_content": ""},
        assistant(Text("ok")),
        [],
    ),
    "thinking in the content (Mistral)": (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True},
                {"type": "text", "text": "ok"},
            ],
        },
        assistant(Reasoning("hm"), Text("ok")),
        [],
    ),
    "pictures in a reply (OpenRouter)": (
        {
            "role": "assistant",
            "content": "see",
            "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
        },
        assistant(Text("see"), Media("image", "image/png", Base64(PNG))),
        [],
    ),
    "no pictures": ({"role": "assistant", "content": "a", "images": []}, assistant(Text("a")), []),
    "result": (
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        user(ToolResult("c1", content=(Text("42"),))),
        [],
    ),
    "result with a name (Mistral)": (
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "42"},
        user(ToolResult("c1", "f", (Text("42"),))),
        [],
    ),
    "result of parts": (
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]},
        user(ToolResult("c1", content=(Text("42"),))),
        [],
    ),
    "result with an image, as some servers take it": (
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
        },
        user(ToolResult("c1", content=(Media("image", "image/png", Base64(PNG)),))),
        [],
    ),
    "empty result": ({"role": "tool", "tool_call_id": "c1", "content": ""}, user(ToolResult("c1")), []),
    "null result": ({"role": "tool", "tool_call_id": "c1", "content": None}, user(ToolResult("c1")), []),
    "a result that looks like an error": (
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no such file"},
        user(ToolResult("c1", content=(Text("Error: no such file"),))),
        [],
    ),
    "legacy result": (
        {"role": "function", "name": "f", "content": "42"},
        user(ToolResult("", "f", (Text("42"),))),
        [],
    ),
}


@pytest.mark.parametrize("row", MEANINGS.values(), ids=MEANINGS)
def test_what_a_message_means(row: tuple[Wire, Message, list[str]]) -> None:
    wire, meaning, lost = row
    messages, losses = decode(copy.deepcopy(wire))
    assert [bare(message) for message in messages] == [meaning]
    assert losses == lost


@pytest.mark.parametrize("wire", [row[0] for row in MEANINGS.values()], ids=MEANINGS)
def test_a_message_goes_back_unchanged(wire: Wire) -> None:
    losses = Losses()
    body = {"model": "m", "messages": [copy.deepcopy(wire)]}
    assert CODEC.encode_request(CODEC.decode_request(body, losses), losses)["messages"] == [wire]
    assert body["messages"] == [wire], "decoding must not change what it reads"


def test_places_are_spelled_as_chat_spells_them() -> None:
    messages, _ = decode(
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b", "tool_calls": [call("c1", "f")]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    )
    places = [part.where for message in messages for part in message.parts]
    assert places == [
        "messages[0].content[0]",
        "messages[1].content",
        "messages[1].tool_calls[0]",
        "messages[2]",
    ]


def test_native_messages_keep_their_boundaries() -> None:
    wire = [
        {"role": "developer", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "user", "content": [{"type": "text", "text": "d"}]},
        {"role": "system", "content": "e"},
    ]
    messages, _ = decode(*wire)
    assert encode(*messages)[0] == wire
