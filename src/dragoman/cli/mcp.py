"""`dragoman mcp`: the standard tools as an MCP server on stdin and stdout."""

from __future__ import annotations

import asyncio

import click

from dragoman import __version__
from dragoman.cli.session import choose_tools

EXAMPLES = """\b
Examples:
  dragoman mcp --root ~/project
  dragoman mcp --tool read_file --tool search_file_content
  claude mcp add tools -- dragoman mcp --root ~/project --read-only
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--root", default=".", metavar="DIR", help="The directory that the tools are restricted to.  [.]"
)
@click.option(
    "--tool", "names", multiple=True, metavar="NAME", help="Offer this tool; default: all. Repeatable."
)
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing.")
def command(root: str, names: tuple[str, ...], read_only: bool) -> None:
    """Offer the standard tools as an MCP server.

    \b
    It uses stdin and stdout until stdin is closed. Tools run without confirmation. Approval is up to the
    MCP client.
    """
    from dragoman.toolkit.mcp import serve_stdio

    asyncio.run(serve_stdio(choose_tools(root, names, read_only), __version__))
