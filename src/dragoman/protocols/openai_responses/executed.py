"""Calls of hosted tools that the gateway executed, as the items in which OpenAI shows its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.hosted import ExecutedCall
from dragoman.core.model import Text, ToolDeclaration, Wire


def encode_hosted_call(call: ExecutedCall) -> Sequence[Wire]:
    failed = call.result.error is not None
    status = "failed" if failed else "completed"
    arguments = jsontext.decode_object(call.arguments or "{}") or {}
    name = hashlib.sha256(f"{call.id}\n{call.arguments}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    match call.kind:
        case "mcp":
            text = "\n".join(part.text for part in call.result.content if isinstance(part, Text))
            return (
                {
                    "id": f"mcp_{name}",
                    "type": "mcp_call",
                    "status": status,
                    "approval_request_id": None,
                    "arguments": call.arguments,
                    "error": text if failed else None,
                    "name": call.name,
                    "output": None if failed else text,
                    "server_label": call.server,
                },
            )
        case "tool_search":
            shared: Wire = {"call_id": None, "execution": "server", "status": "completed"}
            tools = [_declaration(tool) for tool in call.result.loaded]
            return (
                {"id": f"tsc_{name}", "type": "tool_search_call", "arguments": arguments, **shared},
                {"id": f"tso_{name}", "type": "tool_search_output", "tools": tools, **shared},
            )
        case kind:
            item: Wire = {"id": f"ws_{name}", "type": "web_search_call", "status": status}
            return ({**item, "action": _action(kind, arguments)},)


def _action(kind: str, arguments: Wire) -> Wire:
    if kind == "web_fetch":
        return {"type": "open_page", "url": _text(arguments.get("url"))}
    query = _text(arguments.get("query"))
    return {"type": "search", "query": query, "queries": [query]}


def _declaration(tool: ToolDeclaration) -> Wire:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
        "defer_loading": True,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
