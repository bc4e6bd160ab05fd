"""What must survive a translation: the neutral value without its places, extras and wire spellings."""

from __future__ import annotations

import re
from typing import Any

from dragoman.core import jsontext
from dragoman.core.model import (
    Base64,
    Media,
    Reasoning,
    Refusal,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
)

# Chat takes no image in a tool result; it follows in a user message under this label, which is reported
_LABEL = re.compile(r"From the result of .*? \(call [^)]*\):")
# What stands in the place of media that a target does not take, which is reported
_LEFT_OUT = re.compile(r"\[\w+ of type \S+ left out\]")


def of_request(request: Request) -> dict[str, Any]:
    """Who said what, which calls were made with what, what they gave, and which tools there are."""
    texts: dict[str, str] = {}
    calls: list[Any] = []
    results: list[Any] = []
    media: list[Any] = []
    order: dict[str, int] = {}
    for part in request.system:
        texts["system"] = texts.get("system", "") + part.text
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text():
                    role = "system" if message.role == "developer" else message.role
                    texts[role] = texts.get(role, "") + _said(part.text)
                case ToolCall():
                    order[part.id] = len(calls)
                    calls.append((part.name, jsontext.decode(part.arguments or "{}")))
                case ToolResult():
                    results.append((order.get(part.call_id), "".join(_text(item) for item in part.content)))
                    media += [_source(item) for item in part.content if isinstance(item, Media)]
                case Media():
                    media.append(_source(part))
                case _:
                    pass
    return {
        "said": texts,
        "calls": calls,
        "results": results,
        "media": sorted(media),
        # a target may demand a declaration of each tool that the history calls
        "tools": [_tool(tool) for tool in request.tools] or [(name, "", {}) for name in dict(calls)],
    }


def of_response(response: Response) -> dict[str, Any]:
    return {
        "text": "".join(part.text for part in response.parts if isinstance(part, Text | Refusal)),
        "citations": [
            citation.url for part in response.parts if isinstance(part, Text) for citation in part.citations
        ],
        "reasoning": "".join(part.text for part in response.parts if isinstance(part, Reasoning)),
        "calls": [
            (part.name, jsontext.decode(part.arguments or "{}"))
            for part in response.parts
            if isinstance(part, ToolCall)
        ],
        "stop": response.stop.reason,
        "usage": response.usage,
    }


def _text(item: Any) -> str:
    return _said(item.text) if isinstance(item, Text) else ""


def _said(text: str) -> str:
    return _LEFT_OUT.sub("", _LABEL.sub("", text))


def _source(media: Media) -> str:
    source = media.source
    return source.data if isinstance(source, Base64) else getattr(source, "url", "")


def _tool(tool: Any) -> Any:
    parameters = tool.parameters or {}
    return tool.name, tool.description, parameters.get("properties", {})
