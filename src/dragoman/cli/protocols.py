"""`dragoman protocols`: what can be translated, one line each, in the words of the modules themselves."""

from __future__ import annotations

from importlib import import_module

import click

from dragoman import dialects, protocols
from dragoman.dialects import dialect
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
        about = _about(spoken.decode_request.__module__.rpartition(".")[0])
        click.echo(f"  {name:<{width}}  {about} · POST {spoken.http.path('MODEL', False)}")
    click.echo("dialects")
    for name in dialects():
        about = _about(type(dialect(name)).__module__).removeprefix(f"{name}: ")
        click.echo(f"  {name:<{width}}  {about}")


def _about(module: str) -> str:
    """The first sentence of the module's own description."""
    return (import_module(module).__doc__ or module).strip().split("\n\n")[0].replace("\n", " ").rstrip(".")
