"""The values of a request on its way through the gateway: the client's request, and each attempt at an
upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.core.codec import Codec
from dragoman.core.fields import Body
from dragoman.core.losses import Loss
from dragoman.core.model import Compaction, Foreign
from dragoman.core.protocol import Framing
from dragoman.core.server import ProtocolServer, RouteMatch
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.http.server import ResponseWriter, ServerRequest

if TYPE_CHECKING:
    from dragoman.exchange import Exchange
    from dragoman.gateway.admission import Admission, Caller
    from dragoman.gateway.conversations.connection_turns import LaneTurns
    from dragoman.gateway.conversations.turn_writer import TurnWriter
    from dragoman.gateway.conversations.upstream_sessions import UpstreamSession
    from dragoman.gateway.handlers.keep_alive import KeepAliveStream
    from dragoman.gateway.observability.recording import RecordingDraft
    from dragoman.gateway.upstreams.routing import Target

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
    lane: LaneTurns | None = None  # where the request came over WebSocket
    turn_writer: TurnWriter | None = None  # where this turn is to be stored
    keep_alive: KeepAliveStream | None = None  # where the answer is a stream
    attempt: Attempt | None = None  # the current one
    deadline: float | None = None  # of the event loop's clock, where requests have a timeout
    compaction: Compaction | None = None  # what the client asked for, or what this request is for
    lead: Foreign | None = None  # comes first in the reply: the summary that replaced the history
    lost: list[Loss] = []
    recording: RecordingDraft | None = None  # where exchanges are recorded

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers

    def release(self) -> None:
        """Break the reference cycles, so that the body is freed now and not by a garbage collection."""
        self.attempt = self.keep_alive = None

    @property
    def content_type(self) -> str:
        """Of a streamed answer."""
        framing = self.framing
        return framing.content_type if framing else self.client.http.stream_type

    @property
    def framing(self) -> Framing | None:
        """Of a streamed answer, where the path demands another one than the protocol has."""
        return JSON_ARRAY if self.route.array else AWS_EVENTS if self.route.variant == "bedrock" else None

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
