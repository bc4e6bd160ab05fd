"""Clients and an upstream that try to fill the gateway's memory, one after the other; peak memory of each."""

from __future__ import annotations

import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from msgspec import Struct

from dragoman.core import jsontext
from gateway.hostile_servers import answering, reply, speaking_mcp
from soak import processes
from soak.processes import HERE, Process

_EVENT = 40_000_000  # bytes of the huge event
_STORED = 8_000_000
_MEMORY = 256  # MB: server.memory_mb. Beside it, a gateway may take 150
_PROGRAM = (
    "env",
    f"DRAGOMAN_SERVER__MEMORY_MB={_MEMORY}",
    sys.executable,
    str(HERE / "collecting_gateway.py"),
)
_SMALL_WINDOW = 65536
_MODEL = "claude:m"


class Abuse(Struct, frozen=True):
    """`most`: MB that the gateway may have at its peak; it starts with about 45."""

    name: str
    run: Callable[[Process, float], str]
    most: float
    configuration: str = ""


class Abused(Struct, frozen=True):
    name: str
    note: str
    peak: float  # MB
    most: float

    @property
    def problems(self) -> list[str]:
        return [f"{self.name}: {self.peak:.0f} MB, of {self.most:.0f}"] if self.peak > self.most else []


def abuse(seconds: float, folder: Path) -> list[Abused]:
    """Each in a gateway of its own, so that its peak is its own."""
    found: list[Abused] = []
    for number, each in enumerate(ABUSES):
        (folder / str(number)).mkdir()
        more = f'{each.configuration}[store]\nurl = "sqlite:///{folder / str(number) / "store.db"}"\n'
        with (
            _endless_event() as url,
            processes.upstream() as upstream,
            processes.gateway(
                folder / str(number), upstream, more=more + _provider(url), program=_PROGRAM
            ) as gateway,
            _peak(gateway.pid) as peak,
        ):
            note = each.run(gateway, seconds)
        found.append(Abused(each.name, note, max(peak), each.most))
    return found


def unread_pipelined_responses(gateway: Process, seconds: float) -> str:
    request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 500
    sent = [0] * 4

    def flood(number: int) -> None:
        with _connection(gateway) as raw, suppress(OSError):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                sent[number] += raw.send(request)

    _together(4, flood)
    return f"{sum(sent) / 1e6:.0f} MB of requests on 4 connections"


def unread_bodies(gateway: Process, seconds: float) -> str:
    head = b"GET /v1/responses/resp_x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    sent = [0] * 4

    def flood(number: int) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with _connection(gateway) as raw, suppress(OSError):
                raw.sendall(head)
                while time.monotonic() < until:
                    sent[number] += raw.send(chunk)

    _together(4, flood)
    return f"{sum(sent) / 1e6:.0f} MB of bodies that no handler asks for"


def failed_large_requests(gateway: Process, seconds: float) -> str:
    body = b'{"model": "%b", "messages": "' % _MODEL.encode() + b"x" * 20_000_000 + b'"}'
    statuses = {_post(gateway, "/v1/chat/completions", body) for _ in range(25)}
    return f"25 x 20 MB, answered {sorted(statuses)}"


def huge_event(gateway: Process, seconds: float) -> str:
    body = {"model": "endless:m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    status = _post(gateway, "/v1/chat/completions", jsontext.encode(body))
    return f"one event of {_EVENT / 1e6:.0f} MB, answered {status}"


def item_references(gateway: Process, seconds: float) -> str:
    item = {"type": "message", "id": "msg_big", "role": "user", "content": "x" * 1_000_000}
    one = {"model": _MODEL, "store": True, "input": [item]}
    many = {"model": _MODEL, "input": [{"type": "item_reference", "id": "msg_big"}] * 1500}
    stored, refused = (_post(gateway, "/v1/responses", jsontext.encode(body)) for body in (one, many))
    return f"1 MB is stored: {stored}; 1500 references to it: {refused}"


def tiny_values(gateway: Process, seconds: float) -> str:
    values = b"[" + b"[]," * 900_000 + b"1]"
    body = b'{"model": "%b", "messages": [], "metadata": %b}' % (_MODEL.encode(), values)
    return _many(gateway, "/v1/chat/completions", body)


def stored_turn(gateway: Process, seconds: float) -> str:
    one = {"model": _MODEL, "store": True, "input": "x" * _STORED}
    status, reply = _send(gateway, "/v1/responses", jsontext.encode(one))
    id = (jsontext.decode_object(reply) or {}).get("id")
    more = {"model": _MODEL, "input": "x", "previous_response_id": id}
    return f"8 MB are stored: {status}; continued by {_many(gateway, '/v1/responses', jsontext.encode(more))}"


def stored_items(gateway: Process, seconds: float) -> str:
    item = {"type": "message", "role": "user", "content": "x" * _STORED}
    status, reply = _send(gateway, "/v1/conversations", jsontext.encode({"items": [item]}))
    id = (jsontext.decode_object(reply) or {}).get("id")
    return f"8 MB are stored: {status}; read by {_many(gateway, f'/v1/conversations/{id}/items', b'')}"


def large_pages(gateway: Process, seconds: float) -> str:
    def page(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        reply(handler, 200, b"<p>page</p>" * 1_000_000, content_type="text/html")

    statuses = list[int]()
    with answering(page) as url:
        pages = [f"{url}/{number}" for number in range(4)]
        wanted = {"open": [{"ref_id": each} for each in pages]}
        body = jsontext.encode({"id": "s", "model": "m", "commands": wanted, "input": " ".join(pages)})
        _together(4, lambda _: statuses.append(_post(gateway, "/v1/alpha/search", body)))
    return f"4 x 4 pages of 11 MB, answered {sorted(set(statuses))}"


def large_results(gateway: Process, seconds: float) -> str:
    def call(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        texts = [{"type": "text", "text": "x" * 100}] * 12_000
        asked = jsontext.decode_object(body) or {}
        told = {"jsonrpc": "2.0", "id": asked.get("id"), "result": {"content": texts}}
        reply(handler, 200, jsontext.encode(told))

    with answering(speaking_mcp(call)) as url:
        tool = {"type": "mcp", "server_label": "far", "server_url": url, "require_approval": "never"}
        asked = {"model": "chat:m", "input": "Find it.", "store": False, "tools": [tool]}
        return _many(gateway, "/v1/responses", jsontext.encode(asked), 12) + ", each with a result of 1.5 MB"


_HOSTED = """[hosted.web_search]
backend = "searxng"
url = "http://127.0.0.1:9"
[hosted.web_fetch]
allowed_hosts = ["127.0.0.1"]
[hosted.mcp]
allowed_hosts = ["127.0.0.1"]
"""
ABUSES = (
    Abuse("unread pipelined responses", unread_pipelined_responses, 100),
    Abuse("unread bodies", unread_bodies, 100),
    Abuse("failed large requests", failed_large_requests, 150),
    Abuse("a huge event", huge_event, 250),
    Abuse("item references", item_references, 150),
    Abuse("very many tiny values", tiny_values, _MEMORY + 150),
    Abuse("a turn that many continue", stored_turn, _MEMORY + 150),
    Abuse("items that many read", stored_items, _MEMORY + 150),
    Abuse("large pages", large_pages, _MEMORY + 150, _HOSTED),
    Abuse("large results of an MCP server", large_results, _MEMORY + 150, _HOSTED),
)


def _together(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _connection(gateway: Process) -> Iterator[socket.socket]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
        raw.settimeout(1)
        raw.connect((host, int(port)))
        yield raw


def _many(gateway: Process, path: str, body: bytes, count: int = 40) -> str:
    """So many requests at once."""
    statuses = list[int]()
    _together(count, lambda number: statuses.append(_post(gateway, path, body)))
    return f"{count} requests of {len(body) / 1e6:.1f} MB, answered {sorted(set(statuses))}"


def _post(gateway: Process, path: str, body: bytes) -> int:
    return _send(gateway, path, body)[0]


def _send(gateway: Process, path: str, body: bytes) -> tuple[int, bytes]:
    """GET where there is no body."""
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=60)
    try:
        method = "POST" if body else "GET"
        connection.request(method, path, body, {"content-type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


@contextmanager
def _peak(pid: int) -> Iterator[list[float]]:
    found, over = [processes.memory(pid)], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            found.append(processes.memory(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _provider(url: str) -> str:
    return f'[providers.endless]\nprotocol = "openai-chat"\nbase_url = "{url}/v1"\napi_key = "k"\n'


@contextmanager
def _endless_event() -> Iterator[str]:
    """An upstream that answers everything with a stream of one huge event."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.recv(65536)
                    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
                    for _ in range(_EVENT // 100_000):
                        client.sendall(b"x" * 100_000)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
