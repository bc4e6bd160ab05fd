"""Compaction as a server answers it: a summary where the input is long, or alone."""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire, summary_message
from dragoman.protocols.anthropic.context_management import COMPACT, decode_compaction
from dragoman.serving.conversations import CompactionCodec


def _without(request: Wire) -> Wire:
    rest = {key: value for key, value in request.items() if key != "compaction"}
    managed = rest.get("context_management")
    if is_object(managed):
        edits = [edit for edit in rows(managed.get("edits")) if edit.get("type") != COMPACT]
        rest["context_management"] = {**managed, "edits": edits}
    return rest


def _part_of(reply: Wire) -> Wire | None:
    return next((block for block in rows(reply.get("content")) if block.get("type") == "compaction"), None)


def _compact(request: Wire, part: Wire, tokens: int) -> Wire:
    """The summary, and the last message; results stay together with their calls."""
    messages: list[Any] = request["messages"]
    content = messages[-1].get("content") if messages else None
    results = any(block.get("type") == "tool_result" for block in rows(content))
    summary = {"role": "user", "content": summary_message(part["content"])}
    return {**request, "messages": [summary, *messages[-2 if results else -1 :]]}


def _since_summary(request: Wire, tokens: int) -> Wire:
    """The newest block with a summary, and what stands behind it. A block without `content` says that a
    compaction failed, and changes nothing."""
    messages: Any = request.get("messages")
    for place in range(len(messages) - 1, -1, -1) if is_array(messages) else ():
        message = messages[place]
        blocks: Any = message.get("content") if is_object(message) else None
        for at in range(len(blocks) - 1, -1, -1) if is_array(blocks) else ():
            block = blocks[at]
            if is_object(block) and block.get("type") == "compaction" and block.get("content"):
                return {**request, "messages": [{**message, "content": blocks[at:]}, *messages[place + 1 :]]}
    return request


COMPACTION = CompactionCodec(
    fields=frozenset({"compaction", "context_management"}),
    decode=decode_compaction,
    without=_without,
    part_of=_part_of,
    compacted=_compact,
    since_summary=_since_summary,
)
