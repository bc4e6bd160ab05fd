"""`dragoman many`: prompts of a JSONL file, replies into another; resumable."""

from __future__ import annotations

import click
from msgspec import Struct

from dragoman.cli.completion import complete_model
from dragoman.cli.options import collect

EXAMPLES = """\b
Examples:
  dragoman many prompts.jsonl replies.jsonl --model demo:any
  dragoman many prompts.jsonl replies.jsonl --model groq:openai/gpt-oss-120b --requests-per-minute 500
  dragoman many prompts.jsonl replies.jsonl --model … --retry-failed
"""


class ManyOptions(Struct, frozen=True):
    source: str
    target: str
    model: str | None
    system: str | None
    concurrency: int
    requests_per_minute: float | None
    tokens_per_minute: float | None
    schema: str | None
    retry_failed: bool
    quiet: bool


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
@collect(ManyOptions)
def command(options: ManyOptions) -> int:
    """Send every line of IN.JSONL to a model and append the replies to OUT.JSONL.

    \b
    A line of IN.JSONL is a JSON string, or {"prompt": "…"} or {"messages": […]}, optionally with an "id" and
    settings of its own. Lines that have a reply in OUT.JSONL are skipped, so the same command resumes after
    Ctrl-C or a crash. Exit code 1: some lines failed; their replies hold an "error".
    """
    from dragoman.cli.default_model import choose_model
    from dragoman.cli.schema_option import read_schema
    from dragoman.client import generate_file

    done = generate_file(
        options.source,
        options.target,
        choose_model(options.model),
        output=read_schema(options.schema) if options.schema else None,
        system=options.system,
        concurrency=options.concurrency,
        requests_per_minute=options.requests_per_minute,
        tokens_per_minute=options.tokens_per_minute,
        retry_failed=options.retry_failed,
        progress=not options.quiet,
    )
    return 1 if done.failed else 0
