"""The longest callback of the event loop, in CPU time, for every kind of input at its limit.

While a callback runs, every other client waits. The goal is `GOAL` ms. It is printed and not asserted: a
loaded machine is slower, and CPU time still counts what its caches lose.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.seal import MAGIC
from soak import processes
from soak.processes import HERE, Process

GOAL = 50.0  # ms
_MODELS = ("claude:m", "chat:m")
_FORM = "multipart/form-data; boundary=BB"
_JSON = "application/json"


class Turn(Struct, frozen=True):
    """`what` ran for `longest` ms of CPU time; the input was answered as `note` says."""

    name: str
    longest: float
    what: str
    note: str


class Input(Struct, frozen=True):
    """A request at its limit."""

    path: str
    body: Callable[[], bytes]
    kind: str = _JSON
    headers: dict[str, str] = {}


def turns(folder: Path, share: float = 1.0) -> list[Turn]:
    """`share` of each size."""
    found: list[Turn] = []
    file = folder / "turns"
    more = f'[store]\nurl = "sqlite:///{folder / "store.db"}"\n'
    program = [sys.executable, str(HERE / "timed_gateway.py"), str(file)]
    with (
        processes.upstream() as upstream,
        processes.gateway(folder, upstream, more=more, program=program) as gateway,
    ):
        _post(gateway, Input("/v1/chat/completions", lambda: jsontext.encode(_chat(_MODELS[0], "hi"))))
        for name, feed in kinds(share).items():
            file.write_text("")
            note = feed(gateway)
            time.sleep(0.3)  # for what is freed later
            lines = [line.split(" ", 1) for line in file.read_text().splitlines()]
            longest, what = max(((float(ms), what) for ms, what in lines), default=(0.0, ""))
            found.append(Turn(name, longest, what, note))
    return found


def kinds(share: float) -> dict[str, Callable[[Process], str]]:
    mb = int(1_000_000 * share)
    inputs: dict[str, Input] = {}
    for model in _MODELS:
        inputs |= {
            f"50 MB of text, Chat to {model}": Input(
                "/v1/chat/completions", lambda model=model: jsontext.encode(_chat(model, "x" * 50 * mb))
            ),
            f"10 MB of calls, Chat to {model}": Input(
                "/v1/chat/completions", lambda model=model: jsontext.encode(_calls(model, 50 * mb // 1000))
            ),
            f"10 MB of calls, Responses to {model}": Input(
                "/v1/responses", lambda model=model: jsontext.encode(_items(model, 50 * mb // 1000))
            ),
            f"10 MB of calls, Messages to {model}": Input(
                "/v1/messages", lambda model=model: jsontext.encode(_uses(model, 50 * mb // 1000))
            ),
        }
    zeros = b'{"model": "claude:m", "messages": [{"role": "user", "content": "' + b"x" * 50 * mb + b'"}]}'
    line = jsontext.encode(
        {"custom_id": "%", "method": "POST", "url": "/v1/chat/completions", "body": _chat("claude:m", "hi")}
    )
    lines = [line.replace(b"%", b"%d" % number) for number in range(mb // 20)]
    inputs |= {
        "a body of gzip, 50 MB": Input(
            "/v1/chat/completions", lambda: gzip.compress(zeros, 1), headers={"content-encoding": "gzip"}
        ),
        "a million values": Input("/v1/chat/completions", lambda: b'{"a": [' + b"1," * (mb - 10) + b"1]}"),
        "deep arrays": Input("/v1/chat/completions", lambda: b'{"a": ' + b"[" * mb),
        "tokens of 10 MB": Input(
            "/v1/messages/count_tokens", lambda: jsontext.encode(_uses("claude:m", 50 * mb // 1000))
        ),
        "an upload of 50 MB": Input("/v1/files", lambda: _form(b"x" * 50 * mb), _FORM),
        "a form of a tiny boundary": Input("/v1/files", lambda: _form(b"\r\n--BB" * (mb // 3)), _FORM),
        "a form of encoded words": Input(
            "/v1/files", lambda: _form(b"z", b"=?utf-8?q?a?= " * (12 * mb // 1000)), _FORM
        ),
        "a long content-type": Input("/v1/files", lambda: _form(b"z"), _FORM + "; a=b" * 6000),
        "50,000 cut ids": Input(
            "/v1/chat/completions",
            lambda: jsontext.encode(
                _chat("claude:m", [{"type": "text", "text": _cut_id(number)} for number in range(mb // 20)])
            ),
        ),
        "50,000 stored items": Input(
            "/v1/conversations",
            lambda: jsontext.encode({"items": [{"role": "user", "content": "x"}] * (mb // 20)}),
        ),
        "50,000 requests of a batch": Input(
            "/v1/messages/batches",
            lambda: jsontext.encode(
                {
                    "requests": [
                        {"custom_id": f"c{number}", "params": _uses("claude:m", 0)}
                        for number in range(mb // 20)
                    ]
                }
            ),
        ),
    }
    fed: dict[str, Callable[[Process], str]] = {
        name: lambda gateway, each=each: str(_post(gateway, each)[0]) for name, each in inputs.items()
    }
    fed["50,000 lines of a batch"] = lambda gateway: _batch(gateway, b"\n".join(lines))
    for name, unit in {
        "pings": _frame(9),
        "empty fragments": _frame(0, b"", False),
        "fragments of a byte": _frame(0, b"x", False),
        "messages of two bytes": _frame(1, b"{}"),
        "fragments of 1 kB": _frame(0, b"x" * 1024, False),
    }.items():
        fed[f"WebSocket: {name}"] = lambda gateway, unit=unit: _socket(gateway, unit * (2 * mb // len(unit)))
    message = {"type": "response.create", "model": "claude:m", "input": "x" * 20 * mb}
    fed["WebSocket: a message of 20 MB"] = lambda gateway: _socket(
        gateway, _frame(1, jsontext.encode(message))
    )
    return fed


def _cut_id(number: int) -> str:
    """As a client sends it back that keeps 64 characters of an id."""
    return f"call_{MAGIC}M{number:08d}{'A' * 64}"[:64]


def _chat(model: str, text: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


def _calls(model: str, count: int) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(count):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "ok"})
    return {"model": model, "messages": messages}


def _items(model: str, count: int) -> dict[str, Any]:
    items: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(count):
        id = f"call_{number}"
        items.append({"type": "function_call", "call_id": id, "name": "f", "arguments": '{"a":1}'})
        items.append({"type": "function_call_output", "call_id": id, "output": "ok"})
    return {"model": model, "input": items, "store": False}


def _uses(model: str, count: int) -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for number in range(count):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {"a": 1}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "ok"}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    return {"model": model, "max_tokens": 100, "messages": messages}


def _form(content: bytes, filename: bytes = b"a.jsonl") -> bytes:
    head = b'--BB\r\ncontent-disposition: form-data; name="%b"; filename="%b"\r\n\r\n'
    purpose = head % (b"purpose", b"") + b"batch\r\n"
    return purpose + head % (b"file", filename) + content + b"\r\n--BB--\r\n"


def _batch(gateway: Process, lines: bytes) -> str:
    uploaded, body = _post(gateway, Input("/v1/files", lambda: _form(lines), _FORM))
    file = jsontext.decode(body).get("id", "")
    asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    created, body = _post(gateway, Input("/v1/batches", lambda: jsontext.encode(asked)))
    if created == 200:
        _post(gateway, Input(f"/v1/batches/{jsontext.decode(body)['id']}/cancel", bytes))
    return f"{uploaded}, {created}"


def _post(gateway: Process, given: Input) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=120)
    try:
        connection.request("POST", given.path, given.body(), {"content-type": given.kind, **given.headers})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b"{}"
    finally:
        connection.close()


def _frame(opcode: int, data: bytes = b"", last: bool = True) -> bytes:
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if last else 0) | opcode]) + length + bytes(4) + data


def _socket(gateway: Process, data: bytes) -> str:
    """Send frames on one connection, as fast as they are taken, and read what comes."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    key = base64.b64encode(os.urandom(16)).decode()
    head = (
        f"GET /v1/responses HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
    )
    sent = 0
    with socket.create_connection((host, int(port)), timeout=5) as raw, suppress(OSError):
        raw.sendall(head.encode() + (_frame(1, b"{", False) if data[:1] == b"\x00" else b""))
        raw.recv(65536)
        raw.setblocking(False)
        until = time.monotonic() + 5
        while time.monotonic() < until and sent < len(data):
            with suppress(BlockingIOError):
                sent += raw.send(data[sent : sent + 262144])
            with suppress(BlockingIOError):
                raw.recv(262144)
        raw.settimeout(3)
        while raw.recv(65536):
            pass
    return f"{sent / 1e6:.1f} MB taken"
