"""The tools of an MCP server as `Tool`s, over stdio or streamable HTTP, and tools of ours as an MCP server.

Both use the official package.

with McpServer("files", ["npx", "some-mcp-server"]) as tools:
    run("…", model, tools)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from dragoman.client.background import wait_for
from dragoman.client.tools import Tool
from dragoman.client.values import ToolOutcome
from dragoman.core.codec import ProtocolLimits
from dragoman.core.model import Base64, Media, Plain, Url
from dragoman.core.optional import require
from dragoman.mcp_client.content import split_content
from dragoman.mcp_client.session import McpOptions, McpSession
from dragoman.toolkit import READING
from dragoman.toolkit.limits import Limits, bound_text
from dragoman.transforms.tools import Names

if TYPE_CHECKING:
    import mcp
    from mcp.server import Server
    from mcp.types import CallToolResult, ContentBlock

LEGAL = ProtocolLimits(tool_name=r"[a-zA-Z_][a-zA-Z0-9_-]*", tool_name_length=63)


class McpServer:
    """The tools of one server while it is open: `with McpServer(…) as tools`, or `async with`.

    `target` is the URL of a server, or a program that is one, with its arguments; `limits` bounds the
    results, and `McpOptions` says how the server is reached.
    """

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        *,
        limits: Limits | None = None,
        **options: Unpack[McpOptions],
    ) -> None:
        self.name, self._limits = name, limits or Limits()
        self._session = McpSession(name, target, **options)

    async def __aenter__(self) -> list[Tool]:
        return self._tools(await self._session.open())

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def __enter__(self) -> list[Tool]:
        """For code that is not async."""
        return wait_for(self.__aenter__())

    def __exit__(self, *_: object) -> None:
        wait_for(self.__aexit__())

    def __str__(self) -> str:
        return str(self._session)

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool by the server's own name for it, from any event loop."""
        return bound_outcome(outcome_of(await self._session.call(name, arguments)), self._limits)

    def _tools(self, offered: Sequence[mcp.Tool]) -> list[Tool]:
        names = Names((f"{self.name}__{each.name}" for each in offered), LEGAL)
        return [self._tool(each, names.encode(f"{self.name}__{each.name}")) for each in offered]

    def _tool(self, offered: mcp.Tool, name: str) -> Tool:
        async def function(**arguments: Any) -> ToolOutcome:
            return await self.call(offered.name, arguments)

        return Tool(name, offered.description or offered.title or "", offered.input_schema, function)


# Our tools as a server


def mcp_server(tools: Iterable[Tool], name: str = "dragoman", version: str = "") -> Server[Any]:
    """A server of the official package; how it is reached is up to you."""
    require("mcp")
    from mcp import types
    from mcp.server import Server

    offered = {tool.name: tool for tool in tools}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declare(tool) for tool in offered.values()])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in offered:
            known = ", ".join(offered)
            return result_of(
                ToolOutcome(f"There is no tool {params.name!r}; the tools are: {known}", failed=True)
            )
        return result_of(await offered[params.name].acall(params.arguments or {}))

    return Server(name, version=version, on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(tools: Iterable[Tool], version: str = "") -> None:
    """Until the client closes our input."""
    require("mcp")
    from mcp.server.stdio import stdio_server

    server = mcp_server(tools, version=version)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _declare(tool: Tool) -> Any:
    from mcp import types

    hints = types.ToolAnnotations(read_only_hint=tool.name in READING)
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.parameters, annotations=hints
    )


# The result of a call <-> the outcome of a tool: texts are joined, images stay images


def outcome_of(result: CallToolResult) -> ToolOutcome:
    texts, shown = split_content(result)
    return ToolOutcome("\n".join(texts), tuple(shown), result.is_error)


def bound_outcome(outcome: ToolOutcome, limits: Limits) -> ToolOutcome:
    """Long text keeps its beginning and end; media that are too large become a note."""
    text, shown = outcome.text, list[Media]()
    for media in outcome.media:
        if isinstance(media.source, Base64) and len(media.source.data) * 3 // 4 > limits.file:
            text = f"{text}\n[{media.kind} left out: larger than {limits.file} bytes]".lstrip("\n")
        else:
            shown.append(media)
    return ToolOutcome(bound_text(text, limits.output), tuple(shown), outcome.failed)


def result_of(outcome: ToolOutcome) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    texts = [TextContent(text=outcome.text)] if outcome.text or not outcome.media else []
    return CallToolResult(content=[*texts, *_blocks(outcome.media)], is_error=outcome.failed)


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
