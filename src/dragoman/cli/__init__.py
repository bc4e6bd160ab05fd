"""The command line: one file per command, imported when the command is called.

Exit codes: 0 done; 1 refused, invalid input, a failed upstream or a missing extra; 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from dragoman import DragomanError, __version__
from dragoman.core.errors import describe_unknown
from dragoman.core.optional import require

# Name -> the extra that it needs, and what it does
COMMANDS = {
    "run": ("gateway", "Run an agent (Claude Code, Codex, Gemini CLI, OpenCode, Qwen Code) on any model."),
    "serve": ("gateway", "Start the gateway: every protocol on one port."),
    "models": ("client", "List the models that clients can request."),
    "check": ("", "Check the configuration and print what would be served."),
    "trust": ("", "Use the dragoman.toml of this folder."),
    "import": ("import", "Turn another gateway's configuration into a dragoman.toml."),
    "inspect": ("gateway", "Show recorded exchanges: both wires, losses, route."),
    "plan": ("gateway", "Print what a request would lose at each provider."),
    "replay": ("gateway", "Send a recorded request again, to any model."),
    "translate": ("", "Translate a request, a response, a stream or tool declarations."),
    "chat": ("client", "Talk with any model in the terminal, with tools and MCP servers."),
    "ask": ("client", "Send a prompt to any model, with tools and MCP servers."),
    "dataset": ("datasets", "Translate a dataset of conversations; report what it would lose."),
    "many": ("client", "Send the prompts of a JSONL file to a model; resumable."),
    "mcp": ("mcp", "Offer the standard tools as an MCP server."),
    "demo": ("", "Show one tool call between two protocols; needs no key and no network."),
    "completion": ("", "Print the completion script of a shell."),
    "protocols": ("", "List the protocols and dialects."),
}

_MODULES = {"import": "import_config"}  # a word of Python is no name of a module

EXAMPLES = """\b
Examples:
  dragoman run claude --model groq:openai/gpt-oss-120b
  dragoman serve
  dragoman demo
  dragoman demo --from openai-chat --to anthropic --stream
  dragoman translate request --from anthropic --to gemini request.json
  curl -sN … | dragoman translate stream --from openai-chat --to anthropic
"""


class Program(click.Group):
    """Lists its commands without importing them, and prints every error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if extra := COMMANDS[cmd_name][0]:
            require(extra)
        return import_module(f"dragoman.cli.{_MODULES.get(cmd_name, cmd_name)}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(describe_unknown("command", args[0], COMMANDS), ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [name for name in COMMANDS if name.startswith(incomplete)]
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in found]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a command is the exit code; None means 0."""
        _settle_streams()
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:  # its message is the help
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            code = _complain(error.format_message(), getattr(error, "ctx", None), error.exit_code)
        except DragomanError as error:
            for each in getattr(error, "mistakes", (error,)):  # a configuration has several
                _complain(str(each))
            code = 1
        except click.Abort:
            code = 130
        except OSError as error:
            code = _complain(str(error))
        sys.exit(code or 0)


def _settle_streams() -> None:
    """A standard stream that is closed becomes an empty one; an arrow in a latin-1 terminal becomes `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open for as long as the program runs
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="replace")


def _complain(problem: str, context: click.Context | None = None, code: int = 1) -> int:
    name = context.command_path if context else "dragoman"
    hint = f" (see {name} --help)" if code == 2 else ""
    click.echo(f"{name}: {' '.join(problem.split())}{hint}", err=True)
    return code


@click.group(cls=Program, invoke_without_command=True, epilog=EXAMPLES)
@click.version_option(__version__, prog_name="dragoman", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Translates tool calls between LLM protocols.

    The agent speaks one protocol, the model another: dragoman translates requests, replies and
    streams in both directions, and reports what is lost.
    """
    if context.invoked_subcommand is None:
        from dragoman.cli.next_steps import next_steps

        click.echo(next_steps())
