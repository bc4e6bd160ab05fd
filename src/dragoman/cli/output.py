"""What commands print: bodies on stdout, losses on stderr, both as a person or a program reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from dragoman import Loss
from dragoman.core import jsontext

COLOURS = {"dropped": "red", "changed": "yellow", "invented": "cyan"}


def pretty(value: Any) -> bytes:
    """Indented JSON; numbers stay as they were spelled."""
    return msgspec.json.format(jsontext.encode(value), indent=2) + b"\n"


def write(data: bytes) -> None:
    """To stdout at once: whoever reads a stream reads it as it comes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_losses(losses: Iterable[Loss]) -> None:
    for loss in losses:
        kind = click.style(f"{loss.kind:8}", fg=COLOURS[loss.kind])
        click.echo(f"{kind} {loss.where}: {loss.why}", err=True)


def as_document(body: Any, losses: Iterable[Loss]) -> bytes:
    listed = [{"kind": loss.kind, "where": loss.where, "why": loss.why} for loss in losses]
    return pretty({"body": body, "losses": listed})
