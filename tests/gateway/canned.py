"""An upstream that answers exactly what a test says, and records its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from dragoman.core import jsontext
from dragoman.demo import DemoApp

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Canned:
    """`answers` are taken one by one, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[ReceivedRequest] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            await DemoApp()(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests.append(ReceivedRequest(scope, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await answer.send(send)


class ReceivedRequest:
    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self.path = scope["path"]
        self.query = scope["query_string"].decode()
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.body = body

    @property
    def json(self) -> Any:
        return jsontext.decode(self.body)


class Answer:
    """`pieces` may be bytes, or seconds to wait."""

    def __init__(self, status: int, *pieces: bytes | float, **headers: str) -> None:
        self.status, self.pieces = status, pieces
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send(self, send: Send) -> None:
        headers = {"content-type": "application/json", **self.headers}
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": fields})
        async for piece in self._timed():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _timed(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                await asyncio.sleep(piece)


def chat(text: str, **more: Any) -> bytes:
    """A whole reply of the Chat API."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return jsontext.encode({**body, **more})


def error(message: str) -> bytes:
    return jsontext.encode({"error": {"message": message, "type": "x", "code": None, "param": None}})


def chunks(*texts: str) -> list[bytes]:
    """A stream of the Chat API, one piece for each event."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: %b\n\n" % jsontext.encode({**base, "choices": [choice]})

    events = [event({"role": "assistant", "content": ""}), *(event({"content": text}) for text in texts)]
    return [*events, event({}, "stop"), b"data: [DONE]\n\n"]


def provider(name: str, url: str, protocol: str = "openai-chat", **more: str) -> str:
    version = "/v1" if protocol.startswith("openai") else ""
    rows = {
        "protocol": f'"{protocol}"',
        "base_url": f'"{url}{version}"',
        "api_key": f'"key-of-{name}"',
        **more,
    }
    return f"[providers.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items())
