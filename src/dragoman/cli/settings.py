"""The configuration as commands see it: the file, the environment, and above them the command line."""

from __future__ import annotations

import os
from typing import Any

import click

from dragoman.gateway.config import Config, load_file

config_option: Any = click.option(
    "--config", metavar="FILE", help="The configuration.  [a trusted dragoman.toml here, else the user's own]"
)


def settings_of(path: str | None, **options: object) -> Config:
    """`server__port=9000` overrides what DRAGOMAN_SERVER__PORT says; None overrides nothing."""
    given = {f"DRAGOMAN_{name.upper()}": str(value) for name, value in options.items() if value is not None}
    config = load_file(path, {**os.environ, **given})
    if config.ignored_file:
        hint = "use it with `dragoman trust` or --config dragoman.toml"
        click.echo(click.style(f"dragoman: {config.ignored_file}: {hint}", fg="yellow"), err=True)
    return config


def file_in_force(config: Config) -> str:
    return config.file or "no configuration file"
