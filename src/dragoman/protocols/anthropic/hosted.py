"""Anthropic's own tools: declarations, the blocks in which they are called and answered, MCP servers.

A declaration and a block stay whole in the extras, so that they go back as they came; neutral settings
and plain text say the same to other protocols.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

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
    Citation,
    ExecutedCall,
    Foreign,
    HostedKind,
    HostedTool,
    Message,
    Request,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.core.seal import MAGIC, seal, unseal
from dragoman.protocols.anthropic.computer import as_function
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, is_native, printed

_DATED = re.compile(r"(.*?)(?:_toolset)?_\d{8}")
_KINDS: dict[str, HostedKind] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "code_execution": "code_execution",
    "tool_search_tool_regex": "tool_search",
    "tool_search_tool_bm25": "tool_search",
    "bash": "bash",
    "text_editor": "text_editor",
    "memory": "memory",
    "computer": "computer",
    "mcp_toolset": "mcp",
}
# What we declare for another protocol's tool: the version that most models take
_DECLARED: dict[HostedKind, Wire] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
    "tool_search": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "bash": {"type": "bash_20250124", "name": "bash"},
    "text_editor": {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    "memory": {"type": "memory_20250818", "name": "memory"},
}
HOSTED = frozenset({*_DECLARED, "computer", "mcp"})
FILTERS = word_set(
    "web_search.allowed_domains web_search.blocked_domains web_fetch.allowed_domains "
    "web_fetch.blocked_domains mcp.allowed mcp.denied"
)
# How clients spell neutral settings
_SPELLED = {"context_size": "search_context_size", "location": "user_location", "deferred": "defer_loading"}
_WEB_SETTINGS = ("max_uses", "allowed_domains", "blocked_domains", "max_content_tokens")
_TAKEN = frozenset(
    {
        "type",
        "name",
        "user_location",
        "mcp_server_name",
        "default_config",
        "configs",
        *_WEB_SETTINGS,
        "display_width_px",
        "display_height_px",
        "display_number",
        "enable_zoom",
    }
)


# Declarations


def decode_hosted(fields: Fields, losses: Losses) -> HostedTool:
    wire, kind, name = fields.rest, fields.rest.get("type"), fields.rest.get("name")
    if not isinstance(kind, str):
        raise WireError(PROTOCOL_NAME, fields.path("type"), f"expected a string, got {describe(kind)}")
    dated = _DATED.fullmatch(kind)
    known = _KINDS.get(dated[1] if dated else kind, "other")
    settings = _decode_toolset(fields, losses) if known == "mcp" else _decode_web(wire)
    function = as_function(wire) if known == "computer" else None
    extras = fields.extras(losses, quiet=_TAKEN, topic="hosted.setting")
    named = name if isinstance(name, str) else ""
    return HostedTool(known, named, settings, function, where=fields.where, extras=extras)


def encode_hosted(tool: HostedTool, profile: ModelProfile, losses: Losses) -> Wire | None:
    if is_native(tool):
        return own(tool.extras, PROTOCOL_NAME) or None
    if tool.kind == "mcp":
        return _encode_toolset(tool, losses)
    declared = _DECLARED.get(tool.kind)
    if declared is None or (tool.kind == "tool_search" and not profile.tool_search):
        losses.dropped(tool.where, f"Anthropic has no hosted {tool.kind} tool.", f"hosted.{tool.kind}")
        return None
    if tool.kind in ("web_search", "web_fetch"):
        return {**declared, **_encode_web(tool, losses)}
    _report_settings(tool, set(), losses)
    return {**declared}


def _decode_web(wire: Wire) -> dict[str, Any]:
    settings = {key: wire[key] for key in _WEB_SETTINGS if wire.get(key)}
    location = wire.get("user_location")
    if is_object(location):
        settings["location"] = {key: value for key, value in location.items() if key != "type" and value}
    return settings


def _encode_web(tool: HostedTool, losses: Losses) -> Wire:
    settings = tool.settings
    wire: Wire = {key: settings[key] for key in _WEB_SETTINGS if settings.get(key)}
    taken = {*_WEB_SETTINGS}
    if settings.get("location") and tool.kind == "web_search":
        wire["user_location"] = {"type": "approximate", **settings["location"]}
        taken.add("location")
    _report_settings(tool, taken, losses)
    return wire


def _report_settings(tool: HostedTool, taken: set[str], losses: Losses) -> None:
    for name, value in tool.settings.items():
        if value and name not in taken:
            where = f"{tool.where}.{_SPELLED.get(name, name)}"
            losses.dropped(where, f"The {tool.kind} of Anthropic has no such setting.", "hosted.setting")


# MCP servers (beta). They stand beside the tools, under `mcp_servers`; an `mcp_toolset` among the tools names
# one. The older form of the beta (mcp-client-2025-04-04) has the servers alone.


def _decode_toolset(fields: Fields, losses: Losses) -> dict[str, Any]:
    """One that is off by default allows the tools that it turns on; another denies those it turns off."""
    name = fields.rest.get("mcp_server_name")
    settings: dict[str, Any] = {"label": name if isinstance(name, str) else ""}
    default, configs = fields.rest.get("default_config"), fields.rest.get("configs")
    if configs is not None and not is_object(configs):
        raise fields.wrong("configs", "dict", configs)
    switches: dict[str, bool | None] = {}
    deferred: dict[str, bool] = {}
    tools = {f"configs.{name}": config for name, config in (configs or {}).items()}
    for key, config in {"default_config": default, **tools}.items():
        if config is not None:
            inner = Fields(config, fields.path(key), PROTOCOL_NAME)
            switches[key] = inner.take("enabled", bool)
            if (later := inner.take("defer_loading", bool)) is not None:
                deferred["" if key == "default_config" else key.removeprefix("configs.")] = later
            inner.extras(losses, topic="hosted.setting")
    if any(deferred.values()):
        settings["deferred"] = deferred
    off_by_default = switches.pop("default_config", None) is False
    named = {key.removeprefix("configs."): on for key, on in switches.items() if on is not None}
    if off_by_default:
        settings["allowed"] = [name for name, on in named.items() if on]
    elif denied := [name for name, on in named.items() if not on]:
        settings["denied"] = denied
    return settings


def _encode_toolset(tool: HostedTool, losses: Losses) -> Wire | None:
    """The declaration; `encode_servers` writes the server that it names."""
    if not tool.settings.get("url"):
        losses.dropped(tool.where, "Anthropic needs the address of an MCP server.", "hosted.mcp")
        return None
    _report_settings(tool, _MCP_SETTINGS, losses)
    wire: Wire = {"type": "mcp_toolset", "mcp_server_name": _label(tool)}
    allowed, deferred = tool.settings.get("allowed"), tool.settings.get("deferred")
    later = {"defer_loading": True} if is_object(deferred) and deferred.get("") else {}
    if later:
        wire["default_config"] = later
    if is_array(allowed):
        wire["default_config"] = {"enabled": False, **later}
        wire["configs"] = {str(name): {"enabled": True} for name in allowed}
    elif denied := tool.settings.get("denied"):
        wire["configs"] = {str(name): {"enabled": False} for name in denied}
    return wire


def decode_servers(fields: Fields, tools: tuple[AnyTool, ...], losses: Losses) -> tuple[AnyTool, ...]:
    """`tools` with the settings of their servers; a server that no toolset names is a tool of its own."""
    servers = {
        server.settings["label"]: server
        for i, wire in enumerate(fields.list("mcp_servers") or ())
        if (server := _decode_server(Fields(wire, f"mcp_servers[{i}]", PROTOCOL_NAME), losses))
    }
    if not servers:
        return tools
    joined: list[AnyTool] = []
    for tool in tools:
        if _is_mcp(tool) and (server := servers.pop(tool.settings["label"], None)):
            tool = replace(tool, settings=_joined(server.settings, tool.settings))
        joined.append(tool)
    return (*joined, *servers.values())


@cached_by_tools
def encode_servers(tools: tuple[AnyTool, ...], losses: Losses) -> Wire:
    servers = [
        _encode_server(tool, losses)
        for tool in tools
        if _is_mcp(tool) and not is_native(tool) and tool.settings.get("url")
    ]
    return {"mcp_servers": servers} if servers else {}


def _joined(server: dict[str, Any], toolset: dict[str, Any]) -> dict[str, Any]:
    """Both may list what is allowed: then what both allow is."""
    settings = {**server, **toolset}
    if "allowed" in server:
        denied = toolset.get("denied", ())
        settings["allowed"] = [
            name
            for name in server["allowed"]
            if name in toolset.get("allowed", (name,)) and name not in denied
        ]
        settings.pop("denied", None)
    return settings


def _decode_server(fields: Fields, losses: Losses) -> HostedTool | None:
    """The server goes back to Anthropic with the request's extras, so the tool made of it has none."""
    settings: dict[str, Any] = {"label": fields.need("name", str), "url": fields.text("url")}
    if token := fields.text("authorization_token"):
        settings["headers"] = {"Authorization": f"Bearer {token}"}
    configuration = fields.fields("tool_configuration")
    enabled = True
    if configuration:
        enabled = configuration.take("enabled", bool) is not False
        if (allowed := configuration.list("allowed_tools")) is not None:
            settings["allowed"] = allowed
        configuration.extras(losses, topic="hosted.setting")
    fields.extras(losses, quiet=_QUIET_SERVER, topic="hosted.setting")
    if not enabled:
        return None
    return HostedTool("mcp", "", settings, where=fields.where, extras={PROTOCOL_NAME: {}})


def _encode_server(tool: HostedTool, losses: Losses) -> Wire:
    wire: Wire = {"type": "url", "name": _label(tool), "url": tool.settings["url"]}
    headers = tool.settings.get("headers")
    for name, value in headers.items() if is_object(headers) else ():
        if name.lower() == "authorization":
            wire["authorization_token"] = str(value).removeprefix("Bearer ")
        else:
            why = "Anthropic sends no such header to MCP servers."
            losses.dropped(f"{tool.where}.headers.{name}", why, "hosted.setting")
    return wire


_QUIET_SERVER = frozenset({"type"})
_MCP_SETTINGS = {"label", "url", "headers", "allowed", "denied", "approval", "deferred"}


def _label(tool: HostedTool) -> str:
    return str(tool.settings.get("label") or tool.name or "mcp")


def _is_mcp(tool: AnyTool) -> TypeGuard[HostedTool]:
    return isinstance(tool, HostedTool) and tool.kind == "mcp"


# Blocks that only Anthropic understands. In the history of a conversation they record what hosted tools did,
# which another model can read as text; in a reply they stand beside the text that the model made of them.


def decode_foreign(block: Wire, where: str, losses: Losses, history: bool) -> Foreign:
    kind = block.get("type")
    text = block_as_text(block, where) if history else ""
    if text:
        why = f"Only {PROTOCOL_NAME} understands a block of type {kind}. It was sent as text."
        losses.changed(where, why, "part.unknown")
    elif _is_tool_search(block) and history:
        why = "A search for tools was sent as the tools that it found. They are declared."
        losses.changed(where, why, "hosted.tool_search")
    else:
        why = f"Only {PROTOCOL_NAME} understands a block of type {kind}."
        losses.dropped(where, why, "part.unknown")
    return Foreign(PROTOCOL_NAME, block, text, where=where)


def block_as_text(block: Wire, where: str) -> str:
    """The content of `block` as text; empty where nobody else could use it."""
    content = block.get("content")
    match block.get("type"):
        case "tool_reference":
            return "".join(f"Tool {name} is now available." for name in referenced(block))
        case "search_result":
            return "\n".join([_source(block), *_texts(content)])
        case "document":
            return "\n".join([string(block.get("title")), *_texts(_dig(block, "source", "content"))]).strip()
        case "server_tool_use" | "mcp_tool_use" if not _is_tool_search(block):
            return f"[{string(block.get('name'))}: {printed(block.get('input'), f'{where}.input')}]"
        case "compaction":
            return string(content)
        case str(kind) if kind.endswith("_tool_result") and not _is_tool_search(block):
            found = find_text(content) or "nothing"
            return f"[{kind.removesuffix('_tool_result')} result: {found}]"
        case _:
            return ""


def encode_executed(call: ExecutedCall) -> tuple[Wire, ...]:
    """The blocks that tell of a call which another upstream ran."""
    id = f"mcptoolu_{call.id}"
    content: list[Wire] = [{"type": "text", "text": call.text, "citations": None}] if call.text else []
    named = {"name": call.name, "server_name": call.server}
    return (
        {"type": "mcp_tool_use", "id": id, **named, "input": jsontext.decode_object(call.arguments) or {}},
        {"type": "mcp_tool_result", "tool_use_id": id, "is_error": call.failed, "content": content},
    )


def _is_tool_search(block: Wire) -> bool:
    """Whether it only loads tools; for other protocols their declaration does that."""
    match block:
        case {"type": "server_tool_use", "name": str(name)}:
            return name.startswith("tool_search_tool")
        case {"type": "tool_search_tool_result" | "tool_addition"}:
            return True
        case _:
            return False


def inline_definitions(messages: Iterable[Message]) -> list[tuple[Any, str]]:
    """Tools that `tool_addition` blocks define (beta inline-tools-2026-09-15), with their places.

    Such blocks stand in system messages only.
    """
    found: list[tuple[Any, str]] = []
    for message in [message for message in messages if message.role == "system"]:
        for part in message.parts:
            match part:
                case Foreign(body={"type": "tool_addition", "tool": {"type": "tool_definition"} as tool}):
                    found.append((tool.get("definition"), f"{part.where}.tool.definition"))
                case _:
                    pass
    return found


def loaded_tools(messages: Iterable[Message]) -> set[str]:
    """Deferred tools that the conversation has loaded: by a reference, or by calling them (G94)."""
    loaded: set[str] = set()
    for message in messages:
        for part in message.parts:
            match part:
                case ToolCall():
                    loaded.add(part.name)
                case ToolResult():
                    bodies = [item.body for item in part.content if isinstance(item, Foreign)]
                    loaded.update(name for body in bodies for name in referenced(body))
                case Foreign() if part.body.get("type") != "tool_removal":
                    loaded.update(referenced(part.body))
                case _:
                    pass
    return loaded


def referenced(block: Wire) -> list[str]:
    """The names in a `tool_reference`, in the result of a tool search, in an added or removed tool."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name)}:
            return [name]
        case {"type": "tool_addition" | "tool_removal", "tool": {"name": str(name)}}:
            return [name]
        case {"type": "tool_search_tool_result", "content": {"tool_references": found}} if is_array(found):
            return [name for item in found if is_object(item) for name in referenced(item)]
        case _:
            return []


def _findings(content: Any) -> list[str]:
    """The results of Anthropic's own tools: sources by title and address, output as it was printed."""
    if isinstance(content, str):
        return [content]
    if is_array(content):
        return [line for item in content for line in _findings(item)]
    match content:
        case {"type": "text", "text": str(text)}:
            return [text]
        case {"error_code": str(code)}:
            return [f"failed with {code}"]
        case {"url": str()}:
            page = page_text(content)
            return [_source(content), *([page] if page else [])]
        case {"stdout": str(out)}:
            return [text for text in (out, string(content.get("stderr"))) if text]
        case {"content": str(text)}:
            return [text]
        case _:
            return []


def find_text(content: Any) -> str:
    """What the result of one of these tools says."""
    return "\n".join(_findings(content))


def page_text(item: Any) -> str:
    """The text of a page; of a search only what the gateway found, because Anthropic encrypts its own."""
    match unseal(string(_dig(item, "encrypted_content"))):
        case ["search", str(text)] if text:
            return text
        case _:
            is_text = _dig(item, "content", "source", "type") == "text"
            return string(_dig(item, "content", "source", "data")) if is_text else ""


def _source(item: Wire) -> str:
    title = string(item.get("title")) or string(_dig(item, "content", "title"))
    address = string(item.get("url")) or string(item.get("source"))
    return f"{title} ({address})" if title and address else title or address


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in rows(content) if isinstance(block.get("text"), str)]


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Searches of another provider's hosted tool, as blocks. Claude Code counts searches by their blocks and shows
# "Did 0 searches" where there are only citations (G95: 9router#3133, copilot-api#241). Ids and contents are
# marked as ours, because Anthropic would refuse them. Ids of calls that the gateway executed hold the magic
# word of seals, so that a body with them is never forwarded unread.

MADE_HERE, MCP_MADE_HERE = "srvtoolu_dragoman_", "mcptoolu_dragoman_"
EXECUTED, MCP_EXECUTED = f"{MADE_HERE}{MAGIC}_", f"{MCP_MADE_HERE}{MAGIC}_"
_MADE_HERE = seal("search")
_DIRECT = {"caller": {"type": "direct"}}


def cited(parts: Sequence[AnyPart]) -> list[Citation]:
    return [citation for part in parts if type(part) is Text for citation in part.citations]


def encode_search(
    id: str, citations: Sequence[Citation], request: Request | None, losses: Losses
) -> tuple[Wire, ...]:
    """The call of the search and its result, where the client declared one and the reply cites something."""
    found = {
        citation.url: citation.title for citation in citations if citation.url and not is_native(citation)
    }
    if request is None or not found or not any(tool.kind == "web_search" for tool in request.tools):
        return ()
    losses.invented("content", "The model cites what it found, so a search was added.", "hosted.web_search")
    name = MADE_HERE + re.sub(r"[^a-zA-Z0-9]", "_", id)
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
    texts = [
        part.text
        for message in request.messages
        for part in message.parts
        if message.role == "user" and isinstance(part, Text)
    ]
    query = {"query": texts[-1] if texts else ""}
    return (
        {"type": "server_tool_use", "id": name, "name": "web_search", "input": query, **_DIRECT},
        {"type": "web_search_tool_result", "tool_use_id": name, "content": results, **_DIRECT},
    )


def count_requests(blocks: Iterable[Wire]) -> Wire | None:
    """`server_tool_use` of the usage: what these blocks show. A search that failed is not counted."""
    counts = {"web_search_requests": 0, "web_fetch_requests": 0}
    shown = False
    for block in blocks:
        kind = str(block.get("type"))
        name = f"{kind.removesuffix('_tool_result')}_requests"
        if name in counts and kind.endswith("_tool_result"):
            content, shown = block.get("content"), True
            counts[name] += not (is_object(content) and "error_code" in content)
    return {**counts} if shown else None


def is_made_here(block: Wire) -> bool:
    """Whether the gateway executed the call of this block, or invented it for its citations."""
    id = block.get("tool_use_id") or block.get("id")
    return isinstance(id, str) and id.startswith((MADE_HERE, MCP_MADE_HERE))


def text_made_here(part: Foreign, losses: Losses) -> Text | None:
    """A block of ours for Anthropic: what the gateway found, as text; nothing of an invented search."""
    id = str(part.body.get("tool_use_id") or part.body.get("id"))
    text = block_as_text(part.body, part.where) if id.startswith((EXECUTED, MCP_EXECUTED)) else ""
    if not text:
        losses.dropped(part.where, "Anthropic takes back only searches of its own.", "hosted.web_search")
        return None
    losses.changed(part.where, "Anthropic takes back only calls that it ran. It is text now.", "part.unknown")
    return Text(text)
