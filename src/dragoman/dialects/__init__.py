"""Tool calls written as text: the registry."""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import ConfigError


def names() -> tuple[str, ...]:
    return ()


def dialect(name: str) -> Any:
    raise ConfigError(f"unknown dialect {name!r}; known: {', '.join(names())}")


def recovery(tools: Any, losses: Any) -> Any:
    raise ConfigError("no dialects yet")
