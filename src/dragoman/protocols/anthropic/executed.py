"""Calls of hosted tools that the gateway executed, as the blocks in which Anthropic shows its own.

Ids and encrypted contents are marked as ours, because Anthropic would refuse them (`hosted.is_made_here`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.core import jsontext
from dragoman.core.hosted import ExecutedCall, HostedError
from dragoman.core.model import Text, Wire
from dragoman.core.seal import seal
from dragoman.protocols.anthropic.hosted import MADE_HERE, MCP_MADE_HERE

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


def encode_hosted_call(call: ExecutedCall) -> Sequence[Wire]:
    """The block of the call, and that of its result."""
    id = MADE_HERE + re.sub(r"[^a-zA-Z0-9_]", "_", call.id)
    input = jsontext.decode_object(call.arguments or "{}") or {}
    if call.kind == "mcp":
        id = MCP_MADE_HERE + id.removeprefix(MADE_HERE)
        return (
            {"type": "mcp_tool_use", "id": id, "name": call.name, "server_name": call.server, "input": input},
            {
                "type": "mcp_tool_result",
                "tool_use_id": id,
                "is_error": call.result.error is not None,
                "content": [{"type": "text", "text": text} for text in _texts(call)],
            },
        )
    name = call.name if call.kind == "tool_search" else call.kind
    kind = "tool_search_tool" if call.kind == "tool_search" else call.kind
    return (
        {"type": "server_tool_use", "id": id, "name": name, "input": input, **_DIRECT},
        {"type": f"{kind}_tool_result", "tool_use_id": id, "content": _content(call, kind), **_DIRECT},
    )


def _content(call: ExecutedCall, kind: str) -> Wire | list[Wire]:
    result = call.result
    if result.error:
        word = _ERRORS.get(result.error, "")
        code = word if word in _KNOWN.get(call.kind, ()) else "unavailable"
        return {"type": f"{kind}_tool_result_error", "error_code": code}
    match call.kind:
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
                "source": {"type": "text", "media_type": "text/plain", "data": "\n".join(_texts(call))},
                "title": page.title or None if page else None,
                "citations": None,
            }
            url = page.url if page else ""
            return {"type": "web_fetch_result", "url": url, "retrieved_at": None, "content": document}


def _texts(call: ExecutedCall) -> list[str]:
    return [part.text for part in call.result.content if isinstance(part, Text)]
