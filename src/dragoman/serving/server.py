"""A protocol's own server as data: its routes, its lists and counts, and what it keeps for its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from dragoman.core.fields import rows
from dragoman.core.model import Failure, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.serving.accounting import Accounting
from dragoman.serving.conversations import CompactionCodec, ConversationCodec, TurnCodec
from dragoman.serving.jobs import BackgroundCodec, BatchCodec, FileCodec
from dragoman.serving.named_files import NamedFiles
from dragoman.serving.routes import Route, RouteMatch
from dragoman.serving.search import SearchRouteCodec


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
        """What it reads; a model reads images unless its profile denies it."""
        return ["text"] if self.profile.images is False else ["text", "image"]


class SocketRequest(Struct, frozen=True):
    """A client's message that asks for a response.

    `body` is the request as POST would take it. Responses of one `lane` come one after the other, those of
    different lanes side by side. `generate`: False stores the input and answers without asking the model.
    """

    body: Wire
    lane: str = ""
    generate: bool = True


class SocketCodec(Struct, frozen=True, kw_only=True):
    """A protocol over WebSocket: each message is a request, each event of a stream a message."""

    decode: Callable[[Wire], SocketRequest | Wire | Failure | None]  # Wire: an answer; None: nothing to do
    lane_of: Callable[[Wire], str]  # of a message that is refused
    encode_error: Callable[[int, Wire, dict[str, str], str], Wire]  # (status, error body, headers, lane)
    with_lane: Callable[[bytes, str], bytes]  # an event that belongs to a lane
    lanes: int  # with a name
    too_many_lanes: Failure
    in_flight: int  # responses at once
    seconds: float  # that a connection may last
    expired: Failure


class Forwarding(Struct, frozen=True):
    """Endpoints that pass untranslated to providers of these `protocols`: `path` gives the one at an upstream
    for a model and the `variant` of the route."""

    path: Callable[[str, str], str]
    protocols: tuple[str, ...]


Unwrap = Callable[[Wire, RouteMatch], tuple[Wire, dict[str, str]]]


class ProtocolServer(Struct, frozen=True, kw_only=True):
    """A server of the protocol as its clients see it.

    `models_path` and `count_path` are where an upstream of this protocol lists its models and counts tokens,
    relative to its base URL. `forwards` names the headers that belong to a body and are forwarded with it to
    an upstream of the same protocol. `turn_codec`: how its conversations are stored; `compaction`: how its
    clients request that, where it has them. `encode_quota` gives the rate limit headers that its SDKs read.
    `streams_overflow`: a streamed request that is too long for the model is answered with a stream that
    fails, not with a status. `unwrap` makes a request of the protocol from the body that a route with a
    `variant` takes, and gives the headers that it held.
    """

    routes: tuple[Route, ...]
    models_path: str
    decode_models: Callable[[Wire], tuple[str, ...]]
    encode_models: Callable[[tuple[ListedModel, ...]], Wire]
    encode_model: Callable[[ListedModel], Wire]
    encode_count: Callable[[int], Wire]
    accounting: Accounting
    count_path: Callable[[str], str] | None = None
    forwards: tuple[str, ...] = ()
    turn_codec: TurnCodec | None = None
    compaction: CompactionCodec | None = None
    websocket: SocketCodec | None = None
    conversations: ConversationCodec | None = None
    background: BackgroundCodec | None = None  # how its requests run without their client
    batches: BatchCodec | None = None
    files: FileCodec | None = None
    named_files: NamedFiles | None = None  # those that its requests name
    required: tuple[str, ...] = ()  # fields that the vendor's own server insists on
    streams_overflow: bool = False
    unwrap: Unwrap | None = None
    check_headers: Callable[[Mapping[str, str]], None] | None = None  # raises WireError
    forwarding: Forwarding | None = None
    search: SearchRouteCodec | None = None  # of clients that search by themselves
    encode_quota: Callable[[RateLimitStatus], dict[str, str]] = lambda quota: {}


def read_list(field: str, key: str) -> Callable[[Wire], tuple[str, ...]]:
    """Reads the `key` of each entry in the array `field`."""

    def read(body: Wire) -> tuple[str, ...]:
        return tuple(str(entry[key]) for entry in rows(body.get(field)) if key in entry)

    return read
