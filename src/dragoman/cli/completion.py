"""`dragoman completion`: the script that makes a shell complete commands, options, models and tools."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem, get_completion_class

from dragoman.profiles import known
from dragoman.profiles.models import list_priced

EXAMPLES = """\b
Examples:
  eval "$(dragoman completion bash)"                                      # in ~/.bashrc
  eval "$(dragoman completion zsh)"                                       # in ~/.zshrc
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish
"""
SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def command(shell: str | None) -> None:
    """Print the completion script of SHELL.  [the login shell]"""
    from dragoman.cli import main

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(name)
    if found is None:
        raise click.UsageError(f"name one of {', '.join(SHELLS)}")
    click.echo(found(main, {}, "dragoman", "_DRAGOMAN_COMPLETE").source())


def complete_model(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Providers that can be used now, then the models of the one that is named, as far as they are known."""
    provider, colon = incomplete.partition(":")[:2]
    if colon:
        names = [f"{provider}:{model}" for model in list_priced(provider)]
    else:
        usable = [each for each in known().values() if not each.key_env or each.key_from(os.environ)]
        names = [f"{each.name}:" for each in usable]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_tool(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dragoman.toolkit import standard_tools

    names = ("all", *(tool.name for tool in standard_tools(".")))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
