"""Settings that an operator decides, in neutral terms: one line of configuration holds for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dragoman.core.model import Settings

PARALLEL = "parallel"  # of a request, not of its settings
NAMES = (*(name for name in Settings.__struct_fields__ if name not in ("extras", "where")), PARALLEL)


class Overrides(Struct, frozen=True):
    """`set` wins over what a client says, `default` counts where it says nothing; both by neutral names.
    `extra` are fields of the upstream's own protocol, sent as they are."""

    set: Mapping[str, Any] = {}
    default: Mapping[str, Any] = {}
    extra: Mapping[str, Any] = {}

    def __hash__(self) -> int:
        return hash((*self.set, *self.default, *self.extra))

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.extra)

    def over(self, other: Overrides) -> Overrides:
        """Both, where this one says more of the matter than `other`: an alias against its provider."""
        return Overrides(
            {**other.set, **self.set}, {**other.default, **self.default}, {**other.extra, **self.extra}
        )
