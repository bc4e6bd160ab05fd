"""The values of a request on its way through the gateway, and the record that logs are written from.

    GatewayRequest    it arrived, and its sender is known      made in `app.py`
    RoutedRequest     its body was read, its targets found     made by `RequestReader`; one for each round
    Attempt           one try at one upstream                  made by `Attempts`

All are frozen. What changes on the way is in `ExchangeRecord`, from which access log, metrics and traces are
written, and in the writers of the reply (`handlers/relay.py`, `handlers/rounds.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2s
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dragoman.core.codec import Codec
from dragoman.core.fields import Body
from dragoman.core.losses import Loss
from dragoman.core.model import Compaction, Failure, FailureKind, Request, Usage
from dragoman.gateway.large_bodies import LARGE, free_later
from dragoman.http.server import ResponseWriter, ServerRequest
from dragoman.serving.routes import RouteMatch
from dragoman.serving.server import ProtocolServer

if TYPE_CHECKING:
    from dragoman.exchange import Exchange
    from dragoman.gateway.admission import Admission, Caller
    from dragoman.gateway.conversations.connection_turns import LaneTurns
    from dragoman.gateway.conversations.conversations import LockedConversation
    from dragoman.gateway.conversations.turn_writer import TurnWriter
    from dragoman.gateway.conversations.upstream_sessions import UpstreamSession
    from dragoman.gateway.jobs.background import BackgroundRun
    from dragoman.gateway.upstreams.routing import Target
    from dragoman.recording.values import RecordingDraft


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
    received: int = 0  # bytes of the request, and of the answer so far, where its tokens are billed
    sent: int = 0
    estimated: bool = False  # whether the usage is not the upstream's own count
    unpriced: bool = False  # whether a budget in dollars could not count it
    spent: Usage | None = None  # on summaries, beside the reply
    tools: int = 0
    hosted: dict[str, int] = {}  # calls that the gateway executed, by kind
    hosted_failed: dict[str, int] = {}  # "kind: error" -> how many
    calls: int = 0
    tries: int = 0
    failed_tries: tuple[tuple[str, FailureKind], ...] = ()  # in their order: the provider of each, and why
    status: int = 0
    gone: bool = False
    crash: Exception | None = None
    lost: list[Loss] = []  # by the gateway, beside what the translation lost
    first: float | None = None
    span: Any = None

    def first_byte(self) -> None:
        """Of all rounds, the first."""
        if self.first is None:
            self.first = time.perf_counter() - self.started

    def add_spent(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    def usage_to_bill(self) -> Usage:
        """What counts against a budget: the upstream's count, else an estimate, which is marked."""
        if self.usage is None and self.sent:
            # about four bytes of text make a token; an event of a stream, mostly one token, has a hundred
            self.usage = Usage(self.received // 4, max(self.sent // (100 if self.stream else 4), 1))
            self.estimated = True
        used = self.usage or Usage()
        return used + self.spent if self.spent else used

    def cost(self, usage: Usage) -> float | None:
        """In US dollars; None where the price is not known."""
        price = self.target.price if self.target else None
        return price.cost(usage) if price else None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def provider(self) -> str:
        return self.target.provider.name if self.target else ""

    @property
    def losses(self) -> list[Loss]:
        translated = self.exchange.bare_losses if self.exchange else []
        if not self.lost:
            return translated
        return translated + [loss for loss in self.lost if loss not in translated]

    def release(self) -> None:
        """It is over: let go of what holds all of it."""
        self.exchange = self.span = self.crash = None

    def end_exchange(self) -> None:
        """Another exchange with an upstream follows, for the same request."""
        self.lost, self.exchange = self.losses, None


class GatewayRequest(Struct, frozen=True, eq=False):
    """A client's request as it arrived: what its head says, and who sent it. Each message of a WebSocket is
    one, and each run of a stored request.

    `owner` is a hash of the key: whose stored conversations it may continue. `admission` is its place among
    the requests under way; None for routes without limits. `record` is the one thing in it that changes.
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
    recording: RecordingDraft | None = None  # where exchanges are recorded
    lane: LaneTurns | None = None  # where the request came over WebSocket
    background_run: BackgroundRun | None = None  # where it is a stored request that runs now

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers

    @property
    def content_type(self) -> str:
        """Of a streamed answer."""
        framing = self.route.framing
        return framing.content_type if framing else self.client.http.stream_type

    @property
    def scope(self) -> str:
        """Callers share no conversation: how fast an answer comes would tell one what another sent."""
        if self.caller:
            return self.caller.id
        return _digest(self.key) if self.key else ""


@lru_cache(256)
def _digest(key: str) -> str:
    return blake2s(key.encode("utf-8", "surrogatepass")).hexdigest()


class RoutedRequest(Struct, frozen=True, eq=False):
    """What is sent to one of `targets`, in order of preference; made by `RequestReader`.

    A request that takes several rounds has one of these for each. `compaction` is what the client asks for;
    in a round that only makes the summary it has no threshold. `deferred`: it runs in the background, later.
    """

    arrived: GatewayRequest
    body: Body
    model: str
    stream: bool
    compaction: Compaction | None
    targets: tuple[Target, ...]
    turn_writer: TurnWriter | None = None  # where this turn is to be stored
    conversation: LockedConversation | None = None  # that this turn is added to
    deferred: bool = False
    rounds: Callable[[Request], Request] | None = None  # makes the request of one round of several

    def release(self) -> None:
        """The request was answered: a large body is freed in steps."""
        if len(self.body.data) > LARGE:
            free_later(self.body, self.arrived.client.turns)


class Attempt(Struct, frozen=True, eq=False):
    """One try at one upstream. `session`: the upstream keeps the conversation itself."""

    request: RoutedRequest
    target: Target
    exchange: Exchange
    turn_writer: TurnWriter | None = None
    session: UpstreamSession | None = None


class AttemptFailed(Exception):
    """The upstream gave no answer that a client could use.

    `retry`: the same request may succeed later. `reachable`: the provider answered something. `body`: the
    error as the upstream wrote it, where the client speaks the same protocol and gets it unchanged.
    `unsent`: no credential could be had.
    """

    def __init__(
        self,
        failure: Failure,
        retry: bool = False,
        reachable: bool = True,
        body: bytes = b"",
        unsent: bool = False,
    ) -> None:
        self.failure, self.retry, self.reachable, self.body = failure, retry, reachable, body
        self.unsent = unsent
        super().__init__(failure.message)
