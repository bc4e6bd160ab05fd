"""The headers of an ASGI request, decoded where somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import overload


class Headers(Mapping[str, str]):
    """Names are lower case, as ASGI has them; of a header said twice the last counts."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = dict(raw)

    def __getitem__(self, name: str) -> str:
        return self._raw[name.encode()].decode("latin-1")

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, default: str, /) -> str: ...

    def get(self, name: str, default: str | None = None, /) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride] - of strings only
        """Without the exception that the inherited one takes for each header that is not there."""
        value = self._raw.get(name.encode())
        return default if value is None else value.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.encode() in self._raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)
