"""The scripted model as a process of its own, which remembers which model it was asked for, and how often."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections import Counter
from typing import Any

import uvicorn

from dragoman.core import jsontext
from dragoman.demo import DemoApp

_MODEL = re.compile(rb'"model":\s*"([^"]+)"')
_IN_PATH = re.compile(r"/models/([^:]+):")


class Upstream:
    def __init__(self, pause: float = 0.0) -> None:
        self._demo, self._asked, self._pause = DemoApp(), Counter[str](), pause
        self._busy = self._busiest = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/soak":
            await self._tell(send)
            return
        body = b""

        async def heard() -> dict[str, Any]:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        if scope["type"] != "http":
            await self._demo(scope, receive, send)
            return
        self._busy += 1
        self._busiest = max(self._busiest, self._busy)
        try:
            await asyncio.sleep(self._pause)
            await self._demo(scope, heard, send)
        finally:
            self._busy -= 1
            found = _IN_PATH.search(scope["path"])
            in_body = _MODEL.search(body)
            self._asked[found[1] if found else in_body[1].decode() if in_body else ""] += 1

    async def _tell(self, send: Any) -> None:
        told = {
            "asked": dict(self._asked),
            "under_way": self._demo.under_way,
            "tasks": len(asyncio.all_tasks()),
            "busiest": self._busiest,
        }
        body = jsontext.encode(told)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main(pause: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    told = {"lifespan": "on", "log_level": "critical", "ws": "none", "timeout_keep_alive": 60}
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(Upstream(pause), **told)).run(sockets=[listener])


if __name__ == "__main__":
    main(float(sys.argv[1]))
