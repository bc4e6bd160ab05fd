"""What `dragoman serve` says when it starts: where it is, who answers, and how to point an agent at it."""

from __future__ import annotations

import click

from dragoman import __version__
from dragoman.cli.agents import AGENTS, command_line
from dragoman.gateway.config import Config


def welcome(config: Config, url: str, workers: int) -> str:
    return "\n".join([_where(config, url, workers), *_answers(config), *_agents(config, url)])


def _where(config: Config, url: str, workers: int) -> str:
    many = f", {workers} workers" if workers > 1 else ""
    open_to = "clients need a key" if config.keys else "loopback only, since no keys are set"
    return f"dragoman {__version__} listens on {click.style(url, bold=True)} ({open_to}{many})"


def _answers(config: Config) -> list[str]:
    """Whether a key is there, never the key."""
    if not config.providers:
        return ["no provider has a key: the demo model answers, a script that really calls tools"]
    lines = [f"{'provider':18} {name} ({_key(config, name)})" for name in config.providers]
    return lines + [f"{'model':18} {asked} → {', '.join(targets)}" for asked, targets in config.models]


def _key(config: Config, name: str) -> str:
    provider = config.providers[name]
    if provider.passthrough:
        return "the client's own key"
    if provider.needs_key:
        return click.style(f"no key: {provider.key_env} is not set", fg="yellow")
    return "key found" if provider.api_key else "without a key"


def _agents(config: Config, url: str) -> list[str]:
    key = "$DRAGOMAN_KEY" if config.keys else "any"
    return ["", *(f"{agent.title:18} {command_line(agent, url, key)}" for agent in AGENTS.values()), ""]
