"""Tools that a provider runs itself, where it has them, and that run here where it has none.

generate("…", model, tools=[web_search(), web_fetch(), mcp("https://mcp.example.com/mcp")])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import urlsplit

from dragoman.core.errors import ConfigError
from dragoman.core.model import HostedKind, HostedTool

if TYPE_CHECKING:
    from dragoman.hosted.settings import HostedSettings

# backend, and the variable that chooses it: an address or a key
_BACKENDS = {"searxng": "SEARXNG_URL", "brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}


class ServerTool:
    """`tool` is the declaration. `settings` is what runs it here, in the words of its table in `[hosted]` of
    a gateway. `is_local`: no provider can run it."""

    def __init__(self, tool: HostedTool, settings: dict[str, Any], is_local: bool = False) -> None:
        self.tool: HostedTool = tool
        self.settings: dict[str, Any] = settings
        self.is_local: bool = is_local

    @property
    def kind(self) -> HostedKind:
        return self.tool.kind

    def __repr__(self) -> str:
        return f"<{self.kind} {self.tool.settings.get('label') or self.settings.get('backend') or ''}>"


class UseLimits(TypedDict, total=False):
    """Which pages a tool may use, and how often it may run in one reply."""

    allowed_domains: Sequence[str]
    blocked_domains: Sequence[str]
    max_uses: int | None


def web_search(
    backend: str = "",
    *,
    url: str = "",
    api_key: str = "",
    count: int = 8,
    **limits: Unpack[UseLimits],
) -> ServerTool:
    """A search of the web: the provider's own, else `backend`: searxng, brave, tavily.

    Without a backend SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY chooses one.
    """
    if not backend:
        backend = next((name for name, variable in _BACKENDS.items() if os.environ.get(variable)), "")
        given = os.environ.get(_BACKENDS.get(backend, ""), "")
        url, api_key = (given, api_key) if backend == "searxng" else (url, api_key or given)
    settings = {"backend": backend, "url": url, "api_key": api_key, "count": count}
    return ServerTool(HostedTool("web_search", "", _settings_of(limits)), settings)


def web_fetch(*, allowed_hosts: Sequence[str] = (), **limits: Unpack[UseLimits]) -> ServerTool:
    """Reads web pages and PDFs whose address stands in the conversation. Private addresses are reached only
    where `allowed_hosts` names them ("host" or "host:port"); then no other host is."""
    tool = HostedTool("web_fetch", "", _settings_of(limits))
    return ServerTool(tool, {"allowed_hosts": tuple(allowed_hosts)})


def mcp(
    server: str | Sequence[str],
    *,
    name: str = "",
    headers: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    allowed_tools: Sequence[str] | None = None,
) -> ServerTool:
    """The tools of an MCP server: an address, or a program with its arguments, which runs here."""
    is_url = isinstance(server, str)
    parts = urlsplit(server) if is_url else None
    if parts and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ConfigError(
            f"An MCP server is an http address, or a program with its arguments, not {server!r}."
        )
    place = (parts.hostname or "") if parts else os.path.basename(server[0])
    label = name or place.replace(".", "_")
    url = server if is_url else f"mcp:{label}"
    settings: dict[str, Any] = {"label": label, "url": url, "approval": "never"}
    if headers:
        settings["headers"] = dict(headers)
    if allowed_tools is not None:
        settings["allowed"] = list(allowed_tools)
    tool = HostedTool("mcp", "", settings)
    if parts:
        return ServerTool(tool, {"allowed_hosts": (parts.netloc.rpartition("@")[2].lower(),)})
    program = {"command": tuple(server), "environ": dict(environ or {})}
    return ServerTool(tool, {"servers": {label: program}}, is_local=True)


def _settings_of(limits: UseLimits) -> dict[str, Any]:
    domains = {name: [*limits.get(name, ())] for name in ("allowed_domains", "blocked_domains")}
    given = {**domains, "max_uses": limits.get("max_uses")}
    return {name: value for name, value in given.items() if value}


def settings_of(tools: Iterable[ServerTool]) -> HostedSettings:
    """What runs them here. Raises ConfigError where a search has no backend."""
    from msgspec import ValidationError, convert

    from dragoman.hosted.settings import HostedSettings

    table: dict[str, Any] = {"web_fetch": {"enabled": False}}
    hosts: tuple[str, ...] = ()
    servers: dict[str, Any] = {}
    for tool in tools:
        if tool.kind == "web_search" and not tool.settings["backend"]:
            raise ConfigError(
                "This provider has no web search. Name a backend, such as "
                'web_search("searxng", url="http://127.0.0.1:8888"), or set SEARXNG_URL, BRAVE_API_KEY or '
                "TAVILY_API_KEY."
            )
        if tool.kind == "mcp":
            hosts = (*hosts, *tool.settings.get("allowed_hosts", ()))
            servers |= tool.settings.get("servers", {})
        else:
            table[tool.kind] = tool.settings
    table["mcp"] = {"enabled": bool(hosts), "allowed_hosts": hosts, "servers": servers}
    try:
        return convert(table, HostedSettings)
    except ValidationError as error:
        raise ConfigError(f"A hosted tool has a wrong setting: {error}") from None
