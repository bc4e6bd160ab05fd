"""Keys of search backends and authorizations of MCP servers go to their servers, and nowhere else: no log, no
recording, no store, no reply and no prompt holds them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from dragoman.core import jsontext
from gateway.canned import Canned, provider
from gateway.hosted_stand import ASKED, NONE, calls_of, text_of
from gateway.hostile_servers import answering, reply, speaking_mcp
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway
from waiting import wait_until

SEARCH_KEY, TOKEN, HEADER = "sk-of-the-search-4711", "token-of-the-server-0815", "value-of-a-header-2342"
SECRETS = SEARCH_KEY, TOKEN, HEADER
CALLED = ("web_search", '{"query": "x"}'), ("find", "{}")
FOUND = {"results": [{"url": "https://e.org/p", "title": "P", "content": "found"}]}


class Backends:
    """A search and an MCP server; `sent`: the authorizations that they got. With `fails` they answer errors
    that repeat what they got, "garbled" ones in a reply that nobody can read."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.sent: list[Any] = []

    def search(self, handler: Any, body: bytes) -> None:
        self.sent.append(handler.headers.get("authorization"))
        if self.fails:
            reply(handler, 500, repr(dict(handler.headers)).encode())
        else:
            reply(handler, 200, jsontext.encode(FOUND))

    def call(self, handler: Any, body: bytes) -> None:
        self.sent += [handler.headers.get("authorization"), handler.headers.get("x-more")]
        content = [{"type": "text", "text": "found too"}]
        told: Any = {"result": {"content": content}}
        if self.fails == "garbled":
            reply(handler, 200, b"no JSON, for " + handler.headers["authorization"].encode())
            return
        if self.fails:
            told = {"error": {"code": -32000, "message": f"refused {handler.headers['authorization']}"}}
        reply(handler, 200, json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], **told}).encode())

    def tools(self, handler: Any) -> list[Any]:
        """It describes its tool with what it got."""
        got = f"for {handler.headers['authorization']} and {handler.headers.get('x-more')}"
        schema = {"type": "object", "properties": {"q": {"type": "string", "default": got}}}
        return [{"name": "find", "description": got, "inputSchema": schema}]


def request_of(client: str, url: str) -> dict[str, Any]:
    match client:
        case "anthropic":
            server = {"type": "url", "name": "far", "url": url, "authorization_token": TOKEN}
            search = {"type": "web_search_20250305", "name": "web_search"}
            tools = [search, {"type": "mcp_toolset", "mcp_server_name": "far"}]
            return {"mcp_servers": [server], "tools": tools}
        case "openai-responses":
            server = {"type": "mcp", "server_label": "far", "server_url": url, "require_approval": "never"}
            server |= {"authorization": TOKEN, "headers": {"x-more": HEADER}}
            return {"tools": [{"type": "web_search"}, server], "store": True}
        case "gemini-interactions":
            headers = {"Authorization": f"Bearer {TOKEN}", "x-more": HEADER}
            server = {"type": "mcp_server", "name": "far", "url": url, "headers": headers}
            return {"tools": [{"type": "google_search"}, server], "store": True}
        case _:
            headers = {"Authorization": f"Bearer {TOKEN}", "x-more": HEADER}
            server = {"name": "far", "streamableHttpTransport": {"url": url, "headers": headers}}
            return {"tools": [{"googleSearch": {}}, {"mcpServers": [server]}]}


@pytest.mark.parametrize("fails", ["", "failing", "garbled"])
@pytest.mark.parametrize("client", ["anthropic", "openai-responses", "gemini", "gemini-interactions"])
def test_secrets(client: str, fails: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model, far = Canned(calls_of("openai-chat", *CALLED), text_of("openai-chat", "Done.")), Backends(fails)
    path, body = ASKED[client]
    with (
        running(model) as at,
        answering(far.search) as search,
        answering(speaking_mcp(far.call, far.tools)) as server,
    ):
        config = f"""
[store]
url = "sqlite:///{tmp_path}/store.db"
[inspector]
enabled = true
path = "{tmp_path}/recordings"
keep = 10
[hosted.web_search]
backend = "tavily"
url = "{search}"
api_key = "{SEARCH_KEY}"
[hosted.mcp]
allowed_hosts = ["{server.removeprefix("http://")}"]
"""
        with gateway(provider("one", at) + NONE + config, verbose=True) as stand:
            data = jsontext.encode({**body, **request_of(client, f"{server}/mcp")})
            got = send(stand.url, "POST", path, data)
            assert stand.last().get("hosted") == (None if fails else {"web_search": 1, "mcp": 1})
            recorder = stand.gateway.recorder
            assert recorder
            wait_until(recorder.store.ids)
            recordings = [repr(recorder.store.get(id)) for id in recorder.store.ids()]
            lines = [*stand.lines]
    assert got.status == 200, got.body
    assert f"Bearer {TOKEN}" in far.sent
    assert f"Bearer {SEARCH_KEY}" in far.sent
    assert recordings
    seen = [
        *(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()),
        *(text.encode() for text in (*recordings, *lines, caplog.text)),
        got.body,
        repr(got.headers).encode(),
        *(each.body for each in model.requests),
    ]
    assert any(b"Done." in each for each in seen)
    assert b"for Bearer [hidden]" in model.requests[0].body or b"for [hidden]" in model.requests[0].body
    for secret in SECRETS:
        assert [each for each in seen if secret.encode() in each] == []
