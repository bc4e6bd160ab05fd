"""Connections to MCP servers: guarded addresses, the older transport, and what is never followed."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from dragoman.fetch import AddressGuard
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.session import McpError, McpSession

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("sky")


@server.tool()
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"72°F in {city}"


server.run(sys.argv[1], port=int(sys.argv[2]), host="127.0.0.1")
'''


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module", params=["streamable-http", "sse"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script: Path = tmp_path_factory.mktemp("mcp") / "server.py"
    script.write_text(SERVER)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(script), request.param, str(port)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until_open(port, process)
        yield f"http://127.0.0.1:{port}/{'sse' if request.param == 'sse' else 'mcp'}"
    finally:
        process.kill()
        process.wait()


def wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise AssertionError(f"the MCP server ended with {process.returncode}")


async def weather(session: McpSession) -> tuple[list[str], list[str]]:
    tools = await session.open()
    try:
        texts, _ = split_content(await session.call("get_weather", {"city": "Oslo"}))
        return [tool.name for tool in tools], texts
    finally:
        await session.close()


def test_both_transports_of_http(url: str):
    assert asyncio.run(weather(McpSession("sky", url))) == (["get_weather"], ["72°F in Oslo"])


def test_a_private_address_is_reached_only_where_it_is_named(url: str):
    with pytest.raises(McpError, match="private address"):
        asyncio.run(McpSession("sky", url, guard=AddressGuard()).open())
    host = url.split("/")[2]
    named = McpSession("sky", url, guard=AddressGuard(frozenset((host,))))
    assert asyncio.run(weather(named))[0] == ["get_weather"]


def test_the_first_address_that_answers(url: str, monkeypatch: pytest.MonkeyPatch):
    """`localhost` is ::1 too, where this server does not listen."""
    host = url.split("/")[2]
    monkeypatch.setattr(AddressGuard, "resolve", lambda *_: ["127.0.0.2", host.partition(":")[0]])

    async def run() -> list[str]:
        session = McpSession("sky", url, guard=AddressGuard(frozenset((host,))))
        try:
            return [tool.name for tool in await session.open()]
        finally:
            await session.close()

    assert asyncio.run(run()) == ["get_weather"]


def test_headers_go_nowhere_else():
    """A redirect is not followed: the authorization is for the server that the client named."""
    seen: list[tuple[str, str | None]] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            seen.append((self.path, self.headers.get("authorization")))
            self.send_response(307)
            self.send_header("location", f"http://127.0.0.1:{other.server_port}/mcp")
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Other(Redirecting):
        def do_POST(self) -> None:
            seen.append(("other", self.headers.get("authorization")))
            body = json.dumps({}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

    servers = other, first = (
        ThreadingHTTPServer(("127.0.0.1", 0), Other),
        ThreadingHTTPServer(("127.0.0.1", 0), Redirecting),
    )
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{first.server_port}/mcp"
    try:
        with pytest.raises(McpError):
            asyncio.run(McpSession("x", url, headers={"Authorization": "Bearer s"}, seconds=10).open())
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
    assert ("/mcp", "Bearer s") in seen
    assert [path for path, _ in seen if path == "other"] == []
