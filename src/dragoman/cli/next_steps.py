"""What `dragoman` prints by itself: what it finds on this machine, and what you can do next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec

import click

from dragoman import __version__
from dragoman.core.optional import MODULES, install_command
from dragoman.profiles import known

_WIDTH = 8
_DEMO = "demo:any"


def next_steps() -> str:
    from dragoman.cli.agents import AGENTS

    having = [provider for provider in known().values() if provider.key_from(os.environ)]
    variables = dict.fromkeys(
        name for provider in having for name in provider.key_variables if os.environ.get(name)
    )
    agents = {name: agent for name, agent in AGENTS.items() if shutil.which(agent.program)}
    model = next((f"{it.name}:{it.default_model or 'MODEL'}" for it in having), _DEMO)
    steps = [*_steps(next(iter(agents), "claude"), model)]
    wide = max(len(command) for command, _, _ in steps)
    rows = [f"  {click.style(command.ljust(wide), bold=True)}   {about}" for command, _, about in steps]
    missing = [command.split()[1] for command, extra, _ in steps if not _has(extra)]
    return "\n".join(
        [
            f"dragoman {__version__} translates tool calls between LLM protocols.",
            "",
            _row("keys", variables, "none. A built-in scripted model answers until you set one"),
            _row("agents", (agent.title for agent in agents.values()), "none is installed here"),
            "",
            "What you can do next:",
            *rows,
            "",
            *([f"{', '.join(missing)}: first {install_command('cli,client,gateway')}"] if missing else []),
            "All commands: dragoman --help",
        ]
    )


def _steps(agent: str, model: str) -> Iterable[tuple[str, str, str]]:
    """A command, the extra that it needs, and what it does."""
    yield "dragoman demo", "", "watch one tool call cross two protocols"
    yield f'dragoman ask "Hello!" --model {model}', "client", "ask a model"
    yield f"dragoman run {agent} --model {model}", "gateway", "start an agent on that model"
    yield "dragoman models", "client", "list the models that you can use"
    yield "dragoman serve --inspect", "gateway", "serve every protocol on one port, and watch the traffic"


def _row(what: str, found: Iterable[str], otherwise: str) -> str:
    return f"{what:{_WIDTH}} {', '.join(found) or otherwise}"


def _has(extra: str) -> bool:
    return all(find_spec(module) for module in MODULES.get(extra, ()))
