"""The seam: what a transport is asked, what it answers, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol

from msgspec import Struct


class Timeouts(Struct, frozen=True):
    """Seconds: to connect, to the first byte of the answer, and between two pieces of it."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0


class TransportError(Exception):
    """The upstream could not be reached or did not finish; `sent`: it may have seen the request."""

    def __init__(self, problem: str, sent: bool) -> None:
        self.sent = sent
        super().__init__(problem)


class ConnectFailed(TransportError):
    """No connection: nothing was sent."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, sent=False)


class TimedOut(TransportError):
    """Connected, but silent for too long."""


class ReplyBroken(TransportError):
    """The connection ended before the answer did, or what came is not HTTP."""


class Reply(Protocol):
    """An answer under way. Header names are lower case; iterate for the body, or read it whole.

    Leaving the body unread and closing the reply cancels it at the upstream.
    """

    status: int
    headers: dict[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read(self, limit: int) -> bytes: ...

    def close(self) -> None: ...


class Transport(Protocol):
    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Coroutine[Any, Any, Reply]: ...
