"""Calls of hosted tools that we execute ourselves, in neutral words: what came of one, and its sources.

A protocol writes an `ExecutedCall` as its own items; an executor (`hosted/executor.py`) only gives the
result.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.model import HostedKind, Media, Text, ToolDeclaration

# Each protocol has words of its own for these; Anthropic's stand in its `*_tool_result_error` blocks
HostedError = Literal[
    "invalid_input",  # the arguments of the call: missing, malformed, a broken pattern
    "unavailable",  # the backend or the MCP server is down, or answered nonsense
    "timeout",
    "too_many_uses",  # the client's `max_uses`, or a limit of ours
    "too_many_requests",  # the backend limits us
    "query_too_long",
    "too_large",  # the page, or what the tool gave
    "not_allowed",  # by the client's domains, by configuration, or a private address
    "not_in_conversation",  # an address that nobody named before
    "not_accessible",  # the page answered an error
    "unsupported_type",
    "tool_failed",  # an MCP tool reports an error of its own; `content` says which
]


class FoundSource(Struct, frozen=True, gc=False):
    """A page that a search found, or that was fetched. `text` is what the model reads of it."""

    url: str
    title: str = ""
    text: str = ""
    age: str = ""  # as the backend says it: "2 hours ago", "2026-11-18"; empty where unknown


class HostedResult(Struct, frozen=True, gc=False):
    """What one call gave. `content` is what the model reads; a failure says there what went wrong."""

    content: tuple[Text | Media, ...]
    sources: tuple[FoundSource, ...] = ()
    loaded: tuple[ToolDeclaration, ...] = ()  # tools that a tool search found: callable from now on
    error: HostedError | None = None


class ExecutedCall(Struct, frozen=True, gc=False):
    """A call and its result. `id` is unique in the conversation; `name` is that of the tool, without what
    sets it apart from the client's own; `server` is the label of an MCP server."""

    id: str
    kind: HostedKind
    name: str
    arguments: str
    result: HostedResult
    server: str = ""
