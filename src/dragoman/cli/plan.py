"""`dragoman plan`: what a request would lose at each provider, before a token is paid for."""

from __future__ import annotations

from typing import IO

import click
from msgspec import to_builtins

from dragoman import protocols
from dragoman.cli.output import COLOURS, SEVERITY_COLOURS, pretty, write
from dragoman.cli.settings import config_option, settings_of

EXAMPLES = """\b
Examples:
  dragoman plan request.json --from anthropic
  dragoman plan request.json --from anthropic --to groq:openai/gpt-oss-120b
  dragoman plan bug.exchange.json --to all --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--from", "source", type=click.Choice(protocols()), help="The protocol of FILE; a recording names it."
)
@click.option("--to", "target", default="all", show_default=True, help="all, a provider, or provider:model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def command(file: IO[bytes], source: str | None, target: str, as_json: bool, config: str | None) -> int:
    """Print what the request in FILE would lose at each provider.

    FILE is a request body or a recording. `all` are the configured providers; without any, all known ones.
    Exit code 1: nothing can take the request.
    """
    from dragoman.gateway.upstreams.routing import route
    from dragoman.inspector.plan import Plan, plan_all, plan_surfaces
    from dragoman.profiles import known
    from dragoman.recording.values import load_recording

    settings = settings_of(config)
    body = file.read()
    model = ""
    if b'"dragoman_exchange"' in body[:200]:
        recording = load_recording(body)
        body, source, model = recording.request.body.data, recording.summary.client, recording.summary.model
    if source is None:
        raise click.UsageError("--from must name the protocol of FILE")
    available = {**known(), **settings.providers} if not settings.providers else dict(settings.providers)
    if target == "all":
        plans = plan_all(body, source, available.values(), model or "model")
    elif target in available:
        plans = plan_all(body, source, [available[target]], model or "model")
    else:
        plans: list[Plan] = []
        for each in route(settings, target, source):
            surfaces = [at.provider for at in each.surfaces or (each,)]
            plans += plan_surfaces(body, source, surfaces, each.model)
    if as_json:
        write(pretty([to_builtins(each) for each in plans]))
    for each in () if as_json else plans:
        verdict = each.error or each.worst or "nothing is lost"
        colour = "red" if each.error else SEVERITY_COLOURS[each.worst]
        aside = "" if each.taken else ", not taken"
        click.echo(f"{each.provider} ({each.protocol}{aside}): {click.style(verdict, fg=colour)}")
        for loss in each.losses if each.taken else ():
            kind = click.style(f"{loss.kind:8}", fg=COLOURS.get(loss.kind, "cyan"))
            click.echo(f"  {loss.severity:9} {kind} {loss.where}: {loss.why}  [{loss.code}]")
    return 1 if all(each.error for each in plans) else 0
