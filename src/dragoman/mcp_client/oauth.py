"""Access to an MCP server that a user allows: OAuth 2.1 with PKCE, as MCP has it.

    the server answers 401 --metadata, registration--> `visit` gets the address of the question
    the user allowed it    --where the browser was sent--> tokens, and the request goes out again
    tokens expired         --renewed--> the user is not asked again

The official client speaks OAuth. Here stand what the user does, and where the tokens are kept.
"""

from __future__ import annotations

import asyncio
import logging
import webbrowser
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.jsontext import is_object
from dragoman.fetch.guard import AddressGuard, FetchError

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

Visit = Callable[[str], str | Awaitable[str]]
PATIENCE = 300.0  # seconds in which a user answers
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
_LANDED = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nYou can close this page."


class OAuth(Struct, frozen=True):
    """How access to a server is allowed.

    `visit` gets the address where the user allows it, and gives the one to which the browser is sent then: it
    begins with `redirect_uri`. Without `visit` the client itself has access, with `client_id` and
    `client_secret` of `issuer`. With `visit` they are those of a client that was registered by hand.
    `client_metadata`: the https address of a document about the client, for servers that take it as an id.
    `file` keeps tokens for the next time; only the user may read it.
    """

    visit: Visit | None = None
    redirect_uri: str = "http://127.0.0.1:8976/callback"
    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""  # the authorization server that gave these two; no other gets them
    client_metadata: str = ""
    scope: str | None = None
    file: Path | None = None


def authorization(server: str, oauth: OAuth) -> Auth:
    """What the official client does with each request to `server`."""
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())  # what it raises says the same
    kept = _KeptTokens(server, oauth)
    if oauth.visit is None:
        return ClientCredentialsOAuthProvider(
            server, kept, oauth.client_id, oauth.client_secret, scope=oauth.scope, issuer=oauth.issuer or None
        )
    about = OAuthClientMetadata(
        client_name="dragoman", redirect_uris=[AnyUrl(oauth.redirect_uri)], scope=oauth.scope
    )
    visits = _Visits(oauth.visit)
    return OAuthClientProvider(
        server, about, kept, visits.begin, visits.end, client_metadata_url=oauth.client_metadata or None
    )


class _Visits:
    """The official client names the address in one call, and asks for what came of it in the next."""

    def __init__(self, visit: Visit) -> None:
        self._visit, self._url = visit, ""

    async def begin(self, url: str) -> None:
        self._url = url

    async def end(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        came = await asyncio.to_thread(self._visit, self._url)
        url = await came if isawaitable(came) else came
        fields = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        if not fields.get("code"):
            problem = fields.get("error_description") or fields.get("error") or "no code came back"
            raise DragomanError(f"access was not allowed: {problem}")
        return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))


class _KeptTokens:
    """Those of one server: in the file of all servers, or in this object alone."""

    def __init__(self, server: str, oauth: OAuth) -> None:
        self._server, self._oauth = server, oauth
        self._entry = self._read().get(server) or {}

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        kept = self._entry.get("tokens")
        return OAuthToken.model_validate(kept) if kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._keep("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        if kept := self._entry.get("client"):
            return OAuthClientInformationFull.model_validate(kept)
        if not self._oauth.client_id:
            return None
        secret, issuer = self._oauth.client_secret or None, self._oauth.issuer or None
        how = "client_secret_basic" if secret else "none"
        return OAuthClientInformationFull(
            client_id=self._oauth.client_id,
            client_secret=secret,
            token_endpoint_auth_method=how,
            issuer=issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._keep("client", client_info.model_dump(mode="json", exclude_none=True))

    def _keep(self, name: str, value: object) -> None:
        self._entry = {**self._entry, name: value}
        if file := self._oauth.file:
            text = jsontext.encode({**self._read(), self._server: self._entry})
            file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=file.parent, delete=False) as new:  # for the user alone
                new.write(text)
            Path(new.name).replace(file)

    def _read(self) -> dict[str, dict[str, object]]:
        kept: Any = None
        with suppress(OSError, ValueError):  # not there yet, or damaged: the user is asked again
            kept = jsontext.decode(self._oauth.file.read_bytes()) if self._oauth.file else None
        return kept if is_object(kept) else {}


async def in_browser(url: str) -> str:
    """A `visit` in the user's browser, on this machine: a page of ours waits for it at the `redirect_uri`.
    Every page can send the browser there, so the answer must have the `state` of the question."""
    asked = parse_qs(urlsplit(url).query)
    back = urlsplit(asked.get("redirect_uri", [""])[0])
    if back.hostname not in _OWN_HOSTS:  # a server may have written it into its address
        raise DragomanError(f"a browser could not come back to {back.netloc}, which is not this machine")
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def land(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, LookupError, ValueError, asyncio.LimitOverrunError, CancelledError):
            target = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode("latin-1")
            came_to = urlsplit(target)
            state = parse_qs(came_to.query).get("state")
            is_it = came_to.path == back.path and state == asked.get("state") and not came.done()
            writer.write(_LANDED if is_it else b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            if is_it:
                came.set_result(f"{back.scheme}://{back.netloc}{target}")
        writer.close()

    try:
        server = await asyncio.start_server(land, back.hostname, back.port)
    except OSError as error:
        raise DragomanError(f"{back.netloc}: a browser could not come back there ({error})") from None
    try:
        await asyncio.to_thread(webbrowser.open, url)
        async with asyncio.timeout(PATIENCE):
            return await came
    except TimeoutError:
        raise DragomanError(f"nobody allowed the access within {PATIENCE:g} s") from None
    finally:
        server.close()  # and wait for no connection: browsers hold some on which they ask nothing


def guard_of(server: str) -> AddressGuard | None:
    """A server names in its metadata where else we ask; a public one must not lead inside. It blocks."""
    parts = urlsplit(server)
    if getproxies():  # which then connects, and decides
        return None
    try:
        AddressGuard().resolve(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except FetchError:
        return None
    return AddressGuard()
