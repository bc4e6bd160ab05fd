"""`dragoman run`: an agent on any model, with a gateway of its own."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec.structs import replace

from dragoman.cli.agents import AGENTS, Agent, pointed
from dragoman.cli.agents.child import attend, surroundings
from dragoman.cli.agents.homes import lent
from dragoman.cli.agents.notes import Notes
from dragoman.cli.settings import config_option, need_gateway, settings_of
from dragoman.gateway.config import Config
from dragoman.gateway.upstreams.routing import Target, UnknownModel, route

EXAMPLES = """\b
Examples:
  dragoman run claude --model groq:openai/gpt-oss-120b
  dragoman run codex --model anthropic:claude-sonnet-4-5 -- exec "what is in here?"
  dragoman run gemini --model ollama:qwen3-coder
"""


class Missing(click.ClickException):
    exit_code = 127  # as a shell says it


@click.command(epilog=EXAMPLES)
@click.argument("agent", type=click.Choice(list(AGENTS)))
@click.option("--model", metavar="M", help="provider:model, or a name from the configuration.")
@config_option
@click.option("--log", metavar="FILE", help="Append a line for each exchange to FILE.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    agent: str, model: str | None, config: str | None, log: str | None, arguments: tuple[str, ...]
) -> int:
    """Run AGENT on any model.

    A gateway is started for it on a free port, and ends with it. ARGUMENTS after -- are the agent's own;
    its exit code is ours.
    """
    need_gateway()
    from dragoman.gateway.observability.access_log import AccessLog
    from dragoman.gateway.process.private import private_gateway

    chosen = AGENTS[agent]
    program = find(chosen)
    settings = everything_to(model, chosen, settings_of(config, log__file=log))
    with ExitStack() as open_until_the_end:
        notes = open_until_the_end.enter_context(Notes(settings.log_file))
        door = open_until_the_end.enter_context(private_gateway(settings, AccessLog(notes.write)))
        told = pointed(chosen, door.url, door.key, model)
        home = open_until_the_end.enter_context(lent(chosen.home, Path.home()))
        environment = surroundings(os.environ, chosen.unset, {**told.environment, **home})
        code = attend([program, *told.arguments, *arguments], environment)
    if notes.failed:
        click.echo(notes.summary(), err=True)
    return code


def find(agent: Agent) -> str:
    program = shutil.which(agent.program)
    if program is None:
        raise Missing(f"{agent.title} is not installed (no {agent.program} on the PATH): {agent.install}")
    return program


def everything_to(model: str | None, agent: Agent, config: Config) -> Config:
    """Agents ask for several models, a small one for titles for instance: all of that goes to `model`.

    Names that the configuration spells out stay, so that the agent can be switched to one of them.
    """
    try:
        targets = route(config, model or agent.usual_model)
    except UnknownModel as error:
        raise click.UsageError(str(error)) from None
    if model is None:
        _refuse_stranger(agent, targets[0])
        return config
    named = tuple(row for row in config.models if "*" not in row[0])
    listed = tuple(f"{target.provider.name}:{target.model}" for target in targets)
    return replace(config, models=(*named, ("*", listed)))


def _refuse_stranger(agent: Agent, target: Target) -> None:
    """Without a model an agent asks for those of its own vendor; another vendor has none of that name."""
    provider = target.provider.name
    if target.model == agent.usual_model and provider not in (agent.vendor, "demo"):
        example = f"--model {provider}:…"
        raise click.UsageError(f"{agent.title} has no model at {provider}; say which one: {example}")
