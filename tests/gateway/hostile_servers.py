"""Servers that a hosted tool may meet: each misbehaves in one way, on a real socket of this machine."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]
_GONE = (BrokenPipeError, ConnectionError, TimeoutError)


@contextlib.contextmanager
def answering(answer: Answer, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Its address. `answer` writes whatever it likes, until the client has left or the test ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with contextlib.suppress(*_GONE):
                answer(self, self.rfile.read(int(self.headers.get("content-length") or 0)))

        do_GET = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"content_type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def hang(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """No answer, until the client leaves."""
    handler.close_connection = True
    handler.connection.recv(1)


def drip(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """A header that never ends, one byte at a time: no read of a socket waits for long."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    ended = threading.Event()
    while not ended.wait(0.05):
        handler.wfile.write(b"x")


def flood(kind: str, first: bytes, again: bytes) -> Answer:
    """A body without an end, as fast as it is read."""

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handler.close_connection = True
        handler.wfile.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n".encode() + first)
        for _ in itertools.count():
            handler.wfile.write(again)

    return answer


FIND = {"name": "find", "inputSchema": {"type": "object", "properties": {}}}


def speaking_mcp(call: Answer, tools: Callable[[BaseHTTPRequestHandler], list[Any]] | None = None) -> Answer:
    """A server of MCP with one tool, `find`, or with those of `tools`; `call` answers its calls."""

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command != "POST":
            reply(handler, 405, b"")
            return
        asked: Any = json.loads(body)
        match asked["method"]:
            case "initialize":
                info = {"name": "hostile", "version": "1"}
                told: Any = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            case "tools/list":
                told = {"tools": tools(handler) if tools else [FIND]}
            case "tools/call":
                call(handler, body)
                return
            case _ if "id" in asked:
                error = {"code": -32601, "message": "no such method"}
                reply(
                    handler, 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
                )
                return
            case _:
                reply(handler, 202, b"")
                return
        reply(handler, 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}).encode())

    return answer
