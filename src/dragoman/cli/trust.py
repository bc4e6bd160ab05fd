"""`dragoman trust`: let the dragoman.toml of a folder be used there."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dragoman.cli.welcome import list_served
from dragoman.gateway.config import load_file
from dragoman.gateway.config.files import DEFAULT_FILE, trust


@click.command()
@click.argument("file", default=DEFAULT_FILE)
@click.option("--revoke", is_flag=True, help="Do not use it any more.")
def command(file: str, revoke: bool) -> None:
    """Use FILE (dragoman.toml) whenever a command runs in its folder.

    A configuration decides where your keys are sent. So a dragoman.toml in the working directory is ignored
    until you trust it. If the file changes, trust it again. A file that you name with --config needs no
    trust.
    """
    path = Path(file)
    if revoke:
        trust(path, os.environ, trusted=False)
        click.echo(f"{path.resolve()} is not trusted any more")
        return
    config = load_file(file, os.environ)
    trust(path, os.environ)
    click.echo(f"{path.resolve()} is trusted. With it:")
    for line in list_served(config):
        click.echo(line)
