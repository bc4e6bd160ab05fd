"""`dragoman run`: an agent on any model, with a gateway of its own."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from dragoman.cli.agents import AGENTS, AgentProgram, GatewayAccess, settings_for
from dragoman.cli.agents.launch import RunLog, environment_of, run_agent, temporary_home
from dragoman.cli.models import SCRIPTED, refuse_bare_provider, summary
from dragoman.cli.options import collect
from dragoman.cli.settings import config_option, file_in_force, settings_of
from dragoman.core.errors import describe_unknown
from dragoman.gateway.config import Config
from dragoman.gateway.config.models import ModelRow, ModelTarget
from dragoman.gateway.upstreams.routing import (
    DEMO,
    Target,
    UnknownModel,
    find_provider,
    matching_row,
    route,
)
from dragoman.profiles import known

EXAMPLES = """\b
Examples:
  dragoman run claude --model groq:openai/gpt-oss-120b
  dragoman run codex --model anthropic:claude-sonnet-4-5 -- exec "what is in here?"
  dragoman run gemini --model ollama:qwen3-coder
"""


class Missing(click.ClickException):
    exit_code = 127  # as shells do


class AgentOptions(Struct, frozen=True):
    agent: str
    model: str | None
    config: str | None
    log: str | None
    inspect: bool
    no_check: bool
    passed: tuple[str, ...]
    arguments: tuple[str, ...]


class RunCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            hint = f"Options of the agent stand behind --: dragoman run claude -- {option}"
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from None


@click.command(cls=RunCommand, epilog=EXAMPLES)
@click.argument("agent", type=click.Choice(list(AGENTS)))
@click.option("--model", metavar="M", help="provider:model, or a name from the configuration.")
@config_option
@click.option("--log", metavar="FILE", help="Append a line for each exchange to FILE.")
@click.option("--inspect", is_flag=True, help="Record exchanges; the address of the page is printed.")
@click.option("--no-check", is_flag=True, help="Start the agent without checking key and model.")
@click.option("--env", "passed", multiple=True, metavar="NAME", help="A secret that the agent may see.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@collect(AgentOptions)
def command(options: AgentOptions) -> int:
    """Run AGENT on any model.

    A gateway starts on a free port and stops with the agent. ARGUMENTS after -- are passed to the agent, and
    dragoman exits with its exit code. The agent sees no DRAGOMAN_* variable and no provider's key, except
    those that you pass on with --env.
    """
    from dragoman.cli.agents.preflight import preflight
    from dragoman.gateway.observability.access_log import AccessLog
    from dragoman.gateway.process.serve import private_gateway
    from dragoman.inspector.server import mount_inspector
    from dragoman.recording.recorder import Recorder

    chosen, model = AGENTS[options.agent], options.model
    program = find(chosen)
    settings = settings_of(options.config, log__file=options.log)
    targets = targets_for(model, chosen, settings)
    target = targets[0]
    profile = target.provider.profile(target.model)
    used = f"{chosen.title} → {_describe(targets)}; config: {file_in_force(settings)}"
    click.echo(f"dragoman: {used}", err=True)
    with ExitStack() as stack:
        run_log = stack.enter_context(RunLog(settings.log_file))
        routed = everything_to(targets, settings) if model else settings
        recorder, extend = (Recorder(), mount_inspector) if options.inspect else (None, None)
        access_log = AccessLog(run_log.write)
        gateway = stack.enter_context(private_gateway(routed, access_log, recorder, extend))
        if options.inspect:
            click.echo(f"inspector: {gateway.url}/inspect#key={gateway.key}", err=True)
        if not options.no_check and (problem := preflight(target, gateway, model or target.model)):
            raise click.ClickException(f"{problem} (--no-check starts the agent all the same)")
        run_log.exchanges = run_log.failed = 0
        searches = settings.hosted is not None and settings.hosted.web_search is not None
        there = GatewayAccess(gateway.url, gateway.key, searches)
        own = settings_for(chosen, there, model, profile)
        home = stack.enter_context(temporary_home(chosen.home, Path.home()))
        added = {name: os.environ[name] for name in options.passed if name in os.environ}
        environment = environment_of(
            os.environ, chosen.unset, {**added, **own.environment, **home}, settings.secret_variables
        )
        code = run_agent([program, *own.arguments, *options.arguments], environment)
    if run_log.failed:
        click.echo(run_log.summary(), err=True)
    return code


def find(agent: AgentProgram) -> str:
    program = shutil.which(agent.program)
    if program is None:
        raise Missing(f"{agent.title} is not installed (no {agent.program} on the PATH): {agent.install}")
    return program


def targets_for(model: str | None, agent: AgentProgram, config: Config) -> tuple[Target, ...]:
    """Where `model` goes; a provider that is unknown or lacks its key is an error, never replaced."""
    if model:
        _refuse_unknown_provider(model, config)
        refuse_bare_provider(model, config)
    try:
        targets = route(config, model or agent.usual_model)
    except UnknownModel as error:
        raise click.UsageError(str(error)) from None
    if model is None:
        _refuse_other_vendor(agent, targets[0])
    return targets


def everything_to(targets: tuple[Target, ...], config: Config) -> Config:
    """Agents request several models, a small one for titles for instance: all of that goes to `targets`.

    Names that the configuration spells out stay, so that the agent can be switched to one of them.
    """
    named = tuple(row for row in config.models if "*" not in row.pattern)
    listed = tuple(ModelTarget(target.provider.name, target.model) for target in targets)
    return replace(config, models=(*named, ModelRow("*", listed)))


def _describe(targets: tuple[Target, ...]) -> str:
    first, *others = (f"{target.provider.name}:{target.model}" for target in targets)
    is_demo = targets[0].provider.name == DEMO
    facts = SCRIPTED if is_demo else summary(targets[0].provider.profile(targets[0].model))
    if facts:
        first += f" ({facts})"
    return f"{first}, else {', '.join(others)}" if others else first


def _refuse_unknown_provider(model: str, config: Config) -> None:
    """`route` takes a name with an unknown prefix for a model with a colon in it, as Ollama has them."""
    name, colon, _ = model.partition(":")
    if colon and not find_provider(config, name) and name not in known() and not matching_row(config, model):
        raise click.UsageError(describe_unknown("provider", name, sorted({*config.providers, *known()})))


def _refuse_other_vendor(agent: AgentProgram, target: Target) -> None:
    """Without a choice an agent requests models of its own vendor; another vendor has none of that name."""
    provider = target.provider.name
    if target.model == agent.usual_model and provider not in (agent.vendor, "demo"):
        example = f"--model {provider}:…"
        raise click.UsageError(f"{agent.title} has no model at {provider}. Choose one: {example}")
