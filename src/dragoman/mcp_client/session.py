"""A connection to one MCP server: streamable HTTP, the older SSE, or a program on stdin and stdout.

A connection of the official package belongs to the event loop and the task that opened it, so each has a
task of its own, and calls from other loops are passed to it. A program never comes from a request: only code
and configuration start one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

from dragoman.core.errors import DragomanError
from dragoman.core.optional import require
from dragoman.fetch.guard import AddressGuard
from dragoman.mcp_client.elicitation import Elicit, answerer
from dragoman.mcp_client.oauth import PATIENCE, OAuth, authorization, guard_of

if TYPE_CHECKING:
    import httpx2
    import mcp
    from mcp.types import CallToolResult

T = TypeVar("T")
MOST_TOOLS = 1000  # a server could list for ever
MOST_BYTES = 2 * 1024 * 1024  # of one reply; the official client takes at most 1 MB of one event
MOST_VALUES = 50_000  # in the JSON of one reply: it is read and checked while everybody waits
_NOT_STREAMABLE = (400, 404, 405)  # what a server of the SSE transport answers to a POST


class McpError(DragomanError):
    """An MCP server cannot be reached, broke off, or did not answer in time."""


class McpOptions(TypedDict, total=False):
    """How a server is reached. A program gets a minimal environment and `environ`, and runs in `folder`; a
    URL gets `headers` with every request. `seconds` is the time for connecting, and for each call: 60 unless
    told. `elicit` answers questions that the server asks the user: it gets the question and a JSON Schema,
    and gives the fields, or None; without it none are asked. `oauth`: how the user allows the access.
    """

    environ: Mapping[str, str] | None
    headers: Mapping[str, str] | None
    folder: str | os.PathLike[str] | None
    seconds: float
    elicit: Elicit | None
    oauth: OAuth | None


class McpSession:
    """`target` is the URL of a server, or a program that is one, with its arguments. `guard` checks the
    address of a URL; without one any address is reached."""

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        *,
        guard: AddressGuard | None = None,
        **options: Unpack[McpOptions],
    ) -> None:
        require("mcp")
        self.name, self.target, self._guard = name, target, guard
        self.seconds = options.get("seconds", 60.0)
        self._environ, self._headers = dict(options.get("environ") or {}), dict(options.get("headers") or {})
        self._folder, self._elicit = options.get("folder"), options.get("elicit")
        self._oauth = options.get("oauth")
        if self._oauth and self._oauth.visit:
            self.seconds += PATIENCE
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._client: mcp.Client | None = None
        self._auth: httpx2.Auth | None = None
        self._status = 0  # of the server's last answer to a POST: the official client does not say it

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._task is not None and not self._task.done()

    async def open(self) -> list[mcp.Tool]:
        """Connect, and list the tools of the server."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        ready: asyncio.Future[list[mcp.Tool]] = self._loop.create_future()
        self._task = self._loop.create_task(self._hold(ready))
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.shield(ready)
        except TimeoutError:
            raise McpError(f"{self}: no answer within {self.seconds:g} s") from None
        finally:
            if not ready.done() or ready.exception():
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def close(self) -> None:
        self._stop.set()
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    def __str__(self) -> str:
        """Of an address only the host: names, paths and queries of some hold a key."""
        if not isinstance(self.target, str):
            return f"MCP server {self.name} ({' '.join(self.target)})"
        parts = urlsplit(self.target)
        return f"MCP server {self.name} ({parts.scheme}://{parts.netloc.rpartition('@')[2]})"

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool by the server's own name for it, from any event loop."""
        return await self._carry(self._ask(lambda client: client.call_tool(name, arguments), name))

    async def list_tools(self) -> list[mcp.Tool]:
        """The tools that the server has now."""
        return await self._carry(self._ask(_list_tools, "the list of tools"))

    async def _ask(self, question: Callable[[mcp.Client], Awaitable[T]], what: str) -> T:
        if self._client is None or not self.is_open:
            raise McpError(f"{self} is not connected")
        try:
            async with asyncio.timeout(self.seconds):
                return await question(self._client)
        except TimeoutError:
            raise McpError(f"{self}: {what} gave no result within {self.seconds:g} s") from None
        except Exception as error:
            raise McpError(f"{self}: {self._explain(error)}") from None

    async def _carry(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop of the connection."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise McpError(f"{self} is not connected")
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _hold(self, ready: asyncio.Future[list[mcp.Tool]]) -> None:
        """Connect, set `ready` to the tools, and hold the connection until `_stop`."""
        try:
            async with self._connect() as client:
                self._client = client
                ready.set_result(await _list_tools(client))
                await self._stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(McpError(f"{self}: {self._explain(error)}"))
        finally:
            self._client = None

    def _explain(self, error: BaseException) -> str:
        """The official client does not say which status a server refused with."""
        if self._oauth or self._status < 400:
            return _first(error)
        hint = ": it wants an authorization, as a header or by OAuth" if self._status == 401 else ""
        return f"it answered {self._status}{hint}"

    @asynccontextmanager
    async def _connect(self) -> AsyncGenerator[mcp.Client]:
        from mcp import Client

        answers: dict[str, Any] = {"elicitation_callback": answerer(self._elicit)} if self._elicit else {}
        if self._oauth and self._auth is None and isinstance(self.target, str):
            self._auth = authorization(self.target, self._oauth)
            self._guard = self._guard or await asyncio.to_thread(guard_of, self.target)
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(Client(await self._reach(stack), **answers))
            except Exception:
                if not isinstance(self.target, str) or self._status not in _NOT_STREAMABLE:
                    raise
                client = await stack.enter_async_context(Client(self._reach_by_sse(self.target), **answers))
            yield client

    async def _reach(self, stack: AsyncExitStack) -> Any:
        """What the official client takes as a server: a transport, or the parameters to start one."""
        from mcp import StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        if isinstance(self.target, str):
            http = await stack.enter_async_context(self._http_client())
            return streamable_http_client(self.target, http_client=http)
        program, *arguments = self.target
        folder = None if self._folder is None else os.fspath(self._folder)
        return StdioServerParameters(command=program, args=arguments, env=self._environ, cwd=folder)

    def _reach_by_sse(self, url: str) -> Any:
        from mcp.client.sse import sse_client

        def http_client(
            headers: Any = None, timeout: Any = None, auth: httpx2.Auth | None = None
        ) -> httpx2.AsyncClient:
            return self._http_client()

        return sse_client(url, httpx_client_factory=http_client)

    def _http_client(self) -> httpx2.AsyncClient:
        """It follows no redirect: the headers are for this server alone."""
        import httpx2

        from dragoman.mcp_client.guarded import bound_reply, guard_transport

        async def check(response: httpx2.Response) -> None:
            asked = response.request.method, response.url.path
            if asked == ("POST", urlsplit(str(self.target)).path):
                self._status = response.status_code
            bound_reply(response, MOST_BYTES, MOST_VALUES)

        return httpx2.AsyncClient(
            auth=self._auth,
            headers={"accept-encoding": "identity", **self._headers},
            timeout=httpx2.Timeout(30.0, read=300.0),  # a stream is silent while a tool works
            transport=guard_transport(self._guard) if self._guard else None,
            event_hooks={"response": [check]},
        )


async def _list_tools(client: mcp.Client) -> list[mcp.Tool]:
    tools: list[mcp.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if len(tools) > MOST_TOOLS:
            raise McpError(f"the server lists more than {MOST_TOOLS} tools")
        if not page.next_cursor:
            return tools
        cursor = page.next_cursor


def _first(error: BaseException) -> str:
    """The message of the first error inside exception groups."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return _first(inner[0]) if inner else str(error) or type(error).__name__
