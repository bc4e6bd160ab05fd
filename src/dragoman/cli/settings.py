"""The configuration as commands see it: the file, the environment, and above them the command line."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import click

from dragoman import DragomanError
from dragoman.gateway.config import Config, load_file

config_option: Any = click.option(
    "--config", metavar="FILE", help="The configuration.  [dragoman.toml, where there is one]"
)


def settings_of(path: str | None, **said: object) -> Config:
    """`server__port=9000` says what DRAGOMAN_SERVER__PORT would; None says nothing."""
    variables = {f"DRAGOMAN_{name.upper()}": str(value) for name, value in said.items() if value is not None}
    return load_file(path, {**os.environ, **variables})


def need_gateway() -> None:
    """The server's parts are an extra; say so instead of failing in an import."""
    for name in ("httptools", "prometheus_client"):
        if find_spec(name) is None:
            raise DragomanError(f"{name} is missing: python -m pip install 'dragoman[gateway]'")
