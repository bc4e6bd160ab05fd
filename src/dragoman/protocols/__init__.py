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
# What only upstreams speak: a protocol whose server keeps the conversation, in the folder of its wire
_SESSIONS = {"qwen-chat": "openai_chat"}


def names() -> tuple[str, ...]:
    return tuple(_FOLDERS)


def upstream_names() -> tuple[str, ...]:
    return (*_FOLDERS, *_SESSIONS)


@cache
def codec(name: str) -> Codec:
    """How the protocol is spoken."""
    return import_module(f"dragoman.protocols.{_folder(name, _FOLDERS)}").CODEC


@cache
def upstream(name: str) -> Codec:
    """How an upstream is spoken to that may keep the conversation."""
    if name in _SESSIONS:
        return import_module(f"dragoman.protocols.{_SESSIONS[name]}.session").CODEC
    return import_module(f"dragoman.protocols.{_folder(name, _FOLDERS | _SESSIONS)}").CODEC


@cache
def server(name: str) -> Server:
    """How the protocol's own server looks from outside."""
    return import_module(f"dragoman.protocols.{_folder(name, _FOLDERS | _SESSIONS)}.server").SERVER


def _folder(name: str, folders: dict[str, str]) -> str:
    if name not in folders:
        raise ConfigError(f"unknown protocol {name!r}; known: {', '.join(folders)}")
    return folders[name]
