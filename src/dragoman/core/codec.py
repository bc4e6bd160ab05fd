"""The translating half of a `Protocol`: functions, limits, how a request is addressed and signed (`Http`).

A stream passes through stages in a row, none of which touches a socket, a clock or a global.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.credentials import Credential, MakeRefresh
from dragoman.core.errors import WireError
from dragoman.core.events import Event
from dragoman.core.fold import RequestShape, decode_whole, encode_conversation
from dragoman.core.hosted import HostedCodec
from dragoman.core.losses import Losses, Spelling
from dragoman.core.model import ExecutedCall, Failure, Request, Response, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.core.schema_rules import SchemaRules

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    """`feed` takes one item and gives what follows from it; `close` says that no more will come."""

    def feed(self, item: In, /) -> Iterable[Out]: ...

    def close(self) -> Iterable[Out]: ...


_FEED: Callable[[Stage[Any, Any]], Callable[[Any], Iterable[Any]]] = attrgetter("feed")


class Pipe:
    """Stages in a row, as one stage."""

    __slots__ = ("_feeds", "_stages")

    def __init__(self, stages: Sequence[Stage[Any, Any]]) -> None:
        self._stages = tuple(stages)
        self._feeds = tuple(map(_FEED, stages))

    def feed(self, item: Any, /) -> Sequence[Any]:
        items: Any = (item,)
        for feed in self._feeds:
            if items.__class__ is tuple and len(items) == 1:  # nearly always: one event in, one event out
                items = feed(items[0])
            elif not (items := [out for item in items for out in feed(item)]):
                break
        return tuple(items)

    def close(self) -> list[Any]:
        """Close the stages from first to last; what one releases passes through those after it."""
        out: list[Any] = []
        for position, stage in enumerate(self._stages):
            held: Iterable[Any] = stage.close()
            for feed in self._feeds[position + 1 :]:
                held = [out for item in held for out in feed(item)]
            out += held
        return out


def pipe(*stages: Stage[Any, Any]) -> Pipe:
    return Pipe(stages)


class Frame(Struct, frozen=True, gc=False):
    """One message of a stream. A decoder of bytes gives `data` as bytes, whatever the framing; an encoder of
    events may give a value, which is printed where the frame becomes bytes."""

    event: str
    data: Any


def frame_object(frame: Frame) -> Wire:
    """The JSON object in a frame; empty where there is none, or where it was cut."""
    try:
        value = jsontext.decode(frame.data)
    except ValueError:
        return {}
    return value if jsontext.is_object(value) else {}


def read_frame(frame: Frame, protocol: str) -> Wire:
    """The JSON object in a frame, which must hold one."""
    where = f"event {frame.event or '(unnamed)'}"
    try:
        value = jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(protocol, where, str(error)) from None
    if not jsontext.is_object(value):
        raise WireError(protocol, where, "expected an object")
    return value


class Framing(Struct, frozen=True):
    """How the frames of a stream become bytes and back; `dragoman.framing` has one module for each.

    `content_type` and `keep_alive` are set where a URL may demand this framing instead of its protocol's. A
    protocol says those of its own framing itself: `Http.stream_type` and `Codec.keep_alive`.
    """

    decoder: Callable[[], Stage[bytes, Frame]]
    encoder: Callable[[], Stage[Frame, bytes]]
    content_type: str = ""
    keep_alive: bytes = b""  # what may stand between two frames


class ProtocolLimits(Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one side of the protocol accepts, and which opaque slots its clients echo."""

    protocol: str = ""  # whose limits these are, where that matters for `signs`
    tool_name: str = r"[a-zA-Z0-9_-]+"
    tool_name_length: int = 64
    call_id: str = r"[\x21-\x7e]+"
    call_id_length: int = 64
    mends_calls: bool = True  # every call is answered right after it, and every result has its call
    call_id_prefix: str = ""  # clients of this protocol expect ids that begin so
    custom_tools: bool = False
    cache_breakpoints: bool = False  # a part may end a cached prefix
    call_breakpoints: bool = False  # … and a call, too
    namespaces: bool = False
    deferred_tools: bool = False
    hosted_tools: frozenset[str] = frozenset()
    lists_hosted: bool = False  # the profile lists them: the server runs no other, of its own kind neither
    hosted_filters: frozenset[str] = frozenset()  # restrictions that can be said: mcp.allowed, …
    hosted_choices: frozenset[str] = frozenset()  # what keeps the model from hosted tools: none, names
    reasoning_beside_output: bool = False  # its output tokens are without those of reasoning
    signs: str = ""  # reasoning or call: its servers refuse one without state
    call_state: bool = False  # a call has an opaque slot of its own
    text_state: bool = False  # a text has one
    text_pieces: bool = False  # its clients keep each piece of a streamed text as a part of its own
    reasoning_state: bool = True  # every client echoes the slot of a reasoning part
    schema_rules: SchemaRules = SchemaRules()
    schema_field: str = "parameters"  # where a declaration holds its schema
    compaction: Callable[[str], Wire] | None = None  # the part of this protocol that holds a summary
    executed: Callable[[ExecutedCall], tuple[Wire, ...]] | None = None  # the parts that tell of such a call
    hosted: HostedCodec = HostedCodec()  # how its clients see calls that we executed


@lru_cache(256)
def without_computer(limits: ProtocolLimits) -> ProtocolLimits:
    """`limits` towards a client of another protocol: each has actions of its own for a computer, which stay
    those that the client declared."""
    return replace(limits, hosted_tools=limits.hosted_tools - {"computer"})


@lru_cache(256)
def with_listed_tools(limits: ProtocolLimits, profile: ModelProfile) -> ProtocolLimits:
    """`limits` of a server whose profile may list the hosted tools that it runs."""
    if profile.hosted_tools is None:
        return limits
    return replace(limits, hosted_tools=limits.hosted_tools & {*profile.hosted_tools}, lists_hosted=True)


class OutgoingRequest(Struct, frozen=True):
    """A request to an upstream as far as a signature covers it (AWS SigV4 signs all four)."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


Authenticate = Callable[[Credential, OutgoingRequest], dict[str, str]]  # gives headers


def bearer(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return {"authorization": f"Bearer {credential.token or credential.key}"}


def same_path(path: str) -> Callable[[str, bool], str]:
    """For protocols whose URL names neither the model nor whether it streams."""
    return lambda model, stream: path


class Http(Struct, frozen=True, kw_only=True):
    """Where a request goes. `path` is relative to the base URL that the vendor's SDK takes.

    `authenticate` gives the headers that prove who asks; where it `signs` the whole request, as AWS SigV4
    does, it is called for each. `refresh` makes what fetches a credential, where the protocol has such;
    `address` makes the base URL of a provider that names none from its region, project or location.
    """

    path: Callable[[str, bool], str]  # (model, stream) -> path with query
    authenticate: Authenticate = bearer
    refresh: MakeRefresh | None = None
    address: Callable[[Mapping[str, str], Mapping[str, str]], str] | None = None  # (options, environment)
    signs: bool = True
    headers: dict[str, str] = {}  # what every request must say beside its key
    field_headers: dict[str, dict[str, str]] = {}  # a field of a body -> what that needs beside those
    header_fields: dict[str, str] = {}  # headers of a client of the same messages -> fields of this body
    model_in_body: bool = True
    resource: Callable[[str], str] = lambda model: model  # how a body may name the model of its path
    stream_type: str = "text/event-stream"

    def headers_for(self, body: Wire) -> dict[str, str]:
        """What this body needs beside `headers`."""
        more: dict[str, str] = {}
        for field, headers in self.field_headers.items():
            if field in body:
                more |= headers
        return more


class SessionCodec(Struct, frozen=True, kw_only=True):
    """A server that keeps the conversation, so that only what is new is sent to it.

    The place where a conversation continues is a handle, in the extras under `slot`. `begin`
    makes that of a new conversation; `follow` makes the next one from the request and the reply
    there, or None where the reply has no name. `dialect`: how tools are described to its models.
    """

    slot: str
    dialect: str
    begin: Callable[[], Wire]
    follow: Callable[[Wire, Wire], Wire | None]


class EncodeResponse(Protocol):
    def __call__(self, response: Response, losses: Losses, request: Request | None = None) -> Wire: ...


class MakeStreamEncoder(Protocol):
    def __call__(self, losses: Losses, request: Request | None = None) -> Stage[Event, Frame]: ...


def unchanged(frame: Frame, first: bytes, last: bytes) -> Frame:
    return frame


class KeepAliveEvents(Struct, frozen=True):
    """Events that keep a stream alive once it has begun.

    `event` makes one from the first and the last piece that went out. `renumber` moves the numbers of a later
    piece by the count of such events. `join` makes the first piece of an answer go on from an opening that
    went out before it, and gives its id and that of the opening, which replaces it in all pieces.
    """

    event: Callable[[bytes, bytes], bytes]
    renumber: Callable[[bytes, int], bytes]
    join: Callable[[bytes, bytes], tuple[bytes, tuple[bytes, bytes] | None]]


class Codec(Struct, frozen=True, kw_only=True):
    """Decode is wire → neutral, encode is neutral → wire.

    `encode_response` and `stream_encoder` may look at the client's request, where the reply must echo it;
    `decode_error` (body, status) gives None for a body that is not an error. Status 0: the body is an event
    of a stream; else it is a whole body, and one with status 200 that is no reply is an error too.
    `grammar` checks a stream frame by frame.
    `continued` fits a frame to a stream of others that it ends: the first and the last of them tell how.
    """

    name: str
    decode_response: Callable[[Wire, Losses], Response]
    encode_response: EncodeResponse
    stream_decoder: Callable[[Losses], Stage[Frame, Event]]
    stream_encoder: MakeStreamEncoder
    decode_error: Callable[[Wire, int], Failure | None]
    encode_error: Callable[[Failure], tuple[int, Wire]]
    grammar: Callable[[], Stage[Frame, Frame]]
    http: Http
    client_limits: ProtocolLimits  # what its clients accept
    limits: Callable[[ModelProfile], ProtocolLimits]  # what its servers accept
    conversation: RequestShape  # how a request is read and written
    terminal: tuple[bytes, ...]  # one of these stands in every last frame, and perhaps in others
    is_end: Callable[[Frame], bool]  # whether a frame, with its data as bytes, is a last one
    # Whether a frame shows that there is an answer; None: a last frame always does
    is_answer: Callable[[Frame], bool] | None = None
    keep_alive: bytes  # what may be sent to a client of this protocol while the upstream is silent
    continued: Callable[[Frame, bytes, bytes], Frame] = unchanged
    model_field: str = "model"  # where a reply names its model
    envelope: str = ""  # the field of a frame that holds the reply, where it is not the frame itself
    keep_alive_events: KeepAliveEvents | None = None  # where its clients count only events as a sign of life
    state_hint: bytes = b""  # stands in every reply or frame that holds state
    state_slots: Callable[[Wire], Iterable[tuple[Wire, str]]] = lambda reply: ()  # objects and fields that do
    numbered: bytes = (
        b""  # what every event holds; a stream that begins without it is encoded again for clients
    )
    spelling: Spelling = Spelling({})  # of the places of losses
    delta_text: Callable[[Wire], str] = lambda event: ""  # of an event that only continues a part
    read_usual_reply: Callable[[bytes], Response | None] = lambda body: None  # None: another shape
    # What prints as `encode_response` would; None: another shape, or the protocol has no quicker way
    write_usual_reply: Callable[[Response, Request | None, bytes], Any] = lambda response, request, echo: None
    echo: Callable[[Request | None], bytes] | None = None  # what replies repeat of their request, as text
    varying: re.Pattern[bytes] | None = None  # its fields that mean nothing: a `number` or a `padding`
    session: SessionCodec | None = None  # a server that keeps the conversation
    answers: str = ""  # the field of a reply, and of a frame, that is the array of answers, where it is one
    join_answers: Callable[[list[Any]], list[Any]] = list  # puts together what a server took apart

    def decode_request(self, body: Wire, losses: Losses) -> Request:
        return decode_whole(self.conversation, body, losses)

    def encode_request(self, request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
        return encode_conversation(self.conversation, request, losses, profile)

    @property
    def turns(self) -> str:
        """The field of a request that holds the conversation."""
        return self.conversation.field
