"""Hosted tools: declarations, their items in the conversation, and the client's own tool search.

A declaration stays whole in the extras, with its settings in neutral words. Items of hosted tools are kept
whole too: in a history they are also described in words, which another model can read; in a reply they are
metadata beside the text that the model made of them.

A tool search with `execution: client` is run by the client (Codex defers most tools until the model has
searched for them, G92: litellm 8307e3ee). Towards other protocols it is a function named tool_search, and the
tools that it finds are declared with the others.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own, rows, word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    ExecutedCall,
    Foreign,
    HostedKind,
    HostedTool,
    Request,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.protocols.openai import undated
from dragoman.protocols.openai_responses.computer import as_function
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_ITEM, is_native, printed

_KINDS: dict[str, HostedKind] = {
    "web_search": "web_search",
    "web_search_preview": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code_execution",
    "image_generation": "image_generation",
    "computer": "computer",
    "computer_use": "computer",
    "computer_use_preview": "computer",
    "mcp": "mcp",
    "local_shell": "local_shell",
    "shell": "shell",
    "apply_patch": "apply_patch",
    "tool_search": "tool_search",
}
_KIND = word_set("type")
_PLAIN = word_set("image_generation local_shell shell apply_patch tool_search")
ENCODED = _PLAIN | {"web_search", "code_execution", "mcp", "computer"}
FILTERS = word_set("web_search.allowed_domains mcp.allowed")


# Fields of a declaration that neutral settings carry; the others are reported
_CARRIED: dict[HostedKind, frozenset[str]] = {
    "web_search": word_set("type filters user_location search_context_size"),
    "code_execution": word_set("type container"),
    "mcp": word_set(
        "type server_label server_url headers allowed_tools authorization require_approval defer_loading"
    ),
}


def kind_of(wire: str) -> HostedKind:
    return _KINDS.get(undated(wire), "other")


def decode_hosted(fields: Fields, wire: str, losses: Losses) -> HostedTool:
    kind = kind_of(wire)
    if kind == "shell" and is_hosted_shell(fields.rest):
        kind = "other"
    settings: dict[str, Any] = {}
    match kind:
        case "web_search":
            settings = _decode_web_search(fields.rest)
        case "mcp":
            settings = _decode_mcp(fields)
        case "code_execution":
            _report_container(fields, losses)
        case _:
            pass
    if kind in _CARRIED:
        fields.extras(losses, quiet=_CARRIED[kind], topic="hosted.setting")
    name = "" if kind != "other" else wire
    whole = {PROTOCOL_NAME: fields.rest}
    function = as_function(fields.rest) if kind == "computer" else None
    return HostedTool(kind, name, settings, function, where=fields.where, extras=whole)


def is_hosted_shell(wire: Wire) -> bool:
    """Whether a `shell` tool, or a call of it, runs in a container of the server, not at the client."""
    return _text(_object(wire, "environment"), "type") not in ("", "local")


def encode_hosted(tool: HostedTool, losses: Losses) -> Wire | None:
    if ours := own(tool.extras, PROTOCOL_NAME):
        return ours
    match tool.kind:
        case "web_search":
            return _encode_web_search(tool, losses)
        case "mcp" if tool.settings.get("url"):
            return _encode_mcp(tool)
        case "code_execution":
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case kind if kind in _PLAIN:
            return {"type": kind}
        case kind:
            other = " that takes its place" if kind == "computer" else ""
            why = f"{PROTOCOL_NAME} has no hosted {tool.name or kind} tool{other}."
            losses.dropped(tool.where, why, f"hosted.{kind}")
            return None


def _decode_web_search(rest: Wire) -> dict[str, Any]:
    filters, location = _object(rest, "filters"), _object(rest, "user_location")
    settings: dict[str, Any] = {}
    for key, value in filters.items():  # one that nobody else knows is reported under its own name
        settings[key if key in ("allowed_domains", "blocked_domains") else f"filters.{key}"] = value
    if place := {key: value for key, value in location.items() if key != "type" and value}:
        settings["location"] = place
    if rest.get("search_context_size"):
        settings["context_size"] = rest["search_context_size"]
    return settings


def _encode_web_search(tool: HostedTool, losses: Losses) -> Wire:
    wire: Wire = {"type": "web_search"}
    for key, value in tool.settings.items():
        match key:
            case "allowed_domains" if value:
                wire["filters"] = {"allowed_domains": value}
            case "location" if value:
                wire["user_location"] = {"type": "approximate", **value}
            case "context_size" if value in ("low", "medium", "high"):
                wire["search_context_size"] = value
            case _ if value:
                why = f"The web search of {PROTOCOL_NAME} has no such setting."
                losses.dropped(f"{tool.where}.{key}", why, "hosted.setting")
            case _:
                pass
    return wire


def _report_container(fields: Fields, losses: Losses) -> None:
    """Other providers choose the container themselves."""
    container = fields.rest.get("container")
    if is_object(container):
        Fields(container, fields.path("container"), PROTOCOL_NAME).extras(losses, _KIND, "hosted.setting")
    elif container is not None:
        why = f"Only {PROTOCOL_NAME} has this container."
        losses.dropped(fields.path("container"), why, "hosted.setting")


def _decode_mcp(fields: Fields) -> dict[str, Any]:
    """OpenAI asks for approval of every call unless `require_approval` is never."""
    rest = fields.rest
    named = {"label": "server_label", "url": "server_url", "headers": "headers"}
    settings: dict[str, Any] = {key: rest[wire] for key, wire in named.items() if rest.get(wire)}
    settings |= _decode_allowed(rest.get("allowed_tools"), fields.path("allowed_tools"))
    if token := rest.get("authorization"):
        settings["headers"] = {**(settings.get("headers") or {}), "Authorization": f"Bearer {token}"}
    if rest.get("defer_loading") is True:
        settings["deferred"] = {"": True}
    return {**settings, "approval": rest.get("require_approval") or "always"}


def _decode_allowed(allowed: Any, where: str) -> dict[str, Any]:
    """Names, or a filter; only OpenAI filters by what a server says of its tools (`read_only`)."""
    if allowed is None:
        return {}
    if not is_object(allowed):
        return {"allowed": _tool_names(allowed, where)}
    names = allowed.get("tool_names")
    settings = {} if names is None else {"allowed": _tool_names(names, f"{where}.tool_names")}
    other = {key: value for key, value in allowed.items() if key != "tool_names" and value is not None}
    return settings if settings and not other else {**settings, "filter": other or "without a condition"}


def _tool_names(names: Any, where: str) -> list[str]:
    if not is_array(names) or not all(isinstance(name, str) for name in names):
        raise WireError(PROTOCOL_NAME, where, f"expected an array of names, got {describe(names)}")
    return names


def _encode_mcp(tool: HostedTool) -> Wire:
    settings = tool.settings
    label = settings.get("label") or tool.name or "mcp"
    wire: Wire = {"type": "mcp", "server_label": label, "server_url": settings["url"]}
    if settings.get("headers"):
        wire["headers"] = settings["headers"]
    if settings.get("allowed"):
        wire["allowed_tools"] = settings["allowed"]
    if (deferred := settings.get("deferred")) and deferred.get(""):
        wire["defer_loading"] = True
    return {**wire, "require_approval": "never"}


HOISTED = word_set("additional_tools tool_search_output")  # their tools are declared with the others
_WHY = {
    "item_reference": "It names an item that only the server holds. The item is not in this request.",
    "compaction": "It stands for earlier turns. Only their server can read it.",
}


def decode_foreign(item: Wire, kind: str, where: str, losses: Losses, history: bool) -> Foreign:
    """An item that no other protocol has, kept whole. `history`: it is part of a request."""
    words = _in_words(kind, item, where) if history else ""
    if words:
        why = f"Only {PROTOCOL_NAME} understands an item of type {kind}. It was sent as text."
        losses.changed(where, why, "part.unknown")
    elif kind == "tool_search_output":
        losses.changed(where, "The tools that it found are declared with the others.", "hosted.tool_search")
    elif kind not in HOISTED:
        why = _WHY.get(kind, f"Only {PROTOCOL_NAME} understands an item of type {kind}.")
        losses.dropped(where, why, "store" if kind in _WHY else "part.unknown")
    return Foreign(PROTOCOL_NAME, item, words, where=where)


def _in_words(kind: str, item: Wire, where: str) -> str:
    """The meaning of `item` as text; empty where no other model could use it."""
    match kind:
        case "web_search_call":
            return _web_search_in_words(item, where)
        case "file_search_call":
            found = [_text(result, "text") for result in rows(item.get("results"))]
            return "\n".join([f"[file_search: {printed(item.get('queries'), where)}]", *filter(None, found)])
        case "code_interpreter_call":
            logs = [_text(output, "logs") for output in rows(item.get("outputs"))]
            return _ran(_text(item, "code"), [log for log in logs if log])
        case "mcp_call":
            return _mcp_in_words(item, where)
        case "shell_call":
            return f"[shell: {printed(_object(item, 'action').get('commands'), where)}]"
        case "shell_call_output":
            outputs = rows(item.get("output"))
            return f"[shell result: {''.join(_text(o, 'stdout') + _text(o, 'stderr') for o in outputs)}]"
        case _:
            return ""


def _web_search_in_words(item: Wire, where: str) -> str:
    action = _object(item, "action")
    query = {key: action[key] for key in ("query", "queries", "url") if action.get(key)}
    return f"[web_search: {printed(query, where)}]" if query else ""


def _mcp_in_words(item: Wire, where: str) -> str:
    failed = f"failed: {printed(item['error'], where)}" if item.get("error") else ""
    return f"[{_text(item, 'name')}: {_text(item, 'arguments')}]\n{_text(item, 'output') or failed}"


def encode_executed(call: ExecutedCall) -> tuple[Wire, ...]:
    """The item that tells of a call which another upstream ran."""
    item: Wire = {"type": "mcp_call", "id": f"mcp_{call.id}", "server_label": call.server, "name": call.name}
    told = {"output": None, "error": call.text} if call.failed else {"output": call.text, "error": None}
    status = "failed" if call.failed else "completed"
    return (
        {**item, "arguments": call.arguments or "{}", **told, "approval_request_id": None, "status": status},
    )


def _ran(code: str, logs: list[str]) -> str:
    output = "Output:\n```\n" + "\n".join(logs) + "\n```" if logs else ""
    return f"```\n{code}\n```\n{output}".strip() if code else output


def _object(item: Wire, key: str) -> Wire:
    value = item.get(key)
    return value if is_object(value) else {}


def _text(item: Wire, key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


TOOL_SEARCH = "tool_search"
_QUIET_SEARCH = QUIET_ITEM | {"execution", "arguments", "tools"}


def is_clients_search(item: Wire) -> bool:
    return item.get("execution") == "client" and isinstance(item.get("call_id"), str)


def decode_search_tool(fields: Fields, losses: Losses) -> ToolDeclaration:
    quiet = word_set("type execution description parameters")
    description, parameters = fields.nonempty("description"), fields.object("parameters")
    return ToolDeclaration(
        TOOL_SEARCH, description, parameters, where=fields.where, extras=fields.extras(losses, quiet=quiet)
    )


def encode_search_tool(tool: ToolDeclaration) -> Wire:
    wire = own(tool.extras, PROTOCOL_NAME).copy()
    if tool.description:
        wire["description"] = tool.description
    if tool.parameters is not None:
        wire["parameters"] = tool.parameters
    return wire


def decode_search(fields: Fields, losses: Losses) -> ToolCall:
    """Here the arguments are an object, which also stays in the extras."""
    id, arguments = fields.need("call_id", str), fields.rest.get("arguments")
    written = arguments is None or isinstance(arguments, str)
    text = arguments or "" if written else printed(arguments, fields.path("arguments"))
    return ToolCall(
        id, TOOL_SEARCH, text, where=fields.where, extras=fields.extras(losses, quiet=_QUIET_SEARCH)
    )


def encode_search(call: ToolCall) -> Wire:
    arguments = jsontext.decode_object(call.arguments) if call.arguments else {}
    value = call.arguments if arguments is None else arguments
    return {"arguments": value, **own(call.extras, PROTOCOL_NAME), "call_id": call.id}


def decode_found(fields: Fields, losses: Losses) -> ToolResult:
    """The tools stay in the extras; other protocols get their names."""
    id, names = fields.need("call_id", str), _found_names(fields.rest.get("tools"))
    text = f"Tools now available: {', '.join(names)}" if names else "No tools were found."
    extras = fields.extras(losses, quiet=_QUIET_SEARCH)
    return ToolResult(id, TOOL_SEARCH, (Text(text, where=fields.where),), where=fields.where, extras=extras)


def encode_found(result: ToolResult) -> Wire:
    return {**own(result.extras, PROTOCOL_NAME), "call_id": result.call_id}


@cached_by_tools
def declares_search(tools: tuple[AnyTool, ...], losses: Losses) -> bool:
    """Whether the client runs a tool search itself."""
    declared = [own(tool.extras, PROTOCOL_NAME) for tool in tools if isinstance(tool, ToolDeclaration)]
    return any(wire.get("type") == TOOL_SEARCH for wire in declared)


def claimed(part: AnyPart, request: Request | None, id: str) -> AnyPart:
    """A call of tool_search as a `tool_search_call` item, for a client that declared its own search."""
    if not isinstance(part, ToolCall) or part.name != TOOL_SEARCH or is_native(part):
        return part
    if request is None or not declares_search(request.tools, Losses()):
        return part
    item: Wire = {"type": "tool_search_call", "id": id, "execution": "client", "status": "completed"}
    return replace(part, extras={PROTOCOL_NAME: item})


def _found_names(tools: Any) -> list[str]:
    names: list[str] = []
    for tool in tools if is_array(tools) else []:
        if is_object(tool) and tool.get("type") == "namespace":
            names += [f"{tool.get('name')}__{name}" for name in _found_names(tool.get("tools"))]
        elif is_object(tool):
            name = tool.get("name") or tool.get("server_label") or tool.get("type")
            names += [name] if isinstance(name, str) else []
    return names
