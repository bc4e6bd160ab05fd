"""Input items that only Responses has: retained for it, reported to others, or translated as calls."""

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Citation, Foreign, Message, Text, ToolCall, ToolResult, Wire
from dragoman.protocols.openai_responses import CODEC
from protocols.openai_responses.items import CALL, OUTPUT, REPLY, THOUGHT, USER, bare, decode, encode

FOREIGN_ROWS: dict[str, tuple[Wire, str, str]] = {
    "a web search": (
        {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}},
        '[web_search: {"query":"x"}]',
        "changed input[1]: Only openai-responses understands an item of type web_search_call. "
        "It was sent as text.",
    ),
    "code that ran": (
        {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
        "```\n1+1\n```\nOutput:\n```\n2\n```",
        "changed input[1]: Only openai-responses understands an item of type code_interpreter_call. "
        "It was sent as text.",
    ),
    "a call of an MCP server": (
        {"type": "mcp_call", "name": "m", "arguments": "{}", "output": "o"},
        "[m: {}]\no",
        "changed input[1]: Only openai-responses understands an item of type mcp_call. It was sent as text.",
    ),
    "a search in files": (
        {"type": "file_search_call", "queries": ["q"], "results": [{"text": "t"}, {}]},
        '[file_search: ["q"]]\nt',
        "changed input[1]: Only openai-responses understands an item of type file_search_call. "
        "It was sent as text.",
    ),
    "a shell command that the server ran": (
        {"type": "shell_call", "environment": {"type": "container_auto"}, "action": {"commands": ["ls"]}},
        '[shell: ["ls"]]',
        "changed input[1]: Only openai-responses understands an item of type shell_call. "
        "It was sent as text.",
    ),
    "an MCP server that failed": (
        {"type": "mcp_call", "name": "m", "arguments": "{}", "error": "down"},
        '[m: {}]\nfailed: "down"',
        "changed input[1]: Only openai-responses understands an item of type mcp_call. It was sent as text.",
    ),
    "a search without a query": (
        {"type": "web_search_call", "id": "w"},
        "",
        "dropped input[1]: Only openai-responses understands an item of type web_search_call.",
    ),
    "G108 a reference": (
        {"type": "item_reference", "id": "x"},
        "",
        "dropped input[1]: It names an item that only the server holds. The item is not in this request.",
    ),
    "a compaction": (
        {"type": "compaction", "encrypted_content": "x"},
        "",
        "dropped input[1]: It stands for earlier turns. Only their server can read it.",
    ),
    "something new": (
        {"type": "something_new"},
        "",
        "dropped input[1]: Only openai-responses understands an item of type something_new.",
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
        "dropped input[1].caller: Only openai-responses has this field.",
        "dropped input[2].caller: Only openai-responses has this field.",
    ]


def test_d12_phase_citations_and_found_tools_are_reported():
    assert decode([USER, {**REPLY, "phase": "commentary"}])[1] == [
        "dropped input[1].phase: Only openai-responses has this field."
    ]
    assert decode([USER, {**REPLY, "phase": "final_answer"}])[1] == []
    cited = Text("a", (Citation("https://x.org"),), where="w")
    assert encode(Message("user", (Text("q"),)), Message("assistant", (cited,)))[1] == [
        "dropped w.citations: openai-responses takes no sources of others."
    ]
    found = {"type": "tool_search_output", "execution": "server", "tools": [], "call_id": None}
    assert decode([USER, found])[1] == [
        "changed input[1]: The tools that it found are declared with the others."
    ]


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


def test_a_function_call_to_a_custom_tool_keeps_its_id():
    """Servers that know functions alone answer so, and a stream has shown the id already."""
    exchange = dragoman.Exchange("openai-responses", "openai-responses", images="summary")
    tool = {"type": "custom", "name": "note", "description": "x"}
    exchange.request({"model": "m", "input": "x", "tools": [tool]})
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c",
        "name": "note",
        "arguments": '{"input":"x"}',
    }
    reply = exchange.response({"id": "r", "model": "m", "status": "completed", "output": [call]})
    assert reply["output"] == [
        {
            "id": "fc_1",
            "status": "completed",
            "type": "custom_tool_call",
            "call_id": "c",
            "name": "note",
            "input": "x",
        }
    ]
