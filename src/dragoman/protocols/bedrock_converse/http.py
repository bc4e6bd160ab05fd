"""Addresses and signatures of Converse."""

from __future__ import annotations

from urllib.parse import quote

from dragoman.core.codec import Http
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.protocols.aws import address, refresh, sign


def path(model: str, stream: bool) -> str:
    return f"/model/{quote(model, safe='')}/converse{'-stream' if stream else ''}"


HTTP = Http(
    path=path,
    authenticate=sign("bedrock"),
    refresh=refresh,
    address=address,
    model_in_body=False,
    stream_type=AWS_EVENTS.content_type,
)
