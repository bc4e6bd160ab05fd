"""Recordings in SQLite, for `[inspector] keep`: the same pieces as in memory, in a file of the user's own."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import msgspec

from dragoman.gateway.observability.recording import Recording, RecordingSummary
from dragoman.gateway.observability.ring import digest_of, mapped, messages, pieces_of

_SCHEMA = """
create table if not exists blobs (
    digest blob primary key, data blob not null, uses integer not null) without rowid;
create table if not exists recordings (
    number integer primary key, id text unique not null,
    summary blob not null, recording blob not null, bodies blob not null);
"""
_recordings = msgspec.msgpack.Decoder(Recording)
_summaries = msgspec.msgpack.Decoder(RecordingSummary)
_bodies = msgspec.msgpack.Decoder(list[list[bytes]])
_encode = msgspec.msgpack.Encoder().encode


class RecordingFile:
    """At most `most` recordings at `path`; the oldest are deleted. A new file is its owner's alone."""

    def __init__(self, path: Path, most: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._most = most
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("pragma journal_mode=wal")
        self._database.execute(
            "pragma synchronous=off"
        )  # a recording is worth no wait; a crash may lose the last
        self._database.executescript(_SCHEMA)

    def put(self, recording: Recording) -> None:
        with self._lock, self._database as database:
            database.execute("begin")
            bodies = [
                [self._add(piece) for piece in pieces_of(message.body.data)]
                for message in messages(recording)
            ]
            bare = mapped(recording, [b""] * len(bodies))
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
            return mapped(_recordings.decode(row[0]), bodies)

    def summaries(self) -> list[RecordingSummary]:
        with self._lock:
            rows = self._database.execute("select summary from recordings order by number").fetchall()
        return [_summaries.decode(row[0]) for row in rows]

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
