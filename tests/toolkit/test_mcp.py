"""A real MCP server over stdio and over HTTP, and ours, read by the official client."""

import asyncio
import re
import socket
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.client import Tool
from dragoman.core.model import Base64, Media
from dragoman.toolkit import standard_tools
from toolkit.conftest import PNG
from waiting import wait_until

mcp = pytest.importorskip("mcp")

from dragoman.mcp_client.session import McpError  # noqa: E402 - only where mcp is installed
from dragoman.toolkit.mcp import McpServer, mcp_server  # noqa: E402

EXAMPLE = str(Path(__file__).with_name("mcp_example.py"))
STDIO = [sys.executable, EXAMPLE]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*STDIO, str(port)], stderr=subprocess.DEVNULL)

    def listens() -> bool:
        assert process.poll() is None, "the server did not start"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> McpServer:
    target = STDIO if request.param == "stdio" else request.getfixturevalue("url")
    return McpServer("example", target)


def named(tools: list[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def test_tools_come_with_legal_names_and_their_schemas(server: McpServer):
    with server as tools:
        assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,62}", tool.name) for tool in tools)
        found = named(tools)
        assert found["example__add"].description == "Add two numbers."
        assert found["example__add"].parameters["required"] == ["a", "b"]
        (long,) = (name for name in found if name.startswith("example__odd"))
        assert re.fullmatch(r"example__odd_name_with_spaces_and_much_more_than_the_s\w*_[0-9a-f]{8}", long)
        assert len(long) == 63
        assert found[long].call({}).text == "odd"


def test_results_keep_their_structure_and_images(server: McpServer):
    with server as tools:
        found = named(tools)
        assert found["example__add"].call({"a": 2, "b": 3}).text == "5"
        weather = found["example__weather"].call({"city": "NYC"}).text
        assert re.sub(r"\s", "", weather) == '{"city":"NYC","degrees":72}'
        shot = found["example__screenshot"].call({})
        assert "Screenshot captured" in shot.text
        (media,) = shot.media
        assert (media.kind, media.media_type) == ("image", "image/png")
        assert isinstance(media.source, Base64)
        assert b64decode(media.source.data) == PNG


def test_failures_are_results(server: McpServer):
    with server as tools:
        failed = named(tools)["example__fail"].call({})
        assert failed.failed
        assert "as announced" in failed.text or "fail" in failed.text
        wrong = named(tools)["example__add"].call({"a": "x"})
        assert wrong.failed


def test_calls_run_side_by_side(server: McpServer):
    names = [f"{server}{number}"[-8:] for number in range(5)]

    async def all_at_once() -> list[str]:
        async with server as tools:
            meet = named(tools)["example__meet"]
            calls = (meet.acall({"name": name, "others": 4}) for name in names)
            async with asyncio.timeout(60):
                return [found.text for found in await asyncio.gather(*calls)]

    assert asyncio.run(all_at_once()) == [f"{name} met 4" for name in names]


def test_a_connection_serves_other_event_loops(server: McpServer):
    with server as tools:  # on the loop of the client's own thread
        found = asyncio.run(named(tools)["example__add"].acall({"a": 1, "b": 1}))
        assert found.text == "2"


def test_after_the_end_nothing_is_called(server: McpServer):
    with server as tools:
        pass
    assert "is not connected" in tools[0].call({}).text
    with server as tools:  # and it can be opened again
        assert named(tools)["example__add"].call({"a": 1, "b": 1}).text == "2"


def test_a_server_that_dies_in_a_call_fails_the_call():
    async def died() -> tuple[bool, bool]:
        async with McpServer("example", STDIO) as tools, asyncio.timeout(60):
            found = named(tools)
            first = await found["example__die"].acall({})
            return first.failed, (await found["example__add"].acall({"a": 1, "b": 1})).failed

    assert asyncio.run(died()) == (True, True)


UNREACHABLE = {
    "no program": ["no-such-program"],
    "a program that ends": [sys.executable, "-c", "pass"],
    "a program that is silent": [sys.executable, "-c", "import time; time.sleep(60)"],
    "nobody there": "http://127.0.0.1:9/mcp",
}


@pytest.mark.parametrize("target", UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_server_that_cannot_be_reached_is_named(target: str | list[str]):
    with pytest.raises(McpError, match="MCP server nobody"), McpServer("nobody", target, seconds=2):
        pass


def test_names_that_look_alike_stay_apart():
    offered = [mcp.Tool(name=name, input_schema={"type": "object"}) for name in ("a.b", "a_b", "a b")]
    names = [tool.name for tool in McpServer("s", "http://x")._tools(offered)]
    assert len(set(names)) == 3
    assert "s__a_b" in names


def test_ours_is_a_server_that_the_official_client_reads(root: Path):
    async def used() -> None:
        async with mcp.Client(mcp_server(standard_tools(root))) as client:
            listed = (await client.list_tools()).tools
            assert {tool.name for tool in listed} >= {"run_shell_command", "read_file", "view_image"}
            (reading,) = (tool for tool in listed if tool.name == "read_file")
            assert reading.annotations.read_only_hint is True
            read = await client.call_tool("read_file", {"absolute_path": "README.md"})
            assert read.content[0].text == "# Project Title\nThis is a sample project.\n"
            assert read.is_error is False
            image = await client.call_tool("view_image", {"path": "dot.png"})
            assert b64decode(image.content[1].data) == PNG
            paper = await client.call_tool("read_file", {"absolute_path": "paper.pdf"})
            assert paper.content[1].resource.mime_type == "application/pdf"
            out = await client.call_tool("read_file", {"absolute_path": "../outside/secret.txt"})
            assert out.is_error is True
            assert "no tool 'none'" in (await client.call_tool("none", {})).content[0].text

    asyncio.run(used())


def test_the_command_is_a_server_that_we_read(root: Path):
    command = [sys.executable, "-m", "dragoman", "mcp", "--root", str(root), "--read-only"]
    path = str(Path(__file__).parents[2] / "src")
    with McpServer("own", command, environ={"PYTHONPATH": path}) as tools:
        found = named(tools)
        assert "own__write_file" not in found
        text = found["own__read_many_files"].call({"paths": ["src/c.py"]}).text
        assert text == "--- src/c.py ---\n# TODO: type"
        (media,) = found["own__view_image"].call({"path": "dot.png"}).media
        assert media == Media("image", "image/png", Base64(b64encode(PNG).decode()))
        (paper,) = found["own__read_file"].call({"absolute_path": "paper.pdf"}).media
        assert (paper.kind, paper.media_type) == ("document", "application/pdf")


HOSTILE = """
import json, sys, time

def out(id, result=None, **more):
    more = more or {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, **more}) + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"name": "x", "version": "1"}
            out(asked["id"], {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        case "tools/list":
            tools = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(200)]
            out(asked["id"], {"tools": tools, **({"nextCursor": "again"} if "endless" in sys.argv else {})})
        case "tools/call" if asked["params"]["name"] == "t0":
            time.sleep(60)
        case "tools/call":
            out(asked["id"], {"content": [{"type": "text", "text": "x" * 5_000_000}]})
        case _ if "id" in asked:
            out(asked["id"], error={"code": -32601, "message": "no such method"})
"""


def test_a_call_ends_at_the_time_limit_and_its_result_is_bounded():
    with McpServer("x", [sys.executable, "-c", HOSTILE], seconds=10) as tools:
        assert len(named(tools)["x__t1"].call({}).text) < 70_000
    server = McpServer("x", [sys.executable, "-c", HOSTILE], seconds=10)
    with server as tools:
        server._session.seconds = 1
        found = named(tools)["x__t0"].call({})
        assert found.failed
        assert "t0 gave no result within 1 s" in found.text


def test_a_list_of_tools_that_never_ends_is_refused():
    with pytest.raises(McpError, match="more than 1000 tools"):
        McpServer("x", [sys.executable, "-c", HOSTILE, "endless"], seconds=20).__enter__()
