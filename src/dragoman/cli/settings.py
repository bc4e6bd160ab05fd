"""The configuration as commands see it: the file, the environment, and above them the command line."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import click

from dragoman.gateway.config import Config, load_file
from dragoman.gateway.config.source import ConfigMistake, ConfigMistakes

_OPTIONS = {
    "DRAGOMAN_INSPECTOR__ENABLED": "--inspect",
    "DRAGOMAN_LOG__FILE": "--log",
    "DRAGOMAN_LOG__VERBOSE": "--verbose",
    "DRAGOMAN_SERVER__HOST": "--host",
    "DRAGOMAN_SERVER__PORT": "--port",
}

config_option: Any = click.option(
    "--config", metavar="FILE", help="The configuration.  [a trusted dragoman.toml here, else the user's own]"
)


def settings_of(path: str | None, *, starting: bool = False, **options: object) -> Config:
    """`server__port=9000` overrides what DRAGOMAN_SERVER__PORT says; None overrides nothing."""
    given = {f"DRAGOMAN_{name.upper()}": str(value) for name, value in options.items() if value is not None}
    try:
        config = load_file(path, {**os.environ, **given}, starting=starting)
    except ConfigMistakes as error:
        raise ConfigMistakes([_by_option(each, given) for each in error.mistakes]) from None
    except ConfigMistake as error:
        raise _by_option(error, given) from None
    if config.ignored_file:
        hint = "use it with `dragoman trust` or --config dragoman.toml"
        click.echo(click.style(f"dragoman: {config.ignored_file}: {hint}", fg="yellow"), err=True)
    return config


def _by_option(mistake: ConfigMistake, given: Collection[str]) -> ConfigMistake:
    """With the option that set the variable, where it was one."""
    variable, _, problem = str(mistake).partition(": ")
    if variable not in given:
        return mistake
    return ConfigMistake(f"{_OPTIONS[variable]}: {problem}", mistake.where, mistake.line)


def file_in_force(config: Config) -> str:
    return config.file or config.ignored_file or "no configuration file"
