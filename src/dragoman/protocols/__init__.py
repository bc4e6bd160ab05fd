"""The registry: one line for each protocol."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError
from dragoman.core.server import Server

_FOLDERS = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


def names() -> tuple[str, ...]:
    return tuple(_FOLDERS)


@cache
def codec(name: str) -> Codec:
    """How the protocol is spoken."""
    return import_module(f"dragoman.protocols.{_folder(name)}").CODEC


@cache
def server(name: str) -> Server:
    """How the protocol's own server looks from outside."""
    return import_module(f"dragoman.protocols.{_folder(name)}.server").SERVER


def _folder(name: str) -> str:
    if name not in _FOLDERS:
        raise ConfigError(f"unknown protocol {name!r}; known: {', '.join(_FOLDERS)}")
    return _FOLDERS[name]
