"""The interface between a translation and HTTP: send a request, read its reply, and how both can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct


class Timeouts(Struct, frozen=True):
    """In seconds. `first_byte`: until the reply begins; `idle`: between two chunks of its body."""

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0


class SharedHeaders(dict[str, str]):
    """Headers of many requests, which nobody changes. They are hashed by identity: what was made of them is
    found again without reading them. `variants` are these with others added, by what tells them apart."""

    if TYPE_CHECKING:  # where it cannot be assigned, because a dict has none

        def __hash__(self) -> int: ...  # pyright: ignore[reportIncompatibleVariableOverride]
    else:
        __hash__ = object.__hash__

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(headers)
        self.variants: dict[tuple[str | None, ...], SharedHeaders] = {}


class TransportError(Exception):
    """The upstream could not be reached, or its reply is incomplete."""


class ConnectFailed(TransportError):
    """No connection: nothing was sent."""


class CredentialFailed(TransportError):
    """No credential could be had, so nothing was sent."""


class TimedOut(TransportError):
    """Connected, but the upstream sent nothing for too long."""


class ReplyBroken(TransportError):
    """The connection ended before the reply did, or the reply is not HTTP."""


class Reply(Protocol):
    """A reply whose head has arrived. Header names are lower case; iterate over the body, or read it whole.

    Closing a reply before its end closes the connection, which cancels the request at the upstream.
    """

    status: int

    @property
    def headers(self) -> dict[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read(self, limit: int) -> bytes: ...

    def close(self) -> None: ...


class Transport(Protocol):
    def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Coroutine[Any, Any, Reply]: ...
