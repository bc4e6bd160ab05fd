"""The header fields of an HTTP message, as a parser says them one by one: names in any case, all in bytes."""

from __future__ import annotations

_KEPT, _SHORT = 512, 64  # names that are remembered, and how long one of them may be


class _Names(dict[bytes, str]):
    """The name of a field in lower case. Peers say the same few names in every message."""

    def __missing__(self, name: bytes) -> str:
        lower = name.decode("latin-1").lower()
        if len(self) < _KEPT and len(name) < _SHORT:
            self[name] = lower
        return lower


class _Nowhere(dict[str, str]):
    """Fields that nobody reads: what comes after a body."""

    def __setitem__(self, name: str, value: str) -> None:
        pass


NAMES = _Names()
NOWHERE = _Nowhere()
