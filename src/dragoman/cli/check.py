"""`dragoman check`: validates the configuration and prints what would be served."""

from __future__ import annotations

import click

from dragoman.cli.settings import config_option, file_in_force, settings_of
from dragoman.cli.welcome import access, list_served, list_unpriced, list_unserved, weak_keys
from dragoman.gateway.config import away_from


@click.command()
@config_option
def command(config: str | None) -> int:
    """Check the configuration and print what would be served.

    \b
    Exit code 1: an error, with file, line and key, a model without a usable provider, or a short key
    on an address that others reach.
    """
    settings = settings_of(config)
    settings = away_from(settings, settings.host, settings.port)
    click.echo(f"{file_in_force(settings)}: no mistakes")
    click.echo(f"would listen on {settings.host}:{settings.port} ({access(settings)})")
    for line in list_served(settings):
        click.echo(line)
    problems = [*weak_keys(settings), *list_unserved(settings), *list_unpriced(settings)]
    for problem in problems:
        click.echo(click.style(problem, fg="red"), err=True)
    return 1 if problems else 0
