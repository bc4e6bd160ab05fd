"""`dragoman protocols`: what can be translated, one line each."""

from __future__ import annotations

from importlib import import_module

import click

from dragoman import dialects, protocols
from dragoman.core.codec import Codec
from dragoman.protocols import codec


@click.command()
def command() -> None:
    """List the protocols (wire formats) and the dialects (tool calls written as text).

    \b
    Their names are what --from, --to and --dialect take.
    """
    width = max(map(len, (*protocols(), *dialects())))
    click.echo("protocols")
    for name in protocols():
        spoken = codec(name)
        click.echo(f"  {name:<{width}}  {_about(spoken)} (POST {spoken.http.path('MODEL', False)})")
    click.echo("dialects")
    for name in dialects():
        click.echo(f"  {name:<{width}}")


def _about(spoken: Codec) -> str:
    """What the protocol's folder says of itself."""
    folder = import_module(spoken.decode_request.__module__.rpartition(".")[0])
    return (folder.__doc__ or spoken.name).strip().splitlines()[0].rstrip(".")
