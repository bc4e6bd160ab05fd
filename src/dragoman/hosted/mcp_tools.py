"""The tools of an MCP server that a client names, for models whose provider connects to none.

A client names a server by its address, which is guarded, or as `mcp:NAME` one of the configuration. A program
never comes from a request (CVE-2026-42271). Sessions are kept for a few minutes, each for one caller and one
set of headers: nobody calls with the authorization of another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.hosted import HostedResult
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import HostedKind, HostedTool, Media, Text, ToolCall, ToolDeclaration
from dragoman.core.optional import MissingExtraError
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.settings import McpSettings, guard_of
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.session import McpError, McpSession

if TYPE_CHECKING:
    import mcp
    from mcp.types import CallToolResult

CONFIGURED = "mcp:"
SESSIONS = 64
IDLE_SECONDS = 300.0
SHORTEST_SECRET = 8  # characters; a header with less says something else
SessionKey = tuple[str, str, tuple[tuple[str, str], ...]]


class _OpenSession:
    """A session with the tools that it listed. The lock: two requests do not open it twice. `is_doubtful`: a
    call failed, so the server may have other tools now. `calls` run now."""

    def __init__(self, session: McpSession) -> None:
        self.session, self.lock = session, asyncio.Lock()
        self.tools: list[mcp.Tool] = []
        self.used = 0.0
        self.is_doubtful = False
        self.calls = 0


class McpExecutor:
    kind: HostedKind = "mcp"

    def __init__(self, settings: McpSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._guard, self._clock = settings, guard_of(settings.allowed_hosts), clock
        self._sessions: dict[SessionKey, _OpenSession] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # the official client logs replies that it cannot read; a server may repeat its authorization in them
        logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
        if settings.enabled or settings.servers:  # it takes a second, in which no request should wait
            with suppress(ImportError):
                import_module("mcp.client.streamable_http")

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        try:
            held = await self._open(tool, context)
        except (McpError, MissingExtraError) as error:
            problem = without_secrets(str(error), tool.settings)
            return DeclaredFunctions(error="unavailable", problem=problem)
        # nobody can call one without a name, and the first of two with one name is the one that is called
        named = {each.name: each for each in reversed(held.tools) if each.name}
        offered = [each for each in held.tools if named.get(each.name) is each]
        offered = [each for each in offered if is_offered(each, tool.settings)]
        asked = frozenset(each.name for each in offered if needs_approval(each.name, tool.settings))
        return DeclaredFunctions(tuple(_declaration(each, tool.settings) for each in offered), asked)

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        try:
            arguments = jsontext.decode(call.arguments or "{}")
        except ValueError:
            arguments = None
        if not is_object(arguments):
            return failure("invalid_input", f"the arguments of {call.name} are not a JSON object")
        try:
            held = await self._open(tool, context)
            offered = {each.name for each in held.tools if is_offered(each, tool.settings)}
            if call.name not in offered:  # a server may rename its tools between two rounds
                return failure("not_allowed", f"the server offers no tool {call.name!r}")
            result = await self._call(held, call.name, arguments)
        except McpError as error:
            return failure("unavailable", without_secrets(str(error), tool.settings))
        texts, media = split_content(result)
        content: list[Text | Media] = [Text(without_secrets(text, tool.settings)) for text in texts]
        return HostedResult((*content, *media), error="tool_failed" if result.is_error else None)

    async def _call(self, held: _OpenSession, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """A session in which a call breaks off is not used again: its server may have ended or begun anew."""
        held.calls += 1
        try:
            result = await held.session.call(name, arguments)
        except McpError:
            self._forget(held)
            raise
        finally:
            held.calls -= 1
            if not held.calls and held not in self._sessions.values():
                self._close_later(held)
        held.is_doubtful = result.is_error
        return result

    def _forget(self, held: _OpenSession) -> None:
        for key in [key for key, each in self._sessions.items() if each is held]:
            del self._sessions[key]

    def require_configured(self, name: str) -> None:
        """Raise ConfigError unless the configuration has this server."""
        if name not in self._settings.servers:
            raise ConfigError(f"There is no MCP server {name!r}. Describe it in [hosted.mcp.servers.{name}].")

    async def open_configured(self, name: str) -> tuple[McpSession, list[mcp.Tool]]:
        """A server of the configuration, shared by all callers."""
        held = await self._hold(("", f"{CONFIGURED}{name}", ()))
        return held.session, held.tools

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(held.session.close() for held in sessions), *self._closing)

    async def _open(self, tool: HostedTool, context: HostedContext) -> _OpenSession:
        headers: dict[str, str] = tool.settings.get("headers") or {}
        return await self._hold((context.caller, str(tool.settings.get("url") or ""), tuple(headers.items())))

    async def _hold(self, key: SessionKey) -> _OpenSession:
        self._close_idle()
        held = self._sessions.get(key)
        if held is None:
            held = self._sessions[key] = _OpenSession(self._session(key))
        held.used = self._clock()
        async with held.lock:
            try:
                if not held.session.is_open:
                    held.tools = await held.session.open()
                elif held.is_doubtful:
                    held.tools, held.is_doubtful = await held.session.list_tools(), False
            except BaseException:
                self._forget(held)
                raise
        return held

    def _session(self, key: SessionKey) -> McpSession:
        _, url, headers = key
        if url.startswith(CONFIGURED):
            return self._make_configured(url.removeprefix(CONFIGURED))
        if not self._settings.enabled:
            raise McpError("MCP servers that a request names are switched off here")
        if not url.startswith(("http://", "https://")):
            raise McpError("an MCP server is named by an http or https address")
        return McpSession("named by the client", url, headers=dict(headers), seconds=30, guard=self._guard)

    def _make_configured(self, name: str) -> McpSession:
        found = self._settings.servers.get(name)
        if found is None:
            raise McpError(f"there is no MCP server {name!r} in the configuration")
        target: str | tuple[str, ...] = found.command or found.url
        return McpSession(name, target, headers=found.headers, environ=found.environ, seconds=30)

    def _close_idle(self) -> None:
        """Sessions that nobody used for a while, and the oldest ones beyond the limit."""
        oldest = sorted(self._sessions.items(), key=lambda item: item[1].used)
        limit = self._clock() - IDLE_SECONDS
        for number, (key, held) in enumerate(oldest):
            if held.lock.locked() or (held.used > limit and len(oldest) - number < SESSIONS):
                continue
            del self._sessions[key]
            if not held.calls:
                self._close_later(held)

    def _close_later(self, held: _OpenSession) -> None:
        task = asyncio.get_running_loop().create_task(held.session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def is_offered(tool: mcp.Tool, settings: dict[str, Any]) -> bool:
    """Whether the client's restrictions let the model see it. A filter that we do not know hides all."""
    allowed, restriction = settings.get("allowed"), settings.get("filter")
    if tool.name in (settings.get("denied") or ()) or (allowed is not None and tool.name not in allowed):
        return False
    if not restriction:
        return True
    if not is_object(restriction) or set(restriction) - {"read_only"}:
        return False
    reads = tool.annotations is not None and tool.annotations.read_only_hint is True
    return reads is bool(restriction.get("read_only"))


def without_secrets(text: str, settings: dict[str, Any]) -> str:
    """A server may repeat what it got: the model, and who serves it, must not read the headers."""
    headers = settings.get("headers")
    for value in headers.values() if is_object(headers) else ():
        for secret in (str(value), *str(value).split()[-1:]):  # with its scheme, such as Bearer, or without
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "[hidden]")
    return text


def needs_approval(name: str, settings: dict[str, Any]) -> bool:
    """`approval` is never, always, or an object with the names for each (OpenAI's `require_approval`)."""
    approval = settings.get("approval") or "never"
    if not is_object(approval):
        return approval != "never"
    never = approval.get("never")
    names = never.get("tool_names") if is_object(never) else None
    return not (is_array(names) and name in names)


def _declaration(tool: mcp.Tool, settings: dict[str, Any]) -> ToolDeclaration:
    said = {"description": tool.description or tool.title or "", "schema": tool.input_schema}
    told = _without_secrets(said, settings)
    named: dict[str, bool] = settings.get("deferred") or {}
    deferred = named.get(tool.name, named.get("", False))
    return ToolDeclaration(tool.name, told["description"], told["schema"], deferred=deferred)


def _without_secrets(value: Any, settings: dict[str, Any]) -> Any:
    """In all texts of a JSON value."""
    if isinstance(value, str):
        return without_secrets(value, settings)
    if is_object(value):
        return {name: _without_secrets(each, settings) for name, each in value.items()}
    return [_without_secrets(each, settings) for each in value] if is_array(value) else value
