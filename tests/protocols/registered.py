"""A protocol of a test in the registry, as its own folder would put it there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from dragoman.serving.protocol import Protocol

registry: Any = import_module("dragoman.protocols")
exchange: Any = import_module("dragoman.exchange")


@contextmanager
def registered(name: str, spoken: Protocol) -> Iterator[None]:
    """As one that only upstreams speak."""
    module: Any = ModuleType(f"dragoman.protocols.{name}")
    module.PROTOCOL = spoken
    sys.modules[module.__name__] = module
    registry._UPSTREAM_FOLDERS[name] = name
    try:
        yield
    finally:
        del registry._UPSTREAM_FOLDERS[name], sys.modules[module.__name__]
        looked_up = registry.protocol, registry.codec, registry.upstream, registry.server, exchange._plan
        for cached in looked_up:
            cached.cache_clear()
