"""A search of another provider's hosted tool, told as Anthropic's clients expect to hear of one.

They count searches by their blocks, so citations alone look like no search at all. The blocks are
marked as ours: Anthropic itself would not know them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Citation, HostedTool, Request, Text, Wire
from dragoman.core.seal import seal
from dragoman.protocols.anthropic.citations import is_native

_ID = "srvtoolu_dragoman_"
_MADE_HERE = seal("search")


def wants_search(request: Request | None) -> bool:
    tools = request.tools if request else ()
    return any(isinstance(tool, HostedTool) and tool.kind == "web_search" for tool in tools)


def cited(parts: Sequence[AnyPart]) -> list[Citation]:
    return [citation for part in parts if isinstance(part, Text) for citation in part.citations]


def encode_search(
    id: str, citations: Sequence[Citation], request: Request | None, losses: Losses
) -> tuple[Wire, ...]:
    """The call of the search and its result, where the client asked for one and there was one."""
    found = {
        citation.url: citation.title for citation in citations if citation.url and not is_native(citation)
    }
    if request is None or not found or not wants_search(request):
        return ()
    losses.invented("content", "a search, as the model cites what it found")
    name = _ID + re.sub(r"[^a-zA-Z0-9]", "_", id)
    results = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": _MADE_HERE,
            "page_age": None,
        }
        for url, title in found.items()
    ]
    query = {"query": _last_words(request)}
    return (
        {"type": "server_tool_use", "id": name, "name": "web_search", "input": query},
        {"type": "web_search_tool_result", "tool_use_id": name, "content": results},
    )


def is_made_here(block: Wire) -> bool:
    match block:
        case {"type": "server_tool_use", "id": str(id)}:
            return id.startswith(_ID)
        case {"type": "web_search_tool_result", "tool_use_id": str(id)}:
            return id.startswith(_ID)
        case _:
            return False


def _last_words(request: Request) -> str:
    said = [
        part.text
        for message in request.messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    ]
    return said[-1] if said else ""
