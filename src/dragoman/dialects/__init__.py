"""The registry: one line for each dialect. Other packages add theirs as entry points."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.core.events import EventStage
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool
from dragoman.dialects.engine.dialect import Dialect
from dragoman.dialects.engine.parser import Recovery
from dragoman.dialects.engine.values import declare

_FILES = {
    "roo-xml": "roo_xml",
    "hermes": "hermes",
    "qwen3-coder": "qwen3_coder",
    "anthropic-xml": "anthropic_xml",
    "llama3-json": "llama3_json",
    "pythonic": "pythonic",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "glm": "glm",
    "kimi-k2": "kimi_k2",
    "minimax-m2": "minimax_m2",
    "harmony": "harmony",
    "gemma": "gemma",
    "granite": "granite",
}


def names() -> tuple[str, ...]:
    return (*_FILES, *(name for name in _outside() if name not in _FILES))


def dialect(name: str) -> Dialect:
    """The dialect with its defaults; `msgspec.structs.replace` sets its options."""
    if name in _FILES:
        return import_module(f"dragoman.dialects.{_FILES[name]}").DIALECT
    if name in _outside():
        return _outside()[name].load()
    raise ConfigError(describe_unknown("dialect", name, names()))


@cache
def _outside() -> dict[str, EntryPoint]:
    """The dialects of other packages."""
    return {point.name: point for point in entry_points(group="dragoman.dialects")}


class _DialectsPackage(ModuleType):
    """This package, callable: `dragoman.dialects()` lists the names of its modules."""

    def __call__(self) -> tuple[str, ...]:
        return names()


sys.modules[__name__].__class__ = _DialectsPackage


def recovery(tools: tuple[AnyTool, ...], losses: Losses) -> EventStage:
    """Finds calls of these tools that a native upstream's model wrote as text, in any known dialect."""
    declared = declare(tools, losses)
    if not declared.tools:
        return EventStage()
    grammars = [grammar for name in names() for grammar in dialect(name).grammars(declared)]
    return Recovery(tuple(grammar for grammar in grammars if grammar.leaks), tools, losses)
