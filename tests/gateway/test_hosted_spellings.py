"""Every spelling of every hosted tool, by every client, over upstreams of every protocol that have none: the
gateway runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.hosted import HostedResult
from dragoman.core.model import HostedKind, HostedTool, Text, ToolCall, ToolDeclaration
from dragoman.hosted.executor import DeclaredFunctions, HostedContext
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.tool_search import ToolSearchExecutor
from gateway.canned import Answer, Canned
from gateway.hosted_stand import ASKED, calls_of, over_each, replies, text_of
from gateway.plain import send
from gateway.stands import Stand
from spoken import addressed

UPSTREAMS = (
    "openai-chat",
    "anthropic",
    "openai-responses",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
    "qwen-chat",
    "hermes",
)
CALLED: dict[str, tuple[str, str]] = {
    "web_search": ("web_search", '{"query": "mail"}'),
    "web_fetch": ("web_fetch", '{"url": "https://e.org/p"}'),
    "mcp": ("find", '{"q": "mail"}'),
    "tool_search": ("tool_search", '{"query": "mail", "pattern": "mail"}'),
}
FOUND = "what it found"


class Stub:
    """A hosted tool that finds the same whatever it is asked."""

    def __init__(self, kind: HostedKind) -> None:
        self.kind: HostedKind = kind
        self.called = 0

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        return DeclaredFunctions((ToolDeclaration(CALLED[self.kind][0], "It finds.", {"type": "object"}),))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        self.called += 1
        return HostedResult((Text(FOUND),))

    async def close(self) -> None: ...


def tool(kind: str, **more: Any) -> Any:
    return {"tools": [{"type": kind, **more}]}


SERVER = "https://mcp.example.com/mcp"
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
MAIL = {"name": "send_mail", "description": "mail", "defer_loading": True}
FAR: dict[str, Any] = {"mcp_servers": [{"type": "url", "name": "far", "url": SERVER}]}
TRANSPORT = {"url": SERVER}
SPELLINGS: dict[str, dict[str, tuple[str, Any]]] = {
    "anthropic": {
        **{
            f"web_search_{date}": ("web_search", tool(f"web_search_{date}", name="web_search"))
            for date in (20250305, 20260209, 20260318, 20991231)
        },
        **{
            f"web_fetch_{date}": ("web_fetch", tool(f"web_fetch_{date}", name="web_fetch"))
            for date in (20250910, 20260209, 20260309, 20260318)
        },
        **{
            f"tool_search_tool_{way}{date}": (
                "tool_search",
                {
                    "tools": [
                        {"type": f"tool_search_tool_{way}{date}", "name": f"tool_search_tool_{way}"},
                        {**MAIL, "input_schema": OBJECT},
                    ]
                },
            )
            for way in ("regex", "bm25")
            for date in ("_20251119", "")
        },
        "a toolset": ("mcp", {**FAR, **tool("mcp_toolset", mcp_server_name="far")}),
        "a server without a toolset": ("mcp", FAR),
    },
    "openai-responses": {
        **{
            kind: ("web_search", tool(kind))
            for kind in (
                "web_search",
                "web_search_2025_08_26",
                "web_search_2099_12_31",
                "web_search_preview",
                "web_search_preview_2025_03_11",
            )
        },
        "mcp": ("mcp", tool("mcp", server_label="far", server_url=SERVER, require_approval="never")),
        **{
            f"tool_search {more}": (
                "tool_search",
                {
                    "tools": [
                        {"type": "tool_search", **more},
                        {**MAIL, "type": "function", "parameters": OBJECT},
                    ]
                },
            )
            for more in ({}, {"execution": "server"})
        },
    },
    "openai-chat": {
        "web_search_options": ("web_search", {"web_search_options": {}}),
        **{
            kind: ("web_search", tool(kind))
            for kind in (
                "web_search",
                "web_search_2025_08_26",
                "web_search_preview",
                "openrouter:web_search",
                "browser_search",
            )
        },
    },
    "gemini": {
        **{
            key: ("web_search", {"tools": [{key: {}}]})
            for key in (
                "googleSearch",
                "google_search",
                "googleSearchRetrieval",
                "google_search_retrieval",
                "enterpriseWebSearch",
                "enterprise_web_search",
                "parallelAiSearch",
                "exa_ai_search",
            )
        },
        **{key: ("web_fetch", {"tools": [{key: {}}]}) for key in ("urlContext", "url_context")},
        **{
            servers: ("mcp", {"tools": [{servers: [{"name": "far", transport: TRANSPORT}]}]})
            for servers, transport in (
                ("mcpServers", "streamableHttpTransport"),
                ("mcp_servers", "streamable_http_transport"),
            )
        },
        "an entry that is no array": ("web_search", {"tools": {"googleSearch": {}}}),
    },
    "gemini-interactions": {
        "google_search": ("web_search", tool("google_search")),
        "url_context": ("web_fetch", tool("url_context")),
        "mcp_server": ("mcp", tool("mcp_server", name="far", url=SERVER)),
    },
}
ROWS = [
    pytest.param(client, name, id=f"{client}-{name}") for client in SPELLINGS for name in SPELLINGS[client]
]


Fixed = tuple[Stand, dict[str, Canned], dict[str, Stub]]


@pytest.fixture(scope="module")
def fixed() -> Iterator[Fixed]:
    stubs = [Stub("web_search"), Stub("web_fetch"), Stub("mcp")]
    with over_each(UPSTREAMS, HostedTools([*stubs, ToolSearchExecutor()])) as (stand, models):
        yield stand, models, {stub.kind: stub for stub in stubs}


def called(upstream: str, kind: str) -> Answer:
    if upstream != "hermes":
        return calls_of(upstream, CALLED[kind])
    name, arguments = CALLED[kind]
    said = f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'
    return replies("openai-chat", (Text(said),), False)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize(("client", "name"), ROWS)
def test_every_spelling_is_run_here(fixed: Fixed, client: str, name: str, upstream: str) -> None:
    kind, declared = SPELLINGS[client][name]
    stand, models, stubs = fixed
    model, stub = models[upstream], stubs.get(kind)
    model.answers, model.requests = [called(upstream, kind), text_of(upstream, "Done.")], []
    before = stub.called if stub else 0
    path, body = addressed(client, {**ASKED[client][1], **declared}, f"{upstream}:m")
    got = send(stand.url, "POST", path, jsontext.encode(body))
    assert got.status == 200, got.body
    assert b"Done." in got.body
    assert "hosted.emulated" in got.headers["x-dragoman-losses"]
    assert "dropped" not in got.headers["x-dragoman-losses"]
    assert stub is None or stub.called == before + 1
    found = FOUND if stub else "send_mail"
    assert found in model.requests[1].body.decode()


# Tools that the conversation declares, and not the head of the request
LATER: dict[str, dict[str, Any]] = {
    "anthropic": {
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "system",
                "content": [
                    {
                        "type": "tool_addition",
                        "tool": {
                            "type": "tool_definition",
                            "definition": {"type": "web_search_20250305", "name": "web_search"},
                        },
                    }
                ],
            },
            {"role": "user", "content": "Weather?"},
        ]
    },
    "openai-responses": {
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]},
            {"role": "user", "content": "Weather?"},
        ]
    },
}


@pytest.mark.parametrize("client", LATER)
def test_a_tool_that_the_conversation_declares(fixed: Fixed, client: str) -> None:
    stand, models, stubs = fixed
    models["openai-chat"].answers = [
        called("openai-chat", "web_search"),
        text_of("openai-chat", "Done."),
    ]
    before = stubs["web_search"].called
    path, body = addressed(client, {**ASKED[client][1], **LATER[client]}, "openai-chat:m")
    got = send(stand.url, "POST", path, jsontext.encode(body))
    assert (got.status, b"Done." in got.body) == (200, True), got.body
    assert stubs["web_search"].called == before + 1


class Untouched(HostedTools):
    async def declare(self, *given: Any, **more: Any) -> Any:
        raise AssertionError("the request declares no hosted tool")


FUNCTION: dict[str, Any] = {"name": "web_search", "parameters": OBJECT}
FUNCTIONS: dict[str, Any] = {
    "anthropic": [{"name": "mcp__far__web_search", "input_schema": OBJECT}],
    "openai-responses": [{"type": "function", **FUNCTION}, {"type": "function", "name": "mcp"}],
    "openai-chat": [{"type": "function", "function": FUNCTION}],
    "gemini": [{"functionDeclarations": [{"name": "googleSearch"}]}],
    "gemini-interactions": [{"type": "function", "name": "google_search"}],
}


@pytest.mark.parametrize("client", FUNCTIONS)
def test_functions_with_such_names_cost_no_look_at_the_conversation(client: str) -> None:
    with over_each(["openai-chat"], Untouched([Stub("web_search")])) as (stand, models):
        models["openai-chat"].answers = [text_of("openai-chat", "Done.")]
        declared = {**ASKED[client][1], "tools": FUNCTIONS[client]}
        path, body = addressed(client, declared, "openai-chat:m")
        got = send(stand.url, "POST", path, jsontext.encode(body))
    assert (got.status, b"Done." in got.body) == (200, True), got.body
