"""The model of `ask`, `chat` and `many`: the one that is named, else the user's default, else the demo."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from dragoman.cli.settings import settings_of
from dragoman.client import Model, Provider
from dragoman.client.providers import model_of
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config
from dragoman.gateway.upstreams.routing import matching_row, route
from dragoman.profiles import ProviderSettings, bare_model, find_vendor, split_model
from dragoman.user_folders import config_folder

VARIABLE = "DRAGOMAN_MODEL"
DEMO = "demo:any"


def choose_model(name: str | None) -> Model:
    """`name` is provider:model, or fits a row of `[models]`; None or "default" is the default."""
    config = settings_of(None)
    if name in (None, "default"):
        name = os.environ.get(VARIABLE) or load_default(os.environ) or _first_with_key(config)
        if name == DEMO:
            click.echo("dragoman: No API key found. The built-in demo model answers.", err=True)
    if matching_row(config, name):
        target = route(config, name)[0]
        return client_provider(target.provider).model(target.model)
    provider, separator, model = split_model(name)
    if separator == "/" and provider not in config.providers:
        provider = find_vendor(provider)
    if model and provider in config.providers:
        return client_provider(config.providers[provider]).model(bare_model(provider, model))
    return model_of(name)


def client_provider(provider: ProviderSettings) -> Provider:
    """A provider of the configuration as the client library takes it."""
    surfaces = () if provider.dialect else provider.surfaces
    return Provider(
        provider.name,
        protocol="" if surfaces else provider.protocol,
        base_url="" if surfaces else provider.base_url,
        credentials=provider.credentials,
        headers=provider.headers,
        dialect=provider.dialect,
        recover=provider.recover,
        timeouts=provider.timeouts,
        surfaces=surfaces,
        profiles=provider.profiles,
    )


def load_default(environ: Mapping[str, str]) -> str:
    path = _path(environ)
    try:
        return path.read_text("utf-8").strip() if path else ""
    except FileNotFoundError:
        return ""


def save_default(name: str, environ: Mapping[str, str]) -> Path:
    path = _path(environ)
    if path is None:
        raise ConfigError(f"There is no home directory to keep the default in. Set {VARIABLE}={name}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name}\n", "utf-8")
    return path


def _path(environ: Mapping[str, str]) -> Path | None:
    folder = config_folder(environ)
    return folder / "default-model" if folder else None


def _first_with_key(config: Config) -> str:
    named = [f"{each.name}:{each.default_model}" for each in config.providers.values() if each.default_model]
    return next(iter(named), DEMO)
