"""Questions of an MCP server, in the protocol of 2025-11-25: later ones have another way to ask."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("mcp")

from dragoman import Tool
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.elicitation import Elicit
from dragoman.mcp_client.session import McpSession
from dragoman.toolkit.mcp import McpServer

SERVER = """
import json, sys

SCHEMA = {"type": "object", "properties": {
    "people": {"type": "integer", "default": 2}, "name": {"type": "string", "default": "nobody"}}}
TOOL = {"name": "book", "description": "Book a table", "inputSchema": {"type": "object", "properties": {}}}


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    got = json.loads(line)
    match got.get("method"):
        case "initialize":
            info = {"name": "booking", "version": "1"}
            asks = "elicitation" in got["params"]["capabilities"]
            result = {"protocolVersion": "2025-11-25", "serverInfo": info, "capabilities": {"tools": {}}}
            say(id=got["id"], result=result)
        case "tools/list":
            say(id=got["id"], result={"tools": [TOOL]})
        case "tools/call" if asks:
            call = got["id"]
            params = {"message": "For how many?", "requestedSchema": SCHEMA}
            say(id="q", method="elicitation/create", params=params)
        case "tools/call":
            say(id=got["id"], result={"content": [{"type": "text", "text": "nobody to ask"}]})
        case None if got.get("id") == "q":
            answer = json.dumps(got["result"], sort_keys=True)
            say(id=call, result={"content": [{"type": "text", "text": answer}]})
        case method if "id" in got:
            say(id=got["id"], error={"code": -32601, "message": f"no {method}"})
"""
PROGRAM = [sys.executable, "-c", SERVER]


async def whole(message: str, schema: dict[str, Any]) -> Mapping[str, Any]:
    return {"people": 4, "name": "Ada"}


def accepted(people: int, name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"people": people, "name": name}}


# how the user answers -> what the server gets
ANSWERS: dict[str, tuple[Elicit, dict[str, Any]]] = {
    "all fields, by an async function": (whole, accepted(4, "Ada")),
    "defaults for the rest": (lambda message, schema: {"people": 5}, accepted(5, "nobody")),
    "no": (lambda message, schema: None, {"action": "decline"}),
    "what does not fit": (lambda message, schema: {"people": "many"}, {"action": "cancel"}),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers(case: str) -> None:
    elicit, expected = ANSWERS[case]
    asked: list[tuple[str, list[str]]] = []

    async def go() -> list[str]:
        def answer(message: str, schema: dict[str, Any]) -> Any:
            asked.append((message, list(schema["properties"])))
            return elicit(message, schema)

        session = McpSession("booking", PROGRAM, elicit=answer)
        await session.open()
        try:
            return split_content(await session.call("book", {}))[0]
        finally:
            await session.close()

    (text,) = asyncio.run(go())
    assert json.loads(text) == expected
    assert asked == [("For how many?", ["people", "name"])]


def test_without_a_function_nobody_is_asked() -> None:
    with McpServer("booking", PROGRAM) as tools:
        assert run_tool(tools) == "nobody to ask"


def test_in_the_toolkit() -> None:
    with McpServer("booking", PROGRAM, elicit=lambda message, schema: {"people": 3}) as tools:
        assert '"people": 3' in run_tool(tools)


def run_tool(tools: list[Tool]) -> str:
    function = tools[0].function
    assert function
    outcome: Any = asyncio.run(function())
    return outcome.text
