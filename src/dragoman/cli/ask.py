"""`dragoman ask`: the client in the terminal: a prompt for any model, with tools."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from dragoman.client import Run
    from dragoman.toolkit.mcp import McpServer

EXAMPLES = """\b
Examples:
  dragoman ask "Please read README.md" --model demo:any --tool read_file     # no key needed
  dragoman ask "What does this project do?" --model anthropic:claude-sonnet-4-5 --tool all
  git diff | dragoman ask - --model groq:openai/gpt-oss-120b --system "Review this change."
  dragoman ask "…" --model openai:gpt-5 --mcp docs=https://example.com/mcp --mcp "files=npx -y server-files ."
"""


@click.command(epilog=EXAMPLES)
@click.argument("prompt")
@click.option("--model", required=True, metavar="PROVIDER:MODEL", help="The model that answers.")
@click.option(
    "--tool",
    "names",
    multiple=True,
    metavar="NAME",
    help="A standard tool that the model may use, or all; repeatable.",
)
@click.option(
    "--mcp", "servers", multiple=True, metavar="[NAME=]URL|COMMAND", help="An MCP server; repeatable."
)
@click.option(
    "--root", default=".", metavar="DIR", help="The directory that the tools are restricted to.  [.]"
)
@click.option("--system", metavar="TEXT", help="System prompt.")
@click.option("--yes", is_flag=True, help="Run everything without asking.")
@click.option(
    "--max-turns", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of replies."
)
@click.option("--reasoning", is_flag=True, help="Show reasoning on stderr.")
def command(
    prompt: str,
    model: str,
    names: tuple[str, ...],
    servers: tuple[str, ...],
    root: str,
    system: str | None,
    yes: bool,
    max_turns: int,
    reasoning: bool,
) -> int:
    """Send PROMPT to a model; - reads it from stdin.

    The answer is streamed to stdout, calls and results to stderr. Tools that only read run at once; others,
    and those of MCP servers, need your confirmation.
    """
    from dragoman.cli.output import write_losses
    from dragoman.cli.screen import Screen
    from dragoman.cli.tools import chosen
    from dragoman.client import SystemMessage, UserMessage
    from dragoman.client.providers import model_of

    target = model_of(model)
    tools = chosen(root, () if "all" in names else names) if names else []
    text = sys.stdin.read() if prompt == "-" else prompt
    conversation = [*([SystemMessage(system)] if system else []), UserMessage(text)]
    screen = Screen(reasoning)

    async def asked() -> Run:
        from dragoman.client import arun

        async with AsyncExitStack() as stack:
            for server in [mcp_server(each) for each in servers]:
                tools.extend(await stack.enter_async_context(server))
            allowed = None if yes else approver(asyncio.current_task())
            return await arun(
                conversation, target, tools, approve=allowed, on_event=screen, max_turns=max_turns
            )

    try:
        run = asyncio.run(asked())
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        screen.end_line()
    write_losses(loss for loss in run.losses if loss.kind != "invented")
    if run.stopped != "answer":
        click.echo(f"dragoman ask: stopped before the answer: {run.stopped}", err=True)
        return 1
    return 0


def approver(task: asyncio.Task[Any] | None) -> Callable[[dict[str, Any]], bool | str]:
    """Asks for confirmation in the terminal; Ctrl-C at the question cancels `task`, the conversation."""
    from dragoman.cli.screen import visible
    from dragoman.client.values import call_name
    from dragoman.toolkit import READING

    def approve(call: dict[str, Any]) -> bool | str:
        if call_name(call) in READING:
            return True
        if not sys.stdin.isatty():
            return "there is no terminal to confirm it, and --yes was not given"
        try:
            return confirmed(f"Run {visible(call_name(call))}?") or "the user refused"
        except click.Abort:
            if task:
                task.cancel()
            return "the user cancelled"

    return approve


def confirmed(question: str) -> bool:
    """Whether the user confirms. Ctrl-C must reach the question, not the event loop, which is blocked."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, default=False, err=True)
    finally:
        signal.signal(signal.SIGINT, handler)


def mcp_server(option: str) -> McpServer:
    """`docs=https://…`, `files=npx server`; without a name, the host or the program names it."""
    from dragoman.toolkit.mcp import McpServer

    name, mark, target = option.partition("=")
    if not mark or not name.replace("-", "").replace("_", "").isalnum():
        name, target = "", option
    try:
        place: str | Sequence[str] = target if _is_url(target) else shlex.split(target)
    except ValueError as error:
        raise click.UsageError(f"--mcp {option}: {error}") from None
    if not place:
        raise click.UsageError(f"--mcp {option}: a URL or a command is missing")
    return McpServer(name or _named(place), place)


def _is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def _named(place: str | Sequence[str]) -> str:
    return (urlsplit(place).hostname or "mcp") if isinstance(place, str) else PurePath(place[0]).stem
