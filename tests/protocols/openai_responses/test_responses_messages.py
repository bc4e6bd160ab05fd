"""The input of a Responses request: items <-> messages."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
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
from dragoman.core.seal import seal
from dragoman.protocols.openai_responses import CODEC

OWN = "openai-responses"
SEARCH = {"type": "tool_search", "execution": "client"}
PNG = "data:image/png;base64,iVBORw0KGgo="


def decode(items: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    body = {"model": "gpt-5", "input": items, "tools": [SEARCH]}
    return CODEC.decode_request(body, losses), [str(loss) for loss in losses]


def encode(*messages: Message, **more: Any) -> tuple[list[Wire], list[str]]:
    losses = Losses()
    body = CODEC.encode_request(Request("some-model", messages, **more), losses)
    return body["input"], [str(loss) for loss in losses]


def bare(parts: tuple[AnyPart, ...]) -> list[AnyPart]:
    """Parts without what only their own protocol reads."""
    kept: list[Any] = []
    for part in parts:
        if isinstance(part, ToolResult):
            part = replace(part, content=tuple(bare(part.content)))
        kept.append(replace(part, extras=None))
    return kept


USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1.10}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAAA",
}
REPLY = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "well", "annotations": [], "logprobs": []}],
}

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


FOREIGN_ROWS: dict[str, tuple[Wire, str, str]] = {
    "a web search": (
        {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}},
        '[web_search: {"query":"x"}]',
        "changed input[1]: an item of type web_search_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "code that ran": (
        {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
        "```\n1+1\n```\nOutput:\n```\n2\n```",
        "changed input[1]: an item of type code_interpreter_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "a call of an MCP server": (
        {"type": "mcp_call", "name": "m", "arguments": "{}", "output": "o"},
        "[m: {}]\no",
        "changed input[1]: an item of type mcp_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "a search in files": (
        {"type": "file_search_call", "queries": ["q"], "results": [{"text": "t"}, {}]},
        '[file_search: ["q"]]\nt',
        "changed input[1]: an item of type file_search_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "a shell command that the server ran": (
        {"type": "shell_call", "environment": {"type": "container_auto"}, "action": {"commands": ["ls"]}},
        '[shell: ["ls"]]',
        "changed input[1]: an item of type shell_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "an MCP server that failed": (
        {"type": "mcp_call", "name": "m", "arguments": "{}", "error": "down"},
        '[m: {}]\nfailed: "down"',
        "changed input[1]: an item of type mcp_call is only understood by openai-responses: "
        "it is sent as text",
    ),
    "a search without a query": (
        {"type": "web_search_call", "id": "w"},
        "",
        "dropped input[1]: an item of type web_search_call is only understood by openai-responses",
    ),
    "G108 a reference": (
        {"type": "item_reference", "id": "x"},
        "",
        "dropped input[1]: it names an item that only the server holds, which is not in this request",
    ),
    "a compaction": (
        {"type": "compaction", "encrypted_content": "x"},
        "",
        "dropped input[1]: it stands for earlier turns, which only their server can read",
    ),
    "something new": (
        {"type": "something_new"},
        "",
        "dropped input[1]: an item of type something_new is only understood by openai-responses",
    ),
}


@pytest.mark.parametrize("item, words, loss", FOREIGN_ROWS.values(), ids=FOREIGN_ROWS)
def test_what_only_this_protocol_has_stays_in_the_extras_and_is_reported(item: Wire, words: str, loss: str):
    request, losses = decode([USER, item])
    (part,) = request.messages[1].parts
    assert isinstance(part, Foreign)
    assert (part.body, part.text) == (item, words)
    assert losses == [loss]


SHELL_CALL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c",
    "action": {"commands": ["ls"], "timeout_ms": 5},
    "status": "completed",
    "environment": {"type": "local"},
}
PATCH_CALL = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "d",
    "operation": {"type": "delete_file", "path": "a"},
    "status": "completed",
}
PRINTED = [
    {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}},
    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
]
# calls of tools that the client runs, and their outputs -> neutral
CLIENT_RUN: dict[str, tuple[list[Wire], list[AnyPart]]] = {
    "shell": (
        [SHELL_CALL, {"type": "shell_call_output", "call_id": "c", "output": PRINTED}],
        [
            ToolCall("c", "shell", '{"commands":["ls"],"timeout_ms":5}', "shell"),
            ToolResult("c", content=(Text("a\nb\n[exit code 2]\n[timeout]"),), kind="shell"),
        ],
    ),
    "apply_patch": (
        [
            PATCH_CALL,
            {"type": "apply_patch_call_output", "call_id": "d", "status": "failed", "output": "no file"},
        ],
        [
            ToolCall("d", "apply_patch", '{"type":"delete_file","path":"a"}', "apply_patch"),
            ToolResult("d", content=(Text("no file"),), failed=True, kind="apply_patch"),
        ],
    ),
    "apply_patch without output": (
        [PATCH_CALL, {"type": "apply_patch_call_output", "call_id": "d", "status": "completed"}],
        [
            ToolCall("d", "apply_patch", '{"type":"delete_file","path":"a"}', "apply_patch"),
            ToolResult("d", kind="apply_patch"),
        ],
    ),
}


@pytest.mark.parametrize("items, parts", CLIENT_RUN.values(), ids=CLIENT_RUN)
def test_b12_tools_that_the_client_runs_are_calls(items: list[Wire], parts: list[AnyPart]):
    request, losses = decode([USER, *items])
    assert bare(tuple(part for message in request.messages[1:] for part in message.parts)) == parts
    assert losses == []
    assert CODEC.encode_request(request, Losses())["input"] == [USER, *items]


@pytest.mark.parametrize("upstream", ["anthropic", "gemini", "openai-chat"])
def test_b12_shell_and_apply_patch_are_functions_elsewhere(upstream: str):
    tools = [{"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]
    exchange = dragoman.Exchange("openai-responses", upstream)
    sent = exchange.request({"model": "m", "input": "hi", "tools": tools})
    assert all(name in jsontext.dumps(sent["tools"]) for name in ("shell", "apply_patch"))
    assert not any(loss.kind == "dropped" for loss in exchange.losses)


def test_b12_calls_of_shell_and_apply_patch_come_back_in_their_own_form():
    exchange = dragoman.Exchange("openai-responses", "openai-chat")
    exchange.request({"model": "m", "input": "hi", "tools": [{"type": "shell"}, {"type": "apply_patch"}]})
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"commands":["ls"]}'}},
        {
            "id": "c2",
            "type": "function",
            "function": {"name": "apply_patch", "arguments": '{"type":"delete_file","path":"a"}'},
        },
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    reply = exchange.response({"id": "x", "choices": [{"finish_reason": "tool_calls", "message": message}]})
    shell, patch = reply["output"]
    assert (shell["type"], shell["action"]) == ("shell_call", {"commands": ["ls"]})
    assert (patch["type"], patch["operation"]) == ("apply_patch_call", {"type": "delete_file", "path": "a"})


def test_b12_a_shell_in_a_container_of_the_server_is_no_function():
    exchange = dragoman.Exchange("openai-responses", "anthropic")
    tools = [{"type": "shell", "environment": {"type": "container_auto"}}]
    assert "tools" not in exchange.request({"model": "m", "input": "hi", "tools": tools})
    assert any(loss.code == "hosted.other.dropped" for loss in exchange.losses)


def test_b10_a_call_that_a_program_made_is_reported():
    caller = {"type": "program", "caller_id": "p"}
    assert decode([USER, {**CALL, "caller": {"type": "direct"}}, OUTPUT])[1] == []
    assert decode([USER, {**CALL, "caller": caller}, {**OUTPUT, "caller": caller}])[1] == [
        "dropped input[1].caller: only openai-responses understands it",
        "dropped input[2].caller: only openai-responses understands it",
    ]


def test_d12_phase_citations_and_found_tools_are_reported():
    assert decode([USER, {**REPLY, "phase": "commentary"}])[1] == [
        "dropped input[1].phase: only openai-responses understands it"
    ]
    cited = Text("a", (Citation("https://x.org"),), where="w")
    assert encode(Message("user", (Text("q"),)), Message("assistant", (cited,)))[1] == [
        "dropped w.citations: openai-responses takes no foreign sources"
    ]
    found = {"type": "tool_search_output", "execution": "server", "tools": [], "call_id": None}
    assert decode([USER, found])[1] == [
        "changed input[1]: the tools that it found are declared with the others"
    ]


def test_a_search_that_nobody_declared_is_no_call():
    items = SAME["a tool search that the client runs"]
    request = CODEC.decode_request({"input": items}, Losses())
    assert [type(part) for message in request.messages for part in message.parts] == [Foreign, Foreign]
    assert CODEC.encode_request(request, Losses())["input"] == items


def test_what_others_do_not_understand_breaks_no_turn():
    container = {"type": "container_reference", "container_id": "x"}
    hosted = {"type": "shell_call", "action": {"commands": ["ls"]}, "call_id": "c", "environment": container}
    result = {"type": "shell_call_output", "call_id": "c", "output": []}
    request, _ = decode([USER, THOUGHT, hosted, result, REPLY, CALL, OUTPUT])
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    assert [type(part).__name__ for part in request.messages[1].parts] == [
        "Reasoning",
        "Foreign",
        "Foreign",
        "Text",
        "ToolCall",
    ]


def test_places_are_spelled_as_in_the_body():
    request, losses = decode(
        [USER, {**USER, "content": [{"type": "input_text", "text": "x", "new": 1}]}, CALL]
    )
    assert request.messages[1].parts[0].where == "input[1].content[0]"
    assert request.messages[2].parts[0].where == "input[2]"
    assert losses == ["dropped input[1].content[0].new: only openai-responses understands it"]


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
        ["dropped x.arguments: a call of local_shell takes an object: its arguments are lost"],
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
            "changed r0: openai-responses has no flag for failed results: the text begins with Error",
            "changed r2: openai-responses has no flag for failed results: the text begins with Error",
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
            "dropped a: openai-responses takes no audio of this form (audio/wav) here",
            "dropped b: openai-responses takes no video of this form (video/mp4) here",
            "dropped c: openai-responses takes no image of this form (image/heic) here",
            "dropped d: openai-responses takes no image of this form (unknown type) here",
            "dropped e: openai-responses takes no image of this form (image/png) here",
        ],
    ),
    "a refusal": (
        [Message("assistant", (Refusal("no", where="x"),))],
        [{"type": "message", "role": "assistant", "content": "no"}],
        ["changed x: a refusal goes back as its text"],
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
            "dropped r: openai-responses takes back only reasoning that it encrypted",
            "dropped s: openai-responses takes back only reasoning that it encrypted",
        ],
    ),
    "reasoning that nothing follows": (
        [Message("assistant", (Text("a"), Reasoning("hm", state=STATE)), where="m")],
        [{"type": "message", "role": "assistant", "content": "a"}],
        ["dropped m: reasoning that nothing follows is refused"],
    ),
    "G106 what stood after reasoning that was taken away loses its id": (
        [replace(NATIVE, parts=(replace(NATIVE.parts[0], state=None), *NATIVE.parts[1:]))],
        [
            {"type": "message", "role": "assistant", "content": "well", "phase": "commentary"},
            CALL,
        ],
        ["dropped input[0]: openai-responses takes back only reasoning that it encrypted"],
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
        ["dropped x: a message of openai-responses cannot hold it"],
    ),
}


@pytest.mark.parametrize("messages, items, losses", ENCODED.values(), ids=ENCODED)
def test_messages_become_items(messages: list[Message], items: list[Wire], losses: list[str]):
    assert encode(*messages) == (items, losses)
