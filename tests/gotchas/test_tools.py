"""G77-G96: schemas, declarations, names, and tools that are no functions."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from gotchas.exchanges import (
    ANTHROPIC,
    CHAT,
    CITY,
    GEMINI,
    RESPONSES,
    others,
    request_body,
    sent,
    through,
    tools,
    translated,
)
from seeds.wires import (
    PAIRS,
    Call,
    Wire,
    dumps,
    frames,
    gathered,
    read_calls,
    rows,
    streamed_reply,
    whole_reply,
)

every_pair = rows("client, upstream", PAIRS)


def declared(protocol: str, body: Wire) -> list[Wire]:
    """The functions that a request declares."""
    found = body.get("tools", [])
    match protocol:
        case "openai-chat":
            return [tool["function"] for tool in found if tool["type"] == "function"]
        case "gemini":
            return [f for entry in found for f in entry.get("functionDeclarations", ())]
        case _:
            return [tool for tool in found if tool.get("type", "function") == "function"]


def schema_of(protocol: str, body: Wire) -> Wire:
    (tool,) = declared(protocol, body)
    return tool[{ANTHROPIC: "input_schema", GEMINI: "parametersJsonSchema"}.get(protocol, "parameters")]


def keywords(schema: Any) -> set[str]:
    """Every keyword that a schema uses."""
    if isinstance(schema, list):
        return {word for item in schema for word in keywords(item)}
    if not isinstance(schema, dict):
        return set()
    inner = {word for key, value in schema.items() if key != "properties" for word in keywords(value)}
    properties = schema.get("properties", {})
    return {*schema} | inner | {word for value in properties.values() for word in keywords(value)}


WIDE: Wire = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$comment": "c",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "count": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5, "default": 5},
        "mode": {"const": "fast"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "env": {"type": "object", "patternProperties": {"^A": {"type": "string"}}},
        "x": {"type": "string", "x-secret": True, "examples": ["a"], "enumDescriptions": ["b"]},
    },
    "required": ["count"],
}
REFUSED = {
    "$schema",
    "$comment",
    "exclusiveMinimum",
    "const",
    "patternProperties",
    "uniqueItems",
    "multipleOf",
    "x-secret",
    "enumDescriptions",
}


@pytest.mark.parametrize("client", others(GEMINI))
def test_G77_gemini_gets_keywords_that_it_knows_and_the_rest_in_words(client: str) -> None:
    out, losses = translated(client, GEMINI, request_body(client, tools=tools(client, "f", WIDE)))
    schema = schema_of(GEMINI, out)
    assert not keywords(schema) & REFUSED
    assert schema["properties"]["mode"]["enum"] == ["fast"]
    assert schema["properties"]["count"]["minimum"] == 1
    assert "5" in schema["properties"]["count"]["description"]
    assert schema["required"] == ["count"]
    assert losses


def called(client: str, upstream: str, schema: Wire, arguments: Any) -> Any:
    """The call that the client gets where the model called f with `arguments`."""
    exchange = dragoman.Exchange(client, upstream)
    exchange.request(request_body(client, tools=tools(client, "f", schema)), model="m")
    (call,) = read_calls(client, exchange.response(whole_reply(upstream, "", [Call("c0", "f", arguments)])))
    return call.arguments


def test_G78_a_mixed_enum_is_text_for_gemini_and_comes_back_as_declared() -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2, "auto"]}}}
    out = sent(ANTHROPIC, GEMINI, request_body(ANTHROPIC, tools=tools(ANTHROPIC, "f", schema)))
    assert schema_of(GEMINI, out)["properties"]["n"] == {"type": "string", "enum": ["1", "2", "auto"]}
    assert called(ANTHROPIC, GEMINI, schema, {"n": "2"}) == {"n": 2}
    assert called(ANTHROPIC, GEMINI, schema, {"n": "auto"}) == {"n": "auto"}


def test_G78_a_number_of_an_enum_comes_back_as_a_number() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}}
    assert called(ANTHROPIC, GEMINI, schema, {"n": "2"}) == {"n": 2}
    assert called(ANTHROPIC, GEMINI, schema, {"n": 2.0}) == {"n": 2}


TREE: Wire = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node", "description": "where it begins"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}


@pytest.mark.parametrize("client", others(GEMINI))
def test_G79_references_and_recursion(client: str) -> None:
    out = sent(client, GEMINI, request_body(client, tools=tools(client, "f", TREE)))
    schema = schema_of(GEMINI, out)
    assert "where it begins" in dumps(schema)
    assert schema["properties"]["root"].get("type") == "object" or "$ref" in schema["properties"]["root"]
    if "$ref" in dumps(schema):
        assert "$defs" in schema


UNION: Wire = {
    "type": "object",
    "properties": {
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "both": {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]},
    },
}


@rows("client, upstream", [pair for pair in PAIRS if pair[0] != GEMINI])
def test_G80_unions_survive_or_are_reported(client: str, upstream: str) -> None:
    out = sent(client, upstream, request_body(client, tools=tools(client, "f", UNION)))
    properties = schema_of(upstream, out)["properties"]
    assert set(properties) == {"maybe", "either", "both"}
    assert "a" in dumps(properties["both"])
    assert "null" in dumps(properties["maybe"])


@pytest.mark.parametrize("client", others(GEMINI))
def test_G80_if_and_then_are_described_in_words(client: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "if": {"properties": {"a": {"const": "x"}}},
        "then": {"required": ["b"]},
    }
    out, losses = translated(client, GEMINI, request_body(client, tools=tools(client, "f", schema)))
    assert not keywords(schema_of(GEMINI, out)) & {"if", "then"}
    assert losses


SLOPPY: Wire = {
    "type": "object",
    "properties": {"list": {"type": "array"}, "map": {"type": "object"}},
    "required": ["list", "gone"],
}


@every_pair
def test_G81_what_validators_refuse_is_mended(client: str, upstream: str) -> None:
    out = sent(client, upstream, request_body(client, tools=tools(client, "f", SLOPPY)))
    schema = schema_of(upstream, out)
    assert schema["required"] == (["list", "gone"] if upstream == ANTHROPIC else ["list"])
    if upstream != ANTHROPIC:
        assert "items" in schema["properties"]["list"]


OPTIONAL: Wire = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_G82_optional_fields_stay_optional(upstream: str) -> None:
    out = sent(ANTHROPIC, upstream, request_body(ANTHROPIC, tools=tools(ANTHROPIC, "f", OPTIONAL)))
    (tool,) = declared(upstream, out)
    assert tool["parameters"]["required"] == ["path"]
    assert not tool.get("strict")


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_G82_strict_asks_for_all_and_the_nulls_are_dropped_on_return(upstream: str) -> None:
    body = request_body(ANTHROPIC, tools=tools(ANTHROPIC, "f", OPTIONAL, strict=True))
    exchange = dragoman.Exchange(ANTHROPIC, upstream)
    out = exchange.request(body, model="gpt-5")
    (tool,) = declared(upstream, out)
    assert tool["strict"] is True
    assert set(tool["parameters"]["required"]) == {"path", "limit"}
    assert tool["parameters"]["additionalProperties"] is False
    assert "null" in dumps(tool["parameters"]["properties"]["limit"])
    reply = whole_reply(upstream, "", [Call("c0", "f", {"path": "a", "limit": None})])
    (call,) = read_calls(ANTHROPIC, exchange.response(reply))
    assert call.arguments == {"path": "a"}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES, ANTHROPIC])
def test_G83_each_target_gets_only_what_it_needs(upstream: str) -> None:
    """What Gemini cannot take, others can: there the schema stays as it was declared."""
    for client in (CHAT, RESPONSES, ANTHROPIC):
        if client == upstream:
            continue
        out = sent(client, upstream, request_body(client, tools=tools(client, "f", WIDE)))
        properties = schema_of(upstream, out)["properties"]
        assert properties["mode"] == {"const": "fast"}
        assert properties["count"] == WIDE["properties"]["count"]
        assert "nullable" not in dumps(properties)


EXTRAS: Wire = {
    "cache_control": {"type": "ephemeral"},
    "eager_input_streaming": True,
    "input_examples": [{"city": "Paris"}],
    "allowed_callers": ["direct"],
}


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G84_extras_of_a_tool_stay_at_home_and_are_reported(upstream: str) -> None:
    out, losses = translated(ANTHROPIC, upstream, request_body(ANTHROPIC, tools=tools(ANTHROPIC, **EXTRAS)))
    printed = dumps(out)
    for name in ("cache_control", "eager_input_streaming", "input_examples", "allowed_callers"):
        assert name not in printed
        assert any(name in loss for loss in losses), name


LONG = "mcp__" + "a_very_long_server_name_" * 5 + "tool"


def choice(protocol: str, name: str) -> Wire:
    match protocol:
        case "openai-chat":
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        case "openai-responses":
            return {"tool_choice": {"type": "function", "name": name}}
        case "anthropic":
            return {"tool_choice": {"type": "tool", "name": name}}
        case _:
            return {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}}


@every_pair
@pytest.mark.parametrize("name", [LONG, "my tool/read.file", "1st"], ids=["long", "odd", "a digit first"])
def test_G85_one_legal_name_everywhere(client: str, upstream: str, name: str) -> None:
    """In the declaration, in the choice and in the history; the call comes back under the client's name."""
    exchange = dragoman.Exchange(client, upstream)
    body = request_body(client, tools=tools(client, name), **choice(client, name))
    out = exchange.request(body, model="m")
    (tool,) = declared(upstream, out)
    legal = tool["name"]
    assert len(legal) <= (128 if upstream == ANTHROPIC else 64)
    assert {key: out[key] for key in choice(upstream, legal)} == choice(upstream, legal)
    reply = whole_reply(upstream, "", [Call("c0", legal, {"city": "Paris"})])
    (call,) = read_calls(client, exchange.response(reply))
    assert call.name == name
    stream = streamed_reply(upstream, "", [Call("c0", legal, {"city": "Paris"})])
    (call,) = read_calls(client, gathered(client, through(exchange, stream)))
    assert call.name == name


WRONG = {
    "default_api:get_weather": "get_weather",
    "functions.Get_Weather": "get_weather",
    "GET_WEATHER": "get_weather",
}


@every_pair
@pytest.mark.parametrize("wrong", WRONG)
def test_G86_a_name_that_the_model_misspells(client: str, upstream: str, wrong: str) -> None:
    exchange = dragoman.Exchange(client, upstream)
    exchange.request(request_body(client, tools=tools(client)), model="m")
    (call,) = read_calls(client, exchange.response(whole_reply(upstream, "", [Call("c0", wrong, {})])))
    assert call.name == "get_weather"
    assert any(wrong in loss.why for loss in exchange.losses)


@every_pair
def test_G87_a_tool_that_is_declared_twice(client: str, upstream: str) -> None:
    body = request_body(client, tools=[*tools(client), *tools(client)])
    out, losses = translated(client, upstream, body)
    assert len(declared(upstream, out)) == 1
    assert any("second tool" in loss for loss in losses)


@every_pair
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}], ids=["null", "empty", "bare"])
def test_G88_a_tool_without_parameters(client: str, upstream: str, schema: Any) -> None:
    out = sent(client, upstream, request_body(client, tools=tools(client, "f", schema)))
    assert schema_of(upstream, out) == {"type": "object", "properties": {}}


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def test_G89_search_beside_functions() -> None:
    body = request_body(ANTHROPIC, tools=[SEARCH, *tools(ANTHROPIC)])
    old, losses = translated(ANTHROPIC, GEMINI, body, "gemini-2.5-flash")
    assert "googleSearch" not in dumps(old)
    assert len(declared(GEMINI, old)) == 1
    assert any("tools[0]" in loss for loss in losses)
    new = sent(ANTHROPIC, GEMINI, body, "gemini-3-pro")
    assert {"googleSearch": {}} in new["tools"]
    assert new["toolConfig"]["includeServerSideToolInvocations"] is True


# Codex

PATCH: Wire = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin"},
}
TEXT = "*** Begin Patch\n*** End Patch\n"
NO_CUSTOM = [ANTHROPIC, GEMINI, CHAT]


@pytest.mark.parametrize("upstream", NO_CUSTOM)
def test_G90_a_freeform_tool_is_a_function_with_one_string(upstream: str) -> None:
    out, losses = translated(RESPONSES, upstream, request_body(RESPONSES, tools=[PATCH]))
    (tool,) = declared(upstream, out)
    assert "start: begin" in tool["description"]
    assert set(schema_of(upstream, out)["properties"]) == {"input"}
    assert any("freeform" in loss for loss in losses)


DRESSED = {"as declared": {"input": TEXT}, "patch": {"patch": TEXT}, "command": {"command": TEXT}}


@pytest.mark.parametrize("upstream", NO_CUSTOM)
@pytest.mark.parametrize("arguments", DRESSED.values(), ids=DRESSED)
def test_G90_its_call_is_freeform_again(upstream: str, arguments: Wire) -> None:
    exchange = dragoman.Exchange(RESPONSES, upstream)
    exchange.request(request_body(RESPONSES, tools=[PATCH]), model="m")
    call = Call("c0", "apply_patch", arguments)
    (item,) = exchange.response(whole_reply(upstream, "", [call]))["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", TEXT)
    assert item["id"].startswith("ctc_")
    events = frames(through(exchange, streamed_reply(upstream, "", [call])))
    kinds = [event["type"] for event in events]
    assert "response.custom_tool_call_input.delta" in kinds
    assert "response.function_call_arguments.delta" not in kinds
    (done,) = [event for event in events if event["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == TEXT
    assert events[-1]["response"]["output"][0]["input"] == TEXT


@pytest.mark.parametrize("upstream", NO_CUSTOM)
def test_G90_its_history_goes_both_ways(upstream: str) -> None:
    turns = [
        {"role": "user", "content": "Go"},
        {"type": "custom_tool_call", "call_id": "c0", "name": "apply_patch", "input": TEXT},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "Done!"},
    ]
    printed = dumps(sent(RESPONSES, upstream, request_body(RESPONSES, *turns, tools=[PATCH])))
    assert "Begin Patch" in printed
    assert "Done!" in printed
    assert "custom" not in printed


SPACE: Wire = {
    "type": "namespace",
    "name": "mcp__docs",
    "description": "Documentation.",
    "tools": [
        {"type": "function", "name": "search", "description": "s", "parameters": CITY, "strict": False}
    ],
}


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G91_a_namespace_is_flattened_and_restored(upstream: str) -> None:
    exchange = dragoman.Exchange(RESPONSES, upstream)
    out = exchange.request(request_body(RESPONSES, tools=[SPACE]), model="m")
    (tool,) = declared(upstream, out)
    assert tool["name"] == "mcp__docs__search"
    reply = whole_reply(upstream, "", [Call("c0", "mcp__docs__search", {"city": "Paris"})])
    (item,) = exchange.response(reply)["output"]
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "mcp__docs", "search")
    turns = [
        {"role": "user", "content": "Go"},
        {key: item[key] for key in ("type", "namespace", "name", "call_id", "arguments")},
        {"type": "function_call_output", "call_id": item["call_id"], "output": "found"},
    ]
    again = sent(RESPONSES, upstream, request_body(RESPONSES, *turns, tools=[SPACE]))
    assert dumps(again).count("mcp__docs__search") >= 2


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G92_tools_that_come_with_the_conversation(upstream: str) -> None:
    loaded = {"type": "function", "name": "late", "description": "l", "parameters": CITY, "strict": False}
    turns = [
        {"role": "user", "content": "Go"},
        {"type": "additional_tools", "role": "developer", "tools": [loaded]},
        {"role": "user", "content": "Use it"},
    ]
    out = sent(RESPONSES, upstream, request_body(RESPONSES, *turns))
    assert [tool["name"] for tool in declared(upstream, out)] == ["late"]


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G92_a_tool_search_of_the_client(upstream: str) -> None:
    found = {"type": "function", "name": "late", "description": "l", "parameters": CITY, "strict": False}
    turns = [
        {"role": "user", "content": "Go"},
        {
            "type": "tool_search_call",
            "call_id": "ts_1",
            "arguments": {"query": "late"},
            "execution": "client",
        },
        {
            "type": "tool_search_output",
            "call_id": "ts_1",
            "execution": "client",
            "tools": [found],
            "status": "completed",
        },
        {"role": "user", "content": "Use it"},
    ]
    search = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": CITY}
    out = sent(RESPONSES, upstream, request_body(RESPONSES, *turns, tools=[search]))
    assert "late" in [tool["name"] for tool in declared(upstream, out)]


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G93_a_local_shell_is_a_function_and_comes_back(upstream: str) -> None:
    exchange = dragoman.Exchange(RESPONSES, upstream)
    out = exchange.request(request_body(RESPONSES, tools=[{"type": "local_shell"}]), model="m")
    (tool,) = declared(upstream, out)
    assert tool["name"] == "local_shell"
    assert "command" in schema_of(upstream, out)["properties"]
    call = Call("c0", "local_shell", {"command": ["ls", "-F"], "working_directory": "/tmp"})
    (item,) = exchange.response(whole_reply(upstream, "", [call]))["output"]
    assert item["type"] == "local_shell_call"
    assert item["action"]["command"] == ["ls", "-F"]
    assert item["action"]["type"] == "exec"
    turns = [
        {"role": "user", "content": "Go"},
        item,
        {"type": "local_shell_call_output", "id": item["call_id"], "output": "README.md"},
    ]
    again = dumps(sent(RESPONSES, upstream, request_body(RESPONSES, *turns, tools=[{"type": "local_shell"}])))
    assert "README.md" in again
    assert "ls" in again


@pytest.mark.parametrize("upstream", others(RESPONSES))
@pytest.mark.parametrize("kind", ["file_search", "code_interpreter_of_tomorrow", "image_generation"])
def test_G93_what_the_target_does_not_host_is_reported(upstream: str, kind: str) -> None:
    out, losses = translated(
        RESPONSES, upstream, request_body(RESPONSES, tools=[{"type": kind}, *tools(RESPONSES)])
    )
    assert len(declared(upstream, out)) == 1
    assert any("tools[0]" in loss for loss in losses)


# Claude Code

DEFERRED = tools(ANTHROPIC, "late", CITY, defer_loading=True)
FINDER = {
    "name": "ToolSearch",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}},
}


@pytest.mark.parametrize("upstream", [CHAT, GEMINI])
def test_G94_deferred_tools_are_sent_when_they_are_loaded(upstream: str) -> None:
    body = request_body(ANTHROPIC, tools=[FINDER, *DEFERRED])
    out, losses = translated(ANTHROPIC, upstream, body)
    assert [tool["name"] for tool in declared(upstream, out)] == ["ToolSearch"]
    assert any("deferred" in loss for loss in losses)
    turns = [
        {"role": "user", "content": "Go"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "late"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "tool_reference", "tool_name": "late"}],
                }
            ],
        },
    ]
    loaded = sent(ANTHROPIC, upstream, request_body(ANTHROPIC, *turns, tools=[FINDER, *DEFERRED]))
    assert [tool["name"] for tool in declared(upstream, loaded)] == ["ToolSearch", "late"]
    assert "tool_reference" not in dumps(loaded)


HOSTED = {RESPONSES: {"type": "web_search"}, GEMINI: {"googleSearch": {}}}


@pytest.mark.parametrize("upstream", HOSTED)
@pytest.mark.parametrize("version", ["web_search_20250305", "web_search_20260209"])
def test_G95_a_search_is_the_search_of_the_target(upstream: str, version: str) -> None:
    out = sent(ANTHROPIC, upstream, request_body(ANTHROPIC, tools=[{"type": version, "name": "web_search"}]))
    assert out["tools"] == [HOSTED[upstream]]


def test_G95_claude_code_sees_the_search() -> None:
    grounding = {
        "webSearchQueries": ["oslo"],
        "groundingChunks": [{"web": {"uri": "https://a.test", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 5, "text": "Rain."}, "groundingChunkIndices": [0]}],
    }
    body = whole_reply(GEMINI, "Rain.")
    body["candidates"][0]["groundingMetadata"] = grounding
    exchange = dragoman.Exchange(ANTHROPIC, GEMINI)
    exchange.request(request_body(ANTHROPIC, tools=[SEARCH]), model="gemini-3-pro")
    for content in (
        exchange.response(body)["content"],
        gathered(ANTHROPIC, through(exchange, dumps(body).encode()))["content"],
    ):
        kinds = {block["type"]: block for block in content}
        assert {"server_tool_use", "web_search_tool_result", "text"} <= kinds.keys()
        (result,) = kinds["web_search_tool_result"]["content"]
        assert (result["url"], result["title"]) == ("https://a.test", "A")
        assert kinds["server_tool_use"]["id"] == kinds["web_search_tool_result"]["tool_use_id"]


@pytest.mark.parametrize(
    "domains, kept",
    [
        ({"allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}, {"allowed_domains": ["a.test"]}),
        ({"allowed_domains": ["a.test"], "blocked_domains": []}, {"allowed_domains": ["a.test"]}),
        ({"allowed_domains": []}, {}),
    ],
    ids=["both", "one empty", "empty"],
)
def test_G96_one_list_of_domains_and_none_that_is_empty(domains: Wire, kept: Wire) -> None:
    out = sent(ANTHROPIC, RESPONSES, request_body(ANTHROPIC, tools=[{**SEARCH, **domains}]))
    (tool,) = out["tools"]
    assert tool == {"type": "web_search", **({"filters": kept} if kept else {})}
