"""Calls of hosted tools that the gateway executed, as the items in which OpenAI shows its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import own, rows
from dragoman.core.hosted import HostedCall, HostedCodec, HostedListing, HostedResult, tools_in_words
from dragoman.core.jsontext import is_array
from dragoman.core.model import ExecutedCall, Request, ToolDeclaration, Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, is_native

_FOUND = "dragoman_found"  # of our own: the names of all tools that a search found


def encode_call(call: HostedCall) -> Sequence[Wire]:
    """The item while the call runs. A search for tools has none then."""
    if call.kind == "tool_search":
        return ()
    return ({**_item(call), "status": "in_progress"},)


def encode_result(call: HostedCall, result: HostedResult) -> Sequence[Wire]:
    failed = result.error is not None
    status = "failed" if failed else "completed"
    match call.kind:
        case "mcp":
            told = {"error" if failed else "output": result.text}
            return ({**_item(call), **told, "status": status},)
        case "tool_search":
            arguments = jsontext.decode_object(call.arguments or "{}") or {}
            found: Wire = {}
            shared: Wire = {"call_id": None, "execution": "server", "status": "completed"}
            tools = [_declaration(tool) for tool in result.loaded if is_native(tool)]
            if len(tools) < len(result.loaded):  # the others are of an MCP server: no functions of the client
                found = {_FOUND: [tool.name for tool in result.loaded]}
            return (
                {"id": f"tsc_{call.id}", "type": "tool_search_call", "arguments": arguments, **shared},
                {"id": f"tso_{call.id}", "type": "tool_search_output", "tools": tools, **shared, **found},
            )
        case "web_search":
            item = _item(call)
            sources = [{"type": "url", "url": source.url} for source in result.sources if source.url]
            return ({**item, "status": status, "action": {**item["action"], "sources": sources}},)
        case _:
            return ({**_item(call), "status": status},)


def _item(call: HostedCall) -> Wire:
    """OpenAI has no item for a fetched page: it is an action of a search."""
    if call.kind == "mcp":
        return {
            "id": f"mcp_{call.id}",
            "type": "mcp_call",
            "approval_request_id": call.approval or None,
            "arguments": call.arguments,
            "error": None,
            "name": call.name,
            "output": None,
            "server_label": call.server,
        }
    arguments = jsontext.decode_object(call.arguments or "{}") or {}
    action: Wire = {"type": "open_page", "url": _text(arguments.get("url"))}
    if call.kind == "web_search":
        query = _text(arguments.get("query"))
        action = {"type": "search", "query": query, "queries": [query]}
    return {"id": f"ws_{call.id}", "type": "web_search_call", "action": action}


def encode_listing(listing: HostedListing) -> Sequence[Wire]:
    item: Wire = {"id": f"mcpl_{listing.id}", "type": "mcp_list_tools", "server_label": listing.server}
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters or {"type": "object", "properties": {}},
            "annotations": None,
        }
        for tool in listing.tools
    ]
    return ({**item, "tools": tools, "error": listing.problem or None},)


def encode_approval(call: HostedCall) -> Wire:
    item: Wire = {"id": f"mcpr_{call.id}", "type": "mcp_approval_request", "arguments": call.arguments}
    return {**item, "name": call.name, "server_label": call.server}


def decode_past(item: Wire) -> ExecutedCall | None:
    name, server = _text(item.get("name")), _text(item.get("server_label"))
    arguments, id = _text(item.get("arguments")), _text(item.get("id"))
    match item.get("type"):
        case "mcp_call":
            failed = item.get("error") is not None
            text = _text(item.get("output")) or (_said(item["error"]) if failed else "")
            asked = _text(item.get("approval_request_id"))
            return ExecutedCall(id, "both", "mcp", name, arguments, server, text, failed, asked)
        case "mcp_list_tools":
            return ExecutedCall(id, "listing", server=server)
        case "mcp_approval_request":
            return ExecutedCall(id, "question", "mcp", name, arguments, server)
        case "mcp_approval_response":
            asked, approved = _text(item.get("approval_request_id")), item.get("approve") is True
            return ExecutedCall(asked, "answer", text=_text(item.get("reason")), failed=not approved)
        case "web_search_call":
            return ExecutedCall(id, "told", "web_search")
        case "tool_search_call":
            asked = item.get("arguments")
            return ExecutedCall(
                id.removeprefix("tsc_"), "call", "tool_search", "", jsontext.dumps(asked or {})
            )
        case "tool_search_output":
            tools = [_text(tool.get("name")) for tool in rows(item.get("tools"))]
            named: Any = item.get(_FOUND)
            found = tuple(map(str, named) if is_array(named) else tools)
            words = tools_in_words(found)
            return ExecutedCall(id.removeprefix("tso_"), "result", "tool_search", text=words, loaded=found)
        case _:
            return None


def _said(error: Any) -> str:
    return error if isinstance(error, str) else jsontext.dumps(error)


def most_calls(request: Request) -> int | None:
    most = own(request.extras, PROTOCOL_NAME).get("max_tool_calls")
    return most if type(most) is int else None


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


HOSTED_CODEC = HostedCodec(
    hints=(b'"web_search', b'"mcp"', b'"tool_search"'),
    encode_call=encode_call,
    encode_result=encode_result,
    encode_listing=encode_listing,
    encode_approval=encode_approval,
    decode=decode_past,
    most_calls=most_calls,
    holds=frozenset({"mcp", "tool_search"}),
    replaces_call=True,
)
