"""No restriction of a client becomes a permission upstream.

Each spelling of a restriction, in each protocol, to each other one: what the request permits the upstream's
model is a part of what the client permits. What is withheld is a material loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.model_profile import ModelProfile

CHAT, RESPONSES, ANTHROPIC, GEMINI = "openai-chat", "openai-responses", "anthropic", "gemini"
INTERACTIONS = "gemini-interactions"
Wire = dict[str, Any]
MODELS = {
    ANTHROPIC: "claude-sonnet-4-5",
    GEMINI: "gemini-3-flash-preview",
    RESPONSES: "gpt-5.2",
    CHAT: "gpt-4o-search-preview",
    INTERACTIONS: "gemini-3-flash-preview",
}
TOOLS = {"roll": True, "rm": False, "read": True}  # of the MCP server: whether it only reads
DOMAINS = ("a.com", "x.a.com", "b.com", "c.com")
SERVER = {"type": "url", "name": "d", "url": "https://d.example/mcp", "authorization_token": "secret"}
FUNCTION: dict[str, Wire] = {
    CHAT: {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}},
    RESPONSES: {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
    ANTHROPIC: {"name": "f", "input_schema": {"type": "object", "properties": {}}},
    GEMINI: {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]},
    INTERACTIONS: {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
}


def mcp(**more: Any) -> Wire:
    headers = {"Authorization": "Bearer secret"}
    return {
        "type": "mcp", "server_label": "d", "server_url": SERVER["url"], "headers": headers,
        "require_approval": "never", **more,
    }  # fmt: skip


def toolset(**more: Any) -> Wire:
    return {"tools": [{"type": "mcp_toolset", "mcp_server_name": "d", **more}], "mcp_servers": [SERVER]}


def old_server(**configuration: Any) -> Wire:
    return {"mcp_servers": [{**SERVER, "tool_configuration": configuration}]}


def searching(protocol: str, **more: Any) -> list[Wire]:
    if protocol == RESPONSES:
        return [{"type": "web_search", "filters": more}]
    return [{"type": "web_search_20250305", "name": "web_search", **more}]


OFF, ON = {"enabled": False}, {"enabled": True}
FILTERS: list[Any] = [
    None, ["roll"], ["roll", "rm"], [], {"tool_names": ["roll"]}, {"tool_names": []}, {"read_only": True},
    {"read_only": False}, {"tool_names": ["rm", "roll"], "read_only": True}, {}, {"new": 1},
]  # fmt: skip
APPROVALS: list[Any] = [
    None, "always", {"never": {"tool_names": ["roll"]}}, {"always": {"tool_names": ["rm"]}},
    {"never": {"read_only": True}}, {"never": {}}, "new",
]  # fmt: skip
TOOLSETS: list[Wire] = [
    {}, {"default_config": OFF}, {"default_config": ON}, {"configs": {"rm": OFF}},
    {"default_config": OFF, "configs": {"roll": ON}}, {"default_config": OFF, "configs": {"roll": {}}},
    {"default_config": ON, "configs": {"rm": OFF, "roll": ON}},
    {"default_config": OFF, "configs": {"rm": OFF}},
]  # fmt: skip
OLD_SERVERS: list[Wire] = [
    {}, ON, OFF, {"allowed_tools": ["roll"]}, {**ON, "allowed_tools": []}, {**OFF, "allowed_tools": ["rm"]},
]  # fmt: skip
ENTRIES: list[Any] = [
    None, [], ["roll"], [{}], [{"mode": "auto", "tools": ["roll"]}], [{"mode": "auto", "tools": []}],
    [{"mode": "none"}], [{"mode": "none", "tools": ["roll"]}], [{"mode": "new", "tools": ["roll"]}],
    [{"mode": "auto", "tools": ["roll", "rm"]}, {"mode": "none", "tools": ["rm"]}],
]  # fmt: skip
DOMAIN_LISTS: list[Wire] = [
    {}, {"allowed_domains": ["a.com"]}, {"blocked_domains": ["b.com"]},
    {"allowed_domains": ["a.com"], "blocked_domains": ["b.com"]},
    {"allowed_domains": ["a.com"], "blocked_domains": ["x.a.com"]},
    {"allowed_domains": ["x.a.com", "c.com"], "blocked_domains": ["a.com"]},
    {"allowed_domains": ["x.a.com"], "blocked_domains": ["a.com"]},
]  # fmt: skip


def requests() -> Iterator[tuple[str, Wire]]:
    for allowed in FILTERS:
        yield RESPONSES, {"tools": [mcp(**({} if allowed is None else {"allowed_tools": allowed}))]}
    for approval in APPROVALS:
        yield RESPONSES, {"tools": [mcp(require_approval=approval)]}
    for settings in TOOLSETS:
        yield ANTHROPIC, toolset(**settings)
        yield ANTHROPIC, toolset(**settings) | old_server(allowed_tools=["roll", "rm"])
    for configuration in OLD_SERVERS:
        yield ANTHROPIC, old_server(**configuration)
    for entries in ENTRIES:
        allowed = {} if entries is None else {"allowed_tools": entries}
        server = {"type": "mcp_server", "name": "d", "url": SERVER["url"], "headers": mcp()["headers"]}
        yield INTERACTIONS, {"tools": [{**server, **allowed}]}
    for lists in DOMAIN_LISTS:
        yield RESPONSES, {"tools": searching(RESPONSES, **lists)}
        yield ANTHROPIC, {"tools": searching(ANTHROPIC, **lists)}
        excluded = {"excludeDomains": lists["blocked_domains"]} if "blocked_domains" in lists else {}
        yield GEMINI, {"tools": [{"googleSearch": excluded}]}
    for tools in ([mcp()], searching(RESPONSES), [mcp(), *searching(RESPONSES)]):
        declared = [FUNCTION[RESPONSES], *tools]
        for named in (
            [{"type": "mcp", "server_label": "d"}],
            [{"type": "web_search"}],
            [{"type": "function", "name": "f"}],
        ):
            choice = {"type": "allowed_tools", "mode": "auto", "tools": named}
            yield RESPONSES, {"tools": declared, "tool_choice": choice}
        yield RESPONSES, {"tools": declared, "tool_choice": "none"}
    none: dict[str, Any] = {"type": "none"}
    yield ANTHROPIC, {"tools": [FUNCTION[ANTHROPIC], *searching(ANTHROPIC)], "tool_choice": none}
    yield ANTHROPIC, toolset() | {"tool_choice": none}


def permitted(protocol: str, body: Wire) -> set[tuple[str, str]]:
    """What the model may do with the hosted tools and the function f of a request, as its vendor reads it."""
    found: set[tuple[str, str]] = set()
    servers = {server["name"]: server for server in body.get("mcp_servers", ())}
    for tool in body.get("tools", ()):
        match tool:
            case {"type": "mcp"}:
                found |= {("mcp", name) for name in TOOLS if _of_responses(tool, name)}
            case {"type": "mcp_toolset", "mcp_server_name": name}:
                server = servers.pop(name)
                found |= {("mcp", name) for name in TOOLS if _on(tool, name) and _of_server(server, name)}
            case {"type": "mcp_server"}:
                found |= {("mcp", name) for name in TOOLS if _in_entries(tool.get("allowed_tools"), name)}
            case {"type": "google_search"}:
                found |= {("web", each) for each in DOMAINS}
            case {"type": str(kind)} if kind.startswith("web_search"):
                found |= {
                    ("web", each) for each in DOMAINS if _reaches({**tool, **tool.get("filters", {})}, each)
                }
            case {"googleSearch": search}:
                lists = {"blocked_domains": search.get("excludeDomains")}
                found |= {("web", each) for each in DOMAINS if _reaches(lists, each)}
            case {"mcpServers": [_]}:
                found |= {("mcp", name) for name in TOOLS}
            case _:
                found.add(("function", "f"))
    for server in servers.values():
        found |= {("mcp", name) for name in TOOLS if _of_server(server, name)}
    if "web_search_options" in body:
        found |= {("web", each) for each in DOMAINS}
    return {each for each in found if _chosen(protocol, body, each[0])}


def _of_responses(tool: Wire, name: str) -> bool:
    allowed = tool.get("allowed_tools")
    if tool.get("require_approval") != "never":
        return False  # alone: the client has to agree to each call
    if isinstance(allowed, dict):
        names, reads = allowed.get("tool_names"), allowed.get("read_only")
        known = allowed.keys() <= {"tool_names", "read_only"} and bool(allowed)
        return known and (names is None or name in names) and reads in (None, TOOLS[name])
    return allowed is None or name in allowed


def _in_entries(entries: list[Any] | None, name: str) -> bool:
    """Of Interactions: names, or entries of names with a mode."""
    listed = [each if isinstance(each, dict) else {"mode": "auto", "tools": [each]} for each in entries or ()]
    off = [each.get("tools") for each in listed if each.get("mode") == "none"]
    named = [each["tools"] for each in listed if "tools" in each and each.get("mode") != "none"]
    if entries == [] or any(names is None or name in names for names in off):
        return False
    return not named or any(name in names for names in named)


def _on(toolset: Wire, name: str) -> bool:
    default = toolset.get("default_config", {}).get("enabled", True)
    return toolset.get("configs", {}).get(name, {}).get("enabled", default)


def _of_server(server: Wire, name: str) -> bool:
    configuration = server.get("tool_configuration", {})
    return configuration.get("enabled", True) and name in configuration.get("allowed_tools", (name,))


def _reaches(lists: Wire, domain: str) -> bool:
    def within(domains: list[str]) -> bool:
        return any(domain == each or domain.endswith(f".{each}") for each in domains)

    allowed, blocked = lists.get("allowed_domains"), lists.get("blocked_domains")
    return (not allowed or within(allowed)) and not (blocked and within(blocked))


def _chosen(protocol: str, body: Wire, kind: str) -> bool:
    configured = body.get("toolConfig", {}).get("functionCallingConfig")
    match body.get("tool_choice") or configured or body.get("generation_config", {}).get("tool_choice"):
        case "none" | {"type": "none"}:
            return protocol == CHAT and kind == "web"  # a setting of the request there, no tool
        case {"type": "allowed_tools", "tools": list(tools)}:
            kinds = {"mcp": "mcp", "web_search": "web", "function": "function"}
            return kind in {kinds[each["type"]] for each in tools}  # pyright: ignore[reportUnknownVariableType] - a Wire
        case {"mode": "NONE"}:
            return kind != "function"
        case {"mode": _, "allowedFunctionNames": names}:
            return kind != "function" or "f" in names
        case _:
            return True


def body_of(protocol: str, more: Wire) -> Wire:
    bodies: dict[str, Wire] = {
        RESPONSES: {"model": "m", "input": "x"},
        ANTHROPIC: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
        GEMINI: {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
        INTERACTIONS: {"model": "m", "input": "x"},
    }
    return bodies[protocol] | more


CASES = [(client, body, upstream) for client, body in requests() for upstream in MODELS if upstream != client]


@pytest.mark.parametrize("client, more, upstream", CASES)
def test_no_restriction_becomes_a_permission(client: str, more: Wire, upstream: str) -> None:
    body = body_of(client, more)
    exchange = dragoman.Exchange(client, upstream)
    sent = exchange.request(body, model=MODELS[upstream])
    before, after = permitted(client, body), permitted(upstream, sent)
    assert after <= before
    if after < before:
        assert any(loss.severity == "material" for loss in exchange.losses)
    if not any(kind == "mcp" for kind, _ in after) and "tool_choice" not in body:
        assert "secret" not in str(sent)


def test_the_law_sees_what_is_permitted() -> None:
    """The law is worth nothing where nothing passes."""
    passed = [
        permitted(
            upstream,
            dragoman.Exchange(client, upstream).request(body_of(client, more), model=MODELS[upstream]),
        )
        for client, more, upstream in CASES
    ]
    assert sum(map(bool, passed)) > 50
    assert {("mcp", "roll")} in passed
    assert {("web", "a.com"), ("web", "x.a.com")} in passed


HOSTED: dict[str, Wire] = {
    CHAT: {"messages": [{"role": "user", "content": "x"}], "web_search_options": {}},
    RESPONSES: {
        "tools": [*searching(RESPONSES), mcp(), {"type": "code_interpreter", "container": {"type": "auto"}}]
    },
    ANTHROPIC: {**toolset(), "tools": [*toolset()["tools"], *searching(ANTHROPIC)]},
    GEMINI: {"tools": [{"googleSearch": {}}, {"codeExecution": {}}, {"urlContext": {}}]},
    INTERACTIONS: {
        "tools": [{"type": "google_search"}, {"type": "mcp_server", "name": "d", "url": "https://d.e"}]
    },
}


@pytest.mark.parametrize("upstream", MODELS)
@pytest.mark.parametrize("client", HOSTED)
@pytest.mark.parametrize("as_bytes", [False, True], ids=["dict", "bytes"])
def test_a_server_that_runs_no_hosted_tools_gets_none(client: str, upstream: str, as_bytes: bool) -> None:
    body = HOSTED[client] if client == CHAT else body_of(client, HOSTED[client])
    exchange = dragoman.Exchange(client, upstream, profile=ModelProfile(hosted_tools=()))
    wire = {"model": "m", **body}
    sent = exchange.request_bytes(jsontext.encode(wire)) if as_bytes else str(exchange.request(wire)).encode()
    for word in (b"search", b"mcp", b"secret", b"code", b"urlContext"):
        assert word not in sent, sent
    assert exchange.losses
    assert {loss.severity for loss in exchange.losses if loss.code.startswith("hosted")} == {"material"}
