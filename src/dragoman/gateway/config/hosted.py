"""`[hosted]`: the hosted tools that the gateway runs itself, where an upstream has none.

A tool is on where its table is there: `[hosted.web_search]`, `[hosted.web_fetch]`, `[hosted.mcp]`. The search
for deferred tools, which reaches nothing outside, is on with any of them.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.gateway.config.source import ConfigSource
from dragoman.hosted.settings import HostedSettings, McpServerSettings


def read_hosted(source: ConfigSource) -> HostedSettings | None:
    table = source.table("hosted")
    if not table:
        return None
    settings = source.section("hosted", HostedSettings)
    search = settings.web_search
    if search:
        where = ("hosted", "web_search")
        search = replace(search, api_key=source.key((*where, "api_key"), search.api_key))
    fetch, mcp = settings.web_fetch, settings.mcp
    servers = {name: _with_secrets(source, name, server) for name, server in mcp.servers.items()}
    return replace(
        settings,
        web_search=search,
        web_fetch=replace(fetch, enabled=fetch.enabled and "web_fetch" in table),
        mcp=replace(mcp, enabled=mcp.enabled and "mcp" in table, servers=servers),
    )


def _with_secrets(source: ConfigSource, name: str, server: McpServerSettings) -> McpServerSettings:
    where = ("hosted", "mcp", "servers", name)
    return replace(
        server,
        headers={key: source.secret((*where, "headers", key), text) for key, text in server.headers.items()},
        environ={key: source.secret((*where, "environ", key), text) for key, text in server.environ.items()},
    )
