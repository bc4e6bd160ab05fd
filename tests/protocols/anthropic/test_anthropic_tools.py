"""Tools, hosted tools, MCP servers and tool choice, both ways."""

from typing import Any

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core.losses import Losses
from dragoman.core.model import (
    HostedTool,
    Message,
    Request,
    Settings,
    Text,
    ToolChoice,
    ToolDeclaration,
    Wire,
)
from dragoman.profiles import profile_of
from dragoman.protocols.anthropic import CODEC
from dragoman.protocols.anthropic.http import HTTP

OWN = {"anthropic": {}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
HELLO = Message("user", (Text("hi"),))


def decode(**more: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    request = CODEC.decode_request({"model": "m", "messages": [], **more}, losses)
    assert CODEC.encode_request(request, Losses()) == {"model": "m", "messages": [], **more}
    return request, [loss.where for loss in losses]


def encode(
    *tools: ToolDeclaration | HostedTool, model: str = "claude-sonnet-4-5", **more: Any
) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, (HELLO,), tools=tools, settings=Settings(max_tokens=9), **more)
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


# name: (declaration, tool, losses)
DECODED: dict[str, tuple[Wire, ToolDeclaration | HostedTool, list[str]]] = {
    "a function": (
        {"name": "f", "description": "does", "input_schema": SCHEMA},
        ToolDeclaration("f", "does", SCHEMA, extras=OWN),
        [],
    ),
    "no description": (
        {"name": "f", "input_schema": SCHEMA},
        ToolDeclaration("f", "", SCHEMA, extras=OWN),
        [],
    ),
    "an empty description": (
        {"name": "f", "description": "", "input_schema": SCHEMA},
        ToolDeclaration("f", "", SCHEMA, extras={"anthropic": {"description": ""}}),
        [],
    ),
    "an empty schema": ({"name": "f", "input_schema": {}}, ToolDeclaration("f", "", {}, extras=OWN), []),
    "no schema": ({"name": "f"}, ToolDeclaration("f", extras=OWN), []),
    "marked as custom": (
        {"type": "custom", "name": "f", "input_schema": SCHEMA},
        ToolDeclaration("f", "", SCHEMA, extras={"anthropic": {"type": "custom"}}),
        [],
    ),
    "strict": (
        {"name": "f", "input_schema": SCHEMA, "strict": True},
        ToolDeclaration("f", "", SCHEMA, True, extras=OWN),
        [],
    ),
    "not strict": (
        {"name": "f", "input_schema": SCHEMA, "strict": False},
        ToolDeclaration("f", "", SCHEMA, False, extras={"anthropic": {"strict": False}}),
        [],
    ),
    "deferred": (
        {"name": "f", "input_schema": SCHEMA, "defer_loading": True},
        ToolDeclaration("f", "", SCHEMA, deferred=True, extras={"anthropic": {"defer_loading": True}}),
        [],
    ),
    "G84 what only Anthropic has": (
        {
            "name": "f",
            "input_schema": SCHEMA,
            "cache_control": {"type": "ephemeral"},
            "eager_input_streaming": True,
            "allowed_callers": ["direct"],
            "input_examples": [{"a": "x"}],
        },
        ToolDeclaration(
            "f",
            "",
            SCHEMA,
            extras={
                "anthropic": {
                    "cache_control": {"type": "ephemeral"},
                    "eager_input_streaming": True,
                    "allowed_callers": ["direct"],
                    "input_examples": [{"a": "x"}],
                }
            },
        ),
        [
            "tools[0].cache_control",
            "tools[0].eager_input_streaming",
            "tools[0].allowed_callers",
            "tools[0].input_examples",
        ],
    ),
    "G95 web search": (
        {
            "type": "web_search_20260209",
            "name": "web_search",
            "max_uses": 3,
            "allowed_domains": ["a.com"],
            "user_location": {"type": "approximate", "city": "Paris", "region": None},
        },
        HostedTool(
            "web_search",
            "web_search",
            {"max_uses": 3, "allowed_domains": ["a.com"], "location": {"city": "Paris"}},
        ),
        [],
    ),
    "web search with what only Anthropic has": (
        {"type": "web_search_20260318", "name": "web_search", "response_inclusion": "all"},
        HostedTool("web_search", "web_search"),
        ["tools[0].response_inclusion"],
    ),
    "web fetch": (
        {
            "type": "web_fetch_20250910",
            "name": "web_fetch",
            "blocked_domains": ["b.com"],
            "max_content_tokens": 5,
        },
        HostedTool("web_fetch", "web_fetch", {"blocked_domains": ["b.com"], "max_content_tokens": 5}),
        [],
    ),
    "code execution": (
        {"type": "code_execution_20260521", "name": "code_execution"},
        HostedTool("code_execution", "code_execution"),
        [],
    ),
    "bash": ({"type": "bash_20250124", "name": "bash"}, HostedTool("bash", "bash"), []),
    "text editor": (
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9},
        HostedTool("text_editor", "str_replace_based_edit_tool"),
        ["tools[0].max_characters"],
    ),
    "memory": ({"type": "memory_20250818", "name": "memory"}, HostedTool("memory", "memory"), []),
    "a computer as a toolset": (
        {"type": "computer_toolset_20260801", "display_width_px": 9},
        HostedTool("computer"),
        [],
    ),
    "a browser": ({"type": "browser_toolset_20260801"}, HostedTool("other"), []),
    "tool search": (
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        HostedTool("tool_search", "tool_search_tool_regex"),
        [],
    ),
    "something newer than we are": ({"type": "teleport_20270101", "name": "t"}, HostedTool("other", "t"), []),
}


@pytest.mark.parametrize(("wire", "tool", "lost"), DECODED.values(), ids=DECODED)
def test_declarations_are_read_and_go_back(
    wire: Wire, tool: ToolDeclaration | HostedTool, lost: list[str]
) -> None:
    request, losses = decode(tools=[wire])
    if isinstance(tool, HostedTool):
        tool = replace(tool, extras={"anthropic": wire})
    read = request.tools[0]
    assert (replace(read, function=None) if isinstance(read, HostedTool) else read) == tool
    assert request.tools[0].where == "tools[0]"
    assert losses == lost


# name: (tool, declaration or None, losses)
EMPTY = {"type": "object", "properties": {}}
ENCODED: dict[str, tuple[ToolDeclaration | HostedTool, Wire | None, list[str]]] = {
    "a function": (
        ToolDeclaration("f", "does", SCHEMA),
        {"name": "f", "description": "does", "input_schema": SCHEMA},
        [],
    ),
    "G88 no parameters": (ToolDeclaration("f"), {"name": "f", "input_schema": EMPTY}, []),
    "strict": (
        ToolDeclaration("f", "", SCHEMA, True),
        {"name": "f", "input_schema": SCHEMA, "strict": True},
        [],
    ),
    "not strict": (ToolDeclaration("f", "", SCHEMA, False), {"name": "f", "input_schema": SCHEMA}, []),
    "deferred, and nothing to look for it": (
        ToolDeclaration("f", "", SCHEMA, deferred=True),
        {"name": "f", "input_schema": SCHEMA},
        [],
    ),
    "property names that Anthropic refuses": (
        ToolDeclaration("f", "", {"type": "object", "properties": {"a b": {}, "c.d-e": {}}}, where="T"),
        {"name": "f", "input_schema": {"type": "object", "properties": {"a b": {}, "c.d-e": {}}}},
        ["changed T.parameters: Anthropic refuses some of these property names. They were changed."],
    ),
    "web search": (
        HostedTool(
            "web_search", "", {"max_uses": 2, "blocked_domains": ["b"], "location": {"city": "Paris"}}
        ),
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "blocked_domains": ["b"],
            "user_location": {"type": "approximate", "city": "Paris"},
        },
        [],
    ),
    "G96 empty domains": (
        HostedTool("web_search", "", {"allowed_domains": [], "context_size": "high"}, where="T"),
        {"type": "web_search_20250305", "name": "web_search"},
        ["dropped T.search_context_size: The web_search of Anthropic has no such setting."],
    ),
    "web fetch": (
        HostedTool("web_fetch", "", {"max_uses": 1}),
        {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 1},
        [],
    ),
    "code execution": (
        HostedTool("code_execution"),
        {"type": "code_execution_20250825", "name": "code_execution"},
        [],
    ),
    "bash": (HostedTool("bash"), {"type": "bash_20250124", "name": "bash"}, []),
    "tool search": (
        HostedTool("tool_search"),
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        [],
    ),
    "what Anthropic does not host": (
        HostedTool("image_generation", where="T"),
        None,
        ["dropped T: Anthropic has no hosted image_generation tool."],
    ),
}


@pytest.mark.parametrize(("tool", "declaration", "lost"), ENCODED.values(), ids=ENCODED)
def test_declarations_from_elsewhere(
    tool: ToolDeclaration | HostedTool, declaration: Wire | None, lost: list[str]
) -> None:
    wire, losses = encode(tool)
    assert wire.get("tools") == (None if declaration is None else [declaration])
    assert losses == lost


@pytest.mark.parametrize(
    ("model", "deferred"), [("claude-sonnet-4-5", True), ("claude-sonnet-4", False), ("other", False)]
)
def test_deferred_tools_wait_where_the_model_can_search(model: str, deferred: bool) -> None:
    wire, losses = encode(
        ToolDeclaration("f", deferred=True), HostedTool("tool_search", where="T"), model=model
    )
    assert [tool.get("defer_loading", False) for tool in wire["tools"]] == (
        [True, False] if deferred else [False]
    )
    assert bool(losses) is not deferred


# MCP servers

SERVER = {"type": "url", "name": "s", "url": "https://s", "authorization_token": "tok"}
ALLOWING = {
    "default_config": {"enabled": False},
    "configs": {"a": {"enabled": True}, "b": {"enabled": False}},
}
# name: (servers, toolsets, settings of the tools)
SERVERS: dict[str, tuple[list[Wire], list[Wire], list[dict[str, Any]]]] = {
    "a server and its toolset": (
        [SERVER],
        [{"type": "mcp_toolset", "mcp_server_name": "s"}],
        [{"label": "s", "url": "https://s", "headers": {"Authorization": "Bearer tok"}}],
    ),
    "some of its tools": (
        [SERVER],
        [{"type": "mcp_toolset", "mcp_server_name": "s", **ALLOWING}],
        [{"label": "s", "url": "https://s", "headers": {"Authorization": "Bearer tok"}, "allowed": ["a"]}],
    ),
    "a server alone, as the older beta has it": (
        [
            {
                "type": "url",
                "name": "s",
                "url": "https://s",
                "tool_configuration": {"enabled": True, "allowed_tools": ["a"]},
            }
        ],
        [],
        [{"label": "s", "url": "https://s", "allowed": ["a"]}],
    ),
    "a server that is turned off": ([{**SERVER, "tool_configuration": {"enabled": False}}], [], []),
    "a toolset without its server": ([], [{"type": "mcp_toolset", "mcp_server_name": "x"}], [{"label": "x"}]),
    "two servers": (
        [SERVER, {"type": "url", "name": "t", "url": "https://t"}],
        [{"type": "mcp_toolset", "mcp_server_name": "t"}],
        [
            {"label": "t", "url": "https://t"},
            {"label": "s", "url": "https://s", "headers": {"Authorization": "Bearer tok"}},
        ],
    ),
}


@pytest.mark.parametrize(("servers", "toolsets", "settings"), SERVERS.values(), ids=SERVERS)
def test_mcp_servers_are_read_and_go_back(
    servers: list[Wire], toolsets: list[Wire], settings: list[dict[str, Any]]
) -> None:
    request, losses = decode(mcp_servers=servers, tools=toolsets)
    assert [tool.kind for tool in request.tools] == ["mcp"] * len(settings)
    assert [tool.settings for tool in request.tools] == settings  # type: ignore[union-attr]
    assert losses == []


def test_mcp_servers_from_elsewhere() -> None:
    headers = {"authorization": "Bearer tok", "x-team": "7"}
    settings = {"label": "s", "url": "https://s", "headers": headers, "allowed": ["a"]}
    wire, losses = encode(HostedTool("mcp", "", settings, where="T"))
    assert wire["mcp_servers"] == [SERVER]
    configs = {"default_config": {"enabled": False}, "configs": {"a": {"enabled": True}}}
    assert wire["tools"] == [{"type": "mcp_toolset", "mcp_server_name": "s", **configs}]
    assert losses == ["dropped T.headers.x-team: Anthropic sends no such header to MCP servers."]
    assert HTTP.headers_for(wire) == {"anthropic-beta": "mcp-client-2025-11-20"}


def test_an_mcp_server_without_an_address() -> None:
    wire, losses = encode(HostedTool("mcp", "", {"label": "s"}, where="T"))
    assert "mcp_servers" not in wire
    assert "tools" not in wire
    assert losses == ["dropped T: Anthropic needs the address of an MCP server."]
    assert HTTP.headers_for(wire) == {}


# Choice

CHOICES: dict[str, tuple[Wire, ToolChoice, bool | None, list[str]]] = {
    "auto": ({"type": "auto"}, ToolChoice("auto"), None, []),
    "none": ({"type": "none"}, ToolChoice("none"), None, []),
    "any": ({"type": "any"}, ToolChoice("required"), None, []),
    "one tool": ({"type": "tool", "name": "f"}, ToolChoice("required", ("f",)), None, []),
    "one call at a time": (
        {"type": "auto", "disable_parallel_tool_use": True},
        ToolChoice("auto"),
        False,
        [],
    ),
    "several calls": ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice("required"), True, []),
    "what only Anthropic has": ({"type": "auto", "x": 1}, ToolChoice("auto"), None, ["tool_choice.x"]),
}


@pytest.mark.parametrize(("wire", "choice", "parallel", "lost"), CHOICES.values(), ids=CHOICES)
def test_choices_are_read_and_go_back(
    wire: Wire, choice: ToolChoice, parallel: bool | None, lost: list[str]
) -> None:
    request, losses = decode(tool_choice=wire)
    assert request.tool_choice == replace(choice, extras={"anthropic": wire})
    assert request.parallel is parallel
    assert losses == lost


# name: (choice, parallel, model, tool_choice, names of the tools that are sent, losses)
F, G, H = ToolDeclaration("f"), ToolDeclaration("g"), ToolDeclaration("h")
SUBSET = "changed tool_choice: Anthropic cannot name a subset of tools. Only the allowed ones were sent."
CHOSEN: dict[str, tuple[ToolChoice | None, bool | None, str, Any, list[str], list[str]]] = {
    "none given": (None, None, "m", None, ["f", "g", "h"], []),
    "auto": (ToolChoice("auto"), None, "m", {"type": "auto"}, ["f", "g", "h"], []),
    "G62 none": (ToolChoice("none"), None, "m", {"type": "none"}, ["f", "g", "h"], []),
    "required": (ToolChoice("required"), None, "m", {"type": "any"}, ["f", "g", "h"], []),
    "one tool": (
        ToolChoice("required", ("g",)),
        None,
        "m",
        {"type": "tool", "name": "g"},
        ["f", "g", "h"],
        [],
    ),
    "a subset": (ToolChoice("required", ("f", "g")), None, "m", {"type": "any"}, ["f", "g"], [SUBSET]),
    "a subset of one": (ToolChoice("auto", ("g",)), None, "m", {"type": "auto"}, ["g"], [SUBSET]),
    "G63 one call at a time": (
        None,
        False,
        "m",
        {"type": "auto", "disable_parallel_tool_use": True},
        ["f", "g", "h"],
        [],
    ),
    "several calls": (None, True, "m", None, ["f", "g", "h"], []),
    "several calls, said with a choice": (
        ToolChoice("auto"),
        True,
        "m",
        {"type": "auto", "disable_parallel_tool_use": False},
        ["f", "g", "h"],
        [],
    ),
    "none has no switch": (ToolChoice("none"), False, "m", {"type": "none"}, ["f", "g", "h"], []),
    "a model that cannot be forced": (
        ToolChoice("required"),
        None,
        "claude-fable-5",
        {"type": "auto"},
        ["f", "g", "h"],
        ["changed tool_choice: The model cannot be made to call a tool. It may call one."],
    ),
}


@pytest.mark.parametrize(
    ("choice", "parallel", "model", "wire", "names", "lost"), CHOSEN.values(), ids=CHOSEN
)
def test_choices_from_elsewhere(
    choice: ToolChoice | None, parallel: bool | None, model: str, wire: Any, names: list[str], lost: list[str]
) -> None:
    body, losses = encode(F, G, H, tool_choice=choice, parallel=parallel, model=model)
    assert body.get("tool_choice") == wire
    assert [tool["name"] for tool in body["tools"]] == names
    assert losses == lost


@pytest.mark.parametrize(
    ("choice", "lost"),
    [
        (ToolChoice("auto"), []),
        (ToolChoice("none"), []),
        (ToolChoice("required"), ["dropped tool_choice: There are no tools to choose from."]),
    ],
)
def test_g61_no_choice_without_tools(choice: ToolChoice, lost: list[str]) -> None:
    body, losses = encode(tool_choice=choice, parallel=False)
    assert "tool_choice" not in body
    assert "tools" not in body
    assert losses == lost


def test_a_tool_that_a_message_defines_is_declared_to_others():
    """It goes back to Anthropic in its message, and is not declared twice."""
    definition = {"name": "added", "description": "d", "input_schema": {"type": "object"}}
    block = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    body = {"model": "m", "messages": [{"role": "system", "content": [block]}], "tools": []}
    request = CODEC.decode_request(body, Losses())
    assert [(tool.name, tool.where) for tool in request.tools] == [
        ("added", "messages[0].content[0].tool.definition")
    ]
    assert CODEC.encode_request(request, Losses()) == body


def test_settings_of_single_mcp_tools_are_reported():
    toolset = {
        "type": "mcp_toolset",
        "mcp_server_name": "a",
        "default_config": {"enabled": True, "defer_loading": True},
        "configs": {"x": {"enabled": False, "new": 1}},
    }
    _, losses = decode(tools=[toolset])
    assert losses == ["tools[0].configs.x.new"]


def test_deferred_tools_of_an_mcp_server_go_both_ways():
    server = {"type": "url", "name": "a", "url": "https://e.org/mcp"}
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "a", "default_config": {"defer_loading": True}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    body |= {"mcp_servers": [server], "tools": [toolset, search]}
    there = dragoman.Exchange("anthropic", "openai-responses").request(body)
    assert [tool.get("defer_loading") for tool in there["tools"]] == [True, None]
    back = dragoman.Exchange("openai-responses", "anthropic").request({"model": "m", **there})
    assert back["tools"][0] == toolset
