"""The registry: one line for each protocol.

A folder exports `PROTOCOL`. Its files have the same names everywhere: `wire` (the shapes), `settings`,
`parts`, `messages`, `tools`, `request`, `response`, `common_shape` (the same for most replies, in one step),
`stream_decoder`, `stream_encoder`, `grammar` (checks a stream), `http` (paths, keys), `errors`. `serving/`
has routes, accounting, and what a server keeps. One that only upstreams speak has fewer.
Files are no protocols: they hold what several share (`openai.py`, `google.py`, `aws.py`, `google_cloud.py`).
"""

from __future__ import annotations

import copyreg
import sys
from functools import cache
from importlib import import_module
from types import ModuleType

from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.serving.protocol import Protocol
from dragoman.serving.routes import Route
from dragoman.serving.server import ProtocolServer

_FOLDERS = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "gemini-interactions": "gemini_interactions",
}
# Protocols that only upstreams speak
_UPSTREAM_FOLDERS = {
    "qwen-chat": "qwen_chat",
    "azure-openai": "azure_openai",
    "azure-responses": "azure_responses",
    "vertex-gemini": "vertex_gemini",
    "vertex-claude": "vertex_claude",
    "bedrock-invoke": "bedrock_invoke",
    "bedrock-converse": "bedrock_converse",
}


def names() -> tuple[str, ...]:
    """The protocols that clients speak."""
    return tuple(_FOLDERS)


def upstream_names() -> tuple[str, ...]:
    """The protocols that upstreams speak."""
    return (*_FOLDERS, *_UPSTREAM_FOLDERS)


@cache
def protocol(name: str) -> Protocol:
    """Any protocol, of clients or upstreams."""
    return _load(name, _FOLDERS | _UPSTREAM_FOLDERS)


@cache
def codec(name: str) -> Codec:
    """The codec of a protocol that clients speak."""
    return _load(name, _FOLDERS).codec


@cache
def upstream(name: str) -> Codec:
    """The codec of a protocol that upstreams speak."""
    return protocol(name).codec


def wire_of(name: str) -> str:
    """The protocol of clients whose wire an upstream's protocol has: its own name, but at a cloud."""
    return upstream(name).name


@cache
def server(name: str) -> ProtocolServer:
    """What a server of the protocol looks like from outside."""
    return protocol(name).server


# Records of functions: what holds one is pickled with the name
copyreg.pickle(Codec, lambda codec: (upstream, (codec.name,)))
copyreg.pickle(Protocol, lambda found: (protocol, (found.codec.name,)))


def routes() -> list[tuple[Route, str]]:
    """The routes of all protocols that clients speak, each with the name of its protocol."""
    return [(route, name) for name in names() for route in server(name).routes]


class _ProtocolsPackage(ModuleType):
    """This package, callable: `dragoman.protocols()` lists the names that clients speak."""

    def __call__(self) -> tuple[str, ...]:
        return names()


sys.modules[__name__].__class__ = _ProtocolsPackage


def _load(name: str, folders: dict[str, str]) -> Protocol:
    if name not in folders:
        raise ConfigError(describe_unknown("protocol", name, folders))
    return import_module(f"dragoman.protocols.{folders[name]}").PROTOCOL
