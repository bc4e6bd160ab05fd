"""Calls of hosted tools that the gateway executed, as the blocks in which Anthropic shows its own.

Ids and encrypted contents are marked as ours, because Anthropic would refuse them (`hosted.is_made_here`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import rows
from dragoman.core.hosted import (
    FoundSource,
    HostedCall,
    HostedCodec,
    HostedError,
    HostedResult,
    content_in_words,
    pages_in_words,
    tools_in_words,
)
from dragoman.core.jsontext import is_object
from dragoman.core.model import ExecutedCall, HostedKind, Wire
from dragoman.core.seal import seal
from dragoman.protocols.anthropic.hosted import (
    EXECUTED,
    MCP_EXECUTED,
    find_text,
    is_made_here,
    page_text,
    referenced,
    string,
)

_DIRECT = {"caller": {"type": "direct"}}
# The words of `*_tool_result_error` blocks; each kind knows a part of them, and `unavailable` is one of all
_ERRORS: dict[HostedError, str] = {
    "invalid_input": "invalid_tool_input",
    "too_many_uses": "max_uses_exceeded",
    "too_many_requests": "too_many_requests",
    "query_too_long": "query_too_long",
    "too_large": "content_too_large",
    "not_allowed": "url_not_allowed",
    "not_in_conversation": "url_not_in_prior_context",
    "not_accessible": "url_not_accessible",
    "unsupported_type": "unsupported_content_type",
}
_KNOWN = {
    "web_search": {
        "invalid_tool_input",
        "max_uses_exceeded",
        "too_many_requests",
        "query_too_long",
    },
    "web_fetch": set(_ERRORS.values()) - {"query_too_long"},
    "tool_search": {"invalid_tool_input", "too_many_requests"},
}


def encode_call(call: HostedCall) -> Sequence[Wire]:
    block: Wire = {"id": _id(call), "input": jsontext.decode_object(call.arguments or "{}") or {}}
    if call.kind == "mcp":
        return ({"type": "mcp_tool_use", "name": call.name, "server_name": call.server, **block},)
    name = call.name if call.kind == "tool_search" else call.kind
    return ({"type": "server_tool_use", "name": name, **block, **_DIRECT},)


def encode_result(call: HostedCall, result: HostedResult) -> Sequence[Wire]:
    if call.kind == "mcp":
        return (
            {
                "type": "mcp_tool_result",
                "tool_use_id": _id(call),
                "is_error": result.error is not None,
                "content": [{"type": "text", "text": text} for text in content_in_words(result.content)],
            },
        )
    content = _content(call.kind, result)
    return ({"type": f"{call.kind}_tool_result", "tool_use_id": _id(call), "content": content, **_DIRECT},)


def _id(call: HostedCall) -> str:
    return (MCP_EXECUTED if call.kind == "mcp" else EXECUTED) + call.id


def _content(kind: HostedKind, result: HostedResult) -> Wire | list[Wire]:
    if result.error:
        code = _ERRORS.get(result.error, "")
        code = code if code in _KNOWN.get(kind, ()) else "unavailable"
        return {"type": f"{kind}_tool_result_error", "error_code": code}
    match kind:
        case "web_search":
            return [
                {
                    "type": "web_search_result",
                    "url": source.url,
                    "title": source.title,
                    "encrypted_content": seal("search", source.text),
                    "page_age": source.age or None,
                }
                for source in result.sources
            ]
        case "tool_search":
            found = [{"type": "tool_reference", "tool_name": tool.name} for tool in result.loaded]
            return {"type": "tool_search_tool_search_result", "tool_references": found}
        case _:
            page = result.sources[0] if result.sources else None
            document: Wire = {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": result.text},
                "title": page.title or None if page else None,
                "citations": None,
            }
            url = page.url if page else ""
            return {"type": "web_fetch_result", "url": url, "retrieved_at": None, "content": document}


def decode_past(block: Wire) -> ExecutedCall | None:
    """A block of a call that we executed; those of Anthropic's own searches say nothing that others read."""
    kind, input = block.get("type"), block.get("input")
    if not is_made_here(block) or not isinstance(kind, str):
        return None
    id = str(block.get("tool_use_id") or block.get("id"))
    id = id.removeprefix(EXECUTED).removeprefix(MCP_EXECUTED)
    if kind in ("server_tool_use", "mcp_tool_use"):
        name, server = str(block.get("name")), str(block.get("server_name") or "")
        arguments = jsontext.dumps(input if is_object(input) else {})
        return ExecutedCall(id, "call", _kind(name, kind), name, arguments, server)
    content = block.get("content")
    failed = block.get("is_error") is True or (is_object(content) and "error_code" in content)
    loaded = tuple(referenced(block))
    text = find_text(content) if failed else _text_of(kind, content, loaded)
    return ExecutedCall(id, "result", text=text, failed=failed, loaded=loaded)


def _text_of(block: str, content: Any, loaded: Sequence[str]) -> str:
    """What the model read of a result."""
    match block:
        case "tool_search_tool_result":
            return tools_in_words(loaded)
        case "web_search_tool_result":
            return pages_in_words([_source(row) for row in rows(content)])
        case "web_fetch_tool_result":
            return page_text(content)
        case _:
            return find_text(content)


def _source(row: Wire) -> FoundSource:
    url, title, age = (string(row.get(key)) for key in ("url", "title", "page_age"))
    return FoundSource(url, title, page_text(row), age)


def _kind(name: str, block: str) -> HostedKind:
    if block == "mcp_tool_use":
        return "mcp"
    if name.startswith("tool_search"):
        return "tool_search"
    return "web_fetch" if name == "web_fetch" else "web_search"


HOSTED_CODEC = HostedCodec(
    hints=(b'"web_search_2', b'"web_fetch_2', b'"tool_search_tool_', b'"mcp_servers', b'"mcp_toolset'),
    declares_later=b'"tool_addition',
    encode_call=encode_call,
    encode_result=encode_result,
    decode=decode_past,
    holds=frozenset({"web_search", "web_fetch", "tool_search", "mcp"}),
    quotes=True,
    pauses=True,
)
