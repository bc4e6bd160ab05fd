"""Output of commands: bodies on stdout, losses on stderr, for people or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from dragoman import Loss
from dragoman.core import jsontext

COLOURS = {"dropped": "red", "changed": "yellow", "invented": "cyan", "emulated": "cyan"}
SEVERITY_COLOURS = {"material": "red", "minor": "yellow", "cosmetic": "white", "": "green"}


def pretty(value: Any) -> bytes:
    """Indented JSON; numbers keep their spelling."""
    return msgspec.json.format(jsontext.encode(value), indent=2) + b"\n"


def write(data: bytes) -> None:
    """To stdout, unbuffered: a stream is passed on as it arrives."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_losses(losses: Iterable[Loss]) -> None:
    for loss in losses:
        kind = click.style(f"{loss.kind:8}", fg=COLOURS[loss.kind])
        click.echo(f"{kind} {loss.where}: {loss.why}", err=True)


def as_document(body: Any, losses: Iterable[Loss]) -> bytes:
    return pretty({"body": body, "losses": [msgspec.to_builtins(loss) for loss in losses]})
