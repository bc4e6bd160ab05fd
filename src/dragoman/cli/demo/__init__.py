"""`dragoman demo`: one tool call walks from an agent to a model and back, and both wires are shown."""

from __future__ import annotations

import click

from dragoman import DragomanError, dialects, protocols
from dragoman.cli.demo.cycle import Cycle, walk

EXAMPLES = """\b
Examples:
  dragoman demo
  dragoman demo --from openai-chat --to anthropic --stream
  dragoman demo --from openai-chat --to openai-chat --dialect roo-xml
  dragoman demo --all
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--from", "client", type=click.Choice(protocols()), default="anthropic", show_default=True,
    help="What the agent speaks.",
)  # fmt: skip
@click.option(
    "--to", "upstream", type=click.Choice(protocols()), default="gemini", show_default=True,
    help="What the model speaks.",
)  # fmt: skip
@click.option("--stream", is_flag=True, help="The model streams its replies.")
@click.option(
    "--dialect", type=click.Choice(dialects()), default=None,
    help="The model has no tool calling of its own: its calls are text in this dialect.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Every pair of protocols, one line each.")
def command(client: str, upstream: str, stream: bool, dialect: str | None, every: bool) -> int:
    """Walk one tool call across two protocols.

    The four steps of every tool call: the agent asks, the model calls a tool, the agent sends the
    result, the model answers. The model is a script that speaks the real wire format, so no key and no
    network are needed. The tool really reads a small directory, which is made for it.
    """
    if every:
        return _every(stream, dialect)
    from dragoman.cli.demo.show import show

    cycle = walk(client, upstream, stream, dialect)
    show(cycle)
    return 0 if cycle.good else 1


def _every(stream: bool, dialect: str | None) -> int:
    width = max(map(len, protocols()))
    good = 0
    for client in protocols():
        for upstream in protocols():
            try:
                cycle = walk(client, upstream, stream, dialect)
                verdict, fine = _verdict(cycle), cycle.good
            except DragomanError as error:
                verdict, fine = str(error), False
            mark = click.style("ok", fg="green") if fine else click.style("no", fg="red")
            click.echo(f"{client:>{width}} → {upstream:<{width}}  {mark}  {verdict}")
            good += fine
    pairs = len(protocols()) ** 2
    click.echo(f"{good} of {pairs} pairs carried the call, its result, its ids and its state")
    return 0 if good == pairs else 1


def _verdict(cycle: Cycle) -> str:
    losses = len({loss for step in cycle.steps for loss in step.losses})
    failed = [what for what, good in cycle.checks.items() if not good]
    return f"{losses} {'loss' if losses == 1 else 'losses'}{''.join(f'; NOT {what}' for what in failed)}"
