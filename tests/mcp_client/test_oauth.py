"""Access that a user allows, to a server that wants it: metadata, registration, PKCE, tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import json
import socket
import stat
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("mcp")

from dragoman.core.errors import DragomanError
from dragoman.fetch import AddressGuard
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.oauth import OAuth, guard_of, in_browser
from dragoman.mcp_client.session import McpError, McpSession
from gateway.hostile_servers import answering, reply, speaking_mcp
from mcp_client.test_session import free_port


class AuthorizationServer:
    """And the MCP server that trusts it. `seen`: what was asked of the first, whose first token lives for
    `lives` seconds."""

    def __init__(self, lives: int = 3600, denies: bool = False) -> None:
        self.lives, self.denies = lives, denies
        self.seen: list[str] = []
        self.challenge, self.tokens = "", 0
        self.asks = speaking_mcp(self.call)

    def __call__(self, handler: Any, body: bytes) -> None:
        path, base = urlsplit(handler.path).path, f"http://{handler.headers['host']}"
        if path == "/mcp":
            self.serve_mcp(handler, body, base)
            return
        self.seen.append(path)
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        match path:
            case "/prm":
                told: Any = {"resource": f"{base}/mcp", "authorization_servers": [f"{base}/as"]}
            case "/.well-known/oauth-authorization-server/as":
                names = ("authorization_endpoint", "authorize"), ("token_endpoint", "token")
                told = {name: f"{base}/as/{end}" for name, end in (*names, ("registration_endpoint", "new"))}
                told |= {"issuer": f"{base}/as", "response_types_supported": ["code"]}
                told |= {"code_challenge_methods_supported": ["S256"]}
            case "/as/new":
                told = {**json.loads(body), "client_id": "c-1", "token_endpoint_auth_method": "none"}
            case "/as/authorize":
                self.allow(handler)
                return
            case "/as/token":
                told = self.token(handler, fields)
            case _:
                reply(handler, 404, b"")
                return
        reply(handler, 200 if "error" not in told else 400, json.dumps(told).encode())

    def serve_mcp(self, handler: Any, body: bytes, base: str) -> None:
        if handler.headers.get("authorization") == f"Bearer t-{self.tokens}" and self.tokens:
            self.asks(handler, body)
        else:
            reply(handler, 401, b"", www_authenticate=f'Bearer resource_metadata="{base}/prm"')

    def allow(self, handler: Any) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}
        self.challenge = asked["code_challenge"]
        given = "error=access_denied&error_description=No." if self.denies else "code=ok"
        reply(handler, 302, b"", location=f"{asked['redirect_uri']}?{given}&state={asked['state']}")

    def token(self, handler: Any, fields: dict[str, str]) -> dict[str, Any]:
        kind = fields["grant_type"]
        self.seen[-1] = kind
        if kind == "authorization_code":
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge:
                return {"error": "invalid_grant"}
        if kind == "client_credentials":
            given = base64.b64decode(handler.headers["authorization"].partition(" ")[2])
            assert given == b"me:secret-4711"
        self.tokens += 1
        token = {"access_token": f"t-{self.tokens}", "token_type": "Bearer", "expires_in": self.lives}
        self.lives = 3600
        return token | {"refresh_token": "again"}

    def call(self, handler: Any, body: bytes) -> None:
        result = {"content": [{"type": "text", "text": "found"}]}
        answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}
        reply(handler, 200, json.dumps(answer).encode())


def visit(url: str) -> str:
    """A user who says yes at once: where the browser would go."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().headers["location"]


async def find(url: str, oauth: OAuth | None) -> list[str]:
    session = McpSession("far", f"{url}/mcp", oauth=oauth, seconds=20)
    await session.open()
    try:
        return split_content(await session.call("find", {}))[0]
    finally:
        await session.close()


ONCE = ["/prm", "/.well-known/oauth-authorization-server/as", "/as/new", "/as/authorize"]


@pytest.fixture
def server() -> Iterator[tuple[AuthorizationServer, str]]:
    with answering(made := AuthorizationServer()) as url:
        yield made, url


def test_a_user_allows_the_access(server: tuple[AuthorizationServer, str]) -> None:
    made, url = server
    assert asyncio.run(find(url, OAuth(visit))) == ["found"]
    assert made.seen == [*ONCE, "authorization_code"]


def test_an_async_visit_in_the_browser(
    server: tuple[AuthorizationServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[bytes] = []

    def browse(url: str) -> bool:
        with pytest.raises(urllib.error.HTTPError):  # the icon of the page
            urllib.request.urlopen(url.replace("/as/authorize", "/favicon.ico"))
        with urllib.request.urlopen(url) as page:
            pages.append(page.read())
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    made, url = server
    oauth = OAuth(in_browser, f"http://127.0.0.1:{free_port()}/callback")
    assert asyncio.run(find(url, oauth)) == ["found"]
    assert pages == [b"You can close this page."]
    assert made.seen[-1] == "authorization_code"


STRANGERS = [
    b"GET /callback?code=evil&state=guessed HTTP/1.1\r\n\r\n",
    b"GET /callback?error=access_denied HTTP/1.1\r\n\r\n",
    b"GET //[::1/callback HTTP/1.1\r\n\r\n",
    b"GET\r\n\r\n",
    b"",  # a connection in advance, on which a browser asks nothing
]


def test_what_strangers_send_to_the_redirect_uri(
    server: tuple[AuthorizationServer, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    strangers: list[socket.socket] = []

    def browse(url: str) -> bool:
        for sent in STRANGERS:
            strangers.append(socket.create_connection(("127.0.0.1", port)))
            strangers[-1].sendall(sent)
            assert not sent or strangers[-1].recv(20) in (b"", b"HTTP/1.1 404 Not Fou")
        urllib.request.urlopen(url).close()
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    oauth = OAuth(in_browser, f"http://127.0.0.1:{port}/callback")
    assert asyncio.run(find(server[1], oauth)) == ["found"]
    assert not caplog.records
    for each in strangers:
        each.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", ""])
def test_a_server_does_not_choose_where_we_listen(host: str) -> None:
    """It may write a `redirect_uri` into the address of its own page."""
    with pytest.raises(DragomanError, match="not this machine"):
        asyncio.run(in_browser(f"https://as.example/a?redirect_uri=http%3A%2F%2F{host}%3A9%2Fcallback"))


def test_a_port_that_is_taken(server: tuple[AuthorizationServer, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        back = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        with pytest.raises(McpError, match="a browser could not come back there"):
            asyncio.run(find(server[1], OAuth(in_browser, back)))


def test_a_user_who_refuses() -> None:
    refused = pytest.raises(McpError, match=r"access was not allowed: No\.")
    with answering(AuthorizationServer(denies=True)) as url, refused:
        asyncio.run(find(url, OAuth(visit)))


def test_tokens_are_kept_for_the_next_time(server: tuple[AuthorizationServer, str], tmp_path: Path) -> None:
    made, url = server
    oauth = OAuth(visit, file=tmp_path / "a" / "tokens.json")
    assert asyncio.run(find(url, oauth)) == ["found"]
    assert oauth.file
    assert stat.S_IMODE(oauth.file.stat().st_mode) == 0o600
    made.seen.clear()
    assert asyncio.run(find(url, oauth)) == ["found"]
    assert made.seen == []
    oauth.file.write_text("damaged")
    assert asyncio.run(find(url, oauth)) == ["found"]
    assert made.seen[-1] == "authorization_code"


def test_a_token_that_expired_is_renewed() -> None:
    with answering(made := AuthorizationServer(lives=-1)) as url:
        assert asyncio.run(find(url, OAuth(visit))) == ["found"]
    assert made.seen.count("authorization_code") == 1
    assert "refresh_token" in made.seen


def test_a_client_that_has_access_itself(server: tuple[AuthorizationServer, str]) -> None:
    made, url = server
    oauth = OAuth(client_id="me", client_secret="secret-4711", issuer=f"{url}/as")
    assert asyncio.run(find(url, oauth)) == ["found"]
    assert made.seen[2:] == ["client_credentials"]


def test_without_an_authorization_the_error_says_what_is_missing(
    server: tuple[AuthorizationServer, str],
) -> None:
    with pytest.raises(McpError, match="answered 401: it wants an authorization"):
        asyncio.run(find(server[1], None))


def test_a_public_server_leads_to_public_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata may name an address inside (best practices of MCP, server-side request forgery)."""
    address = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: address)
    assert guard_of("https://mcp.example/mcp") == AddressGuard()
    address[0] = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 443))
    assert guard_of("https://mcp.example/mcp") is None
