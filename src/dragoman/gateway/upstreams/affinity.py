"""Session affinity: which target a session began with. Kept in memory and, for replicas, in the store.

Bounded: 100,000 sessions, each for an hour after its last request.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2s
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import ABSENT, resolve
from dragoman.core.model import Wire
from dragoman.gateway.conversations.store import StoreError, within
from dragoman.gateway.conversations.upstream_sessions import Handles
from dragoman.gateway.request import GatewayRequest, RoutedRequest

MOST = 100_000
LASTS = 3600.0  # seconds after the last request
_RENEWED = 600.0  # seconds after which the store learns that a session is still used
_TIMEOUT = 2.0  # seconds for the store
_OWNER = "affinity"
# How agents name a session: Claude Code, Codex, and what other programs send
_HEADERS = ("x-claude-code-session-id", "session_id", "session-id", "x-session-id")


class _Entry(Struct):
    target: str
    used: float
    written: float = 0.0


class Affinity:
    """`store` outlives this process. `shared`: other processes write to it too, so it is asked for every
    request; else what is in memory is enough. `report` is called when the store fails."""

    def __init__(
        self,
        store: Handles | None = None,
        report: Callable[[str], object] = bool,
        now: Callable[[], float] = time.time,
        most: int = MOST,
        shared: bool = False,
    ) -> None:
        self._store, self._report, self._now, self._most = store, report, now, most
        self._shared = shared
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def target(self, session: str) -> str:
        """The target that the session stays with; empty: it is new."""
        now, entry = self._now(), self._entries.get(session)
        if entry and now - entry.used > LASTS:
            del self._entries[session]
            entry = None
        if self._store and (entry is None or self._shared):
            kept = await self._recall(session, now)
            if kept and (entry is None or entry.target != kept):
                entry = self._keep(session, kept, now)
        if entry is None:
            return ""
        entry.used = now
        self._entries.move_to_end(session)
        return entry.target

    async def assign(self, session: str, target: str) -> None:
        """From now on the session stays with `target`."""
        now, entry = self._now(), self._entries.get(session)
        changed = entry is None or entry.target != target
        if entry is None or changed:
            entry = self._keep(session, target, now)
        entry.used = now
        if self._store and (changed or now - entry.written > _RENEWED):
            entry.written = now
            await self._remember(session, target, now)

    def __len__(self) -> int:
        return len(self._entries)

    def _keep(self, session: str, target: str, now: float) -> _Entry:
        before = self._entries.get(session)
        entry = self._entries[session] = _Entry(target, now, before.written if before else 0.0)
        self._entries.move_to_end(session)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return entry

    async def _recall(self, session: str, now: float) -> str:
        assert self._store
        try:
            data = await within(_TIMEOUT, self._store.recall(_OWNER, session))
        except StoreError as error:
            self._report(f"sessions are not shared: {error}")
            return ""
        value = jsontext.decode_object(data.decode("utf-8", "replace")) if data else None
        if not value or now - float(value.get("used", 0)) > LASTS + _RENEWED:
            return ""
        return str(value.get("target", ""))

    async def _remember(self, session: str, target: str, now: float) -> None:
        assert self._store
        entry = jsontext.encode({"target": target, "used": now})
        try:
            await within(_TIMEOUT, self._store.remember(_OWNER, session, entry))
        except StoreError as error:
            self._report(f"sessions are not shared: {error}")


def session_of(request: RoutedRequest, group: int) -> str:
    """A hash that is the same in every request of a session for one model: of the agent's own name for it, of
    the key for the prompt cache, else of the user and the first message. Callers share no session."""
    arrived = request.arrived
    named = next((value for name in _HEADERS if (value := arrived.headers.get(name))), None)
    if named is None:
        writer = request.turn_writer  # the client may send only what is new in a conversation
        wire = writer.body.wire if writer else request.body.wire
        keys = arrived.client.spelling.paths(["cache_key"])
        named = next((value for path in keys if isinstance(value := resolve(wire, path), str)), None)
        if named is None:
            users = [resolve(wire, path) for path in arrived.client.spelling.paths(["user"])]
            user = next((each for each in users if each is not ABSENT), None)
            named = [user, _beginning(arrived, wire)]
    return blake2s(jsontext.encode([arrived.scope, request.model, group, named]), digest_size=16).hexdigest()


def _beginning(arrived: GatewayRequest, wire: Wire) -> Any:
    """The messages up to the first one of the user, which every request of a conversation repeats."""
    messages, codec = wire.get(arrived.client.turns), arrived.protocol_server.turn_codec
    if codec and not is_array(messages):
        messages = codec.new_items(wire)  # a text begins a conversation; later requests have it as a message
    if not is_array(messages):
        return messages
    users = [index for index, each in enumerate(messages) if is_object(each) and each.get("role") == "user"]
    return messages[: users[0] + 1] if users else messages[:1]
