"""Wrong types at every level are a WireError that names the place, and never anything else."""

import copy
from typing import Any

import pytest

from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.anthropic import CODEC

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
GOOD: Wire = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "s"}],
    "stream": True,
    "stop_sequences": ["x"],
    "temperature": 0.5,
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "metadata": {"user_id": "u"},
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "mcp_servers": [
        {"type": "url", "name": "s", "url": "https://s", "authorization_token": "t", "tool_configuration": {}}
    ],
    "tools": [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "messages": [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "text",
                    "text": "a",
                    "citations": [{"type": "web_search_result_location", "url": "https://a"}],
                },
                {"type": "thinking", "thinking": "hm", "signature": "S"},
                {"type": "redacted_thinking", "data": "R"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "x"}],
                    "is_error": True,
                },
                {"type": "image", "source": PNG},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                    "title": "t",
                },
            ],
        },
    ],
}
A, B = "messages[0].content", "messages[1].content"
# name: (path of keys, wrong value, the path that the error names, its problem)
BROKEN: dict[str, tuple[list[Any], Any, str, str]] = {
    "model": (["model"], 5, "model", "expected a string, got the number 5"),
    "most tokens": (["max_tokens"], "9", "max_tokens", "expected a number, got the string '9'"),
    "half a token": (["max_tokens"], 9.5, "max_tokens", "expected a whole number"),
    "stream": (["stream"], "yes", "stream", "expected true or false, got the string 'yes'"),
    "stop": (["stop_sequences"], "x", "stop_sequences", "expected an array, got the string 'x'"),
    "one stop": (["stop_sequences", 0], 1, "stop_sequences[0]", "expected a string, got the number 1"),
    "temperature": (["temperature"], "hot", "temperature", "expected a number"),
    "thinking": (["thinking"], True, "thinking", "expected an object, got true"),
    "kind of thinking": (["thinking", "type"], None, "thinking.type", "expected a string, got nothing"),
    "budget": (["thinking", "budget_tokens"], "2000", "thinking.budget_tokens", "expected a number"),
    "display": (["thinking", "display"], 1, "thinking.display", "expected a string"),
    "output": (["output_config"], [], "output_config", "expected an object, got an array"),
    "effort": (["output_config", "effort"], 3, "output_config.effort", "expected a string"),
    "format": (["output_config", "format"], "json", "output_config.format", "expected an object"),
    "schema": (
        ["output_config", "format", "schema"],
        "x",
        "output_config.format.schema",
        "expected an object",
    ),
    "metadata": (["metadata"], "u", "metadata", "expected an object"),
    "user": (["metadata", "user_id"], 1, "metadata.user_id", "expected a string"),
    "choice": (["tool_choice"], "auto", "tool_choice", "expected an object, got the string 'auto'"),
    "kind of choice": (
        ["tool_choice", "type"],
        "all",
        "tool_choice.type",
        "expected auto, any, tool or none, got 'all'",
    ),
    "chosen tool": (["tool_choice", "name"], None, "tool_choice.name", "expected a string, got nothing"),
    "parallel": (
        ["tool_choice", "disable_parallel_tool_use"],
        1,
        "tool_choice.disable_parallel_tool_use",
        "expected true or false",
    ),
    "system": (["system"], 5, "system", "expected a string or an array of blocks, got the number 5"),
    "system with an image": (
        ["system", 0],
        {"type": "image", "source": PNG},
        "system",
        "expected a string or an array of text blocks",
    ),
    "tools": (["tools"], {}, "tools", "expected an array, got an object"),
    "a tool": (["tools", 0], "f", "tools[0]", "expected an object, got the string 'f'"),
    "a tool's name": (["tools", 0, "name"], None, "tools[0].name", "expected a string, got nothing"),
    "a tool's description": (["tools", 0, "description"], 1, "tools[0].description", "expected a string"),
    "a tool's schema": (["tools", 0, "input_schema"], [], "tools[0].input_schema", "expected an object"),
    "strict": (["tools", 0, "strict"], "yes", "tools[0].strict", "expected true or false"),
    "a hosted tool's type": (["tools", 1, "type"], 5, "tools[1].type", "expected a string, got the number 5"),
    "servers": (["mcp_servers"], {}, "mcp_servers", "expected an array"),
    "a server": (["mcp_servers", 0], 1, "mcp_servers[0]", "expected an object"),
    "a server's name": (
        ["mcp_servers", 0, "name"],
        None,
        "mcp_servers[0].name",
        "expected a string, got nothing",
    ),
    "a server's address": (["mcp_servers", 0, "url"], 1, "mcp_servers[0].url", "expected a string"),
    "a server's configuration": (
        ["mcp_servers", 0, "tool_configuration"],
        1,
        "mcp_servers[0].tool_configuration",
        "expected an object",
    ),
    "no messages": (["messages"], None, "messages", "expected an array, got nothing"),
    "messages": (["messages"], "hi", "messages", "expected an array, got the string 'hi'"),
    "a message": (["messages", 0], "hi", "messages[0]", "expected an object, got the string 'hi'"),
    "no role": (["messages", 0, "role"], None, "messages[0].role", "expected a string, got nothing"),
    "a role": (
        ["messages", 0, "role"],
        "tool",
        "messages[0].role",
        "expected user, assistant or system, got 'tool'",
    ),
    "a role that is a list": (["messages", 0, "role"], ["user"], "messages[0].role", "expected a string"),
    "no content": (["messages", 0, "content"], None, A, "expected a string or an array of blocks, got null"),
    "content": (
        ["messages", 0, "content"],
        {"type": "text"},
        A,
        "expected a string or an array of blocks, got an object",
    ),
    "a block": (["messages", 0, "content", 0], "hi", f"{A}[0]", "expected an object, got the string 'hi'"),
    "a block's type": (
        ["messages", 0, "content", 0, "type"],
        1,
        f"{A}[0].type",
        "expected a string, got the number 1",
    ),
    "text": (["messages", 0, "content", 0, "text"], None, f"{A}[0].text", "expected a string, got nothing"),
    "citations": (["messages", 0, "content", 0, "citations"], "x", f"{A}[0].citations", "expected an array"),
    "a citation": (
        ["messages", 0, "content", 0, "citations", 0],
        1,
        f"{A}[0].citations[0]",
        "expected an object",
    ),
    "a citation's url": (
        ["messages", 0, "content", 0, "citations", 0, "url"],
        1,
        f"{A}[0].citations[0].url",
        "expected a string",
    ),
    "thought": (["messages", 0, "content", 1, "thinking"], 1, f"{A}[1].thinking", "expected a string"),
    "signature": (["messages", 0, "content", 1, "signature"], 1, f"{A}[1].signature", "expected a string"),
    "redacted": (
        ["messages", 0, "content", 2, "data"],
        None,
        f"{A}[2].data",
        "expected a string, got nothing",
    ),
    "a call's id": (
        ["messages", 0, "content", 3, "id"],
        1,
        f"{A}[3].id",
        "expected a string, got the number 1",
    ),
    "a call's name": (
        ["messages", 0, "content", 3, "name"],
        None,
        f"{A}[3].name",
        "expected a string, got nothing",
    ),
    "a call's input": (
        ["messages", 0, "content", 3, "input"],
        {"a": object()},
        f"{A}[3].input",
        "expected JSON",
    ),
    "a result's id": (
        ["messages", 1, "content", 0, "tool_use_id"],
        None,
        f"{B}[0].tool_use_id",
        "expected a string, got nothing",
    ),
    "a result's content": (
        ["messages", 1, "content", 0, "content"],
        5,
        f"{B}[0].content",
        "expected a string or an array of blocks",
    ),
    "a result's block": (
        ["messages", 1, "content", 0, "content", 0],
        5,
        f"{B}[0].content[0]",
        "expected an object",
    ),
    "a result's flag": (
        ["messages", 1, "content", 0, "is_error"],
        "no",
        f"{B}[0].is_error",
        "expected true or false",
    ),
    "no source": (
        ["messages", 1, "content", 1, "source"],
        None,
        f"{B}[1].source",
        "expected an object, got nothing",
    ),
    "a source": (["messages", 1, "content", 1, "source"], "x", f"{B}[1].source", "expected an object"),
    "a source's type": (
        ["messages", 1, "content", 1, "source", "type"],
        None,
        f"{B}[1].source.type",
        "expected a string, got nothing",
    ),
    "a source's media type": (
        ["messages", 1, "content", 1, "source", "media_type"],
        None,
        f"{B}[1].source.media_type",
        "expected a string",
    ),
    "a source's data": (
        ["messages", 1, "content", 1, "source", "data"],
        1,
        f"{B}[1].source.data",
        "expected a string",
    ),
    "a title": (["messages", 1, "content", 2, "title"], 1, f"{B}[2].title", "expected a string"),
}


def broken(path: list[Any], value: Any) -> Wire:
    body: Any = copy.deepcopy(GOOD)
    *inner, last = path
    place = body
    for key in inner:
        place = place[key]
    place[last] = value
    return body


def test_the_good_request_is_good() -> None:
    assert CODEC.encode_request(CODEC.decode_request(GOOD, Losses()), Losses()) == GOOD


@pytest.mark.parametrize(("path", "value", "where", "problem"), BROKEN.values(), ids=BROKEN)
def test_broken_requests_are_named(path: list[Any], value: Any, where: str, problem: str) -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_request(broken(path, value), Losses())
    assert (caught.value.protocol, caught.value.path) == ("anthropic", where)
    assert caught.value.problem.startswith(problem)


REPLY: Wire = {
    "id": "m",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1},
}
BROKEN_REPLIES: dict[str, tuple[Wire, str, str]] = {
    "no content": ({"input_tokens": 5}, "content", "expected an array of blocks, got nothing"),
    "content": (
        REPLY | {"content": 5},
        "content",
        "expected a string or an array of blocks, got the number 5",
    ),
    "a block": (REPLY | {"content": [5]}, "content[0]", "expected an object, got the number 5"),
    "a call": (
        REPLY | {"content": [{"type": "tool_use"}]},
        "content[0].id",
        "expected a string, got nothing",
    ),
    "stop": (REPLY | {"stop_reason": 5}, "stop_reason", "expected a string, got the number 5"),
    "sequence": (REPLY | {"stop_sequence": 5}, "stop_sequence", "expected a string"),
    "id": (REPLY | {"id": 5}, "id", "expected a string"),
    "usage": (REPLY | {"usage": []}, "usage", "expected an object, got an array"),
    "tokens": (
        REPLY | {"usage": {"input_tokens": "5"}},
        "usage.input_tokens",
        "expected a number, got the string '5'",
    ),
}


@pytest.mark.parametrize(("body", "where", "problem"), BROKEN_REPLIES.values(), ids=BROKEN_REPLIES)
def test_broken_replies_are_named(body: Wire, where: str, problem: str) -> None:
    with pytest.raises(WireError) as caught:
        CODEC.decode_response(body, Losses())
    assert (caught.value.protocol, caught.value.path) == ("anthropic", where)
    assert caught.value.problem.startswith(problem)


def test_absurd_nesting() -> None:
    inside: Any = {}
    for _ in range(100_000):
        inside = {"a": inside}
    with pytest.raises(WireError, match="expected JSON"):
        CODEC.decode_request(broken(["messages", 0, "content", 3, "input"], inside), Losses())
    while inside:  # taken apart by hand: Python's own way is recursive
        inside = inside.pop("a")
