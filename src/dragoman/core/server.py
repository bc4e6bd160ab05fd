"""What a protocol's own server answers: its paths, its lists and counts, and what accounting reads there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from msgspec import Struct

from dragoman.core.errors import WireError
from dragoman.core.jsontext import Glance, is_array, is_object
from dragoman.core.model import Usage, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.core.routes import Route
from dragoman.core.stored_turns import TurnCodec


class Accounting(Struct, frozen=True, kw_only=True):
    """What can be read from the wire without decoding it.

    `request` and `reply` see everything that is looked at in a body that passes as it is, here and by the
    codec's `decode_error` and `headers_for`; without them it is read in full. `usage` reads an object that
    holds one in `usage_field`. `call_mark` appears once for each call of a stream, `call_hint` in every piece
    that could hold one.
    """

    request: Glance | None = None
    reply: Glance
    tools: Callable[[Wire], int]  # declared in a request
    calls: Callable[[Wire], int]  # in a whole reply
    usage: Callable[[Wire], Usage | None]
    usage_field: str
    call_hint: bytes
    call_mark: str

    def counted(self, reply: Wire) -> Usage | None:
        """Nothing that accounting needs is worth a failed exchange."""
        try:
            return self.usage(reply) if is_object(reply.get(self.usage_field)) else None
        except WireError:
            return None


class RateLimitStatus(Struct, frozen=True):
    """How often a client may ask: `limit` times a minute, `remaining` now, all again in `reset` seconds."""

    limit: int
    remaining: int
    reset: float
    now: float  # seconds since 1970


class ListedModel(Struct, frozen=True):
    """A model in a list: the name that clients request, and what is known about the upstream behind it.

    `protocol` is the upstream's; `hosted_tools` are the kinds that it runs itself.
    """

    name: str
    profile: ModelProfile = UNKNOWN
    protocol: str = ""
    hosted_tools: frozenset[str] = frozenset()

    @property
    def modalities(self) -> list[str]:
        """What it reads; a model of which nobody said otherwise reads images."""
        return ["text"] if self.profile.images is False else ["text", "image"]


class ProtocolServer(Struct, frozen=True, kw_only=True):
    """A server of the protocol as its clients see it.

    `routes` are what it answers. `models_path` and `count_path` are where an upstream of this protocol
    lists its models and counts tokens, relative to its base URL. `forwards` names the headers that belong
    to a body and go on with it to an upstream of the same protocol. `kept` describes how its conversations
    are stored, where it has that. `stateful` names the request fields that only an upstream of this
    protocol can honour, each with the error code that its clients understand. `encode_quota` gives the rate
    limit headers that its SDKs read.
    """

    routes: tuple[Route, ...]
    models_path: str
    decode_models: Callable[[Wire], tuple[str, ...]]
    encode_models: Callable[[tuple[ListedModel, ...]], Wire]
    encode_model: Callable[[ListedModel], Wire]
    encode_count: Callable[[int], Wire]
    tally: Accounting
    count_path: Callable[[str], str] | None = None
    forwards: tuple[str, ...] = ()
    kept: TurnCodec | None = None
    stateful: dict[str, str] = {}
    required: tuple[str, ...] = ()  # fields that the vendor's own server insists on
    encode_quota: Callable[[RateLimitStatus], dict[str, str]] = lambda quota: {}


def listed(field: str, key: str) -> Callable[[Wire], tuple[str, ...]]:
    """Reads the `key` of each entry in the array `field`."""

    def read(body: Wire) -> tuple[str, ...]:
        return tuple(str(entry[key]) for entry in rows(body.get(field)) if key in entry)

    return read


class Entry(TypedDict):
    """An object that is only counted."""


def count(value: Any) -> int:
    """How many objects an array holds; none where it is something else."""
    return [*map(type, value)].count(dict) if is_array(value) else 0


def rows(value: Any) -> list[Wire]:
    """The objects of an array; nothing where it is something else."""
    return [item for item in value if is_object(item)] if is_array(value) else []
