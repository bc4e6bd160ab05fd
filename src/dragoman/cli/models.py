"""`dragoman models`: the models that clients may request, and what is known about each."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from typing import Any, cast

import click
import msgspec

from dragoman.cli.settings import config_option, settings_of
from dragoman.core.errors import describe_unknown
from dragoman.core.jsontext import is_object
from dragoman.core.model_profile import ModelProfile
from dragoman.gateway.config import Config
from dragoman.gateway.config.models import ModelTarget
from dragoman.gateway.upstreams.routing import DEMO, find_provider, matching_row, only_provider, route
from dragoman.profiles import ProviderSettings, known, split_model
from dragoman.profiles.models import list_priced

SCRIPTED = "scripted model"


@click.command()
@click.argument("name", metavar="[PROVIDER|MODEL]", required=False)
@config_option
@click.option("--live", is_flag=True, help="Request each provider's own list.")
@click.option("--prices", is_flag=True, help="List the models whose prices are known, without the network.")
@click.option("--default", metavar="PROVIDER:MODEL", help="Save the default model of ask, chat and many.")
def command(name: str | None, config: str | None, live: bool, prices: bool, default: str | None) -> int:
    """List the models that clients may request: window, output limit, prices, capabilities.

    \b
    Names and patterns of the configuration, then every provider that has its key; with --live, the lists of
    these providers and of the servers on this machine. With PROVIDER: its own list. With MODEL: every fact
    that is known about it. Prices are US dollars per million tokens.
    """
    if default:
        return _save(default)
    settings = settings_of(config)
    if prices:
        return _print_priced(settings, name)
    if name and (provider := find_provider(settings, name)):
        return _print_lists({name: provider}, [name])
    if name:
        refuse_bare_provider(name, settings)
        return _facts(settings, name)
    for line in _list_named(settings):
        click.echo(line)
    return _live(settings) if live else _print_offered(settings)


def refuse_bare_provider(name: str, config: Config) -> None:
    """The name of a provider alone, which is no model: where none has a key, the demo would answer."""
    if name not in known() or name == DEMO or config.providers or matching_row(config, name):
        return
    key = known()[name].key_env
    hint = f" Set {key} first. `dragoman models {name} --prices` lists those with a price." if key else ""
    raise click.UsageError(f"{name!r} is a provider. Name a model of it: {name}:MODEL.{hint}")


def _print_priced(config: Config, name: str | None) -> int:
    """Of one provider, or of all that have their key; of all known ones where none has."""
    names = [name] if name else [each for each in config.providers if list_priced(each)] or [*known()]
    for each in names:
        provider = config.providers.get(each) or known().get(each)
        if provider is None:
            raise click.UsageError(describe_unknown("provider", each, sorted({*config.providers, *known()})))
        for model in list_priced(each):
            click.echo(f"{each}:{model}  {summary(provider.profile(model))}")
    return 0


def _save(name: str) -> int:
    from dragoman.cli.default_model import choose_model, save_default

    model = choose_model(name)  # which refuses what does not exist
    save_default(name, os.environ)
    click.echo(f"default model: {name}  {summary(model.provider.profile(model.name))}".rstrip())
    return 0


def summary(profile: ModelProfile) -> str:
    """`200k window, 64k output, $3 in, $15 out, images, tools`: what is known, in one line."""
    price, sizes = profile.price, ((profile.context_window, "window"), (profile.max_output, "output"))
    capabilities = (
        (profile.images, "images"),
        (profile.tools, "tools"),
        (profile.parallel_calls, "parallel calls"),
        (profile.strict, "strict"),
        (profile.structured_output, "structured output"),
        (profile.reasoning or profile.efforts or profile.budget, "reasoning"),
    )
    return ", ".join(
        [
            *(f"{_tokens(size)} {what}" for size, what in sizes if size),
            *([f"${price.input:g} in", f"${price.output:g} out"] if price and price.output else ()),
            *(what for has, what in capabilities if has),
            *(f"no {what}" for has, what in capabilities if has is False and what in ("images", "tools")),
        ]
    )


def _tokens(count: int) -> str:
    if count < 1_000_000:
        return f"{count // 1000}k" if count >= 1000 else str(count)
    return f"{count / 1e6:.3g}M"


def _facts(config: Config, model: str) -> int:
    vendor, colon, rest = split_model(model)
    facts: list[tuple[ProviderSettings, str]]
    if colon == ":" and rest and vendor in known() and not find_provider(config, vendor):
        click.echo(f"Provider {vendor!r} has no key. Set {known()[vendor].key_env} to use it.", err=True)
        facts = [(known()[vendor], rest)]
    else:
        facts = [(target.provider, target.model) for target in route(config, model)]
    for provider, name in facts:
        profile = provider.profile(name)
        click.echo(f"{provider.name}:{name}" + f"  ({SCRIPTED})" * (provider.name == DEMO))
        for name, value in msgspec.to_builtins(profile).items():
            if value is not None and value != getattr(ModelProfile(), name):
                click.echo(f"  {name} = {_write_value(value)}")
    return 0


def _write_value(value: Any) -> str:
    """A JSON value as a person writes it: lists by commas, tables without what is not set."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_write_value, cast("tuple[Any, ...]", value))) or "none"
    if is_object(value):
        given = {name: fact for name, fact in value.items() if fact not in (None, (), "")}
        return ", ".join(
            f"{name} {_write_value(fact)}" for name, fact in given.items() if name != "above" or fact
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _list_named(config: Config) -> list[str]:
    rows = [(row.pattern, str(row), _summarise(config, row.targets[0])) for row in config.models]
    first = max((len(name) for name, _, _ in rows), default=0)
    second = max((len(targets) for _, targets, _ in rows), default=0)
    return [f"{name:<{first}}  → {targets:<{second}}  {facts}".rstrip() for name, targets, facts in rows]


def _summarise(config: Config, target: ModelTarget) -> str:
    provider = find_provider(config, target.provider)
    return summary(provider.profile(target.model)) if provider and target.model != "*" else ""


def _print_offered(config: Config) -> int:
    for name, provider in config.providers.items():
        click.echo(f"{name}:*")
        for model in provider.models:
            click.echo(f"  {name}:{model}  {summary(provider.profile(model))}".rstrip())
    local = [
        name for name, provider in known().items() if not provider.key_env and name not in config.providers
    ]
    click.echo(f"{', '.join(f'{name}:*' for name in local)}  (no key needed)")
    if provider := only_provider(config):
        click.echo(f"any other name  → {provider.name}")
    return 0


def _live(config: Config) -> int:
    """Local servers that do not answer are not running; a provider with a key that does not is a failure."""
    local = {name: provider for name, provider in known().items() if not provider.key_env}
    providers = {**local, **config.providers}
    providers.pop(DEMO, None)
    return _print_lists(providers, config.providers)


def _print_lists(providers: Mapping[str, ProviderSettings], required: Container[str]) -> int:
    """The providers' own lists; one that is `required` and does not answer is a failure."""
    from dragoman.gateway.upstreams.model_lists import live

    failed = listed = 0
    for name, answer in live(providers.values()).items():
        if isinstance(answer, tuple):
            listed += 1
            for model in answer:
                click.echo(f"{name}:{model}  {summary(providers[name].profile(model))}".rstrip())
        elif name in required:
            failed += 1
            click.echo(click.style(f"{name}: {answer}", fg="red"), err=True)
    if not listed and not failed:
        click.echo("No provider has a key, and no server answers on this machine.", err=True)
    return 1 if failed else 0
