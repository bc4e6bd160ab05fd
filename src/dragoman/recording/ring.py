"""Recordings in memory: a ring bounded in bytes and in number.

It takes drafts as they are, by reference, and does nothing to them but to share repeated bodies; masking and
reading wait until somebody looks. Under load that is most of what a recording would cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.recording.shared_body import SharedBodies, SharedBody
from dragoman.recording.values import Recording, RecordingDraft, RecordingSummary

_SMALLEST = 4096  # bytes; sharing a smaller body costs more than it saves
_EXCHANGE_BYTES = 4096  # of a draft beside its bodies, about
_PIECE_BYTES = 160  # of a piece of a stream beside its data


class _Stored(Struct, eq=False):
    """A draft whose request bodies stand apart: the client's, then each attempt's."""

    draft: RecordingDraft
    bodies: list[bytes | SharedBody]
    overhead: int
    summary: RecordingSummary | None = None  # made when a list asks for it


class Ring:
    """The last recordings: at most `most`, in at most `limit` bytes. Safe to use from several threads."""

    def __init__(
        self,
        seal: Callable[[RecordingDraft], Recording],
        summarize: Callable[[RecordingDraft], RecordingSummary],
        most: int = 10_000,
        limit: int = 64 * 1024 * 1024,
    ) -> None:
        self._seal, self._summarize = seal, summarize
        self._most, self._limit = most, limit
        self._shared = SharedBodies()
        self._items: dict[str, _Stored] = {}
        self._lock = threading.Lock()
        self.size = 0  # bytes, about

    def __len__(self) -> int:
        return len(self._items)

    def put(self, draft: RecordingDraft) -> None:
        """Takes the draft over: its request bodies are emptied."""
        with self._lock:
            self._forget(draft.id)
            bodies = self._bodies(draft)
            stored = _Stored(draft, bodies, draft_bytes(draft))
            self._items[draft.id] = stored
            self.size += stored.overhead
            while len(self._items) > self._most or (self.size > self._limit and len(self._items) > 1):
                self._forget(next(iter(self._items)))

    def get(self, id: str) -> Recording | None:
        with self._lock:
            stored = self._items.get(id)
        return self._seal(_restore(stored)) if stored else None

    def summary(self, id: str) -> RecordingSummary | None:
        with self._lock:
            stored = self._items.get(id)
        return self._summary(stored) if stored else None

    def ids(self) -> list[str]:
        """Oldest first."""
        with self._lock:
            return list(self._items)

    def summaries(self) -> list[RecordingSummary]:
        """Oldest first."""
        with self._lock:
            items = list(self._items.values())
        return [self._summary(stored) for stored in items]

    def close(self) -> None:
        """Nothing to do; a ring on disk has."""

    def _summary(self, stored: _Stored) -> RecordingSummary:
        if stored.summary is None:
            stored.summary = self._summarize(_restore(stored))
        return stored.summary

    def _bodies(self, draft: RecordingDraft) -> list[bytes | SharedBody]:
        bodies = [self._add(draft.body)]
        for attempt in draft.attempts:
            bodies.append(bodies[0] if attempt.body is draft.body else self._add(attempt.body))
            attempt.body = b""
        draft.body = b""
        return bodies

    def _add(self, data: bytes) -> bytes | SharedBody:
        if len(data) < _SMALLEST:
            self.size += len(data)
            return data
        body, freed = self._shared.add(data)
        self.size += body.size - freed
        return body

    def _forget(self, name: str) -> None:
        stored = self._items.pop(name, None)
        if stored:
            sizes = {id(body): len(body) if isinstance(body, bytes) else body.size for body in stored.bodies}
            self.size -= stored.overhead + sum(sizes.values())


def draft_bytes(draft: RecordingDraft) -> int:
    """What it takes in memory, about."""
    total = _EXCHANGE_BYTES + len(draft.body)
    pieces = draft.pieces
    for attempt in draft.attempts:
        total += len(attempt.body)
        pieces = pieces + attempt.pieces
    return total + _PIECE_BYTES * len(pieces) + sum([len(data) for _, data in pieces])


def _restore(stored: _Stored) -> RecordingDraft:
    """The draft with its bodies."""
    first, *others = [body if isinstance(body, bytes) else body.data for body in stored.bodies]
    attempts = [
        replace(attempt, body=body) for attempt, body in zip(stored.draft.attempts, others, strict=True)
    ]
    return replace(stored.draft, body=first, attempts=attempts)
