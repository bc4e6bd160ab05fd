"""`dragoman protocols`: the protocols and dialects, one line each, from the docstrings of their modules."""

from __future__ import annotations

from importlib import import_module

import click

from dragoman import dialects, protocols
from dragoman.dialects import dialect
from dragoman.protocols import upstream, upstream_names


@click.command()
def command() -> None:
    """List the protocols (wire formats) and the dialects (tool calls written as text).

    \b
    These are the values of --from, --to and --dialect, and of protocol and dialect in dragoman.toml.
    """
    width = max(map(len, (*upstream_names(), *dialects())))
    click.echo("protocols")
    for name in protocols():
        click.echo(_line(name, width))
    click.echo("protocols of upstreams only")
    for name in upstream_names():
        if name not in protocols():
            click.echo(_line(name, width))
    click.echo("dialects")
    for name in dialects():
        about = _about(type(dialect(name)).__module__).removeprefix(f"{name}: ")
        click.echo(f"  {name:<{width}}  {about}")


def _line(name: str, width: int) -> str:
    codec = upstream(name)
    about = _about(f"dragoman.protocols.{name.replace('-', '_')}").removeprefix(f"`{name}`: ")
    return f"  {name:<{width}}  {about} · POST {codec.http.path('MODEL', False)}"


def _about(module: str) -> str:
    """The first sentence of the module's own description."""
    return (import_module(module).__doc__ or module).strip().split("\n\n")[0].replace("\n", " ").rstrip(".")
