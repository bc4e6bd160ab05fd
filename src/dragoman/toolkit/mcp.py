"""The tools of an MCP server as `Tool`s, over stdio or streamable HTTP, and tools of ours as an MCP server.

Both use the official package.

with McpServer("files", ["npx", "some-mcp-server"]) as tools:
    run("…", model, tools)

A connection belongs to the event loop and the task that opened it, so each has its own task, and calls
from other loops are passed to it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.client.background import wait_for
from dragoman.client.tools import Tool
from dragoman.client.values import ToolOutcome
from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.errors import DragomanError
from dragoman.core.model import Base64, Media, Plain, Url, media_kind
from dragoman.core.optional import require
from dragoman.toolkit import READING
from dragoman.toolkit.limits import Limits, bounded
from dragoman.transforms.tools import Names

if TYPE_CHECKING:
    import mcp
    from mcp.server import Server
    from mcp.types import CallToolResult, ContentBlock

T = TypeVar("T")
MOST_TOOLS = 1000  # a server could list for ever
LEGAL = ProtocolLimits(tool_name=r"[a-zA-Z_][a-zA-Z0-9_-]*", tool_name_length=63)


class McpError(DragomanError):
    """An MCP server cannot be reached, broke off, or did not answer in time."""


class McpServer:
    """`target` is the URL of a server, or a program that is one, with its arguments.

    A program gets a minimal environment and `environ`; a URL gets `headers` with every request. `seconds` is
    the time for connecting, and for each call; `limits` bounds the results.
    """

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        seconds: float = 60.0,
        limits: Limits | None = None,
    ) -> None:
        require("mcp")
        self.name, self.target, self.seconds, self._limits = name, target, seconds, limits or Limits()
        self._environ, self._headers, self._folder = dict(environ or {}), dict(headers or {}), folder
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._client: mcp.Client | None = None

    async def __aenter__(self) -> list[Tool]:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        ready: asyncio.Future[list[Tool]] = self._loop.create_future()
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

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    def __enter__(self) -> list[Tool]:
        """For code that is not async."""
        return wait_for(self.__aenter__())

    def __exit__(self, *_: object) -> None:
        wait_for(self.__aexit__())

    def __str__(self) -> str:
        shown = self.target if isinstance(self.target, str) else " ".join(self.target)
        return f"MCP server {self.name} ({shown})"

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool by the server's own name for it, from any event loop."""
        return await self._carried(self._call(name, arguments))

    async def _call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        if self._client is None or self._task is None or self._task.done():
            raise McpError(f"{self} is not connected")
        try:
            async with asyncio.timeout(self.seconds):
                result = await self._client.call_tool(name, arguments)
        except TimeoutError:
            raise McpError(f"{self}: {name} gave no result within {self.seconds:g} s") from None
        return bounded_outcome(outcome_of(result), self._limits)

    async def _carried(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop of the connection."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise McpError(f"{self} is not connected")
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _hold(self, ready: asyncio.Future[list[Tool]]) -> None:
        """Connect, set `ready` to the tools, and hold the connection until `_stop`."""
        try:
            async with self._connected() as client:
                self._client = client
                ready.set_result(self._tools(await _listed(client)))
                await self._stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(McpError(f"{self}: {_first(error)}"))
        finally:
            self._client = None

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[mcp.Client]:
        from mcp import Client

        async with AsyncExitStack() as stack:
            yield await stack.enter_async_context(Client(await self._reached(stack)))

    async def _reached(self, stack: AsyncExitStack) -> Any:
        """What the official client takes as a server: a transport, or the parameters to start one."""
        import httpx2
        from mcp import StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        if isinstance(self.target, str):
            timeout = httpx2.Timeout(30.0, read=300.0)  # a stream is silent while a tool works
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=self._headers, timeout=timeout))
            return streamable_http_client(self.target, http_client=http)
        program, *arguments = self.target
        folder = None if self._folder is None else os.fspath(self._folder)
        return StdioServerParameters(command=program, args=arguments, env=self._environ, cwd=folder)

    def _tools(self, offered: Iterable[mcp.Tool]) -> list[Tool]:
        declared = list(offered)
        names = Names((f"{self.name}__{each.name}" for each in declared), LEGAL)
        return [self._tool(each, names.encode(f"{self.name}__{each.name}")) for each in declared]

    def _tool(self, offered: mcp.Tool, name: str) -> Tool:
        async def function(**arguments: Any) -> ToolOutcome:
            return await self.call(offered.name, arguments)

        return Tool(name, offered.description or offered.title or "", offered.input_schema, function)


async def _listed(client: mcp.Client) -> list[mcp.Tool]:
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor:
        if len(tools) > MOST_TOOLS:
            raise McpError(f"the server lists more than {MOST_TOOLS} tools")
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _first(error: BaseException) -> str:
    """The message of the first error inside exception groups."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return _first(inner[0]) if inner else str(error) or type(error).__name__


# Our tools as a server


def mcp_server(tools: Iterable[Tool], name: str = "dragoman", version: str = "") -> Server[Any]:
    """A server of the official package; how it is reached is up to you."""
    require("mcp")
    from mcp import types
    from mcp.server import Server

    offered = {tool.name: tool for tool in tools}

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declared(tool) for tool in offered.values()])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in offered:
            known = ", ".join(offered)
            return result_of(
                ToolOutcome(f"There is no tool {params.name!r}; the tools are: {known}", failed=True)
            )
        return result_of(await offered[params.name].acall(params.arguments or {}))

    return Server(name, version=version, on_list_tools=listed, on_call_tool=called)


async def serve_stdio(tools: Iterable[Tool], version: str = "") -> None:
    """Until the client closes our input."""
    require("mcp")
    from mcp.server.stdio import stdio_server

    server = mcp_server(tools, version=version)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _declared(tool: Tool) -> Any:
    from mcp import types

    hints = types.ToolAnnotations(read_only_hint=tool.name in READING)
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.parameters, annotations=hints
    )


# The result of a call <-> the outcome of a tool: texts are joined, images stay images


def outcome_of(result: CallToolResult) -> ToolOutcome:
    texts: list[str] = []
    shown: list[Media] = []
    for block in result.content:
        match _read(block):
            case Media() as media:
                shown.append(media)
            case text:
                texts.append(text)
    if result.structured_content is not None and not _says(texts, result.structured_content):
        texts.append(jsontext.dumps(result.structured_content))
    return ToolOutcome("\n".join(texts), tuple(shown), result.is_error)


def bounded_outcome(outcome: ToolOutcome, limits: Limits) -> ToolOutcome:
    """Long text keeps its beginning and end; media that are too large become a note."""
    text, shown = outcome.text, list[Media]()
    for media in outcome.media:
        if isinstance(media.source, Base64) and len(media.source.data) * 3 // 4 > limits.file:
            text = f"{text}\n[{media.kind} left out: larger than {limits.file} bytes]".lstrip("\n")
        else:
            shown.append(media)
    return ToolOutcome(bounded(text, limits.output), tuple(shown), outcome.failed)


def result_of(outcome: ToolOutcome) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    texts = [TextContent(text=outcome.text)] if outcome.text or not outcome.media else []
    return CallToolResult(content=[*texts, *_blocks(outcome.media)], is_error=outcome.failed)


def _read(block: ContentBlock) -> str | Media:
    from mcp.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return Media("image", block.mime_type, Base64(block.data))
        case AudioContent():
            return Media("audio", block.mime_type, Base64(block.data))
        case ResourceLink():
            return f"[{block.title or block.name}]({block.uri})"
        case EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: Any) -> str | Media:
    if hasattr(resource, "text"):
        return resource.text
    kind = resource.mime_type or "application/octet-stream"
    return Media(media_kind(kind), kind, Base64(resource.blob), str(resource.uri).rpartition("/")[2])


def _says(texts: list[str], structured: Any) -> bool:
    """Whether the texts say it already, as they should: in JSON, or as SDKs wrap a bare value."""
    if jsontext.is_object(structured) and list(structured) == ["result"] and texts:
        return True
    return any(jsontext.is_complete(text) and jsontext.decode(text) == structured for text in texts)


def _blocks(shown: tuple[Media, ...]) -> Iterator[ContentBlock]:
    from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, TextContent

    for number, media in enumerate(shown, 1):
        match media.source:
            case Base64(data) if media.kind == "image":
                yield ImageContent(data=data, mime_type=media.media_type)
            case Base64(data) if media.kind == "audio":
                yield AudioContent(data=data, mime_type=media.media_type)
            case Base64(data):
                uri = f"attachment:///{media.name or number}"
                blob = BlobResourceContents(uri=uri, mime_type=media.media_type, blob=data)
                yield EmbeddedResource(resource=blob)
            case Plain(text) | Url(text):
                yield TextContent(text=text)
            case _:
                yield TextContent(text=f"a {media.kind} that only its provider can open")
