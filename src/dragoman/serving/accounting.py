"""What is counted in bodies that pass as they are: model, usage, tools and calls, read from the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from msgspec import Struct

from dragoman.core.errors import WireError
from dragoman.core.jsontext import Glance, is_object
from dragoman.core.model import Usage, Wire


class Entry(TypedDict):
    """An object that is only counted."""


def no_key(request: Wire) -> bool:
    return False


class ReplyFacts(Struct, frozen=True, gc=False):
    """What is looked at in a whole reply that passes as it is; `model` as the reply names it."""

    model: Any
    usage: Usage | None
    calls: int


class Accounting(Struct, frozen=True, kw_only=True):
    """What can be read from the wire without decoding it.

    `request` sees everything that is looked at in a request that passes as it is, here and by the codec's
    `field_headers`; without it the request is read in full. `reply` gives None for what is not plainly a
    reply: the codec's `decode_error` tells what it is. `usage` reads the object in `usage_field` of a reply.
    `call_mark` appears once for each call of a stream, `call_hint` in every piece that could hold one.
    """

    request: Glance[Any] | None = None
    may_hold_key: Callable[[Wire], bool] = no_key  # whether a request holds that of a remote MCP server
    reply: Callable[[bytes], ReplyFacts | None]
    tools: Callable[[Wire], int]  # declared in a request
    calls: Callable[[Wire], int]  # in a whole reply
    usage: Callable[[Wire], Usage | None]
    usage_field: str
    call_hint: bytes
    call_mark: str
    # The fields that ask for the usage of a stream, where it comes on request; what marks its event then
    usage_request: Mapping[str, Mapping[str, Any]] = {}
    usage_event: str = ""
    usage_alias: Mapping[str, Mapping[str, Any]] = {}  # fields of some servers that ask for the same

    def asks_usage(self, wire: Wire) -> bool:
        """Whether the client itself asks for what `usage_request` says."""
        return _holds(wire, self.usage_request)

    def shows_usage(self, wire: Wire) -> bool:
        """Whether the client expects the event of `usage_event`."""
        return self.asks_usage(wire) or (bool(self.usage_alias) and _holds(wire, self.usage_alias))

    def facts(self, reply: Wire, model_field: str) -> ReplyFacts:
        return ReplyFacts(reply.get(model_field), self.count_usage(reply), self.calls(reply))

    def count_usage(self, reply: Wire) -> Usage | None:
        """Nothing that accounting needs is worth a failed exchange."""
        usage = reply.get(self.usage_field)
        try:
            return self.usage(usage) if is_object(usage) else None
        except WireError:
            return None


def _holds(wire: Wire, expected: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(
        is_object(given := wire.get(name)) and given.items() >= fields.items()
        for name, fields in expected.items()
    )
