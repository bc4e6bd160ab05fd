"""`python tools/trace_walk.py`: files and functions that one streamed tool call passes, Anthropic to Chat.

It measures twice: in the library (an Exchange fed with the upstream's bytes) and in the gateway (its server
in this process, an upstream on a socket). Only files of dragoman count. One request goes ahead unmeasured:
what a process makes once is left out. `--most-library 40 --most-gateway 55` exits with 1 beyond;
`--list` names every function.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
from asyncio import Runner
from collections.abc import Callable
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from msgspec.structs import replace

import dragoman
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import bind
from dragoman.http.server import HttpServer

SOURCES = str(Path(dragoman.__file__).parent) + "/"
TOOL = {"name": "read_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
REQUEST = {
    "model": "chat:m",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "Read a.txt."}],
    "tools": [TOOL],
}
HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


def chat_frame(delta: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def call_delta(arguments: str, **more: str) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "read_file"} if more else {})}
    return {"tool_calls": [{"index": 0, "function": function, **more}]}


REPLY = [
    chat_frame({"role": "assistant", "content": "I read "}),
    chat_frame({"content": "it."}),
    chat_frame(call_delta("", id="call_1", type="function")),
    chat_frame(call_delta('{"path": ')),
    chat_frame(call_delta('"a.txt"}')),
    chat_frame({}, finish_reason="tool_calls"),
    b"data: [DONE]\n\n",
]


class Walk:
    """The functions that were called while it traced, in the order of their first call."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], None] = {}

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCES) and code.co_name != "<module>":
            self.functions[code.co_filename.removeprefix(SOURCES), code.co_qualname] = None

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.functions))


def library() -> Walk:
    translate()
    walk = Walk()
    sys.settrace(walk.trace)
    try:
        translate()
    finally:
        sys.settrace(None)
    return walk


def translate() -> None:
    exchange = dragoman.Exchange(client="anthropic", upstream="openai-chat")
    exchange.request(REQUEST)
    stream = exchange.stream()
    reply = b"".join([*(stream.feed(frame) for frame in REPLY), stream.close()])
    assert b'"tool_use"' in reply, reply


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for frame in [*REPLY, b""]:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def gateway() -> Walk:
    """The tracer sits in the thread of the gateway; the client and the upstream have their own."""
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    base_url = f"http://127.0.0.1:{upstream.server_port}/v1"
    config = f'[providers.chat]\nprotocol = "openai-chat"\nbase_url = "{base_url}"\napi_key = "k"\n'
    settings = replace(load(config, {}), port=0)
    listening, walk, replies = bind(settings), Walk(), list[bytes]()
    server = HttpServer(Gateway(settings, AccessLog(lambda line: None)), 1)

    def client() -> None:
        connection = socket.create_connection(listening.getsockname(), timeout=30)
        try:
            replies.append(send_request(connection))
            on_loop(server, lambda: sys.settrace(walk.trace))
            replies.append(send_request(connection))
            on_loop(server, lambda: sys.settrace(None))
        finally:
            server.loop.call_soon_threadsafe(server.end_soon)

    async def serve() -> None:
        server.loop.call_later(0.2, threading.Thread(target=client).start)
        await server.run(listening)

    with Runner(loop_factory=uvloop.new_event_loop) as runner:
        server.loop = runner.get_loop()
        runner.run(serve())
    upstream.shutdown()
    if len(replies) < 2 or b'"tool_use"' not in replies[-1]:
        raise SystemExit(f"the gateway answered {replies}")
    return walk


def send_request(connection: socket.socket) -> bytes:
    """Head and body go out together. `HTTPConnection` sends two pieces, and it is chance how they arrive."""
    body = json.dumps(REQUEST).encode()
    fields = {"host": "127.0.0.1", **HEADERS, "content-length": str(len(body))}
    head = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}\r\n".encode() + body)
    response = HTTPResponse(connection)
    response.begin()
    return response.read()


def on_loop(server: HttpServer, action: Callable[[], None]) -> None:
    done = threading.Event()
    server.loop.call_soon_threadsafe(lambda: (action(), done.set()))
    done.wait(10)


def show(title: str, walk: Walk, every: bool) -> None:
    print(f"{title}: {len(walk.files)} files, {len(walk.functions)} functions")
    for file in walk.files:
        names = [name for where, name in walk.functions if where == file]
        print(f"  {file:55} {', '.join(names) if every else len(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--most-library", type=int, default=sys.maxsize, metavar="FILES")
    parser.add_argument("--most-gateway", type=int, default=sys.maxsize, metavar="FILES")
    parser.add_argument("--list", action="store_true", help="name the functions of each file")
    chosen = parser.parse_args()
    beyond = False
    for title, walk, most in (
        ("library", library(), chosen.most_library),
        ("gateway", gateway(), chosen.most_gateway),
    ):
        show(title, walk, chosen.list)
        if len(walk.files) > most:
            print(f"{title}: {len(walk.files)} files are more than {most}", file=sys.stderr)
            beyond = True
    sys.exit(beyond)


if __name__ == "__main__":
    main()
