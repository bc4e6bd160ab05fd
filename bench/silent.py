"""Fields of requests that a gateway loses without a word, seen from outside.

One field after the other of our goldens' requests gets another value. What the upstream then gets must
differ, or the client must be told: by an error, or by a loss that the gateway reports. Only dragoman reports
any, and its inspector lists them. Fields that say nothing to another protocol do not count (`QUIET` of the
taint law).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from bench.adapter import serving
from dragoman.core.losses import Loss

CLIENTS = ("anthropic", "openai-responses", "gemini", "openai-chat")
SERVED = {"store"}  # what a gateway does itself
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
MESSAGE = {"role": "assistant", "content": "Done."}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE} | {
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]
}
# What is another one in every request: ids, times
RANDOM = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{20,}|\b[a-z]+_[0-9A-Za-z]{16,}|\b1[78]\d{8}\b")


class Upstream(BaseHTTPRequestHandler):
    """Speaks Chat alone, and keeps what it got last."""

    got = b""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.path.endswith("/chat/completions"):
            self._answer(404, {"error": {"message": "only Chat is spoken here"}})
        else:
            Upstream.got = data
            self._answer(200, CHAT)

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def upstream() -> Any:
    return serving(Upstream)


def count(url: str, key: str, names: Mapping[str, str]) -> tuple[int, int]:
    """Fields that are lost without a word, and fields that were tried. `names`: the model for each client."""
    lost = tried = 0
    for client in CLIENTS:
        for field, body, changed in fields(client):
            before, _ = ask(url, key, client, names[client], body)
            if before is None:  # the gateway does not serve the protocol, or refuses the request
                continue
            after, reported = ask(url, key, client, names[client], changed)
            tried += 1
            lost += after == before and not is_reported(field, reported)
    return lost, tried


def ask(url: str, key: str, client: str, model: str, body: Any) -> tuple[str | None, list[Any]]:
    """What the upstream got, None where the client got an error; the losses that the gateway reports."""
    spoken: Any = import_module("spoken").SPOKEN[client]
    path = spoken.path.format(model=model)
    sent = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    sent |= {"authorization": f"Bearer {key}", "x-api-key": key, "x-goog-api-key": key}
    Upstream.got = b""
    status, headers, _ = _call(url, "POST", path, {**body, "model": model}, sent)
    if status != 200 or not Upstream.got:
        return None, []
    text, id = RANDOM.sub("#", Upstream.got.decode()), headers.get("x-request-id", "")
    told = "x-dragoman-losses" in headers
    recorded = _call(url, "GET", f"/inspect/api/exchanges/{id}", None, sent)[2] if told else b"{}"
    return text, json.loads(recorded).get("losses", [])


def is_reported(field: str, losses: list[Any]) -> bool:
    taint: Any = import_module("laws.taint")
    said = [Loss(each["kind"], each["where"].partition(" ")[0], "", each["code"]) for each in losses]
    outcome = taint.Outcome("", tuple(said), failed=False)
    return taint.fate(outcome, outcome, field) == "reported"


def _call(url: str, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any, bytes]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, reply.headers, data


@cache
def fields(client: str) -> list[tuple[str, Any, Any]]:
    """Each field once: a request that has it, and the same with another value there."""
    taint: Any = import_module("laws.taint")
    samples: Any = import_module("fuzz.samples")
    found: dict[str, tuple[str, Any, Any]] = {}
    for body in samples.requests(client):
        body = {
            name: value for name, value in body.items() if name not in ("stream", "stream_options", "model")
        }
        for field, changed in taint.tainted(body):
            unknown = field.endswith(taint.EXTRA)
            if field not in SERVED and not unknown and not taint.is_listed("request", client, field):
                found.setdefault(field, (field, body, changed))
    return list(found.values())
