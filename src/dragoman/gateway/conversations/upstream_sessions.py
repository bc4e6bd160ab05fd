"""Conversations that an upstream stores: our store has the handle to continue each, under a hash.

The store is optional here. Where it fails, the whole conversation is sent again, and the log says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.exchange import Exchange
from dragoman.gateway.admission.authentication import owner_of
from dragoman.gateway.conversations.store import StoreError, within
from dragoman.profiles import ProviderSettings

_TIMEOUT = 2.0  # seconds; sending the whole conversation takes less


class Handles(Protocol):
    """The part of a store that this needs."""

    async def remember(self, owner: str, digest: str, handle: bytes) -> None: ...

    async def recall(self, owner: str, digest: str) -> bytes | None: ...


class UpstreamSessions:
    """`keys` are those of the gateway's clients; `write` writes a line of the log."""

    def __init__(
        self,
        handles: Handles,
        keys: tuple[str, ...],
        write: Callable[[str], object],
        timeout: float | None = None,
    ) -> None:
        self._handles, self._keys, self._write, self._timeout = handles, keys, write, timeout or _TIMEOUT

    def talk(
        self, exchange: Exchange, provider: ProviderSettings, client_key: str, id: str
    ) -> UpstreamSession:
        key = client_key if provider.passthrough else provider.state_key
        account = f"{provider.name}\n{provider.base_url}\n{key}"
        return UpstreamSession(self, exchange, id, owner_of(client_key, self._keys), account)

    async def recall(self, id: str, owner: str, digest: str) -> Wire | None:
        try:
            handle = await within(self._timeout, self._handles.recall(owner, digest))
        except StoreError as error:
            self._report(id, "everything is sent anew", error)
            return None
        return jsontext.decode_object(handle.decode("utf-8", "replace")) if handle else None

    async def remember(self, id: str, owner: str, digest: str, handle: Wire) -> None:
        try:
            await within(self._timeout, self._handles.remember(owner, digest, jsontext.encode(handle)))
        except StoreError as error:
            self._report(id, "everything will be sent anew", error)

    def _report(self, id: str, what: str, error: StoreError) -> None:
        self._write(jsontext.dumps({"id": id, "session": what, "store": str(error)}))


class UpstreamSession:
    """One exchange with an upstream that stores the conversation.

    A handle is good for one account at one provider only, and for the client's key that made it.
    """

    def __init__(
        self, sessions: UpstreamSessions, exchange: Exchange, id: str, owner: str, account: str
    ) -> None:
        self._sessions, self._exchange = sessions, exchange
        self._id, self._owner, self._account = id, owner, account
        self._stored = False

    async def resume(self) -> Wire | None:
        """The request with only what is new; None where the conversation is not known."""
        follows = self._exchange.session_key
        handle = await self._sessions.recall(self._id, self._owner, self._name(follows)) if follows else None
        return self._exchange.resume(handle) if handle else None

    async def keep(self) -> None:
        """Call it when the reply is complete and before its end is sent: the client may continue at once."""
        session = None if self._stored else self._exchange.next_session
        if session:
            self._stored = True
            digest, handle = session
            await self._sessions.remember(self._id, self._owner, self._name(digest), handle)

    def _name(self, digest: str) -> str:
        return hashlib.sha256(f"{self._account}\n{digest}".encode()).hexdigest()
