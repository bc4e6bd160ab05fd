"""The other way: tools of ours as an MCP server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dragoman.client.tools import Tool
from dragoman.client.values import ToolOutcome
from dragoman.core.optional import require
from dragoman.toolkit import READING
from dragoman.toolkit.mcp_content import result_of

if TYPE_CHECKING:
    from mcp.server import Server


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
