"""Calls of hosted tools that we execute ourselves, in neutral words: what came of one, and its sources.

A protocol shows a `HostedCall` and its result as its own items, with its `HostedCodec`; an executor
(`hosted/executor.py`) only gives the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from dragoman.core.model import ExecutedCall, HostedKind, Media, Request, Text, ToolDeclaration, Wire

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
    "denied",  # the client was asked to approve the call, and did not
]


class FoundSource(Struct, frozen=True, gc=False):
    """A page that a search found, or that was fetched. `text` is what the model reads of it."""

    url: str
    title: str = ""
    text: str = ""
    age: str = ""  # as the backend says it: "2 hours ago", "2026-11-18"; empty where unknown


# What the model reads of a search, when it ends and in later requests: the same, so that a cache of the
# upstream finds the beginning of the conversation


def pages_in_words(sources: Iterable[FoundSource]) -> str:
    """Numbered results, each with its address."""
    rows = [
        "\n".join(part for part in (f"[{i}] {each.title}", each.url, each.age, each.text) if part)
        for i, each in enumerate(sources, 1)
    ]
    return "\n\n".join(rows) or "No results."


def tools_in_words(names: Iterable[str]) -> str:
    found = ", ".join(names)
    return f"You can call these tools now: {found}" if found else "No tool was found. Try other words."


def content_in_words(content: Iterable[object]) -> list[str]:
    """A text for each part: items of protocols, and later requests, have no more of media."""
    return [
        part.in_words if isinstance(part, Media) else part.text
        for part in content
        if isinstance(part, Text | Media)
    ]


class HostedResult(Struct, frozen=True, gc=False):
    """What one call gave. `content` is what the model reads; a failure says there what went wrong."""

    content: tuple[Text | Media, ...]
    sources: tuple[FoundSource, ...] = ()
    loaded: tuple[ToolDeclaration, ...] = ()  # tools that a tool search found: callable from now on
    error: HostedError | None = None

    @property
    def text(self) -> str:
        return "\n".join(content_in_words(self.content))


class HostedCall(Struct, frozen=True, gc=False):
    """`id` is unique in the conversation, of letters, digits and underscores; `name` is that of the tool,
    without what sets it apart from the client's own; `server` is the label of an MCP server. `approval`: the
    id of the request by which the client allowed the call."""

    id: str
    kind: HostedKind
    name: str
    arguments: str
    server: str = ""
    approval: str = ""


class HostedCallRecord(Struct, frozen=True, gc=False):
    """What is recorded of a call that ended. `began` is on the monotonic clock, `round` counts from 0."""

    call: HostedCall
    round: int
    result: HostedResult
    began: float
    seconds: float


class HostedListing(Struct, frozen=True, gc=False):
    """The tools of an MCP server, or why they could not be listed. `id`: as that of a call."""

    id: str
    server: str
    tools: tuple[ToolDeclaration, ...] = ()
    problem: str = ""


# Functions with names, so that what holds a HostedCodec can be pickled
def nothing_shown(*values: object) -> Sequence[Wire]:
    return ()


def no_words(body: Wire) -> str:
    return ""


def nothing_known(value: object) -> None:
    return None


class HostedCodec(Struct, frozen=True):
    """How a protocol shows the calls that we execute, as parts of a reply, where it has such parts.

    `hints`: one of these stands in every request that declares a hosted tool. In others nobody looks for one.
    `encode_call` shows a call that starts, `encode_result` the result, `encode_listing` the tools of an MCP
    server. `replaces_call`: the part of the result replaces that of the call, which only a stream shows.
    `encode_approval` asks the client whether a call may run. `decode` reads a part of a later request.
    `holds`: the parts of these kinds hold what the call gave, so that a later request has it. `most_calls`:
    how many calls the client allows in one reply. `quotes`: a citation has the words of its source, and no
    range. `words`: what other models may read instead of a part. `pauses`: the client sends a reply back that
    a limit has ended. `forgets`: its clients may echo no more of a reply than its text and its calls.
    `joins_texts`: they read the texts of all rounds as one.
    """

    hints: tuple[bytes, ...] = ()
    declares_later: bytes = b""  # this, where the conversation may declare one, and not its head
    encode_call: Callable[[HostedCall], Sequence[Wire]] = nothing_shown
    encode_result: Callable[[HostedCall, HostedResult], Sequence[Wire]] = nothing_shown
    encode_listing: Callable[[HostedListing], Sequence[Wire]] = nothing_shown
    encode_approval: Callable[[HostedCall], Wire] | None = None
    decode: Callable[[Wire], ExecutedCall | None] = nothing_known
    most_calls: Callable[[Request], int | None] = nothing_known
    words: Callable[[Wire], str] = no_words
    holds: frozenset[HostedKind] = frozenset()
    replaces_call: bool = False
    quotes: bool = False
    pauses: bool = False
    forgets: bool = False
    joins_texts: bool = False
