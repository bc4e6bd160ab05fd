"""Input items of Responses: what goes back unchanged, and what each item becomes."""

import copy
from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    FileId,
    Foreign,
    Media,
    Reasoning,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.core.seal import seal
from dragoman.protocols.openai_responses import CODEC
from protocols.openai_responses.items import CALL, OUTPUT, OWN, PNG, REPLY, THOUGHT, USER, bare, decode

SAME: dict[str, Any] = {
    "a string": "hi",
    "an empty string": "",
    "no items": [],
    "the short form of a message": [USER],
    "a message with its type": [{**USER, "type": "message"}],
    "content as parts": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "empty content": [{"role": "user", "content": []}, {"role": "user", "content": ""}],
    "empty parts": [{"role": "user", "content": [{"type": "input_text", "text": ""}]}],
    "every role": [{"role": role, "content": "x"} for role in ("system", "developer", "user", "assistant")],
    "a reply with several parts": [
        {
            **REPLY,
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "refusal", "refusal": "no"},
                {"type": "output_text", "text": "b", "annotations": [], "logprobs": []},
            ],
        },
        {**REPLY, "id": "msg_2"},
    ],
    "a reply without content": [USER, {**REPLY, "content": []}, USER],
    "a reply in the short form": [{"role": "assistant", "content": "x", "phase": "final_answer"}],
    "a whole turn": [USER, THOUGHT, REPLY, CALL, {**CALL, "call_id": "call_2"}, OUTPUT, USER],
    "ids, statuses, callers": [
        {**CALL, "id": "fc_1", "status": "completed", "caller": {"type": "direct"}, "async": True},
        {**OUTPUT, "id": "fco_1", "status": None},
    ],
    "an incomplete call": [{**CALL, "status": "incomplete", "arguments": '{"a'}],
    "arguments that are an object": [{**CALL, "arguments": {"a": 1}}],
    "no arguments": [{**CALL, "arguments": ""}],
    "a namespace": [{**CALL, "namespace": "mcp__x"}],
    "outputs as strings and arrays": [
        OUTPUT,
        {**OUTPUT, "output": ""},
        {**OUTPUT, "output": []},
        {**OUTPUT, "output": [{"type": "input_text", "text": "x"}]},
        {
            **OUTPUT,
            "output": [
                {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}},
                {"type": "input_image", "image_url": PNG, "detail": "high"},
                {
                    "type": "input_file",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                    "filename": "a.pdf",
                },
                {"type": "encrypted_content", "encrypted_content": "x"},
            ],
        },
    ],
    "a result without a call id": [{"type": "function_call_output", "name": "f", "output": "late"}],
    "custom calls": [
        {
            "type": "custom_tool_call",
            "call_id": "call_3",
            "name": "patch",
            "input": "*** Begin",
            "id": "ctc_1",
        },
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "ok"},
    ],
    "local shell calls": [
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "call_4",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None},
        },
        {"type": "local_shell_call_output", "id": "call_4", "output": '{"output": "a"}'},
    ],
    "reasoning of every form": [
        THOUGHT,
        {**THOUGHT, "summary": []},
        {**THOUGHT, "encrypted_content": None},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "status": "completed", "encrypted_content": ""},
        {
            **THOUGHT,
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        },
        {**THOUGHT, "content": [{"type": "reasoning_text", "text": "raw"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "raw"}]},
    ],
    "images": [
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": PNG, "detail": "low"},
                {"type": "input_image", "image_url": PNG},
                {
                    "type": "input_image",
                    "image_url": "https://example.com/a.png",
                    "detail": "auto",
                    "file_id": None,
                },
                {"type": "input_image", "file_id": "file-1", "detail": "original"},
                {
                    "type": "input_image",
                    "image_url": "data:image/png;name=a;base64,iVBORw0KGgo=",
                    "detail": "auto",
                },
                {"type": "input_image", "image_url": "data:image/svg+xml,<svg/>", "detail": "auto"},
            ],
        }
    ],
    "files": [
        {
            "role": "user",
            "content": [
                {"type": "input_file", "file_data": "data:text/plain;base64,aGk=", "filename": "a.txt"},
                {"type": "input_file", "file_data": "JVBERi0=", "filename": "a.pdf"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf", "detail": "low"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_file", "file_data": "data:audio/mpeg;base64,SUQz", "filename": "a.mp3"},
                {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
                {"type": "input_video", "video_url": "https://example.com/a.mp4"},
            ],
        }
    ],
    "G92 items that only this protocol has": [
        USER,
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [{"type": "function", "name": "g", "strict": None}],
        },
        THOUGHT,
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "arguments": {"q": 1},
            "execution": "server",
            "status": "completed",
        },
        {"type": "tool_search_output", "tools": [], "execution": "server", "call_id": None},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "m",
            "arguments": "{}",
            "server_label": "l",
            "output": "o",
        },
        {"id": "msg_77"},
        {"type": "item_reference", "id": "rs_5"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
        {"type": "program", "id": "cm_1", "call_id": "c", "code": "x", "fingerprint": "f"},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "something_new", "x": [1]},
        CALL,
        OUTPUT,
    ],
    "a tool search that the client runs": [
        {
            "type": "tool_search_call",
            "call_id": "c1",
            "arguments": {"q": "x"},
            "execution": "client",
            "id": "tsc_1",
        },
        {
            "type": "tool_search_output",
            "call_id": "c1",
            "execution": "client",
            "status": "completed",
            "tools": [
                {"type": "function", "name": "found", "parameters": {"type": "object"}, "defer_loading": True}
            ],
        },
    ],
    "unknown fields everywhere": [
        {**USER, "x": 1},
        {**REPLY, "x": [], "content": [{"type": "output_text", "text": "a", "annotations": [], "x": {}}]},
        {**CALL, "x": "y"},
        {**OUTPUT, "x": 0, "output": [{"type": "input_text", "text": "t", "x": 1}]},
        {**THOUGHT, "x": 1},
    ],
}


@pytest.mark.parametrize("items", SAME.values(), ids=SAME)
def test_items_return_unchanged(items: Any):
    before = copy.deepcopy(items)
    request, _ = decode(items)
    body = CODEC.encode_request(request, Losses())
    assert body["input"] == before
    assert items == before


ROWS: dict[str, tuple[list[Any], list[tuple[str, list[AnyPart]]]]] = {
    "G57 items of the assistant are one turn": (
        [USER, THOUGHT, REPLY, CALL, {**CALL, "call_id": "call_2", "name": "g"}],
        [
            ("user", [Text("hi")]),
            (
                "assistant",
                [
                    Reasoning("hm", state=State(OWN, "gAAAA", "rs_1")),
                    Text("well"),
                    ToolCall("call_1", "f", '{"a": 1.10}'),
                    ToolCall("call_2", "g", '{"a": 1.10}'),
                ],
            ),
        ],
    ),
    "a string": ("hi", [("user", [Text("hi")])]),  # pyright: ignore[reportAssignmentType] - input may be one
    "a search that found nothing": (
        [{"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []}],
        [("user", [ToolResult("c", "tool_search", (Text("No tools were found."),))])],
    ),
    "a search that found servers": (
        [
            {
                "type": "tool_search_output",
                "call_id": "c",
                "execution": "client",
                "tools": [
                    {
                        "type": "namespace",
                        "name": "n",
                        "description": "",
                        "tools": [{"type": "function", "name": "g"}],
                    },
                    {"type": "mcp", "server_label": "l"},
                    {"type": "web_search"},
                ],
            }
        ],
        [("user", [ToolResult("c", "tool_search", (Text("Tools now available: n__g, l, web_search"),))])],
    ),
    "G37 results are one message": (
        [CALL, {**CALL, "call_id": "call_2"}, {**OUTPUT, "call_id": "call_2"}, OUTPUT, USER],
        [
            ("assistant", [ToolCall("call_1", "f", '{"a": 1.10}'), ToolCall("call_2", "f", '{"a": 1.10}')]),
            (
                "user",
                [
                    ToolResult("call_2", content=(Text("done"),)),
                    ToolResult("call_1", content=(Text("done"),)),
                ],
            ),
            ("user", [Text("hi")]),
        ],
    ),
    "G56 system text stays where it stands": (
        [{"role": "developer", "content": "d"}, USER, {"role": "system", "content": "s"}],
        [("developer", [Text("d")]), ("user", [Text("hi")]), ("system", [Text("s")])],
    ),
    "hidden reasoning": (
        [{**THOUGHT, "summary": []}],
        [("assistant", [Reasoning(hidden=True, state=State(OWN, "gAAAA", "rs_1"))])],
    ),
    "reasoning text of open models": (
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "raw"}],
            }
        ],
        [("assistant", [Reasoning("raw")])],
    ),
    "a summary in parts": (
        [
            {
                **THOUGHT,
                "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            }
        ],
        [("assistant", [Reasoning("a\n\nb", state=State(OWN, "gAAAA", "rs_1"))])],
    ),
    "state of another origin": (
        [{**THOUGHT, "encrypted_content": seal("gemini", "sig", "")}],
        [("assistant", [Reasoning("hm", state=State("gemini", "sig", ""))])],
    ),
    "G65 arguments that are an object": (
        [{**CALL, "arguments": {"a": "é"}}],
        [("assistant", [ToolCall("call_1", "f", '{"a":"é"}')])],
    ),
    "G90 a custom call": (
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        ],
        [
            ("assistant", [ToolCall("c", "patch", "*** x", "custom")]),
            ("user", [ToolResult("c", content=(Text("ok"),), kind="custom")]),
        ],
    ),
    "G91 a namespaced call": (
        [{**CALL, "namespace": "mcp__x"}],
        [("assistant", [ToolCall("call_1", "f", '{"a": 1.10}', namespace="mcp__x")])],
    ),
    "G93 a local shell call": (
        [
            {
                "type": "local_shell_call",
                "call_id": "c",
                "action": {"type": "exec", "command": ["ls"], "user": "u"},
            },
            {"type": "local_shell_call_output", "id": "c", "output": "a"},
        ],
        [
            ("assistant", [ToolCall("c", "local_shell", '{"command":["ls"],"user":"u"}', "local_shell")]),
            ("user", [ToolResult("c", content=(Text("a"),), kind="local_shell")]),
        ],
    ),
    "a tool search that the client runs": (
        SAME["a tool search that the client runs"],
        [
            ("assistant", [ToolCall("c1", "tool_search", '{"q":"x"}')]),
            ("user", [ToolResult("c1", "tool_search", (Text("Tools now available: found"),))]),
        ],
    ),
    "an incomplete call": (
        [{**CALL, "status": "incomplete", "arguments": '{"a'}],
        [("assistant", [ToolCall("call_1", "f", '{"a', complete=False)])],
    ),
    "media in a message": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_image", "image_url": "https://example.com/a.png"},
                    {"type": "input_image", "file_id": "file-1"},
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                        "filename": "a.pdf",
                    },
                    {"type": "input_file", "file_data": "aGk=", "filename": "a.txt"},
                    {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                    {"type": "input_file", "file_data": "data:audio/mpeg;base64,SUQz", "filename": "a.mp3"},
                    {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
                ],
            }
        ],
        [
            (
                "user",
                [
                    Media("image", "image/png", Base64("iVBORw0KGgo="), detail="low"),
                    Media("image", "", Url("https://example.com/a.png")),
                    Media("image", "", FileId("file-1", OWN)),
                    Media("document", "application/pdf", Base64("JVBERi0="), "a.pdf"),
                    Media("document", "text/plain", Base64("aGk="), "a.txt"),
                    Media("document", "", Url("https://example.com/a.pdf")),
                    Media("audio", "audio/mpeg", Base64("SUQz"), "a.mp3"),
                    Media("audio", "audio/mp3", Base64("SUQz")),
                ],
            )
        ],
    ),
    "G69 an image in a result": (
        [{**OUTPUT, "output": [{"type": "input_image", "image_url": PNG}]}],
        [("user", [ToolResult("call_1", content=(Media("image", "image/png", Base64("iVBORw0KGgo=")),))])],
    ),
}


@pytest.mark.parametrize("items, expected", ROWS.values(), ids=ROWS)
def test_items_become_messages(items: list[Any], expected: list[tuple[str, list[AnyPart]]]):
    request, _ = decode(items)
    assert [(message.role, bare(message.parts)) for message in request.messages] == expected


def test_a_search_that_nobody_declared_is_no_call():
    items = SAME["a tool search that the client runs"]
    request = CODEC.decode_request({"input": items}, Losses())
    assert [type(part) for message in request.messages for part in message.parts] == [Foreign, Foreign]
    assert CODEC.encode_request(request, Losses())["input"] == items


def test_places_are_spelled_as_in_the_body():
    request, losses = decode(
        [USER, {**USER, "content": [{"type": "input_text", "text": "x", "new": 1}]}, CALL]
    )
    assert request.messages[1].parts[0].where == "input[1].content[0]"
    assert request.messages[2].parts[0].where == "input[2]"
    assert losses == ["dropped input[1].content[0].new: Only openai-responses has this field."]
