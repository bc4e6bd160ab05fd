"""A real MCP server, made with the official SDK: `python mcp_example.py` on stdio, `… PORT` over HTTP."""

import asyncio
import os
import sys
from dataclasses import dataclass

from mcp.server.mcpserver import Image, MCPServer

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8ffbf1e00058401ff"
    "2b2b3b8f0000000049454e44ae426082"
)
server = MCPServer("example")
waiting: set[str] = set()


@dataclass
class Weather:
    city: str
    degrees: int


@server.tool()
async def weather(city: str) -> Weather:
    """The weather of a city."""
    return Weather(city, 72)


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def screenshot() -> list:
    """Take a screenshot."""
    return ["Screenshot captured", Image(data=PNG, format="png")]


@server.tool()
async def meet(name: str, others: int) -> str:
    """Comes back only when so many others wait too: calls that come one by one never do."""
    waiting.add(name)
    while len(waiting) <= others:
        await asyncio.sleep(0.01)
    return f"{name} met {others}"


@server.tool()
async def fail() -> str:
    """Always fails."""
    raise ValueError("as announced")


@server.tool()
async def die() -> str:
    """Ends the server."""
    os._exit(1)


@server.tool(name="odd.name/with spaces and much more than the sixty-three letters that fit")
async def odd() -> str:
    """Has a name that no provider takes."""
    return "odd"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
