"""Tools and tool choice of the Responses API, both ways."""

import copy
from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Message, Request, Text, ToolChoice, ToolDeclaration, Wire
from dragoman.protocols.openai_responses import CODEC

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
F = {"type": "function", "name": "f", "description": "does f", "parameters": SCHEMA, "strict": False}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "patches",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}
SPACE = {
    "type": "namespace",
    "name": "mcp__x",
    "description": "tools of x",
    "tools": [F, {**PATCH, "name": "g"}],
}


def decode(**body: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    request = CODEC.decode_request({"model": "gpt-5", "input": "hi", **body}, losses)
    return request, [str(loss) for loss in losses]


def encode(*tools: ToolDeclaration | HostedTool, **more: Any) -> tuple[Wire, list[str]]:
    losses = Losses()
    body = CODEC.encode_request(Request("m", (Message("user", (Text("hi"),)),), tools=tools, **more), losses)
    return body, [str(loss) for loss in losses]


SAME: dict[str, list[Wire]] = {
    "a function": [F],
    "strict left open, null, true": [
        {"type": "function", "name": "f"},
        {**F, "strict": None},
        {**F, "strict": True, "parameters": None},
    ],
    "an empty description": [{**F, "description": ""}],
    "everything about a function": [
        {
            **F,
            "defer_loading": True,
            "allowed_callers": ["direct"],
            "async": True,
            "output_schema": {},
            "x": 1,
        }
    ],
    "custom tools": [
        PATCH,
        {"type": "custom", "name": "p"},
        {**PATCH, "format": {"type": "text"}, "defer_loading": True},
    ],
    "a namespace among others": [F, SPACE, {**SPACE, "name": "mcp__y", "new": 1}, {**F, "name": "h"}],
    "a namespace declared twice": [SPACE, SPACE],
    "an empty namespace": [{"type": "namespace", "name": "n", "description": "", "tools": []}],
    "hosted tools": [
        {"type": "web_search", "filters": {"allowed_domains": ["a.com"]}, "search_context_size": "low"},
        {"type": "web_search_preview", "user_location": {"type": "approximate", "city": "Paris"}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation", "partial_images": 2},
        {"type": "computer"},
        {
            "type": "mcp",
            "server_label": "l",
            "server_url": "https://x",
            "headers": {"a": "b"},
            "require_approval": "never",
        },
        {"type": "local_shell"},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "apply_patch"},
        {"type": "tool_search"},
        {"type": "programmatic_tool_calling"},
        {"type": "something_new", "x": {}},
    ],
    "a tool search that the client runs": [
        {"type": "tool_search", "execution": "client", "description": "finds tools", "parameters": SCHEMA}
    ],
    "no tools": [],
}


@pytest.mark.parametrize("tools", SAME.values(), ids=SAME)
def test_tools_return_unchanged(tools: list[Wire]):
    before = copy.deepcopy(tools)
    body = CODEC.encode_request(decode(tools=tools)[0], Losses())
    assert body["tools"] == before
    assert tools == before


def neutral(tools: tuple[Any, ...]) -> list[Any]:
    from msgspec.structs import replace

    hosted = [replace(tool, extras=None) for tool in tools]
    return [replace(tool, function=None) if isinstance(tool, HostedTool) else tool for tool in hosted]


DECODED: dict[str, tuple[list[Wire], list[ToolDeclaration | HostedTool], list[str]]] = {
    "functions": (
        [F, {"type": "function", "name": "g", "strict": None}],
        [ToolDeclaration("f", "does f", SCHEMA, False), ToolDeclaration("g")],
        [],
    ),
    "G90 a custom tool": (
        [PATCH, {"type": "custom", "name": "p"}],
        [
            ToolDeclaration("apply_patch", "patches", kind="custom", grammar=("lark", "start: x")),
            ToolDeclaration("p", kind="custom"),
        ],
        [],
    ),
    "G91 a namespace": (
        [SPACE],
        [
            ToolDeclaration("f", "does f", SCHEMA, False, namespace="mcp__x"),
            ToolDeclaration("g", "patches", kind="custom", grammar=("lark", "start: x"), namespace="mcp__x"),
        ],
        ["dropped tools[0].description: Only openai-responses has this field."],
    ),
    "deferred": (
        [{**F, "defer_loading": True}],
        [ToolDeclaration("f", "does f", SCHEMA, False, deferred=True)],
        [],
    ),
    "G84 what only this protocol has": (
        [{**F, "output_schema": {}, "async": None}],
        [ToolDeclaration("f", "does f", SCHEMA, False)],
        ["dropped tools[0].output_schema: Only openai-responses has this field."],
    ),
    "hosted tools": (
        [
            {
                "type": "web_search",
                "filters": {"allowed_domains": ["a.com"]},
                "search_context_size": "low",
                "user_location": {"type": "approximate", "city": "Paris", "region": None},
            },
            {
                "type": "mcp",
                "server_label": "l",
                "server_url": "u",
                "headers": {"a": "b"},
                "allowed_tools": ["t"],
            },
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "computer_use_preview"},
            {"type": "something_new"},
        ],
        [
            HostedTool(
                "web_search",
                settings={"allowed_domains": ["a.com"], "location": {"city": "Paris"}, "context_size": "low"},
            ),
            HostedTool(
                "mcp",
                settings={
                    "label": "l",
                    "url": "u",
                    "headers": {"a": "b"},
                    "allowed": ["t"],
                    "approval": "always",
                },
            ),
            HostedTool("code_execution"),
            HostedTool("computer"),
            HostedTool("other", "something_new"),
        ],
        [],
    ),
    "a tool search that the client runs": (
        [{"type": "tool_search", "execution": "client", "description": "finds", "parameters": SCHEMA}],
        [ToolDeclaration("tool_search", "finds", SCHEMA)],
        [],
    ),
    "one that the server runs": ([{"type": "tool_search"}], [HostedTool("tool_search")], []),
}


@pytest.mark.parametrize("tools, expected, losses", DECODED.values(), ids=DECODED)
def test_tools_become_neutral(tools: list[Wire], expected: list[Any], losses: list[str]):
    request, reported = decode(tools=tools)
    assert neutral(request.tools) == expected
    assert reported == losses


def test_g92_tools_inside_the_conversation_are_declared():
    added = {"type": "additional_tools", "role": "developer", "tools": [PATCH, SPACE, {"type": "web_search"}]}
    request, losses = decode(input=[added, {"role": "user", "content": "hi"}])
    assert [tool.name or tool.kind for tool in request.tools] == ["apply_patch", "f", "g", "web_search"]
    assert losses == ["dropped input[0].tools[1].description: Only openai-responses has this field."]
    assert "tools" not in CODEC.encode_request(request, Losses())


def test_g92_tools_that_a_search_found_are_loaded():
    later = {**F, "name": "later", "defer_loading": True}
    found = {
        "type": "tool_search_output",
        "execution": "server",
        "tools": [later, {**later, "name": "unknown"}],
    }
    request, _ = decode(tools=[F, later, {**later, "name": "never"}], input=[found])
    known = [(tool.name, tool.deferred) for tool in request.tools if isinstance(tool, ToolDeclaration)]
    assert known == [("f", False), ("later", False), ("never", True), ("unknown", False)]
    body = CODEC.encode_request(request, Losses())
    assert [tool["name"] for tool in body["tools"]] == ["f", "later", "never"]
    assert [tool.get("defer_loading") for tool in body["tools"]] == [None, True, True]


ENCODED: dict[str, tuple[list[ToolDeclaration | HostedTool], list[Wire], list[str]]] = {
    "strict is always said": (
        [ToolDeclaration("f", "does f", SCHEMA), ToolDeclaration("g", "", SCHEMA, True)],
        [F, {"type": "function", "name": "g", "parameters": SCHEMA, "strict": True}],
        [],
    ),
    "G88 no parameters": (
        [ToolDeclaration("f")],
        [
            {
                "type": "function",
                "name": "f",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        [],
    ),
    "custom": (
        [
            ToolDeclaration("p", "x", kind="custom", grammar=("regex", "a+")),
            ToolDeclaration("q", kind="custom"),
        ],
        [
            {
                "type": "custom",
                "name": "p",
                "description": "x",
                "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
            },
            {"type": "custom", "name": "q"},
        ],
        [],
    ),
    "namespaces": (
        [
            ToolDeclaration("a", parameters=SCHEMA, namespace="n"),
            ToolDeclaration("b", kind="custom", namespace="n"),
            ToolDeclaration("c", kind="custom"),
        ],
        [
            {
                "type": "namespace",
                "name": "n",
                "description": "Tools of n.",
                "tools": [
                    {"type": "function", "name": "a", "parameters": SCHEMA, "strict": False},
                    {"type": "custom", "name": "b"},
                ],
            },
            {"type": "custom", "name": "c"},
        ],
        [],
    ),
    "G94 deferred without a search": (
        [
            ToolDeclaration("a", kind="custom", deferred=True, where="tools[0]"),
            ToolDeclaration("b", kind="custom"),
        ],
        [{"type": "custom", "name": "b"}],
        ["changed tools[0]: a is deferred. It is sent once it has been loaded."],
    ),
    "deferred with a search": (
        [ToolDeclaration("a", kind="custom", deferred=True), HostedTool("tool_search")],
        [{"type": "custom", "name": "a", "defer_loading": True}, {"type": "tool_search"}],
        [],
    ),
    "a web search": (
        [
            HostedTool(
                "web_search",
                settings={
                    "allowed_domains": ["a.com"],
                    "location": {"city": "Paris"},
                    "context_size": "high",
                    "max_uses": 3,
                    "blocked_domains": [],
                },
                where="tools[0]",
            )
        ],
        [
            {
                "type": "web_search",
                "filters": {"allowed_domains": ["a.com"]},
                "user_location": {"type": "approximate", "city": "Paris"},
                "search_context_size": "high",
            }
        ],
        ["dropped tools[0].max_uses: The web search of openai-responses has no such setting."],
    ),
    "MCP": (
        [
            HostedTool("mcp", settings={"label": "l", "url": "u", "headers": {"a": "b"}, "allowed": ["t"]}),
            HostedTool("mcp", "x", where="tools[1]"),
        ],
        [
            {
                "type": "mcp",
                "server_label": "l",
                "server_url": "u",
                "headers": {"a": "b"},
                "allowed_tools": ["t"],
                "require_approval": "never",
            }
        ],
        ["dropped tools[1]: openai-responses has no hosted x tool."],
    ),
    "what it runs itself": (
        [
            HostedTool("code_execution"),
            HostedTool("image_generation"),
            HostedTool("local_shell"),
            HostedTool("shell"),
        ],
        [
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "image_generation"},
            {"type": "local_shell"},
            {"type": "shell"},
        ],
        [],
    ),
    "a computer": (
        [HostedTool("computer", where="tools[0]")],
        [],
        ["dropped tools[0]: openai-responses has no hosted computer tool that takes its place."],
    ),
    "what it does not have": (
        [HostedTool("maps", where="tools[0]"), HostedTool("file_search", where="tools[1]")],
        [],
        [
            "dropped tools[0]: openai-responses has no hosted maps tool.",
            "dropped tools[1]: openai-responses has no hosted file_search tool.",
        ],
    ),
}


@pytest.mark.parametrize("tools, expected, losses", ENCODED.values(), ids=ENCODED)
def test_neutral_tools_are_declared(tools: list[Any], expected: list[Wire], losses: list[str]):
    body, reported = encode(*tools)
    assert body.get("tools", []) == expected
    assert reported == losses


CHOICES: dict[str, tuple[Any, ToolChoice | None, list[str]]] = {
    "auto": ("auto", ToolChoice("auto"), []),
    "G62 none": ("none", ToolChoice("none"), []),
    "required": ("required", ToolChoice("required"), []),
    "one function": ({"type": "function", "name": "f"}, ToolChoice("required", ("f",)), []),
    "one custom tool": ({"type": "custom", "name": "p"}, ToolChoice("required", ("p",)), []),
    "a subset": (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "mcp", "server_label": "l"}],
        },
        ToolChoice("auto", ("f",), ("mcp:l",)),
        [],
    ),
    "a hosted tool": (
        {"type": "web_search_2025_08_26"},
        ToolChoice("required", (), ("web_search",)),
        [],
    ),
    "an MCP server": (
        {"type": "mcp", "server_label": "l"},
        ToolChoice("required", (), ("mcp:l",)),
        [],
    ),
    "a tool of the client that has no name": (
        {"type": "computer"},
        ToolChoice("required"),
        ["changed tool_choice: Only openai-responses can force its computer. Some tool is required instead."],
    ),
    "null": (None, None, []),
}


@pytest.mark.parametrize("wire, choice, losses", CHOICES.values(), ids=CHOICES)
def test_choices_become_neutral_and_return(wire: Any, choice: ToolChoice | None, losses: list[str]):
    request, reported = decode(tools=[F], tool_choice=wire)
    known = request.tool_choice
    facts = known and (known.mode, known.names, known.hosted)
    assert facts == (choice and (choice.mode, choice.names, choice.hosted))
    assert reported == losses
    assert CODEC.encode_request(request, Losses())["tool_choice"] == wire


ASKED: dict[str, tuple[ToolChoice | None, Any]] = {
    "nothing": (None, None),
    "auto": (ToolChoice("auto"), "auto"),
    "G62 none": (ToolChoice("none", ("f",)), "none"),
    "required": (ToolChoice("required"), "required"),
    "one function": (ToolChoice("required", ("f",)), {"type": "function", "name": "f"}),
    "one custom tool": (ToolChoice("required", ("p",)), {"type": "custom", "name": "p"}),
    "a subset": (
        ToolChoice("required", ("f", "p")),
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "p"}],
        },
    ),
    "one of them, or none": (
        ToolChoice("auto", ("f",)),
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    ),
}


@pytest.mark.parametrize("choice, wire", ASKED.values(), ids=ASKED)
def test_neutral_choices_are_written(choice: ToolChoice | None, wire: Any):
    body, losses = encode(ToolDeclaration("f"), ToolDeclaration("p", kind="custom"), tool_choice=choice)
    assert body.get("tool_choice") == wire
    assert losses == []


def test_g61_without_tools_no_tool_settings_are_written():
    body, losses = encode(tool_choice=ToolChoice("required"), parallel=False)
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body
    assert losses == ["dropped tool_choice: There are no tools to choose from."]
    assert encode(tool_choice=ToolChoice("auto"))[1] == []


def test_settings_of_hosted_tools_that_nobody_else_has_are_reported() -> None:
    losses = Losses()
    tools = [
        {"type": "web_search", "external_web_access": False},
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}},
        {"type": "code_interpreter", "container": "cntr_1"},
        {
            "type": "mcp",
            "server_label": "a",
            "server_url": "u",
            "authorization": "k",
            "server_description": "d",
        },
    ]
    request = CODEC.decode_request({"model": "m", "input": "hi", "tools": tools}, losses)
    mcp = request.tools[-1]
    assert isinstance(mcp, HostedTool)
    assert mcp.settings["headers"] == {"Authorization": "Bearer k"}
    assert [loss.where for loss in losses if loss.code == "hosted.setting.dropped"] == [
        "tools[0].external_web_access",
        "tools[1].container.file_ids",
        "tools[2].container",
        "tools[3].server_description",
    ]
