"""A real MCP server, made with the official SDK, in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from waiting import wait_until

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("sky")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"72°F in {city}"


@server.tool()
def set_weather(city: str) -> str:
    """Change it."""
    raise ValueError("not today")


@server.tool()
def search(query: str) -> dict:
    """Search."""
    return {"results": [{"title": query, "url": "https://a.example/", "snippet": "found"}]}


server.run("streamable-http", port=int(sys.argv[1]), host="127.0.0.1")
'''


CHANGING = '''
import os
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("changing")


@server.tool()
def leave() -> str:
    """Ends the server."""
    os._exit(0)


@server.tool()
def rename() -> str:
    """Has another name from now on."""
    server.remove_tool("rename")
    server.add_tool(lambda: "new", name="renamed", description="New")
    return "renamed"


server.run("streamable-http", port=int(sys.argv[1]), host="127.0.0.1")
'''


def sky_server() -> contextlib.AbstractContextManager[str]:
    """Its address."""
    return _serving(SERVER)


def changing_server() -> contextlib.AbstractContextManager[str]:
    """One that ends, or renames its tool, when it is asked to."""
    return _serving(CHANGING)


@contextlib.contextmanager
def _serving(program: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "server.py"
        script.write_text(program)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: process.poll() is not None or _listens(port))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
