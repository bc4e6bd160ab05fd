"""Messages of other protocols as input items of Responses."""

import pytest
from msgspec.structs import replace

from dragoman.core.model import (
    Base64,
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
from protocols.openai_responses.items import CALL, OWN, PNG, REPLY, THOUGHT, decode, encode

# From other protocols


STATE = State(OWN, "gAAAA", "rs_1")
NATIVE = decode([THOUGHT, REPLY, {**CALL, "id": "fc_1"}])[0].messages[0]

ENCODED: dict[str, tuple[list[Message], list[Wire], list[str]]] = {
    "text": ([Message("user", (Text("hi"),))], [{"type": "message", "role": "user", "content": "hi"}], []),
    "several texts": (
        [Message("user", (Text("a"), Text(""), Text("b")))],
        [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            }
        ],
        [],
    ),
    "an empty message": ([Message("user", ()), Message("user", (Text(""),))], [], []),
    "G54 system text in mid-conversation": (
        [Message("user", (Text("hi"),)), Message("system", (Text("s"),))],
        [
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "message", "role": "system", "content": "s"},
        ],
        [],
    ),
    "G44 the order of a turn": (
        [Message("assistant", (Text("a"), ToolCall("c", "f", "{}"), Text("b")))],
        [
            {"type": "message", "role": "assistant", "content": "a"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "message", "role": "assistant", "content": "b"},
        ],
        [],
    ),
    "G64 a call without arguments": (
        [Message("assistant", (ToolCall("c", "f"),))],
        [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
        [],
    ),
    "calls of every kind": (
        [
            Message(
                "assistant",
                (
                    ToolCall("c", "f", "{}", namespace="n"),
                    ToolCall("d", "g", "raw", "custom"),
                    ToolCall("e", "local_shell", '{"command":["ls"]}', "local_shell"),
                ),
            )
        ],
        [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"},
            {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "raw"},
            {
                "type": "local_shell_call",
                "call_id": "e",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
        ],
        [],
    ),
    "a shell call whose arguments are no object": (
        [Message("assistant", (ToolCall("e", "local_shell", "ls", "local_shell", where="x"),))],
        [{"type": "local_shell_call", "call_id": "e", "action": {"type": "exec", "command": [], "env": {}}}],
        ["dropped x.arguments: A call of local_shell takes an object, so its arguments were left out."],
    ),
    "results of every kind": (
        [
            Message(
                "user",
                (
                    ToolResult("c", content=(Text("a"),)),
                    ToolResult("d", content=(Text("a"), Text("b")), kind="custom"),
                    ToolResult("e", content=(Text("a"), Text("b")), kind="local_shell"),
                    ToolResult("f"),
                ),
            )
        ],
        [
            {"type": "function_call_output", "call_id": "c", "output": "a"},
            {
                "type": "custom_tool_call_output",
                "call_id": "d",
                "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            },
            {"type": "local_shell_call_output", "id": "e", "output": "a\nb"},
            {"type": "function_call_output", "call_id": "f", "output": ""},
        ],
        [],
    ),
    "G42 text beside results": (
        [Message("user", (ToolResult("c", content=(Text("a"),)), Text("next")))],
        [
            {"type": "function_call_output", "call_id": "c", "output": "a"},
            {"type": "message", "role": "user", "content": "next"},
        ],
        [],
    ),
    "failed results": (
        [
            Message(
                "user",
                (
                    ToolResult("c", content=(Text("no file"),), failed=True, where="r0"),
                    ToolResult("d", content=(Text("Error: x"),), failed=True, where="r1"),
                    ToolResult("e", failed=True, where="r2"),
                ),
            )
        ],
        [
            {"type": "function_call_output", "call_id": "c", "output": "Error: no file"},
            {"type": "function_call_output", "call_id": "d", "output": "Error: x"},
            {"type": "function_call_output", "call_id": "e", "output": "Error: the tool failed"},
        ],
        [
            "changed r0: openai-responses has no field for the failure of a tool. The text says it.",
            "changed r2: openai-responses has no field for the failure of a tool. The text says it.",
        ],
    ),
    "G75 an image": (
        [
            Message(
                "user",
                (
                    Media("image", "image/png", Base64("iVBORw0KGgo=")),
                    Media("image", "", Url("u"), detail="low"),
                ),
            )
        ],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                    {"type": "input_image", "image_url": "u", "detail": "low"},
                ],
            }
        ],
        [],
    ),
    "G69 an image in a result": (
        [
            Message(
                "user",
                (ToolResult("c", content=(Text("a"), Media("image", "image/png", Base64("iVBORw0KGgo=")))),),
            )
        ],
        [
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                ],
            }
        ],
        [],
    ),
    "G74 documents": (
        [
            Message(
                "user",
                (
                    Media("document", "application/pdf", Base64("JVBERi0="), "a.pdf"),
                    Media("document", "application/pdf", Base64("JVBERi0=")),
                    Media("document", "", Url("https://example.com/a.pdf")),
                    Media("document", "text/plain", Plain("hi"), "notes"),
                    Media("document", "", FileId("file-1", OWN)),
                ),
            )
        ],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                        "filename": "a.pdf",
                    },
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                        "filename": "document.pdf",
                    },
                    {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                    {"type": "input_file", "file_data": "data:text/plain;base64,aGk=", "filename": "notes"},
                    {"type": "input_file", "file_id": "file-1"},
                ],
            }
        ],
        [],
    ),
    "media that it does not take": (
        [
            Message(
                "user",
                (
                    Media("audio", "audio/wav", Base64("x"), where="a"),
                    Media("video", "video/mp4", Base64("x"), where="b"),
                    Media("image", "image/heic", Base64("x"), where="c"),
                    Media("image", "", FileId("x", "anthropic"), where="d"),
                ),
            ),
            Message("assistant", (Media("image", "image/png", Base64("x"), where="e"),)),
        ],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "[audio of type audio/wav left out]"},
                    {"type": "input_text", "text": "[video of type video/mp4 left out]"},
                    {"type": "input_text", "text": "[image of type image/heic left out]"},
                    {"type": "input_text", "text": "[image of type unknown left out]"},
                ],
            },
            {"type": "message", "role": "assistant", "content": "[image of type image/png left out]"},
        ],
        [
            "dropped a: openai-responses takes no audio of this form (audio/wav) here.",
            "dropped b: openai-responses takes no video of this form (video/mp4) here.",
            "dropped c: openai-responses takes no image of this form (image/heic) here.",
            "dropped d: openai-responses takes no image of this form (unknown type) here.",
            "dropped e: openai-responses takes no image of this form (image/png) here.",
        ],
    ),
    "a refusal": (
        [Message("assistant", (Refusal("no", where="x"),))],
        [{"type": "message", "role": "assistant", "content": "no"}],
        ["changed x: A refusal goes back as its text."],
    ),
    "own reasoning comes back": (
        [
            Message(
                "assistant", (Reasoning("hm", state=STATE), Reasoning(hidden=True, state=STATE), Text("a"))
            )
        ],
        [
            THOUGHT,
            {**THOUGHT, "summary": []},
            {"type": "message", "role": "assistant", "content": "a"},
        ],
        [],
    ),
    "G100 foreign reasoning does not": (
        [
            Message(
                "assistant",
                (
                    Reasoning("hm", where="r"),
                    Reasoning("x", state=State("gemini", "s"), where="s"),
                    Text("a"),
                ),
            )
        ],
        [{"type": "message", "role": "assistant", "content": "a"}],
        [
            "dropped r: openai-responses takes back only reasoning that it encrypted.",
            "dropped s: openai-responses takes back only reasoning that it encrypted.",
        ],
    ),
    "reasoning that nothing follows": (
        [Message("assistant", (Text("a"), Reasoning("hm", state=STATE)), where="m")],
        [{"type": "message", "role": "assistant", "content": "a"}],
        ["dropped m: Nothing follows this reasoning. The server refuses reasoning at the end."],
    ),
    "G106 what stood after reasoning that was taken away loses its id": (
        [replace(NATIVE, parts=(replace(NATIVE.parts[0], state=None), *NATIVE.parts[1:]))],
        [
            {"type": "message", "role": "assistant", "content": "well", "phase": "commentary"},
            CALL,
        ],
        ["dropped input[0]: openai-responses takes back only reasoning that it encrypted."],
    ),
    "parts of other origins": (
        [
            Message("user", (Foreign("gemini", {"x": 1}), Text("a"))),
            Message("assistant", (Foreign("gemini", {}),)),
        ],
        [{"type": "message", "role": "user", "content": "a"}],
        [],
    ),
    "what no message can hold": (
        [Message("user", (ToolCall("c", "f", where="x"),))],
        [],
        ["dropped x: A message of openai-responses cannot hold it."],
    ),
}


@pytest.mark.parametrize("messages, items, losses", ENCODED.values(), ids=ENCODED)
def test_messages_become_items(messages: list[Message], items: list[Wire], losses: list[str]):
    assert encode(*messages) == (items, losses)
