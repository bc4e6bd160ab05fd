"""Who asks: a key's name and what it may do. The key itself is known here by a salted digest only."""

from __future__ import annotations

import os
from hashlib import blake2b

from msgspec import Struct

from dragoman.gateway.config import Config
from dragoman.gateway.config.keys import Allowance


class Caller(Struct, eq=False):
    """Who has a key. `id` is the same wherever the key is, `inside` and `full_at` are this process's."""

    name: str
    id: str
    allowance: Allowance
    number: int = 0  # among the keys of the configuration
    inside: int = 0  # exchanges under way
    full_at: float = 0.0  # when its bucket of requests is full again (see rates)

    limited: bool = False  # where not, nothing of it is counted

    def __post_init__(self) -> None:
        self.limited = bool(self.allowance.requests_per_minute or self.allowance.concurrency)


class Callers:
    """Looking up a digest under a salt of this process takes as long for a wrong key as for a right one."""

    def __init__(self, config: Config) -> None:
        self._salt = os.urandom(32)
        names = {named.key: named for named in config.named_keys}
        everyone = Allowance(config.limits.requests_per_minute, config.limits.concurrency)
        self._known: dict[bytes, Caller] = {}
        for number, key in enumerate(config.keys):
            named = names.get(key)
            name, allowance = (named.name, named.allowance) if named else (f"key-{number + 1}", everyone)
            self._known[self._digest(key)] = Caller(name, _id(key), allowance, number)
        self._anyone = None if config.keys else Caller("", "", everyone)

    def find(self, key: str) -> Caller | None:
        """None: a key that nobody has. Without any keys, everyone is the same nameless caller."""
        return self._anyone or self._known.get(self._digest(key))

    def _digest(self, key: str) -> bytes:
        return blake2b(key.encode("utf-8", "surrogateescape"), key=self._salt, digest_size=16).digest()


def _id(key: str) -> str:
    """For tables that several gateways share; nobody finds the key by it."""
    return blake2b(key.encode(), person=b"dragoman-limits", digest_size=16).hexdigest()
