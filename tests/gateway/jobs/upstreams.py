"""A Chat upstream that a test can hold: it answers requests whose prompt begins with "slow" when released."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from gateway.canned import chat

Refusal = tuple[int, dict[str, str]]  # status and headers


class HeldModel:
    """`requests` are the prompts in their order, `refusals` the first answers to a prompt, `gone` the prompts
    whose client left before the answer."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.gone: list[str] = []
        self.refusals: dict[str, list[Refusal]] = {}
        self.released = False
        self.running = self.most = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await DemoApp()(scope, receive, send)
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = jsontext.decode(body)
        prompt = _text(request["messages"][-1]["content"])
        self.requests.append(prompt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._answer(prompt, bool(request.get("stream")), receive, send)
        finally:
            self.running -= 1

    async def _answer(self, prompt: str, stream: bool, receive: Any, send: Any) -> None:
        if self.refusals.get(prompt):
            status, headers = self.refusals[prompt].pop(0)
            await _begin(send, status, "application/json", headers)
            await _end(send, b'{"error": {"message": "refused", "type": "server_error"}}')
            return
        if stream:
            await _begin(send, 200, "text/event-stream", {})
            await send({"type": "http.response.body", "body": _chunk("You said: "), "more_body": True})
        gone = asyncio.ensure_future(receive())
        while prompt.startswith("slow") and not self.released:
            if gone.done():
                self.gone.append(prompt)
                return
            await asyncio.sleep(0.01)
        gone.cancel()
        if stream:
            await _end(send, _chunk(prompt) + _chunk("", "stop") + b"data: [DONE]\n\n")
        else:
            await _begin(send, 200, "application/json", {})
            await _end(send, chat(f"You said: {prompt}"))


async def _begin(send: Any, status: int, kind: str, headers: dict[str, str]) -> None:
    listed = {"content-type": kind, **headers}
    pairs = [(name.encode(), value.encode()) for name, value in listed.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _end(send: Any, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body})


def _chunk(text: str, stop: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": stop}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + jsontext.encode(chunk) + b"\n\n"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
