"""The reply to a client's request that takes several rounds with an upstream: one start, one end, one turn.

    rounds = open_rounds(attempts, request, reply, joiner)
    end = await rounds.send(request)      one round: its parts pass to the client as they come
    await rounds.add(part)                a part of our own, between two rounds
    await rounds.end(end)                 the one end, and the turn is stored

Targets are tried in order in the first round; the one that answers it also answers the others. A failure is
an AttemptFailed, with a status, until something went out; after that it is an event of the stream.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import Event, ResponseFailed, fold, unfold
from dragoman.core.model import AnyPart, Failure, Request, Usage
from dragoman.gateway.conversations.turn_writer import StoredStream, TurnWriter
from dragoman.gateway.handlers.relay import (
    ClientStream,
    StreamedReply,
    StreamRelay,
    attempt_error,
    loss_header,
    unreadable,
)
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import Attempt, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.attempts import LARGEST_REPLY, Attempts, Relay
from dragoman.http.client import Reply, TransportError
from dragoman.pipeline import JoinedStream
from dragoman.protocols import protocol
from dragoman.transforms.rounds import RoundEnd, RoundJoiner


def same_request(request: Request) -> Request:
    return request


class WholeRounds:
    """A whole reply: nothing goes out before its end."""

    def __init__(self, attempts: Attempts, request: GatewayRequest, joiner: RoundJoiner) -> None:
        self._attempts, self._request, self._joiner = attempts, request, joiner
        self._events: list[Event] = []
        self._first: Attempt | None = None  # whose losses, and whose request, the reply is encoded with
        self._turn_writer: TurnWriter | None = None

    async def send(self, request: RoutedRequest) -> RoundEnd:
        return await _send(self._attempts, request, self._relay)

    async def _relay(self, attempt: Attempt, reply: Reply) -> RoundEnd:
        exchange, joiner = attempt.exchange, self._joiner
        try:
            data = await reply.read(LARGEST_REPLY)
            size = max(len(data), len(attempt.request.body.data))
            response = await run_for(size, exchange.read_reply, data)
        except (TransportError, WireError) as error:
            raise unreadable(error) from error
        except UpstreamError as error:
            raise attempt_error(error.failure) from None
        if attempt.session:
            await attempt.session.keep()
        joiner.begin_round()
        self._events += [joined for event in unfold(response) for joined in joiner.feed(event)]
        if not joiner.is_begun:
            joiner.is_begun, self._first, self._turn_writer = True, attempt, attempt.turn_writer
        return joiner.end_round()

    @property
    def usage(self) -> Usage | None:
        """Of the rounds so far."""
        return self._joiner.usage

    def lead(self, part: AnyPart) -> None:
        self._joiner.lead(part)

    async def add(self, part: AnyPart) -> None:
        self._events += self._joiner.add(part)

    async def end(self, end: RoundEnd) -> None:
        if end.failure:
            raise attempt_error(end.failure)
        request, first = self._request, self._first
        assert first, "a reply has a first round"
        record, exchange = request.record, first.exchange
        response = fold([*self._events, self._joiner.end(end.stop)])
        out = request.client.encode_response(response, exchange.loss_list, exchange.client_request)
        if self._turn_writer:
            out = await self._turn_writer.whole(out, record.lost)
        record.first_byte()
        record.lost = [*record.lost, *(loss for loss in exchange.bare_losses if loss not in record.lost)]
        await request.writer.whole(200, jsontext.encode(out), loss_header(record.losses))


class StreamedRounds:
    """A stream that stays open between the rounds; keep-alives go on meanwhile."""

    def __init__(
        self, attempts: Attempts, request: GatewayRequest, joiner: RoundJoiner, reply: StreamedReply
    ) -> None:
        self._attempts, self._request, self._joiner, self.reply = attempts, request, joiner, reply
        self.joined = JoinedStream(protocol(request.client.name), joiner, request.route.framing)
        self.stored: StoredStream | None = None

    async def send(self, request: RoutedRequest) -> RoundEnd:
        return await _send(self._attempts, request, self._relay)

    async def _relay(self, attempt: Attempt, reply: Reply) -> RoundEnd:
        return await _RoundRelay(attempt, reply, self).run()

    def open(self, attempt: Attempt) -> ClientStream:
        exchange = attempt.exchange
        self.joined.begin_round(exchange.read_stream(), exchange.client_request, exchange.loss_list)
        if not self._joiner.is_begun:
            writer = attempt.turn_writer
            self.stored = StoredStream(self.joined, writer) if writer else None
        return self.stored or self.joined

    def begin(self) -> None:
        self._joiner.is_begun, self.reply.fail = True, self.fail

    @property
    def usage(self) -> Usage | None:
        """Of the rounds so far."""
        return self._joiner.usage

    def lead(self, part: AnyPart) -> None:
        self._joiner.lead(part)

    async def add(self, part: AnyPart) -> None:
        await self.write(self._accept(self.joined.write(self._joiner.add(part))))

    async def write(self, out: bytes) -> None:
        reply = self.reply
        await reply.settle()
        if out:
            await self._open_stream()
            reply.busy = True  # the ticker must not write between
            await reply.writer.piece(reply.renumber(out) if reply.events else out)
            reply.busy, reply.quiet = False, 0

    async def end(self, end: RoundEnd) -> None:
        if end.failure:
            await self.fail(end.failure)
            return
        last = self._accept(self.joined.end(self._joiner.end(end.stop)))
        if self.stored:
            last = await self.stored.end(last, self._request.record.lost)
        await self._close(last)

    async def fail(self, failure: Failure) -> None:
        self._request.record.failure = failure
        await self._close(self._accept(self.joined.end(ResponseFailed(failure))))

    async def _close(self, last: bytes) -> None:
        reply = self.reply
        await reply.settle()
        await self._open_stream()
        reply.busy = True
        reply.fail = None
        await reply.writer.end(reply.renumber(last) if reply.events and last else last)

    async def _open_stream(self) -> None:
        """Where clients see no executed calls, rounds may end before anything has gone out."""
        if not self._joiner.is_begun:
            self.begin()
            self._request.record.first_byte()
        if not self.reply.writer.begun:
            request = self._request
            await request.writer.begin(request.content_type, loss_header(request.record.losses))

    def _accept(self, out: bytes) -> bytes:
        return self.stored.accept(out) if self.stored else out


class _RoundRelay(StreamRelay):
    """One round: like a whole stream, but the client's stays open."""

    __slots__ = ("_rounds",)

    def __init__(self, attempt: Attempt, reply: Reply, rounds: StreamedRounds) -> None:
        self._rounds = rounds
        super().__init__(attempt, reply, rounds.reply)

    def _open(self) -> ClientStream:
        return self._rounds.open(self.attempt)

    async def run(self) -> RoundEnd:
        last = await self._play()
        end = self._rounds.joined.joiner.end_round()
        if not self.started:
            if end.failure:
                raise attempt_error(end.failure)
            if last:
                await self._start()
        if self.attempt.session:
            await self.attempt.session.keep()
        await self._rounds.write(last)
        return end

    async def _start(self) -> None:
        self._rounds.begin()
        await super()._start()


Rounds = WholeRounds | StreamedRounds


def open_rounds(
    attempts: Attempts, request: GatewayRequest, joiner: RoundJoiner, reply: StreamedReply | None
) -> Rounds:
    """`reply`: where the client gets a stream."""
    if reply is None:
        return WholeRounds(attempts, request, joiner)
    return StreamedRounds(attempts, request, joiner, reply)


async def _send(attempts: Attempts, request: RoutedRequest, relay: Relay) -> RoundEnd:
    record = request.arrived.record
    if record.exchange:
        record.end_exchange()
    return await attempts.run(replace(request, rounds=request.rounds or same_request), relay)


def pin(request: RoutedRequest) -> RoutedRequest:
    """The request for the target that answered the last round, and no other: it made the state in it."""
    target = request.arrived.record.target
    return replace(request, targets=(target,)) if target else request
