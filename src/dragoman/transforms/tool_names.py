"""Tool names: legal for the upstream, injective, and restored in every call that comes back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2s

from dragoman.core.codec import ProtocolLimits

_PREFIX = re.compile(r"^(?:default_api|functions|tools?)[.:/]", re.IGNORECASE)


class Names:
    """The names of one exchange. A name that is legal keeps its spelling; every other gets one of its own."""

    def __init__(self, names: Iterable[str], limits: ProtocolLimits) -> None:
        alphabet = re.compile(limits.tool_name)
        wanted = list(dict.fromkeys(names))
        self._legal: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for name in wanted:
            if len(name) <= limits.tool_name_length and alphabet.fullmatch(name):
                self._legal[name] = self._back[name] = name
        for name in wanted:
            if name not in self._legal:
                spelled = _spell(name, limits.tool_name_length, self._back)
                self._legal[name], self._back[spelled] = spelled, name
        self.changed = any(name != spelled for name, spelled in self._legal.items())

    def encode(self, name: str) -> str:
        return self._legal.get(name, name)

    def decode(self, name: str) -> str:
        return self._back.get(name, name)


@lru_cache(maxsize=256)
def names_for(names: tuple[str, ...], limits: ProtocolLimits) -> Names:
    """An agent declares the same tools in every request of a conversation."""
    return Names(names, limits)


def recognise(name: str, declared: Iterable[str]) -> str:
    """The declared name that a model meant by `default_api:read`, `functions.Read` or `read`.

    Only a unique match counts; anything else stays as the model wrote it.
    """
    declared = tuple(declared)
    if not declared or name in declared:
        return name
    bare = _PREFIX.sub("", name)
    for meant in (bare, name):
        if meant in declared:
            return meant
        found = [known for known in declared if known.lower() == meant.lower()]
        if len(found) == 1:
            return found[0]
    return name


def _spell(name: str, length: int, taken: dict[str, str]) -> str:
    """Readable first: what can be kept is kept; a hash tells apart what would look alike."""
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", name) or "tool"
    if not re.match(r"[a-zA-Z_]", readable):
        readable = f"_{readable}"
    if len(readable) <= length and readable not in taken:
        return readable
    digest = blake2s(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{readable[: length - 9]}_{digest[:8]}"
