"""The scripted model as a process of its own, which remembers which model it was asked for, and how often."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

import uvicorn

from dragoman.core import jsontext
from dragoman.demo import DemoApp

_MODEL = re.compile(rb'"model":\s*"([^"]+)"')
_IN_PATH = re.compile(r"/models/([^:]+):")


class Upstream:
    def __init__(self, pause: float = 0.0) -> None:
        self._demo, self._asked, self._pause = DemoApp(), Counter[str](), pause
        self.busy = self.busiest = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._demo(scope, receive, send)
        elif scope["path"] == "/soak":
            await self._tell(send)
        else:
            await self._answer(Asked(self, receive, send), scope)

    async def _answer(self, request: Asked, scope: dict[str, Any]) -> None:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(self._pause)
            await self._demo(scope, request.receive, request.send)
        finally:
            request.end()
            self._asked[request.model(scope["path"])] += 1

    async def _tell(self, send: Any) -> None:
        values = {
            "asked": dict(self._asked),
            "under_way": self._demo.under_way,
            "tasks": len(asyncio.all_tasks()),
            "busiest": self.busiest,
        }
        body = jsontext.encode(values)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Asked:
    """One request, overheard. It is over for its client with the last piece that is sent."""

    def __init__(self, upstream: Upstream, receive: Any, send: Any) -> None:
        self._upstream, self._receive, self._send = upstream, receive, send
        self._body, self._ended = b"", False

    async def receive(self) -> dict[str, Any]:
        message = await self._receive()
        self._body += message.get("body", b"")
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.end()
        await self._send(message)

    def end(self) -> None:
        self._upstream.busy -= not self._ended
        self._ended = True

    def model(self, path: str) -> str:
        in_path, in_body = _IN_PATH.search(path), _MODEL.search(self._body)
        return in_path[1] if in_path else in_body[1].decode() if in_body else ""


def main(pause: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    options = {"lifespan": "on", "log_level": "critical", "ws": "none", "timeout_keep_alive": 60}
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(Upstream(pause), **options)).run(sockets=[listener])


if __name__ == "__main__":
    main(float(sys.argv[1]))
