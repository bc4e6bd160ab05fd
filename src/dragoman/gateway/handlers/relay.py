"""An upstream's answer on its way to the client: whole, or as a stream with keep-alives.

A whole answer is read and translated before anything goes out, so each of its failures is an AttemptFailed.
A streamed answer passes these states:

    waiting  --first bytes, no failure in them--> started   (the status goes out, unless a keep-alive sent it)
    waiting  --any failure----------------------> AttemptFailed: another attempt may still answer
    started  --more bytes-----------------------> started
    started  --end of the upstream's stream-----> ended     (the turn is stored first, where one is to be)
    started  --any failure----------------------> ended     (the failure is an event of the client's protocol)

Toward a client whose upstream is silent one ticker sends keep-alives for all streams:

    busy     a piece is being written; the ticker does nothing (a slow client may take long)
    quiet    nothing was written for `quiet` ticks; when enough have passed, a keep-alive is sent
    sending  a keep-alive is being written; the relay waits for it (`settle`) before its first bytes

The relay sets `busy` before each piece, and clears it and `quiet` after it; nothing else runs for each piece.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Codec, KeepAliveEvents
from dragoman.core.errors import WireError
from dragoman.core.events import ResponseStart
from dragoman.core.losses import Loss, Losses, as_cache_key
from dragoman.core.model import Failure
from dragoman.forwarding import ForwardedStream
from dragoman.framing import sse
from dragoman.gateway.conversations.turn_writer import StoredStream
from dragoman.gateway.handlers.budgeted_stream import BudgetedStream
from dragoman.gateway.large_bodies import LARGE, run_for
from dragoman.gateway.observability.stream_usage import StreamUsage
from dragoman.gateway.request import Attempt, AttemptFailed, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.attempts import LARGEST_REPLY
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.http.client import Reply, TimedOut, TransportError
from dragoman.http.client.reply import StreamInto
from dragoman.http.client.retries import RETRYABLE
from dragoman.http.server import Headers, ResponseWriter
from dragoman.pipeline import JoinedStream, TranslatedStream, encode_failure
from dragoman.transforms.rounds import RoundEnd

_TRANSLATED = 3  # times the size of an answer: itself, its values, and what is printed for the client
_TICKS = 2  # of silence make a keep-alive due


class KeepAliveStream:
    """One stream. `message` is what is sent, `begin` sends the status where nothing went out before.

    Where the protocol has keep-alive `events`, one of them is sent instead: `first` and `last` are the pieces
    of the stream that went out, `sent` counts the keep-alive events among them. Before the answer has begun,
    `opening` gives the events with which a stream begins, where it may begin without the upstream; the events
    of the answer follow, with its id replaced by that of the opening.
    """

    __slots__ = (
        "_begin",
        "_opening",
        "_renamed",
        "busy",
        "events",
        "first",
        "last",
        "message",
        "opened",
        "quiet",
        "sending",
        "sent",
        "writer",
    )

    def __init__(
        self,
        writer: ResponseWriter,
        message: bytes,
        begin: Callable[[], Awaitable[None]],
        events: KeepAliveEvents | None = None,
        opening: Callable[[], bytes] | None = None,
    ) -> None:
        self.writer, self.message, self._begin, self.events = writer, message, begin, events
        self._opening = opening
        self._renamed: tuple[bytes, bytes] | None = None  # the id of the answer, and that of the opening
        self.opened = False  # the opening went out, and nothing of the answer yet
        self.first: bytes = b""
        self.last: bytes = b""
        self.sent = 0
        self.busy, self.quiet = False, 0
        self.sending: asyncio.Task[None] | None = None

    async def send(self) -> None:
        if not self.writer.begun:
            await self._begin()
        if not self.writer.ended:
            await self.writer.piece(self._event() or self.message)

    def _event(self) -> bytes:
        if self.events is None:
            return b""
        if not self.first and self._opening:
            self.first = self.last = event = self._opening()
            self.opened, self.sent = bool(event), event.count(b"\ndata:")
            return event
        event = self.events.event(self.first, self.last) if self.first else b""
        if event:
            self.last, self.sent = event, self.sent + 1
        return event

    def renumber(self, piece: bytes) -> bytes:
        """A piece of the answer, with its numbers after those of the keep-alives."""
        events = self.events
        if self.sent and events:
            if self.opened:
                piece, self._renamed = events.join(piece, self.first)
                self.opened, self.first = False, b""
            piece = events.renumber(piece, self.sent)
            if self._renamed:
                piece = piece.replace(*self._renamed)
        if not self.first:
            end = piece.find(b"\n\n", max(piece.find(b"data:"), 0))  # comments may stand before it
            self.first = piece if end < 0 else piece[: end + 2]
        self.last = piece[piece.rfind(b"\n\n", 0, -2) + 2 :]  # its last event alone: pieces may be large
        return piece

    async def settle(self) -> None:
        """Wait for a keep-alive that is being written, so that nothing overtakes it."""
        if self.sending:
            await self.sending


class KeepAliveTicker:
    """All streams under way."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.every = policy.keep_alive_every / _TICKS  # seconds from tick to tick
        self._first = max(round(policy.keep_alive_after / self.every), 1)  # ticks before the status is sent
        self._streams: set[KeepAliveStream] = set()

    def add(self, stream: KeepAliveStream) -> None:
        self._streams.add(stream)

    def remove(self, stream: KeepAliveStream) -> None:
        self._streams.discard(stream)
        if stream.sending:
            stream.sending.cancel()

    def __len__(self) -> int:
        return len(self._streams)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            self.tick()

    def tick(self) -> None:
        for stream in self._streams:
            stream.quiet += 1
            due = _TICKS if stream.writer.begun else self._first
            if stream.quiet >= due and not stream.busy and stream.sending is None:
                stream.quiet = 0
                stream.sending = asyncio.ensure_future(self._send(stream))

    async def _send(self, stream: KeepAliveStream) -> None:
        """In a task of its own: one client that does not read must not delay the others."""
        try:
            await stream.send()
        finally:
            stream.sending = None


CRASHED = Failure("server", "The gateway failed. Its log tells more.", 500)
LARGEST_EVENT = 32 * 1024 * 1024  # bytes of a stream that may be held back before anything can go out
_TOO_LARGE = Failure("server", f"an event of the upstream is larger than {LARGEST_EVENT >> 20} MiB", 502)
_ERROR = re.compile(rb'"error":\s*[{"]|event: error')
_LISTED = 5  # losses named in the header; the count covers the rest
_LONGEST_HEADER = 1000  # characters


class EventTooLarge(Exception):
    """The upstream sends an event without end."""


class StreamedReply(KeepAliveStream):
    """The stream that a client gets, whichever attempt answers. `timeout` is that of the request, if any.
    `fail` ends a stream of several rounds, once it has begun."""

    __slots__ = ("fail", "timeout")

    def __init__(self, request: GatewayRequest, opening: Callable[[], bytes] | None = None) -> None:
        writer, framing = request.writer, request.route.framing
        super().__init__(
            writer,
            framing.keep_alive if framing else request.client.keep_alive,
            lambda: writer.begin(request.content_type, loss_header(request.record.losses)),
            request.client.keep_alive_events,
            opening,
        )
        self.timeout: asyncio.Timeout | None = None
        self.fail: Callable[[Failure], Awaitable[None]] | None = None

    def relay(self, attempt: Attempt, reply: Reply) -> Coroutine[Any, Any, RoundEnd]:
        return StreamRelay(attempt, reply, self).run()


async def relay_whole(attempt: Attempt, reply: Reply) -> RoundEnd:
    """The answer is parsed where it is to be stored; else its bytes are enough."""
    exchange, request, record = attempt.exchange, attempt.request, attempt.request.arrived.record
    turn_writer = attempt.turn_writer
    try:
        data = await reply.read(LARGEST_REPLY)
        translate = exchange.response if turn_writer else exchange.response_bytes
        size = max(len(data), len(request.body.data))  # arguments are checked against the declared schemas
        out = await _translate_large(request, translate, data, size) if size > LARGE else translate(data)
    except (TransportError, WireError) as error:
        raise unreadable(error) from error
    if exchange.failure:
        raise attempt_error(exchange.failure)
    record.usage, record.calls = exchange.usage, exchange.calls
    if attempt.session:
        await attempt.session.keep()
    if turn_writer and not isinstance(out, bytes):
        out = await turn_writer.whole(out, record.lost)
    record.first_byte()
    if not isinstance(out, bytes):
        out = jsontext.encode(out)
    record.sent = len(out)
    answer = request.arrived.writer.whole(200, out, loss_header(record.losses))
    if len(data) > LARGE:  # a client may take long to read the answer
        exchange.release_reply()
    del data, out
    await answer
    return RoundEnd(usage=record.usage)


async def _translate_large(
    request: RoutedRequest, translate: Callable[[bytes], Any], data: bytes, size: int
) -> Any:
    incoming, held = request.arrived.incoming, _TRANSLATED * len(data)
    incoming.hold(held)
    try:
        return await run_for(size, translate, data)
    finally:
        incoming.hold(-held)


def unreadable(error: TransportError | WireError) -> AttemptFailed:
    """A whole answer that broke, or is malformed."""
    if isinstance(error, TransportError):
        return AttemptFailed(_failure_of(error), retry=True)
    return AttemptFailed(Failure("server", f"malformed upstream answer: {error}", 502), retry=True)


ClientStream = ForwardedStream | TranslatedStream | StoredStream | JoinedStream | BudgetedStream


def _budget(stream: ForwardedStream | TranslatedStream, request: RoutedRequest) -> BudgetedStream:
    accounting = request.arrived.protocol_server.accounting
    shown = accounting.shows_usage(request.body.wire)
    return BudgetedStream(stream, request.arrived.record, "" if shown else accounting.usage_event)


class StreamRelay:
    """See the states above: `started` is False while waiting."""

    __slots__ = ("attempt", "keep_alive", "reply", "started", "stream", "usage")

    def __init__(self, attempt: Attempt, reply: Reply, keep_alive: StreamedReply) -> None:
        self.attempt, self.reply, self.keep_alive = attempt, reply, keep_alive
        self.usage: StreamUsage | None = None
        self.started = False
        self.stream: ClientStream = self._open()

    def _open(self) -> ClientStream:
        attempt = self.attempt
        arrived = attempt.request.arrived
        stream = attempt.exchange.stream(framing=arrived.route.framing)
        if isinstance(stream, ForwardedStream):  # it is not decoded, so its usage is read from the bytes
            self.usage = StreamUsage(attempt.exchange.upstream.name)
            stream.observe = self.usage.feed
        if attempt.turn_writer:
            return StoredStream(stream, attempt.turn_writer)
        if arrived.admission and arrived.admission.is_budgeted:
            return _budget(stream, attempt.request)
        return stream

    async def run(self) -> RoundEnd:
        stream, request, last = self.stream, self.attempt.request.arrived, await self._play()
        if isinstance(stream, StoredStream):
            last = await stream.end(last, request.record.lost)
        if not self.started:
            if stream.failure or not last:
                raise attempt_error(
                    stream.failure or Failure("truncated", "the upstream's answer was empty", 502)
                )
            await self._start()
        if self.attempt.session:
            await self.attempt.session.keep()
        self._count()
        self.keep_alive.busy = True
        await request.writer.end(self.keep_alive.renumber(last) if self.keep_alive.events else last)
        return RoundEnd(usage=request.record.usage, failure=request.record.failure)

    async def _play(self) -> bytes:
        """Pass all of the reply on; returns what its end adds. Raises AttemptFailed if nothing went out."""
        stream, request, timeout = self.stream, self.attempt.request.arrived, self.keep_alive.timeout
        # A proxy before the upstream shows its own error page, some with status 200
        if self.reply.headers.get("content-type", "").startswith("text/html"):
            raise AttemptFailed(Failure("server", "The upstream answered with a web page.", 502), retry=True)
        try:
            return await (self._pass_on_within(timeout) if timeout else self._pass_on())
        except TimeoutError:
            if not self.started:
                raise
            return stream.fail(overdue())
        except EventTooLarge:
            if not self.started:
                raise AttemptFailed(_TOO_LARGE) from None  # a retry would only read it again
            return stream.fail(_TOO_LARGE)
        except TransportError as error:
            return stream.close() if stream.ended else stream.fail(_failure_of(error))
        except Exception as error:
            if not self.started:
                raise
            request.record.crash = error
            return stream.fail(CRASHED)

    async def _pass_on_within(self, timeout: asyncio.Timeout) -> bytes:
        """The timeout of the request is set off meanwhile: a stream that has started must end with an event
        of its own, and two timeouts that are due together are one cancellation, which the outer one takes."""
        deadline = timeout.when()
        timeout.reschedule(None)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._pass_on()
        finally:
            if not self.started or self.keep_alive.fail:  # other rounds may follow
                timeout.reschedule(deadline)

    async def _pass_on(self) -> bytes:
        """Forward pieces as they come; returns what closing the stream adds. An event that grows large is
        worked on in a thread."""
        stream, writer = self.stream, self.keep_alive.writer
        # replies of the HTTP client have it
        stream_into: StreamInto | None = getattr(self.reply, "stream_into", None)
        if type(writer) is not ResponseWriter or self.attempt.session:
            stream_into = None
        ended, held = False, 0
        while not ended:
            ended, held = await self._pull(held, until_written=stream_into is not None)
            if not ended and stream_into:
                ended, held = await self._push(stream_into, writer)
        return stream.close() if held <= LARGE else await run_for(held, stream.close)

    async def _pull(self, held: int, until_written: bool) -> tuple[bool, int]:
        """Whether the reply has ended, and how many bytes of it the stream holds back."""
        stream, usage, session, keep_alive = self.stream, self.usage, self.attempt.session, self.keep_alive
        writer = keep_alive.writer
        async for chunk in self.reply:
            out = stream.feed(chunk) if held <= LARGE else await run_for(held, stream.feed, chunk)
            if not out:
                held += len(chunk)
                if held > LARGEST_EVENT:
                    raise EventTooLarge
                continue
            held = 0
            if not self.started:
                failure = stream.failure or (usage and _failure_in(self.attempt.exchange.client, out))
                if failure:
                    raise attempt_error(failure)
                await self._start()
            if session and stream.ended:
                await session.keep()
            keep_alive.busy = True  # the ticker must not write between
            await writer.piece(keep_alive.renumber(out) if keep_alive.events else out)
            keep_alive.busy, keep_alive.quiet = False, 0
            if until_written:
                return False, 0
        return True, held

    async def _push(self, stream_into: StreamInto, writer: ResponseWriter) -> tuple[bool, int]:
        """Like `_pull`, for a stream that has started: pieces go from the upstream's socket to the client's
        within one callback. This task wakes for the end, for an error, for a client that does not read, and
        for an event that grows large."""
        feed, keep_alive = self.stream.feed, self.keep_alive
        push, renumbered = writer.push, keep_alive.renumber if keep_alive.events else None
        held = 0

        def pass_piece(chunk: bytes) -> bool:
            nonlocal held
            out = feed(chunk)
            if not out:
                held += len(chunk)
                return held > LARGE
            held = keep_alive.quiet = 0
            return push(renumbered(out) if renumbered else out)

        while await stream_into(pass_piece):
            if held > LARGE:
                return False, held
            keep_alive.busy = True
            await writer.drain()
            keep_alive.busy, keep_alive.quiet = False, 0
        return True, held

    async def _start(self) -> None:
        """The status goes out with the first bytes, unless a keep-alive was sent before."""
        request = self.attempt.request.arrived
        self.started = True
        request.record.first_byte()
        if self.keep_alive.sending:
            await self.keep_alive.sending
        if not request.writer.begun:
            await request.writer.begin(request.content_type, loss_header(request.record.losses))

    def _count(self) -> None:
        exchange, record, usage = self.attempt.exchange, self.attempt.request.arrived.record, self.usage
        record.failure = self.stream.failure or (_failure_in(exchange.client, usage.last) if usage else None)
        if usage and exchange.usage is None:  # else what came was no stream, and was decoded after all
            record.usage, record.calls = usage.usage(), usage.calls
        else:
            record.usage, record.calls = exchange.usage, exchange.calls


def overdue(seconds: float = 0) -> Failure:
    limit = f" of {seconds:g} s" if seconds else ""
    return Failure("timeout", f"the request took longer than the gateway's limit{limit}", 504)


def fail_stream(request: GatewayRequest, failure: Failure, sent: KeepAliveStream | None = None) -> bytes:
    """The end of a stream that failed, for a client that has only received keep-alives."""
    first, last = (sent.first, sent.last) if sent and sent.opened else (b"", b"")
    record = request.record
    start = ResponseStart(record.id.removeprefix("req_"), record.model, created=int(time.time()))
    return encode_failure(request.client, failure, first, last, request.route.framing, start)


def open_stream(request: RoutedRequest) -> bytes:
    """The events with which a stream begins, before the upstream has sent any; empty where the answer is
    stored under an id that is not known yet."""
    arrived, writer = request.arrived, request.turn_writer
    codec = arrived.protocol_server.turn_codec
    storage = codec.decode_storage(request.body.glance) if codec else None
    if storage and storage.store:
        return b""
    start = ResponseStart(arrived.record.id.removeprefix("req_"), request.model, created=int(time.time()))
    frames = arrived.client.stream_encoder(Losses()).feed(start)
    if writer:  # a WebSocket remembers the answer under this id
        frames = [writer.label_frame(frame) for frame in frames]
    return b"".join([piece for frame in frames for piece in sse.Encoder().feed(frame)])


def loss_header(losses: list[Loss]) -> Headers:
    """A count, and the codes and places of the first ones."""
    if not losses:
        return []
    listed = losses[:_LISTED]
    few = as_cache_key(listed)
    text = _short_text(len(losses), few) if few else _loss_text(len(losses), listed)
    return [(b"x-dragoman-losses", text)]


@lru_cache(256)
def _short_text(count: int, losses: tuple[Loss, ...]) -> bytes:
    return _loss_text(count, losses)


def _loss_text(count: int, losses: Sequence[Loss]) -> bytes:
    named = ", ".join(f"{loss.code or loss.kind} {loss.where}" for loss in losses)
    text = f"{count}; {named}" + (", ..." if count > len(losses) else "")
    text = text[:_LONGEST_HEADER]
    if not (text.isascii() and text.isprintable()):
        text = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return text.encode()


def _failure_in(codec: Codec, out: bytes) -> Failure | None:
    """The error among forwarded events. Where it comes first, it can still become a status or another
    attempt."""
    if b"error" not in out or not _ERROR.search(out):
        return None
    decoder = sse.Decoder()
    for frame in (*decoder.feed(out), *decoder.close()):
        with suppress(ValueError):
            value = jsontext.decode(frame.data)
            inner = value.values() if jsontext.is_object(value) else ()
            for each in (value, *inner):  # an error is an event, or a field of the response that failed
                if jsontext.is_object(each) and (failure := codec.decode_error(each, 0)):
                    return failure
    return None


def attempt_error(failure: Failure) -> AttemptFailed:
    return AttemptFailed(failure, retry=failure.kind in RETRYABLE)


def _failure_of(error: TransportError) -> Failure:
    problem = f"the upstream's answer broke: {error}"
    if isinstance(error, TimedOut):
        return Failure("timeout", problem, 504)
    return Failure("truncated", problem, 502)
