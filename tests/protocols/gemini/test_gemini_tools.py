"""Gemini's tools, tool choice and schemas, both ways."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Message, Request, Text, ToolChoice, ToolDeclaration, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.gemini import CODEC
from dragoman.protocols.gemini.tools import decode_schema

HELLO = {"role": "user", "parts": [{"text": "hello"}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
F = {"name": "f", "description": "does f", "parametersJsonSchema": SCHEMA}


def decode(**body: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request({"contents": [HELLO], **body}, losses), [str(loss) for loss in losses]


def encode(
    *tools: ToolDeclaration | HostedTool, model: str = "gemini-3-pro", **more: Any
) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, (Message("user", (Text("hello"),)),), tools=tools, **more)
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


SAME = {
    "one function": [{"functionDeclarations": [F]}],
    "functions in one entry": [{"functionDeclarations": [F, {"name": "g"}]}],
    "an entry for each function": [{"functionDeclarations": [F]}, {"functionDeclarations": [{"name": "g"}]}],
    "functions and a hosted tool in one entry": [{"functionDeclarations": [F], "googleSearch": {}}],
    "several hosted tools": [
        {"googleSearch": {}},
        {"urlContext": {}},
        {"codeExecution": {}},
        {"googleMaps": {}},
    ],
    "hosted tools with settings": [
        {"googleSearch": {"timeRangeFilter": {"startTime": "x"}}},
        {"fileSearch": {"fileSearchStoreNames": ["a"]}},
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
        {"googleSearchRetrieval": {"dynamicRetrievalConfig": {}}},
    ],
    "MCP servers": [{"mcpServers": [{"name": "a", "streamableHttpTransport": {"url": "u"}}, {"name": "b"}]}],
    "unknown tools": [{"newTool": {"a": 1}}, {"functionDeclarations": [F], "newTool": {}}],
    "an empty entry": [{}, {"functionDeclarations": []}, {"functionDeclarations": [F]}],
    "no tools": [],
    "OpenAPI schema": [
        {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "nullable": True}}]}
    ],
    "upper-case JSON Schema": [
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "OBJECT"}}]}
    ],
    "empty schemas": [
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {}}, {"name": "g", "parameters": {}}]}
    ],
    "empty description": [{"functionDeclarations": [{"name": "f", "description": ""}]}],
    "everything about a function": [
        {
            "functionDeclarations": [
                {**F, "behavior": "NON_BLOCKING", "response": {"type": "STRING"}, "new": 1}
            ]
        }
    ],
}


@pytest.mark.parametrize("tools", SAME.values(), ids=SAME)
def test_tools_return_unchanged(tools: list[Wire]):
    before = copy.deepcopy(tools)
    body = CODEC.encode_request(decode(tools=tools)[0], Losses())
    assert body["tools"] == before
    assert tools == before


def test_functions_become_tools():
    request, losses = decode(
        tools=[{"functionDeclarations": [F, {"name": "g"}]}, {"functionDeclarations": [{"name": "h"}]}]
    )
    assert [replace(tool, extras=None) for tool in request.tools] == [
        ToolDeclaration("f", "does f", SCHEMA),
        ToolDeclaration("g"),
        ToolDeclaration("h"),
    ]
    assert [tool.where for tool in request.tools] == [
        "tools[0].functionDeclarations[0]",
        "tools[0].functionDeclarations[1]",
        "tools[1].functionDeclarations[0]",
    ]
    assert losses == []


SCHEMAS = {
    "types": (
        {
            "type": "OBJECT",
            "properties": {"a": {"type": "STRING"}, "b": {"type": "ARRAY", "items": {"type": "NUMBER"}}},
        },
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "number"}}},
        },
    ),
    "a property is not a keyword": (
        {"type": "OBJECT", "properties": {"type": {"type": "STRING"}, "any_of": {"type": "BOOLEAN"}}},
        {"type": "object", "properties": {"type": {"type": "string"}, "any_of": {"type": "boolean"}}},
    ),
    "nullable": ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
    "not nullable": ({"type": "STRING", "nullable": False}, {"type": "string"}),
    "nullable enum": (
        {"type": "STRING", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "nullable choice": (
        {"anyOf": [{"type": "STRING"}], "nullable": True},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    "G78 numbers in an enum are strings": (
        {"type": "INTEGER", "enum": ["1", "-2"]},
        {"type": "integer", "enum": [1, -2]},
    ),
    "snake_case": (
        {"any_of": [{"type": "STRING", "min_length": "1"}], "property_ordering": ["a"]},
        {"anyOf": [{"type": "string", "minLength": 1}]},
    ),
    "64-bit numbers are strings": (
        {"type": "ARRAY", "minItems": "1", "maxItems": 2},
        {"type": "array", "minItems": 1, "maxItems": 2},
    ),
    "no type": ({"type": "TYPE_UNSPECIFIED", "description": "x"}, {"description": "x"}),
    "example": ({"type": "STRING", "example": "a"}, {"type": "string", "examples": ["a"]}),
    "references": (
        {"ref": "#/$defs/a", "defs": {"a": {"type": "STRING"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
    ),
    "additional properties": (
        {"type": "OBJECT", "additionalProperties": {"type": "STRING"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
    "closed": (
        {"type": "OBJECT", "additional_properties": False},
        {"type": "object", "additionalProperties": False},
    ),
    "lower case already": (SCHEMA, SCHEMA),
    "the rest": (
        {"type": "STRING", "format": "date", "title": "t", "default": "x", "pattern": "y", "maximum": 3},
        {"type": "string", "format": "date", "title": "t", "default": "x", "pattern": "y", "maximum": 3},
    ),
}


@pytest.mark.parametrize("schema, json_schema", SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_become_json_schema(schema: Wire, json_schema: Wire):
    request, _ = decode(tools=[{"functionDeclarations": [{"name": "f", "parameters": schema}]}])
    (tool,) = request.tools
    assert isinstance(tool, ToolDeclaration)
    assert tool.parameters == json_schema


def test_upper_case_types_in_a_json_schema_field():
    """Gemini CLI writes them so."""
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    request, _ = decode(tools=[{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}])
    (tool,) = request.tools
    assert isinstance(tool, ToolDeclaration)
    assert tool.parameters == {"type": "object", "properties": {"a": {"type": "string"}}}


HOSTED = {
    "search": ({"googleSearch": {}}, HostedTool("web_search"), []),
    "search without some places": (
        {"googleSearch": {"excludeDomains": ["a.test"]}},
        HostedTool("web_search", settings={"blocked_domains": ["a.test"]}),
        [],
    ),
    "search at some time": (
        {"googleSearch": {"timeRangeFilter": {}}},
        HostedTool("web_search"),
        ["dropped tools[0].googleSearch.timeRangeFilter: Only gemini has this field."],
    ),
    "older search": ({"googleSearchRetrieval": {}}, HostedTool("web_search"), []),
    "fetch": ({"urlContext": {}}, HostedTool("web_fetch"), []),
    "code": ({"codeExecution": {}}, HostedTool("code_execution"), []),
    "maps": ({"googleMaps": {}}, HostedTool("maps"), []),
    "computer": (
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
        HostedTool("computer"),
        ["dropped tools[0].computerUse.environment: Only gemini has this field."],
    ),
    "files": ({"fileSearch": {}}, HostedTool("file_search"), []),
    "MCP": (
        {
            "mcpServers": [
                {"name": "a", "streamableHttpTransport": {"url": "https://x.test", "headers": {"k": "v"}}}
            ]
        },
        HostedTool("mcp", "a", {"label": "a", "url": "https://x.test", "headers": {"k": "v"}}),
        [],
    ),
    "MCP with more settings": (
        {"mcpServers": [{"name": "a", "streamableHttpTransport": {"url": "u", "timeout": "3s"}, "x": 1}]},
        HostedTool("mcp", "a", {"label": "a", "url": "u"}),
        [
            "dropped tools[0].mcpServers[0].streamableHttpTransport.timeout: Only gemini has this field.",
            "dropped tools[0].mcpServers[0].x: Only gemini has this field.",
        ],
    ),
    "unknown": (
        {"newTool": {}},
        HostedTool("other"),
        ["dropped tools[0].newTool: Only gemini has this field."],
    ),
}


@pytest.mark.parametrize("entry, tool, losses", HOSTED.values(), ids=HOSTED)
def test_hosted_tools(entry: Wire, tool: HostedTool, losses: list[str]):
    request, lost = decode(tools=[entry])
    assert [replace(t, extras=None) for t in request.tools] == [tool]
    assert lost == losses


ENCODED = {
    "function": ([ToolDeclaration("f", "does f", SCHEMA)], [{"functionDeclarations": [F]}], []),
    "functions share an entry, hosted tools have their own": (
        [ToolDeclaration("f"), HostedTool("web_search"), ToolDeclaration("g"), HostedTool("code_execution")],
        [
            {"functionDeclarations": [{"name": "f"}, {"name": "g"}]},
            {"googleSearch": {}},
            {"codeExecution": {}},
        ],
        [],
    ),
    "G88 no parameters": (
        [ToolDeclaration("f", parameters=None), ToolDeclaration("g", parameters={})],
        [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}],
        [],
    ),
    "fetch": ([HostedTool("web_fetch")], [{"urlContext": {}}], []),
    "maps": ([HostedTool("maps")], [{"googleMaps": {}}], []),
    "computer": (
        [HostedTool("computer", where="tools[0]")],
        [{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}],
        ["changed tools[0]: Gemini's computer tool has actions of its own."],
    ),
    "search with settings": (
        [
            HostedTool(
                "web_search",
                settings={"max_uses": 3, "blocked_domains": [], "location": {"city": "x"}},
                where="tools[0]",
            )
        ],
        [{"googleSearch": {}}],
        [
            "dropped tools[0].max_uses: Gemini's web_search has no such setting.",
            "dropped tools[0].user_location: Gemini's web_search has no such setting.",
        ],
    ),
    "MCP": (
        [
            HostedTool(
                "mcp", settings={"label": "a", "url": "u", "headers": {}, "allowed": ["x"]}, where="tools[0]"
            )
        ],
        [{"mcpServers": [{"name": "a", "streamableHttpTransport": {"url": "u"}}]}],
        ["dropped tools[0].allowed: Gemini's mcp has no such setting."],
    ),
    "MCP without a URL": (
        [HostedTool("mcp", settings={"label": "a"}, where="tools[0]")],
        None,
        ["dropped tools[0]: Gemini needs the URL of an MCP server."],
    ),
    "G93 what Gemini has not": (
        [HostedTool("image_generation", where="tools[0]"), HostedTool("file_search", where="tools[1]")],
        None,
        [
            "dropped tools[0]: Gemini has no hosted image_generation tool that takes its place.",
            "dropped tools[1]: Gemini has no hosted file_search tool that takes its place.",
        ],
    ),
}


@pytest.mark.parametrize("tools, wire, losses", ENCODED.values(), ids=ENCODED)
def test_tools_of_others(tools: list[Any], wire: list[Wire] | None, losses: list[str]):
    body, lost = encode(*tools)
    assert body.get("tools") == wire
    assert lost == losses


def test_functions_beside_hosted_tools():
    """G89."""
    tools = (ToolDeclaration("f"), HostedTool("web_search", where="tools[1]"))
    body, losses = encode(*tools, model="gemini-3-flash")
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert losses == []
    body, losses = encode(*tools, model="gemini-2.5-flash")
    assert body["tools"] == [{"functionDeclarations": [{"name": "f"}]}]
    assert "toolConfig" not in body
    assert losses == ["dropped tools[1]: The model takes no hosted tools beside functions."]
    body, _ = encode(HostedTool("web_search"), model="gemini-2.5-flash")
    assert body["tools"] == [{"googleSearch": {}}]


# Tool choice

VALIDATED = (
    "changed toolConfig.functionCallingConfig.mode: "
    "Other protocols have no VALIDATED. AUTO was sent, so calls need not conform to their schemas."
)
CHOICES = {
    "auto": ({"mode": "AUTO"}, ToolChoice("auto"), []),
    "none": ({"mode": "NONE"}, ToolChoice("none"), []),
    "any": ({"mode": "ANY"}, ToolChoice("required"), []),
    "lower case": ({"mode": "any"}, ToolChoice("required"), []),
    "nothing given": ({}, ToolChoice("auto"), []),
    "unspecified": ({"mode": "MODE_UNSPECIFIED"}, ToolChoice("auto"), []),
    "one": ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice("required", ("f",)), []),
    "some": ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, ToolChoice("required", ("f", "g")), []),
    "checked": (
        {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
        ToolChoice("auto", ("f",)),
        [VALIDATED],
    ),
    "in pieces": (
        {"mode": "AUTO", "streamFunctionCallArguments": True},
        ToolChoice("auto"),
        ["dropped toolConfig.functionCallingConfig.streamFunctionCallArguments: Only gemini has this field."],
    ),
}


@pytest.mark.parametrize("config, choice, losses", CHOICES.values(), ids=CHOICES)
def test_choice(config: Wire, choice: ToolChoice, losses: list[str]):
    tools = [{"functionDeclarations": [F, {"name": "g"}]}]
    request, lost = decode(tools=tools, toolConfig={"functionCallingConfig": config, "retrievalConfig": {}})
    assert request.tool_choice is not None
    assert replace(request.tool_choice, extras=None) == choice
    assert lost == ["dropped toolConfig.retrievalConfig: Only gemini has this field.", *losses]
    body = CODEC.encode_request(request, Losses())
    assert body["toolConfig"] == {"functionCallingConfig": config, "retrievalConfig": {}}


SAME_CONFIG = {
    "empty": {},
    "without a choice": {"includeServerSideToolInvocations": True},
    "null choice": {"functionCallingConfig": None},
}


@pytest.mark.parametrize("config", SAME_CONFIG.values(), ids=SAME_CONFIG)
def test_config_without_a_choice(config: Wire):
    request, losses = decode(toolConfig=copy.deepcopy(config))
    assert request.tool_choice is None
    assert losses == []
    assert CODEC.encode_request(request, Losses())["toolConfig"] == config


ENCODED_CHOICES = {
    "auto": (ToolChoice("auto"), {"mode": "AUTO"}),
    "G62 none keeps the tools": (ToolChoice("none"), {"mode": "NONE"}),
    "required": (ToolChoice("required"), {"mode": "ANY"}),
    "one": (ToolChoice("required", ("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    "some": (ToolChoice("required", ("f", "g")), {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}),
    "some or none": (ToolChoice("auto", ("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
}


@pytest.mark.parametrize("choice, config", ENCODED_CHOICES.values(), ids=ENCODED_CHOICES)
def test_choices_of_others(choice: ToolChoice, config: Wire):
    body, losses = encode(ToolDeclaration("f"), ToolDeclaration("g"), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert body["tools"] == [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]
    assert losses == []


def test_choice_without_tools():
    """G61."""
    assert encode(tool_choice=ToolChoice("auto"), parallel=False) == ({"contents": [HELLO]}, [])
    body, losses = encode(tool_choice=ToolChoice("required"))
    assert "toolConfig" not in body
    assert losses == ["dropped tool_choice: There are no functions to choose from."]


def test_parallel():
    """G63: nothing said is not false."""
    assert (
        encode(ToolDeclaration("f"), parallel=None)[1] == encode(ToolDeclaration("f"), parallel=True)[1] == []
    )
    assert encode(ToolDeclaration("f"), parallel=False)[1] == [
        "dropped parallel: Gemini cannot be kept from calling several tools at once."
    ]


MALFORMED = {
    "tools": ({"tools": 1}, "tools", "expected an array, got the number 1"),
    "entry": ({"tools": [1]}, "tools[0]", "expected an object, got the number 1"),
    "declarations": (
        {"tools": [{"functionDeclarations": {"a": 1}}]},
        "tools[0].functionDeclarations",
        "expected an array, got an object",
    ),
    "declaration": (
        {"tools": [{"functionDeclarations": [1]}]},
        "tools[0].functionDeclarations[0]",
        "expected an object, got the number 1",
    ),
    "name": (
        {"tools": [{"functionDeclarations": [{}]}]},
        "tools[0].functionDeclarations[0].name",
        "expected a string, got nothing",
    ),
    "description": (
        {"tools": [{"function_declarations": [{"name": "f", "description": 1}]}]},
        "tools[0].functionDeclarations[0].description",
        "expected a string, got the number 1",
    ),
    "schema": (
        {"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": "x"}]}]},
        "tools[0].functionDeclarations[0].parametersJsonSchema",
        "expected an object, got the string 'x'",
    ),
    "schema of a property": (
        {"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"properties": {"a": 1}}}]}]},
        "tools[0].functionDeclarations[0].parameters.properties.a",
        "expected an object, got the number 1",
    ),
    "hosted": (
        {"tools": [{"googleSearch": 1}]},
        "tools[0].googleSearch",
        "expected an object, got the number 1",
    ),
    "server": (
        {"tools": [{"mcpServers": [1]}]},
        "tools[0].mcpServers[0]",
        "expected an object, got the number 1",
    ),
    "config": ({"toolConfig": 1}, "toolConfig", "expected an object, got the number 1"),
    "choice": (
        {"toolConfig": {"functionCallingConfig": 1}},
        "toolConfig.functionCallingConfig",
        "expected an object, got the number 1",
    ),
    "mode": (
        {"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}},
        "toolConfig.functionCallingConfig.mode",
        "expected AUTO, ANY, NONE or VALIDATED, got 'SOME'",
    ),
    "names": (
        {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": "f"}}},
        "toolConfig.functionCallingConfig.allowedFunctionNames",
        "expected an array, got the string 'f'",
    ),
}


@pytest.mark.parametrize("body, path, problem", MALFORMED.values(), ids=MALFORMED)
def test_malformed(body: Wire, path: str, problem: str):
    with pytest.raises(WireError) as error:
        decode(**body)
    assert (error.value.protocol, error.value.path, error.value.problem) == ("gemini", path, problem)


# name: (tool choice, functionCallingConfig)
STRICT: dict[str, tuple[ToolChoice | None, Wire]] = {
    "no choice": (None, {"mode": "VALIDATED"}),
    "auto": (ToolChoice("auto"), {"mode": "VALIDATED"}),
    "required": (ToolChoice("required"), {"mode": "ANY"}),
    "none": (ToolChoice("none"), {"mode": "NONE"}),
}


@pytest.mark.parametrize("choice, config", STRICT.values(), ids=STRICT)
def test_strict_tools_are_validated(choice: ToolChoice | None, config: Wire):
    """VALIDATED and ANY constrain calls to their schemas, so nothing is lost."""
    message = Message("user", (Text("x"),))
    request = Request("m", (message,), tools=(ToolDeclaration("f", strict=True),), tool_choice=choice)
    losses = Losses()
    body = CODEC.encode_request(request, losses)
    assert body["toolConfig"]["functionCallingConfig"] == config
    assert not list(losses)


def test_the_order_of_properties_is_that_of_the_target() -> None:
    """Models write the properties of a schema in its order."""
    inner = {"type": "OBJECT", "properties": {"x": {}, "y": {}}, "propertyOrdering": ["y", "x", "z", 1]}
    given = {"type": "OBJECT", "properties": {"a": {}, "b": {}, "c": inner}, "property_ordering": ["c", "a"]}
    schema = decode_schema(given, "s")
    assert list(schema["properties"]) == ["c", "a", "b"]
    assert list(schema["properties"]["c"]["properties"]) == ["y", "x"]
    assert schema.keys() == {"type", "properties"}
