"""Recordings in SQLite, for `[inspector] keep`, in a file of the user's own.

An agent sends its whole history with every turn. A request body is cut behind each entry of its arrays
(messages, tools); equal pieces are stored once, by their hash. Joining them gives the exact bytes again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from dragoman.core import jsontext
from dragoman.recording.values import (
    RecordedAttempt,
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingSummary,
)

_SCHEMA = """
create table if not exists blobs (
    digest blob primary key, data blob not null, uses integer not null) without rowid;
create table if not exists recordings (
    number integer primary key, id text unique not null,
    summary blob not null, recording blob not null, bodies blob not null);
"""
_BUSY_SECONDS = 30  # another process writes
_recordings = msgspec.msgpack.Decoder(Recording)
_summaries = msgspec.msgpack.Decoder(RecordingSummary)
_bodies = msgspec.msgpack.Decoder(list[list[bytes]])
_encode = msgspec.msgpack.Encoder().encode
_SHORTEST = 128  # bytes; a smaller piece costs more as a blob than it saves


def cuts(body: bytes) -> list[int]:
    """Where to cut `body`: behind each entry of the arrays that its object holds."""
    try:
        fields = jsontext.split_object(body)
    except jsontext.MALFORMED:
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
        for entry in jsontext.split_array(value):
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


class RecordingFile:
    """At most `most` recordings at `path`; the oldest are deleted. A new file is its owner's alone.

    Several processes may use one file: the workers of a gateway do.
    """

    def __init__(self, path: Path, most: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._most = most
        self._lock = threading.Lock()
        self._database = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        self._database.execute("pragma journal_mode=wal")
        self._database.execute(
            "pragma synchronous=off"
        )  # a recording is worth no wait; a crash may lose the last
        self._database.executescript(_SCHEMA)

    def put(self, recording: Recording) -> None:
        with self._lock, self._database as database:
            database.execute("begin immediate")
            bodies = [
                [self._add(piece) for piece in pieces_of(message.body.data)]
                for message in messages(recording)
            ]
            bare = map_bodies(recording, [b""] * len(bodies))
            database.execute(
                "insert or replace into recordings (id, summary, recording, bodies) values (?, ?, ?, ?)",
                (recording.summary.id, _encode(recording.summary), _encode(bare), _encode(bodies)),
            )
            self._trim()

    def get(self, id: str) -> Recording | None:
        with self._lock:
            row = self._database.execute(
                "select recording, bodies from recordings where id = ?", (id,)
            ).fetchone()
            if row is None:
                return None
            bodies = [
                b"".join([self._data(digest) for digest in digests]) for digests in _bodies.decode(row[1])
            ]
            return map_bodies(_recordings.decode(row[0]), bodies)

    def summary(self, id: str) -> RecordingSummary | None:
        with self._lock:
            row = self._database.execute("select summary from recordings where id = ?", (id,)).fetchone()
        return _summaries.decode(row[0]) if row else None

    def ids(self) -> list[str]:
        """Oldest first."""
        with self._lock:
            return [row[0] for row in self._database.execute("select id from recordings order by number")]

    def summaries(self) -> list[RecordingSummary]:
        with self._lock:
            rows = self._database.execute("select summary from recordings order by number").fetchall()
        return [_summaries.decode(row[0]) for row in rows]

    def since(self, number: int) -> tuple[int, list[RecordingSummary]]:
        """What any process stored behind `number`, and the number to ask with next; -1: only that."""
        with self._lock:
            newest = self._database.execute("select coalesce(max(number), 0) from recordings").fetchone()[0]
            if number < 0 or newest <= number:
                return newest, []
            rows = self._database.execute(
                "select summary from recordings where number > ? order by number", (number,)
            ).fetchall()
        return newest, [_summaries.decode(row[0]) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _add(self, piece: bytes) -> bytes:
        digest = digest_of(piece)
        self._database.execute(
            "insert into blobs values (?, ?, 1) on conflict (digest) do update set uses = uses + 1",
            (digest, piece),
        )
        return digest

    def _data(self, digest: bytes) -> bytes:
        return self._database.execute("select data from blobs where digest = ?", (digest,)).fetchone()[0]

    def _trim(self) -> None:
        rows = self._database.execute(
            "select number, bodies from recordings order by number desc limit -1 offset ?", (self._most,)
        ).fetchall()
        for number, bodies in rows:
            for digest in (digest for digests in _bodies.decode(bodies) for digest in digests):
                self._database.execute("update blobs set uses = uses - 1 where digest = ?", (digest,))
            self._database.execute("delete from recordings where number = ?", (number,))
        if rows:
            self._database.execute("delete from blobs where uses <= 0")


def messages(recording: Recording) -> Iterator[RecordedMessage]:
    yield recording.request
    yield recording.reply
    for attempt in recording.attempts:
        yield attempt.request
        yield attempt.reply


def map_bodies(recording: Recording, bodies: list[bytes]) -> Recording:
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
