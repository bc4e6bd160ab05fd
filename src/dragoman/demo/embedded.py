"""The scripted model behind the transport seam: requests are answered in the process, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl, urlsplit

from dragoman.core.transport import ReplyBroken, TimedOut, Timeouts
from dragoman.demo.answers import Answered, answer
from dragoman.demo.carrying import Cut, before, pieces
from dragoman.demo.faults import Memory


class DemoTransport:
    def __init__(self) -> None:
        self._memory = Memory()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> DemoReply:
        parts = urlsplit(url)
        answered = answer(method, parts.path, dict(parse_qsl(parts.query)), headers, body, self._memory)
        try:
            async with asyncio.timeout(timeouts.first_byte):
                await before(answered)
        except TimeoutError:
            raise TimedOut(f"the demo took more than {timeouts.first_byte:g} s to answer") from None
        except Cut:
            raise ReplyBroken("the demo closed the connection before its answer") from None
        return DemoReply(answered, timeouts)


class DemoReply:
    def __init__(self, answered: Answered, timeouts: Timeouts) -> None:
        self.status = answered.status
        self.headers = {"content-type": answered.content_type, **answered.headers}
        self._pieces, self._timeouts = pieces(answered), timeouts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._timeouts.idle):
                return await anext(self._pieces)
        except TimeoutError:
            raise TimedOut(f"the demo took more than {self._timeouts.idle:g} s to go on") from None
        except Cut:
            raise ReplyBroken("the demo closed the connection before its answer ended") from None

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self])

    def close(self) -> None:
        """Nothing is open: what was not asked for was never made."""
