"""Turns that a WebSocket connection remembers: the latest one of each lane, stored or not.

A turn is held with the whole conversation up to it, so that the next one needs nothing else. It ends with the
connection, or when a request of its own lane that continues it fails.
"""

from __future__ import annotations

from dragoman.gateway.conversations.store import StoredTurn
from dragoman.http.server import MemoryBudget, MemoryShare


class ConnectionTurns:
    def __init__(self, memory: MemoryBudget | MemoryShare) -> None:
        self._memory = memory
        self._latest: dict[str, StoredTurn] = {}  # by lane

    def get(self, id: str) -> StoredTurn | None:
        return next((turn for turn in self._latest.values() if turn.id == id), None)

    def put(self, lane: str, turn: StoredTurn) -> None:
        self._drop(lane)
        self._latest[lane] = turn
        self._memory.used += turn.size

    def evict(self, lane: str, id: str) -> None:
        """Forget the turn `id` where it is the latest one of `lane`."""
        if (turn := self._latest.get(lane)) and turn.id == id:
            self._drop(lane)

    def clear(self) -> None:
        for lane in list(self._latest):
            self._drop(lane)

    def _drop(self, lane: str) -> None:
        if turn := self._latest.pop(lane, None):
            self._memory.used -= turn.size


class LaneTurns:
    """What one request of a connection sees of it: it may continue any turn, and becomes that of its lane."""

    def __init__(self, turns: ConnectionTurns, lane: str) -> None:
        self._turns, self._lane = turns, lane
        self.previous_id = ""  # what the request continues

    def get(self, id: str) -> StoredTurn | None:
        return self._turns.get(id)

    async def put(self, turn: StoredTurn) -> None:
        self._turns.put(self._lane, turn)

    def forget(self) -> None:
        self._turns.evict(self._lane, self.previous_id)
