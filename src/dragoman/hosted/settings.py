"""What `[hosted]` of the configuration says, and the executors that come of it."""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.core.model import HostedKind
from dragoman.core.transport import Transport
from dragoman.fetch.guard import AddressGuard
from dragoman.hosted.executor import CallLimits, HostedExecutor


class WebSearchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`backend`: searxng, brave, tavily, mcp:SERVER, or one that a package adds by an entry point."""

    backend: str
    url: str = ""
    api_key: str = ""
    count: int = 8  # results of a search
    allowed_domains: tuple[str, ...] = ()
    tool: str = ""  # of an MCP server; default: the one whose name has "search" in it


class WebFetchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    allowed_hosts: tuple[str, ...] = ()


class McpServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A server that clients may name as `mcp:NAME`. Only the configuration can name a program."""

    url: str = ""
    command: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    environ: dict[str, str] = {}


class McpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    allowed_hosts: tuple[str, ...] = ()
    servers: dict[str, McpServerSettings] = {}


class HostedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    limits: CallLimits = CallLimits()
    web_search: WebSearchSettings | None = None  # without a backend there is no search
    web_fetch: WebFetchSettings = field(default_factory=WebFetchSettings)
    mcp: McpSettings = field(default_factory=McpSettings)


def guard_of(allowed_hosts: tuple[str, ...]) -> AddressGuard:
    return AddressGuard(frozenset(host.lower().rstrip(".") for host in allowed_hosts))


def build_executors(settings: HostedSettings, transport: Transport) -> dict[HostedKind, HostedExecutor]:
    """An executor for each kind that the configuration allows."""
    from dragoman.hosted.mcp_tools import McpExecutor
    from dragoman.hosted.search import find_backend
    from dragoman.hosted.tool_search import ToolSearchExecutor
    from dragoman.hosted.web_fetch import WebFetchExecutor
    from dragoman.hosted.web_search import WebSearchExecutor

    servers = McpExecutor(settings.mcp)
    executors: list[HostedExecutor] = [ToolSearchExecutor()]
    if settings.web_fetch.enabled:
        executors.append(WebFetchExecutor(settings.web_fetch))
    if settings.mcp.enabled or settings.mcp.servers:
        executors.append(servers)
    if search := settings.web_search:
        executors.append(WebSearchExecutor(search, find_backend(search, transport, servers)))
    return {executor.kind: executor for executor in executors}
