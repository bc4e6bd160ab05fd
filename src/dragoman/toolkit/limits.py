"""Limits of the tools, and how text beyond them is cut."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`output` bounds the text of a result, `file` what is read, written or downloaded, all in bytes."""

    seconds: float = 120.0
    output: int = 64_000
    file: int = 20_000_000
    matches: int = 500
    files: int = 500


class HeadAndTail:
    """Collects bytes and keeps the first and the last of them: the ends of an output say most."""

    def __init__(self, most: int) -> None:
        self._half = max(most // 2, 1)
        self._head, self._tail, self._seen = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self._seen += len(data)
        free = self._half - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        tail = self._tail[-self._half :]
        missing = self._seen - len(self._head) - len(tail)
        note = f"\n[… {missing} bytes left out …]\n".encode() if missing else b""
        return bytes(self._head + note + tail).decode(errors="replace")


def bound_text(text: str, most: int) -> str:
    """`text`, or its beginning and end with a note between them."""
    collected = HeadAndTail(most)
    collected.add(text.encode(errors="replace"))
    return collected.text()
