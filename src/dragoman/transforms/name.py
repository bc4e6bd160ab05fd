"""Calls and results under the names that the upstream takes.

Which name a tool gets depends on all names of the request, so those are collected before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from dragoman.core.fold import EachRun, Fold, FoldRun
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, ToolCall, ToolResult


class Rename(Fold, frozen=True):
    """`renamed` are names with their new spelling."""

    renamed: tuple[tuple[str, str], ...]

    def begin(self, state: Any = None) -> FoldRun:
        return EachRun(partial(_rename, dict(self.renamed)))


def _rename(names: dict[str, str], message: Message, losses: Losses) -> Message:
    parts: list[AnyPart] = []
    changed = False
    for part in message.parts:
        if isinstance(part, ToolCall | ToolResult) and part.name in names:
            part, changed = replace(part, name=names[part.name]), True
        parts.append(part)
    return replace(message, parts=tuple(parts)) if changed else message
