"""`dragoman ask`: the client in the terminal: a prompt for any model, with tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import Struct

from dragoman.cli.options import collect
from dragoman.cli.output import pretty, write, write_losses
from dragoman.cli.schema_option import read_schema
from dragoman.cli.session import SessionOptions, open_session, session_options, user_message

EXAMPLES = """\b
Examples:
  dragoman ask "Please read README.md" --model demo:any --tool read_file     # no key needed
  dragoman ask "What does this project do?" --model anthropic:claude-sonnet-4-5 --tool all
  git diff | dragoman ask - --model groq:openai/gpt-oss-120b --system "Review this change."
  dragoman ask -c "And in one sentence?"
  dragoman ask "Who is on it?" --image photo.jpg --schema "name, age int, mood: in one word"
  dragoman ask "…" --model openai:gpt-5 --mcp docs=https://example.com/mcp --mcp "files=npx -y server-files ."
"""


class AskPrompt(Struct, frozen=True):
    prompt: str
    images: tuple[str, ...]
    files: tuple[str, ...]


@click.command(epilog=EXAMPLES)
@click.argument("prompt", default="-")
@session_options
@click.option("--image", "-i", "images", multiple=True, metavar="FILE|URL", help="An image; repeatable.")
@click.option("--file", "-f", "files", multiple=True, metavar="FILE|URL", help="A PDF or other file.")
@click.option(
    "--schema", metavar="JSON|FILE|FIELDS", help='Answer with JSON of this form, such as "name, age int".'
)
@click.option("--save", metavar="FILE", help="Write the conversation to FILE, as JSON.")
@click.option("--usage", is_flag=True, help="Print tokens and cost on stderr.")
@collect(AskPrompt)
def command(
    options: SessionOptions, given: AskPrompt, schema: str | None, save: str | None, usage: bool
) -> int:
    """Send PROMPT to a model; - or nothing reads it from stdin.

    The answer is streamed to stdout, calls and results to stderr. Tools that only read run at once; others,
    and those of MCP servers, need your confirmation.
    """
    output = read_schema(schema) if schema else None
    text = sys.stdin.read() if given.prompt == "-" else given.prompt
    if not text.strip() and not given.images and not given.files:
        raise click.UsageError("There is no prompt. Write one, or pipe it in.")
    message = user_message(text, given.images, given.files)
    with open_session(options, shows_text=output is None) as session:
        run = session.ask(message, output)
    if output is not None and run.stopped == "answer":
        write(pretty(run.output))
    if save:
        session.conversation.save(Path(save))
    write_losses(loss for loss in run.losses if loss.kind != "invented")
    if usage:
        click.echo(session.describe_usage(), err=True)
    if run.stopped != "answer":
        click.echo(f"dragoman ask: stopped before the answer: {run.stopped}", err=True)
        return 1
    return 0
