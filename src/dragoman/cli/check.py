"""`dragoman check`: validates the configuration and prints what would be served."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from dragoman.cli.settings import config_option, file_in_force, settings_of
from dragoman.cli.welcome import access, label, list_served, list_unpriced, list_unserved, weak_keys
from dragoman.gateway.config import Config, away_from
from dragoman.gateway.config.keys import Allowance, ModelBudget, NamedKey
from dragoman.hosted.settings import HostedSettings


@click.command()
@config_option
def command(config: str | None) -> int:
    """Check the configuration and print what would be served.

    \b
    Exit code 1: an error, with file, line and key, a dragoman.toml here that is not trusted, a model
    without a usable provider, or a short key on an address that others reach.
    """
    settings = settings_of(config, starting=True)
    settings = away_from(settings, settings.host, settings.port)
    problems = [*weak_keys(settings), *list_unserved(settings), *list_unpriced(settings)]
    is_fine = not problems and not settings.ignored_file
    click.echo(f"{file_in_force(settings)}: no mistakes" if is_fine else file_in_force(settings))
    click.echo(f"would listen on {settings.host}:{settings.port} ({access(settings)})")
    for line in (*list_served(settings), *_keys(settings), *_hosted(settings.hosted)):
        click.echo(line)
    for problem in problems:
        click.echo(click.style(problem, fg="red"), err=True)
    return 0 if is_fine else 1


def _keys(config: Config) -> Iterator[str]:
    """Those that have a name, with their limits."""
    for key in config.named_keys:
        yield label("key", f"{key.name}: {', '.join(_limits(key)) or 'no limit'}")
    if config.admin_keys:
        yield label("inspector", f"admin keys: {len(config.admin_keys)}")


def _limits(key: NamedKey) -> Iterator[str]:
    if key.models:
        yield f"models {' '.join(key.models)}"
    allowed = key.allowance
    if allowed.requests_per_minute:
        yield f"{allowed.requests_per_minute} requests a minute"
    if allowed.concurrency:
        yield f"{allowed.concurrency} at a time"
    yield from _budget(allowed)
    for each in allowed.budgets:
        yield from (f"{each.pattern}: {budget}" for budget in _budget(each))
    if key.expires:
        yield f"until {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d %H:%M} UTC"


def _budget(of: Allowance | ModelBudget) -> Iterator[str]:
    if of.tokens_per_day:
        yield f"{of.tokens_per_day} tokens a day"
    if of.usd_per_day:
        yield f"${of.usd_per_day:g} a day"
    if of.usd_per_month:
        yield f"${of.usd_per_month:g} a month"


def _hosted(settings: HostedSettings | None) -> Iterator[str]:
    if settings is None:
        return
    if search := settings.web_search:
        yield label("hosted", f"web_search by {search.backend}" + (f" at {search.url}" if search.url else ""))
    if settings.web_fetch.enabled:
        yield label(
            "hosted", f"web_fetch of {' '.join(settings.web_fetch.allowed_hosts) or 'public addresses'}"
        )
    if settings.mcp.enabled:
        servers = [f"mcp:{name}" for name in settings.mcp.servers]
        hosts = settings.mcp.allowed_hosts or ("public addresses",)
        yield label("hosted", f"mcp servers: {' '.join([*servers, *hosts])}")
