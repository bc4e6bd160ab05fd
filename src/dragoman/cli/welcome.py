"""What a starting gateway prints: its address, its providers and models, and a command for each agent that is
installed."""

from __future__ import annotations

import re
import shutil

import click

from dragoman import __version__
from dragoman.cli.agents import AGENTS, AgentProgram, command_line
from dragoman.cli.settings import file_in_force
from dragoman.core import jsontext
from dragoman.gateway.config import Config
from dragoman.gateway.config.models import ModelRow
from dragoman.gateway.upstreams.routing import DEMO, Target, UnknownModel, find_provider, names, route
from dragoman.profiles import ProviderSettings, known

_WIDTH = 12
_SHORT = 16  # characters of a key


def welcome(config: Config, url: str, workers: int) -> str:
    many = f", {workers} workers" if workers > 1 else ""
    where = f"dragoman {__version__} listens on {click.style(url, bold=True)} ({access(config)}{many})"
    file = label("config", file_in_force(config))
    problems = [*weak_keys(config), *list_unserved(config), *list_unpriced(config)]
    connect = [*_agents(config, url), label("SDKs", sdk_variables(url))]
    return "\n".join([where, file, *list_served(config), *problems, "", *connect, ""])


def access(config: Config) -> str:
    """Whether clients need a key."""
    return "clients need a key" if config.keys else "loopback only: no keys are set"


def list_served(config: Config) -> list[str]:
    """A line for each provider and each model. Whether a key is there, never the key."""
    if not config.providers:
        provider = ["No API key found. The built-in demo model answers (scripted, and it does call tools)."]
    else:
        provider = [label("provider", f"{name}: {_key(of)}") for name, of in config.providers.items()]
    return provider + [label("model", f"{row.pattern} → {row}") for row in config.models]


def list_unserved(config: Config) -> list[str]:
    """Models whose providers all lack their key."""
    return [
        f"{row.pattern} cannot be served: {row} has no key. Set {' or '.join(_key_variables(row))}."
        for row in config.models
        if not any(find_provider(config, target.provider) for target in row.targets)
    ]


def _key_variables(row: ModelRow) -> list[str]:
    """A target names a known provider that needs a key: any other has one, or is a mistake."""
    return list(dict.fromkeys(known()[target.provider].key_env for target in row.targets))


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else jsontext.dumps(name)


def list_unpriced(config: Config) -> list[str]:
    """Models that keys with a budget in dollars may not use, because their price is not known."""
    if not any(each.allowance.counts_dollars for each in config.named_keys):
        return []
    return [
        f"{row.pattern}: no key with a budget in dollars may use it, because nobody knows the price of {row}."
        f" Write {_toml_key(row.pattern)} = {{ to = …, price = {{ input = …, output = … }} }}, in dollars "
        "for a million tokens."
        for row in config.models
        if "*" not in row.pattern and not any(target.price for target in _targets(config, row.pattern))
    ]


def _targets(config: Config, name: str) -> tuple[Target, ...]:
    try:
        return route(config, name)
    except UnknownModel:
        return ()


def weak_keys(config: Config) -> list[str]:
    """Keys that can be guessed where everybody can try."""
    if config.loopback or min(map(len, config.keys), default=_SHORT) >= _SHORT:
        return []
    return [f"a client key has fewer than {_SHORT} characters: make one with `openssl rand -hex 32`"]


def _key(provider: ProviderSettings) -> str:
    at = f"{provider.protocol} at {provider.base_url}"
    if provider.url_from:
        at += f" ({provider.url_from})"
    dialect = f", tool calls as {provider.dialect}" if provider.dialect else ""
    if provider.needs_key:
        return click.style(f"{at}, no key: {provider.key_env} is not set", fg="yellow")
    passed = ", with the client's own key" if provider.passthrough else ""
    return at + dialect + (passed or (", key found" if provider.has_credentials else ""))


def _agents(config: Config, url: str) -> list[str]:
    """A command for each agent on the PATH, with names that this configuration serves."""
    installed = [agent for agent in AGENTS.values() if shutil.which(agent.program)]
    if not installed:
        return [label("agents", "None is installed. `dragoman run claude` tells you how to install one.")]
    key = "$DRAGOMAN_KEY" if config.keys else "any"
    rows: list[str] = []
    for agent in installed:
        model = model_for(agent, config)
        if model == "":
            continue  # its command could only fail
        note = f"  # {agent.note}" if agent.note else ""
        rows.append(label(agent.title, command_line(agent, url, key, model) + note))
    if rows and config.keys:
        rows.insert(0, label("key", "These commands read a key of this gateway from DRAGOMAN_KEY."))
    return rows or ["No model can be named for agents: add a row to [models]."]


def model_for(agent: AgentProgram, config: Config) -> str | None:
    """The model that the agent must be told to request. None: what it requests by itself is served; empty:
    none is known by name."""
    return None if _serves_usual(agent, config) else _first_name(config)


def sdk_variables(url: str) -> str:
    """Of the vendors' SDKs."""
    return f"OPENAI_BASE_URL={url}/v1 ANTHROPIC_BASE_URL={url} GOOGLE_GEMINI_BASE_URL={url}"


def _serves_usual(agent: AgentProgram, config: Config) -> bool:
    """Whether the model that the agent requests by itself is served, by one who has it."""
    try:
        target = route(config, agent.usual_model)[0]
    except UnknownModel:
        return False
    is_passed_on = target.model == agent.usual_model
    return not is_passed_on or target.provider.name in (agent.vendor, DEMO) or not agent.vendor


def _first_name(config: Config) -> str:
    """A model that is served; empty where none is known by name."""
    usual = [f"{each.name}:{each.default_model}" for each in config.providers.values() if each.default_model]
    for name in (*names(config), *usual):
        try:
            route(config, name)
        except UnknownModel:
            continue
        return name
    return ""


def label(what: str, text: str) -> str:
    return f"{what:{_WIDTH}} {text}"
