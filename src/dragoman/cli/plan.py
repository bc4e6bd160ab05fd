"""`dragoman plan`: what a request would lose at each provider, before a token is paid for."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click
from msgspec import Struct, to_builtins

from dragoman import protocols
from dragoman.cli.output import COLOURS, SEVERITY_COLOURS, pretty, write
from dragoman.cli.settings import config_option, settings_of

if TYPE_CHECKING:
    from dragoman.gateway.config import Config
    from dragoman.inspector.plan import Plan

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
    settings = settings_of(config)
    request = _read(file.read(), source)
    plans = _plans(settings, request, target)
    if as_json:
        write(pretty([to_builtins(each) for each in plans]))
    else:
        for each in plans:
            _show(each)
    return 1 if all(each.error for each in plans) else 0


class _Request(Struct, frozen=True):
    body: bytes
    protocol: str
    model: str


def _read(data: bytes, protocol: str | None) -> _Request:
    from dragoman.recording.values import load_recording

    if b'"dragoman_exchange"' in data[:200]:
        recording = load_recording(data)
        return _Request(recording.request.body.data, recording.summary.client, recording.summary.model)
    if protocol is None:
        raise click.UsageError("--from must name the protocol of FILE")
    return _Request(data, protocol, "model")


def _plans(settings: Config, request: _Request, target: str) -> list[Plan]:
    from dragoman.gateway.upstreams.routing import route
    from dragoman.inspector.plan import plan_all, plan_surfaces
    from dragoman.profiles import known

    available = {**known(), **settings.providers} if not settings.providers else dict(settings.providers)
    if target == "all" or target in available:
        wanted = available.values() if target == "all" else [available[target]]
        return plan_all(request.body, request.protocol, wanted, request.model or "model")
    plans: list[Plan] = []
    for each in route(settings, target, request.protocol):
        surfaces = [at.provider for at in each.surfaces or (each,)]
        plans += plan_surfaces(request.body, request.protocol, surfaces, each.model)
    return plans


def _show(plan: Plan) -> None:
    verdict = plan.error or plan.worst or "nothing is lost"
    colour = "red" if plan.error else SEVERITY_COLOURS[plan.worst]
    aside = "" if plan.taken else ", not taken"
    click.echo(f"{plan.provider} ({plan.protocol}{aside}): {click.style(verdict, fg=colour)}")
    for loss in plan.losses if plan.taken else ():
        kind = click.style(f"{loss.kind:8}", fg=COLOURS.get(loss.kind, "cyan"))
        click.echo(f"  {loss.severity:9} {kind} {loss.where}: {loss.why}  [{loss.code}]")
