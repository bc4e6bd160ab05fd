"""A conversation as the wire of any protocol says it."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.client.calling import prepared
from dragoman.client.messages import Conversation
from dragoman.client.requests import request_of
from dragoman.client.tools import AnyTool
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols import codec as find_codec


def export(
    conversation: Conversation,
    protocol: str,
    model: str = "",
    tools: Iterable[AnyTool] = (),
    origin: str = "",
    losses: Losses | None = None,
) -> Wire:
    """The body of a request that continues `conversation` in `protocol`.

    State goes only to the provider that made it: say which one in `origin` to have it kept.
    """
    losses = losses or Losses()
    codec = find_codec(protocol)
    request = request_of(model, conversation, tools, {}, stream=False)
    _, ready = prepared(request, codec, origin or protocol, losses)
    return codec.encode_request(ready, losses)
