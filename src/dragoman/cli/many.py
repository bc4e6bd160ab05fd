"""`dragoman many`: prompts of a JSONL file, replies into another; resumable."""

from __future__ import annotations

from typing import Any

import click

from dragoman.cli.completion import complete_model

EXAMPLES = """\b
Examples:
  dragoman many prompts.jsonl replies.jsonl --model demo:any
  dragoman many prompts.jsonl replies.jsonl --model groq:openai/gpt-oss-120b --requests-per-minute 500
  dragoman many prompts.jsonl replies.jsonl --model … --retry-failed
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="IN.JSONL", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", metavar="OUT.JSONL", type=click.Path(dir_okay=False))
@click.option(
    "--model",
    "-m",
    metavar="PROVIDER:MODEL",
    shell_complete=complete_model,
    help="The model that answers.  [the default model]",
)
@click.option("--system", metavar="TEXT", help="System prompt of every line that has none.")
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=16, show_default=True, help="Requests at a time."
)
@click.option(
    "--requests-per-minute", type=click.FloatRange(0, min_open=True), metavar="N", help="Rate limit."
)
@click.option(
    "--tokens-per-minute",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Rate limit, by the usage that replies report.",
)
@click.option("--schema", metavar="JSON|FILE|FIELDS", help="Replies are JSON of this form, as for `ask`.")
@click.option("--retry-failed", is_flag=True, help="Send again what ended in an error before.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    source: str,
    target: str,
    model: str | None,
    system: str | None,
    schema: str | None,
    retry_failed: bool,
    quiet: bool,
    **limits: Any,
) -> int:
    """Send every line of IN.JSONL to a model and append the replies to OUT.JSONL.

    \b
    A line of IN.JSONL is a JSON string, or {"prompt": "…"} or {"messages": […]}, optionally with an "id" and
    settings of its own. Lines that have a reply in OUT.JSONL are skipped, so the same command resumes after
    Ctrl-C or a crash. Exit code 1: some lines failed; their replies hold an "error".
    """
    from dragoman.cli.default_model import chosen_model
    from dragoman.cli.schema_option import read_schema
    from dragoman.client import generate_file

    done = generate_file(
        source,
        target,
        chosen_model(model),
        system=system,
        output=read_schema(schema) if schema else None,
        retry_failed=retry_failed,
        progress=not quiet,
        **limits,
    )
    return 1 if done.failed else 0
