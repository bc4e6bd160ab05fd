"""Recordings in memory: a ring bounded in bytes and in number, that keeps what turns share only once.

An agent sends its whole history with every turn. A request body is cut behind each entry of its arrays
(messages, tools); equal pieces are stored once, by their hash. Joining them gives the exact bytes again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.gateway.observability.recording import (
    RecordedAttempt,
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingSummary,
)

_SHORTEST = 128  # bytes; a smaller piece costs more as a blob than it saves
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_entries = msgspec.json.Decoder(list[msgspec.Raw])


def cuts(body: bytes) -> list[int]:
    """Where to cut `body`: behind each entry of the arrays that its object holds."""
    try:
        fields = _fields.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    found: list[int] = []
    at = 0
    for raw in fields.values():
        value = bytes(raw)
        start = body.find(value, at)
        if start < 0:
            return []
        at = start + len(value)
        if value[:1] != b"[" or len(value) < _SHORTEST:
            continue
        inner = start
        for entry in _entries.decode(value):
            piece = bytes(entry)
            place = body.find(piece, inner, at)
            if place < 0:
                return []
            inner = place + len(piece)
            if not found or inner - found[-1] >= _SHORTEST:
                found.append(inner)
    return found


def pieces_of(body: bytes) -> list[bytes]:
    bounds = [0, *cuts(body), len(body)]
    return [body[start:end] for start, end in pairwise(bounds) if end > start]


def digest_of(piece: bytes) -> bytes:
    return hashlib.blake2b(piece, digest_size=16).digest()


class Blobs:
    """Pieces of bodies by their hash, with a count of who uses each."""

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._uses: dict[bytes, int] = {}
        self.size = 0

    def put(self, body: bytes) -> tuple[bytes, ...]:
        return tuple([self._add(piece) for piece in pieces_of(body)])

    def get(self, digests: tuple[bytes, ...]) -> bytes:
        return b"".join([self._data[digest] for digest in digests])

    def drop(self, digests: tuple[bytes, ...]) -> None:
        for digest in digests:
            self._uses[digest] -= 1
            if not self._uses[digest]:
                del self._uses[digest]
                self.size -= len(self._data.pop(digest))

    def _add(self, piece: bytes) -> bytes:
        digest = digest_of(piece)
        if digest not in self._data:
            self._data[digest] = piece
            self._uses[digest] = 0
            self.size += len(piece)
        self._uses[digest] += 1
        return digest


class _Stored(Struct, eq=False):
    """A recording whose bodies are lists of blobs, in the order of `messages`."""

    recording: Recording
    bodies: list[tuple[bytes, ...]]
    overhead: int


class Ring:
    """The last recordings: at most `most`, in at most `limit` bytes. Safe to use from several threads."""

    def __init__(self, most: int = 10_000, limit: int = 64 * 1024 * 1024) -> None:
        self._most, self._limit = most, limit
        self._blobs = Blobs()
        self._items: dict[str, _Stored] = {}
        self._overhead = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self._blobs.size + self._overhead

    def __len__(self) -> int:
        return len(self._items)

    def put(self, recording: Recording) -> None:
        with self._lock:
            self._forget(recording.summary.id)
            bodies = [self._blobs.put(message.body.data) for message in messages(recording)]
            pieces = sum(len(message.body.pieces) for message in messages(recording))
            overhead = 4096 + 80 * pieces + 64 * sum(map(len, bodies))
            self._items[recording.summary.id] = _Stored(
                mapped(recording, [b""] * len(bodies)), bodies, overhead
            )
            self._overhead += overhead
            while len(self._items) > self._most or (self.size > self._limit and len(self._items) > 1):
                self._forget(next(iter(self._items)))

    def get(self, id: str) -> Recording | None:
        with self._lock:
            stored = self._items.get(id)
            if stored is None:
                return None
            return mapped(stored.recording, [self._blobs.get(digests) for digests in stored.bodies])

    def summaries(self) -> list[RecordingSummary]:
        """Oldest first."""
        with self._lock:
            return [stored.recording.summary for stored in self._items.values()]

    def close(self) -> None:
        """Nothing to do; a ring on disk has."""

    def _forget(self, id: str) -> None:
        stored = self._items.pop(id, None)
        if stored:
            self._overhead -= stored.overhead
            for digests in stored.bodies:
                self._blobs.drop(digests)


def messages(recording: Recording) -> Iterator[RecordedMessage]:
    yield recording.request
    yield recording.reply
    for attempt in recording.attempts:
        yield attempt.request
        yield attempt.reply


def mapped(recording: Recording, bodies: list[bytes]) -> Recording:
    """`recording` with other bodies."""
    data = iter(bodies)

    def message(old: RecordedMessage) -> RecordedMessage:
        return msgspec.structs.replace(old, body=RecordedBody(next(data), old.body.pieces))

    def attempt(old: RecordedAttempt) -> RecordedAttempt:
        changed: dict[str, Any] = {"request": message(old.request), "reply": message(old.reply)}
        return msgspec.structs.replace(old, **changed)

    request, reply = message(recording.request), message(recording.reply)
    attempts = tuple([attempt(each) for each in recording.attempts])
    return msgspec.structs.replace(recording, request=request, reply=reply, attempts=attempts)
