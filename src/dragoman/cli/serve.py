"""`dragoman serve`: the gateway, until a signal stops it."""

from __future__ import annotations

from functools import partial

import click
from msgspec import Struct

from dragoman.cli.options import collect
from dragoman.cli.settings import config_option, settings_of
from dragoman.cli.welcome import welcome
from dragoman.gateway.config import Config, away_from

EXAMPLES = """\b
Examples:
  dragoman serve                                    # no key, no file: the demo model answers
  GROQ_API_KEY=… dragoman serve
  dragoman serve --config dragoman.toml --workers 4
  dragoman serve --inspect                          # records exchanges; the page is at /inspect
"""


class ServeOptions(Struct, frozen=True):
    config: str | None
    host: str | None
    port: int | None
    workers: int
    verbose: bool
    inspect: bool


@click.command(epilog=EXAMPLES)
@config_option
@click.option("--host", help="The address to listen on; others than loopback need client keys.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="0 chooses a free port.  [8787]")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option("--verbose", is_flag=True, help="Log the bodies of both wires, with secrets redacted.")
@click.option("--inspect", is_flag=True, help="Record exchanges and show them at /inspect.")
@collect(ServeOptions)
def command(options: ServeOptions) -> None:
    """Start the gateway: every protocol on one port.

    Clients request a model; dragoman.toml maps it to a provider. Without a file, every known provider
    with a key in the environment is used; without any key, a scripted model answers.
    """
    from dragoman.cli.landing import mount_pages
    from dragoman.gateway.process import serve
    from dragoman.gateway.process.signals import hold_signals

    load = partial(
        settings_of,
        options.config,
        server__host=options.host,
        server__port=options.port,
        log__verbose=options.verbose or None,
        inspector__enabled=options.inspect or None,
    )
    workers = options.workers
    settings = _without_itself(load(starting=True))
    if settings.inspector.enabled and workers > 1 and not settings.inspector.keep:
        raise click.UsageError(
            "with several workers the inspector needs a file that they share: set inspector.keep "
            "in the configuration, or use --workers 1"
        )
    with hold_signals():
        listener = serve.bind(settings)
        url = serve.url(settings, listener)
        click.echo(welcome(settings, url, workers), err=True)
        if settings.inspector.enabled:
            click.echo(f"inspector    {url}/inspect", err=True)
        serve.run(settings, listener, workers, mount_pages, lambda: _without_itself(load()))
    click.echo("dragoman stopped", err=True)


def _without_itself(config: Config) -> Config:
    return away_from(config, config.host, config.port)
