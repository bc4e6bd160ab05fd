"""Header fields as an HTTP parser reports them: one by one, in bytes, names in any case."""

from __future__ import annotations

_MOST_NAMES, _LONGEST_NAME = 512, 64


class _LowerNames(dict[bytes, str]):
    """Cache of lower-case names: peers send the same few names in every message."""

    def __missing__(self, name: bytes) -> str:
        lower = name.decode("latin-1").lower()
        if len(self) < _MOST_NAMES and len(name) < _LONGEST_NAME:
            self[name] = lower
        return lower


class _Ignored(dict[str, str]):
    """Stays empty: trailers, the fields after a chunked body, are not used."""

    def __setitem__(self, name: str, value: str) -> None:
        pass


LOWER_NAMES = _LowerNames()
IGNORED = _Ignored()
