"""The values of a request on its way through the gateway: the client's request, each attempt at an upstream,
and the record that the access log, metrics and traces are written from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dragoman.core.codec import Codec, Framing
from dragoman.core.fields import Body
from dragoman.core.losses import Loss
from dragoman.core.model import Compaction, Failure, Foreign, Usage
from dragoman.core.server import ProtocolServer, RouteMatch
from dragoman.gateway.large_bodies import LARGE, free_later
from dragoman.http.server import ResponseWriter, ServerRequest

if TYPE_CHECKING:
    from dragoman.exchange import Exchange
    from dragoman.gateway.admission import Admission, Caller
    from dragoman.gateway.conversations.connection_turns import LaneTurns
    from dragoman.gateway.conversations.conversations import LockedConversation
    from dragoman.gateway.conversations.turn_writer import TurnWriter
    from dragoman.gateway.conversations.upstream_sessions import UpstreamSession
    from dragoman.gateway.handlers.relay import KeepAliveStream
    from dragoman.gateway.jobs.background import BackgroundRun
    from dragoman.gateway.observability.recording import RecordingDraft
    from dragoman.gateway.upstreams.routing import Target


class ExchangeRecord(Struct, eq=False):
    """One exchange. Times are seconds since it began; `first` is None until a byte of the answer was sent."""

    id: str
    client: str
    action: str
    started: float = field(default_factory=time.perf_counter)
    caller: str = ""  # the name of the key
    address: str = ""  # of the client, or of the proxy before us
    shed: str = ""  # which limit turned it away
    waited: float = 0.0  # seconds in line
    model: str = ""
    stream: bool = False
    target: Target | None = None
    exchange: Exchange | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    spent: Usage | None = None  # on summaries, beside the reply
    tools: int = 0
    calls: int = 0
    tries: int = 0
    status: int = 0
    gone: bool = False
    crash: Exception | None = None
    lost: list[Loss] = []  # by the gateway, beside what the translation lost
    first: float | None = None
    span: Any = None

    def first_byte(self) -> None:
        self.first = time.perf_counter() - self.started

    def add_spent(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def provider(self) -> str:
        return self.target.provider.name if self.target else ""

    @property
    def losses(self) -> list[Loss]:
        translated = self.exchange.bare_losses if self.exchange else []
        return translated + self.lost if self.lost else translated


_UNREAD = Body(b"{}", "")


class GatewayRequest(Struct, eq=False):
    """A client's request. `owner` is a hash of its key: whose stored conversations it may continue.

    The fields after `record` are set on the way: by authentication and admission, when the body has been
    read, and when an attempt begins. `lost` is what the gateway lost itself, beside the losses of the
    translation.
    """

    client: Codec
    protocol_server: ProtocolServer
    route: RouteMatch
    incoming: ServerRequest
    query: Mapping[str, str]
    key: str
    owner: str
    writer: ResponseWriter
    record: ExchangeRecord
    caller: Caller | None = None
    admission: Admission | None = None
    body: Body = _UNREAD
    model: str = ""
    stream: bool = False
    conversation: LockedConversation | None = None  # until its turn was added
    lane: LaneTurns | None = None  # where the request came over WebSocket
    turn_writer: TurnWriter | None = None  # where this turn is to be stored
    keep_alive: KeepAliveStream | None = None  # where the answer is a stream
    attempt: Attempt | None = None  # the current one
    timeout: asyncio.Timeout | None = None  # where requests have one
    compaction: Compaction | None = None  # what the client asked for, or what this request is for
    lead: Foreign | None = None  # comes first in the reply: the summary that replaced the history
    lost: list[Loss] = []
    recording: RecordingDraft | None = None  # where exchanges are recorded
    deferred: bool = False  # it runs in the background, after this request
    background_run: BackgroundRun | None = None  # this is that run

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers

    def release(self) -> None:
        """Break the reference cycles, so that the body is freed now and not by a garbage collection."""
        if len(self.body.data) > LARGE:
            free_later(self.body, self.client.turns)
        self.attempt = self.keep_alive = None

    @property
    def content_type(self) -> str:
        """Of a streamed answer."""
        framing = self.framing
        return framing.content_type if framing else self.client.http.stream_type

    @property
    def framing(self) -> Framing | None:
        """Of a streamed answer, where the path demands another one than the protocol has."""
        return self.route.framing

    @property
    def losses(self) -> list[Loss]:
        """What the current attempt lost so far."""
        translated = self.attempt.exchange.bare_losses if self.attempt else []
        return translated + self.lost if self.lost else translated


class Attempt(Struct, eq=False):
    """One try at one upstream. `session`: the upstream keeps the conversation itself."""

    request: GatewayRequest
    target: Target
    exchange: Exchange
    turn_writer: TurnWriter | None = None
    session: UpstreamSession | None = None


class AttemptFailed(Exception):
    """The upstream gave no answer that a client could use.

    `retry`: the same request may succeed later. `reachable`: the provider answered something. `body`: the
    error as the upstream wrote it, where the client speaks the same protocol and gets it unchanged.
    """

    def __init__(
        self, failure: Failure, retry: bool = False, reachable: bool = True, body: bytes = b""
    ) -> None:
        self.failure, self.retry, self.reachable, self.body = failure, retry, reachable, body
        super().__init__(failure.message)
