"""The registry: one line for each protocol."""

from __future__ import annotations

from importlib import import_module

from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError

_FOLDERS = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


def names() -> tuple[str, ...]:
    return tuple(_FOLDERS)


def codec(name: str) -> Codec:
    if name not in _FOLDERS:
        raise ConfigError(f"unknown protocol {name!r}; known: {', '.join(_FOLDERS)}")
    return import_module(f"dragoman.protocols.{_FOLDERS[name]}").CODEC
