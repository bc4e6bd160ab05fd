"""Chat tools: declarations, hosted tools, the choice and the parallel switch, both ways."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Message, Request, Text, ToolChoice, ToolDeclaration, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.openai_chat import CODEC

HELLO = [{"role": "user", "content": "hi"}]
ASKED = (Message("user", (Text("hi"),)),)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EMPTY = {"type": "object", "properties": {}}


def function(name: str = "weather", **more: Any) -> Wire:
    return {"type": "function", "function": {"name": name, **more}}


def decode(wire: Wire) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request({"model": "m", "messages": HELLO, **wire}, losses), [
        str(loss) for loss in losses
    ]


def encode(model: str = "gpt-4o", **more: Any) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, ASKED, **more)
    body = CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name))
    return {key: value for key, value in body.items() if key not in ("model", "messages")}, [
        str(x) for x in losses
    ]


DECLARED: dict[str, tuple[Wire, ToolDeclaration | HostedTool, list[str]]] = {
    "function": (
        {"tools": [function(description="d", parameters=SCHEMA, strict=True)]},
        ToolDeclaration("weather", "d", SCHEMA, True),
        [],
    ),
    "function, not strict": (
        {"tools": [function(strict=False)]},
        ToolDeclaration("weather", strict=False),
        [],
    ),
    "G88 function without parameters": ({"tools": [function()]}, ToolDeclaration("weather"), []),
    "G88 null parameters": (
        {"tools": [function(parameters=None, strict=None)]},
        ToolDeclaration("weather"),
        [],
    ),
    "empty parameters": ({"tools": [function(parameters={})]}, ToolDeclaration("weather", parameters={}), []),
    "empty description": ({"tools": [function(description="")]}, ToolDeclaration("weather"), []),
    "function without a type": (
        {"tools": [{"function": {"name": "weather"}}]},
        ToolDeclaration("weather"),
        [],
    ),
    "unknown fields": (
        {"tools": [{**function(x=1), "y": 2}]},
        ToolDeclaration("weather"),
        [
            "dropped tools[0].y: Only openai-chat has this field.",
            "dropped tools[0].function.x: Only openai-chat has this field.",
        ],
    ),
    "custom": (
        {"tools": [{"type": "custom", "custom": {"name": "patch", "description": "d"}}]},
        ToolDeclaration("patch", "d", kind="custom"),
        [],
    ),
    "custom of text": (
        {"tools": [{"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}}]},
        ToolDeclaration("patch", kind="custom"),
        [],
    ),
    "custom with a grammar": (
        {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "patch",
                        "format": {
                            "type": "grammar",
                            "grammar": {"syntax": "lark", "definition": "start: x"},
                        },
                    },
                }
            ]
        },
        ToolDeclaration("patch", kind="custom", grammar=("lark", "start: x")),
        [],
    ),
    "functions of old": (
        {"functions": [{"name": "weather", "description": "d", "parameters": SCHEMA}]},
        ToolDeclaration("weather", "d", SCHEMA),
        [],
    ),
    "web search": (
        {
            "web_search_options": {
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"city": "Rome", "country": None}},
            }
        },
        HostedTool("web_search", "", {"context_size": "low", "location": {"city": "Rome"}}),
        [],
    ),
    "web search without options": ({"web_search_options": {}}, HostedTool("web_search"), []),
    "hosted by OpenRouter": (
        {
            "tools": [
                {
                    "type": "openrouter:web_search",
                    "parameters": {
                        "max_results": 3,
                        "max_uses": 2,
                        "search_context_size": "low",
                        "user_location": {"type": "approximate", "city": "Rome"},
                        "excluded_domains": ["a.test"],
                    },
                }
            ]
        },
        HostedTool(
            "web_search",
            "",
            {
                "parameters.max_results": 3,
                "max_uses": 2,
                "context_size": "low",
                "location": {"city": "Rome"},
                "blocked_domains": ["a.test"],
            },
        ),
        [],
    ),
    "hosted by somebody": ({"tools": [{"type": "browser", "name": "b"}]}, HostedTool("other", "b"), []),
}


@pytest.mark.parametrize("row", DECLARED.values(), ids=DECLARED)
def test_what_a_declaration_means(row: tuple[Wire, ToolDeclaration | HostedTool, list[str]]) -> None:
    wire, tool, lost = row
    request, losses = decode(copy.deepcopy(wire))
    assert [replace(found, extras=None) for found in request.tools] == [tool]
    assert losses == lost


@pytest.mark.parametrize("wire", [row[0] for row in DECLARED.values()], ids=DECLARED)
def test_declarations_go_back_unchanged(wire: Wire) -> None:
    body = {"model": "m", "messages": HELLO, **copy.deepcopy(wire)}
    assert CODEC.encode_request(CODEC.decode_request(copy.deepcopy(body), Losses()), Losses()) == body


def test_renamed_tools_are_written_so() -> None:
    request, _ = decode({"tools": [function(x=1)], "functions": [{"name": "old"}]})
    renamed = replace(request, tools=tuple(replace(tool, name="new") for tool in request.tools))
    body = CODEC.encode_request(renamed, Losses())
    assert body["tools"] == [function("new", x=1)]
    assert body["functions"] == [{"name": "new"}]


def test_a_flattened_custom_tool_leaves_its_old_shape() -> None:
    request, _ = decode({"tools": [{"type": "custom", "custom": {"name": "p", "format": {"type": "text"}}}]})
    flat: Any = replace(request.tools[0], kind="function", parameters=SCHEMA)
    assert CODEC.encode_request(replace(request, tools=(flat,)), Losses())["tools"] == [
        function("p", parameters=SCHEMA)
    ]


SEARCH = HostedTool(
    "web_search",
    settings={"context_size": "high", "location": {"city": "Rome"}, "max_uses": 3, "allowed_domains": []},
    where="tools[0]",
)
WRITTEN: dict[str, tuple[str, ToolDeclaration | HostedTool, Wire, list[str]]] = {
    "function": (
        "gpt-4o",
        ToolDeclaration("weather", "d", SCHEMA, True),
        {"tools": [function(description="d", parameters=SCHEMA, strict=True)]},
        [],
    ),
    "G88 function without parameters": (
        "m",
        ToolDeclaration("now"),
        {"tools": [function("now", parameters=EMPTY)]},
        [],
    ),
    "custom": (
        "gpt-5",
        ToolDeclaration("patch", "d", kind="custom", grammar=("regex", "a+")),
        {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "patch",
                        "description": "d",
                        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
                    },
                }
            ]
        },
        [],
    ),
    "what transforms left over": (
        "m",
        ToolDeclaration("a", namespace="mcp", deferred=True, where="t"),
        {"tools": [function("a", parameters=EMPTY)]},
        [
            "dropped t.namespace: Chat has no namespaces.",
            "changed t.defer_loading: Chat cannot load a tool later, so it was declared now.",
        ],
    ),
    "G95 web search": (
        "gpt-4o-search-preview",
        SEARCH,
        {
            "web_search_options": {
                "search_context_size": "high",
                "user_location": {"type": "approximate", "approximate": {"city": "Rome"}},
            }
        },
        ["dropped tools[0].max_uses: Chat's web search has no such setting."],
    ),
    "G95 web search at a search model": (
        "gpt-5-search-api",
        HostedTool("web_search"),
        {"web_search_options": {}},
        [],
    ),
    "G95 web search at a model that refuses it": (
        "gpt-5",
        SEARCH,
        {},
        ["dropped tools[0]: On Chat only the search models take web search."],
    ),
    "B3 web search at a server of which nothing is known": (
        "some-model",
        SEARCH,
        {},
        ["dropped tools[0]: On Chat only the search models take web search."],
    ),
    "G93 another hosted tool": (
        "m",
        HostedTool("code_execution", where="tools[0]"),
        {},
        ["dropped tools[0]: Chat has no hosted code_execution tool."],
    ),
}


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN)
def test_how_a_declaration_is_written(row: tuple[str, ToolDeclaration | HostedTool, Wire, list[str]]) -> None:
    model, tool, wire, lost = row
    assert encode(model, tools=(tool,)) == (wire, lost)


def naming(name: str) -> Wire:
    return {"type": "function", "function": {"name": name}}


A, B = ToolDeclaration("a", "", SCHEMA), ToolDeclaration("b", "", SCHEMA)
CHOICES: dict[str, tuple[Any, ToolChoice]] = {
    "auto": ("auto", ToolChoice("auto")),
    "none": ("none", ToolChoice("none")),
    "required": ("required", ToolChoice("required")),
    "any (Mistral)": ("any", ToolChoice("required")),
    "one function": (naming("a"), ToolChoice("required", ("a",))),
    "one function without a type": ({"function": {"name": "a"}}, ToolChoice("required", ("a",))),
    "one custom": ({"type": "custom", "custom": {"name": "a"}}, ToolChoice("required", ("a",))),
    "allowed": (
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [naming("a"), naming("b")]}},
        ToolChoice("auto", ("a", "b")),
    ),
    "allowed, one must be called": (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [naming("a")]}},
        ToolChoice("required", ("a",)),
    ),
}


@pytest.mark.parametrize("row", CHOICES.values(), ids=CHOICES)
def test_a_choice_is_read_and_goes_back_unchanged(row: tuple[Any, ToolChoice]) -> None:
    wire, choice = row
    body = {"model": "m", "messages": HELLO, "tools": [function("a"), function("b")], "tool_choice": wire}
    request = CODEC.decode_request(copy.deepcopy(body), Losses())
    assert request.tool_choice is not None
    assert replace(request.tool_choice, extras=None) == choice
    assert CODEC.encode_request(request, Losses()) == body


@pytest.mark.parametrize("wire", ["auto", "none", {"name": "a"}])
def test_a_choice_of_old_goes_back_unchanged(wire: Any) -> None:
    body = {"model": "m", "messages": HELLO, "functions": [{"name": "a"}], "function_call": wire}
    request = CODEC.decode_request(copy.deepcopy(body), Losses())
    assert request.tool_choice is not None
    assert request.tool_choice.names == (("a",) if isinstance(wire, dict) else ())
    assert CODEC.encode_request(request, Losses()) == body


CHOSEN: dict[str, tuple[str, ToolChoice, Any, list[str], list[str]]] = {
    "auto": ("gpt-4o", ToolChoice("auto"), "auto", ["a", "b"], []),
    "G62 none keeps the tools": ("gpt-4o", ToolChoice("none"), "none", ["a", "b"], []),
    "required": ("gpt-4o", ToolChoice("required"), "required", ["a", "b"], []),
    "required at Mistral": ("mistral-small", ToolChoice("required"), "any", ["a", "b"], []),
    "one": ("m", ToolChoice("required", ("a",)), naming("a"), ["a", "b"], []),
    "a subset at OpenAI": (
        "gpt-4o",
        ToolChoice("auto", ("a",)),
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [naming("a")]}},
        ["a", "b"],
        [],
    ),
    "a subset elsewhere": (
        "llama",
        ToolChoice("auto", ("a",)),
        "auto",
        ["a"],
        ["changed tool_choice: This upstream cannot limit the choice. Only the allowed tools were sent."],
    ),
}


@pytest.mark.parametrize("row", CHOSEN.values(), ids=CHOSEN)
def test_how_a_choice_is_written(row: tuple[str, ToolChoice, Any, list[str], list[str]]) -> None:
    model, choice, wire, names, lost = row
    body, losses = encode(model, tools=(A, B), tool_choice=choice)
    assert body["tool_choice"] == wire
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert losses == lost


def test_a_custom_tool_is_named_as_one() -> None:
    patch = ToolDeclaration("patch", kind="custom")
    body, _ = encode(tools=(patch,), tool_choice=ToolChoice("required", ("patch",)))
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}


@pytest.mark.parametrize("parallel", [True, False])
def test_parallel_both_ways(parallel: bool) -> None:
    request, _ = decode({"tools": [function("a")], "parallel_tool_calls": parallel})
    assert request.parallel is parallel
    assert encode(tools=(A,), parallel=parallel)[0]["parallel_tool_calls"] is parallel


def test_g63_parallel_null_is_no_choice() -> None:
    request, _ = decode({"tools": [function("a")], "parallel_tool_calls": None})
    assert request.parallel is None


def test_g61_neither_choice_nor_parallel_without_tools() -> None:
    body, losses = encode(tool_choice=ToolChoice("required"), parallel=False)
    assert body == {}
    assert losses == ["dropped tool_choice: There are no tools to choose from."]
    assert encode(tool_choice=ToolChoice("auto"), parallel=True) == ({}, [])


def test_g61_a_native_choice_goes_with_the_tools_that_a_dialect_took_away() -> None:
    request, _ = decode({"tools": [function("a")], "tool_choice": "auto", "parallel_tool_calls": True})
    body = CODEC.encode_request(replace(request, tools=()), Losses())
    assert body == {"model": "m", "messages": HELLO}
