"""`dragoman models`: what a client may ask for."""

from __future__ import annotations

from collections.abc import Iterable

import click

from dragoman.cli.settings import config_option, need_gateway, settings_of
from dragoman.gateway.config import Config
from dragoman.gateway.upstreams.routing import DEMO, only_provider
from dragoman.profiles import Provider, known


@click.command()
@config_option
@click.option("--live", is_flag=True, help="Ask each provider for its own list.")
def command(config: str | None, live: bool) -> int:
    """List the models that clients may ask for.

    \b
    Names and patterns of the configuration, then every provider that has its key; with --live, what each of
    them, and each server on this machine, says it has.
    """
    settings = settings_of(config)
    for line in _named(settings):
        click.echo(line)
    return _live(settings) if live else _offered(settings)


def _named(config: Config) -> list[str]:
    width = max((len(asked) for asked, _ in config.models), default=0)
    return [f"{asked:<{width}}  → {', '.join(targets)}" for asked, targets in config.models]


def _offered(config: Config) -> int:
    for name, provider in config.providers.items():
        click.echo(f"{name}:*" + (f"  ({', '.join(provider.models)}, …)" if provider.models else ""))
    local = [
        name for name, provider in known().items() if not provider.key_env and name not in config.providers
    ]
    click.echo(f"{', '.join(f'{name}:*' for name in local)}  (no key needed)")
    if provider := only_provider(config):
        click.echo(f"any other name  → {provider.name}")
    return 0


def _live(config: Config) -> int:
    """Local servers that do not answer are not running; a provider with a key that does not is a failure."""
    need_gateway()
    from dragoman.gateway.upstreams.model_lists import live

    asked = {**_local(known().values()), **config.providers}
    asked.pop(DEMO, None)
    failed = 0
    for name, answer in live(asked.values()).items():
        if isinstance(answer, tuple):
            for model in answer:
                click.echo(f"{name}:{model}")
        elif name in config.providers:
            failed += 1
            click.echo(click.style(f"{name}: {answer}", fg="red"), err=True)
    return 1 if failed else 0


def _local(providers: Iterable[Provider]) -> dict[str, Provider]:
    return {provider.name: provider for provider in providers if not provider.key_env}
