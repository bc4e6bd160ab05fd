"""An upstream's answer on its way to the client: whole, or as a stream.

Until the first byte of the answer was sent, every error raises AttemptFailed, and another attempt or another
target may still answer. After that, an error ends the stream in the client's protocol.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.body import Body
from dragoman.core.codec import Codec
from dragoman.core.errors import WireError
from dragoman.core.model import Failure
from dragoman.core.server import ProtocolServer, RouteMatch
from dragoman.exchange import Exchange
from dragoman.framing import sse
from dragoman.gateway.conversations.turn_writer import StoredStream, TurnWriter
from dragoman.gateway.conversations.upstream_sessions import UpstreamSession
from dragoman.gateway.handlers.keep_alive import KeepAlive
from dragoman.gateway.handlers.reply_headers import loss_header
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.gateway.observability.stream_usage import StreamUsage
from dragoman.gateway.upstreams.sending import LARGEST_REPLY, AttemptFailed
from dragoman.http.client import Reply, TimedOut, TransportError
from dragoman.http.client.retries import RETRYABLE
from dragoman.http.server import ResponseWriter
from dragoman.pipeline import ForwardedStream, TranslatedStream, encode_failure

AnyStream = ForwardedStream | TranslatedStream | StoredStream
_ERROR = re.compile(rb'"error":\s*[{"]|event: error')
CRASHED = Failure("server", "the gateway failed; its log tells more", 500)


class Asked(Struct, frozen=True):
    """What a client asked: its protocol, what its URL said, its headers, its body and its key."""

    client: Codec
    serves: ProtocolServer
    served: RouteMatch
    headers: Mapping[str, str]
    body: Body
    key: str
    stream: bool
    owner: str = ""  # whose are the conversations that it may continue
    keeper: TurnWriter | None = None  # where this turn is to be kept

    @property
    def content_type(self) -> str:
        return "application/json" if self.served.array else self.client.http.stream_type


class Errand(Struct, frozen=True):
    """An exchange under way, whoever answers it. `pulse` is there where the answer is a stream."""

    asked: Asked
    answer: ResponseWriter
    seen: ExchangeRecord
    pulse: KeepAlive | None = None


class Leg(Struct, frozen=True):
    """One try of an errand that an upstream has begun to answer. `talk`: it keeps the conversation."""

    errand: Errand
    exchange: Exchange
    reply: Reply
    talk: UpstreamSession | None = None
    keeper: TurnWriter | None = None


def relay(leg: Leg) -> Coroutine[Any, Any, None]:
    pulse = leg.errand.pulse
    return _relay_stream(leg, pulse) if pulse else _relay_whole(leg)


async def _relay_whole(leg: Leg) -> None:
    exchange, seen, answer = leg.exchange, leg.errand.seen, leg.errand.answer
    data = await _read(leg.reply)
    try:
        out = exchange.response(data) if leg.keeper else exchange.response_bytes(data)
    except WireError as error:
        raise AttemptFailed(_malformed(error), retry=True) from error
    if exchange.failure:
        raise AttemptFailed(exchange.failure, retry=exchange.failure.kind in RETRYABLE)
    if leg.talk:
        await leg.talk.keep()
    if leg.keeper and not isinstance(out, bytes):
        out = await leg.keeper.whole(out, seen)
    seen.first_byte()
    told = out if isinstance(out, bytes) else jsontext.encode(out)
    await answer.whole(200, told, loss_header(seen.losses))
    seen.usage, seen.calls = exchange.usage, exchange.calls


async def _relay_stream(leg: Leg, pulse: KeepAlive) -> None:
    exchange, seen = leg.exchange, leg.errand.seen
    if leg.reply.headers.get("content-type", "").startswith("text/html"):
        raise AttemptFailed(Failure("server", "the upstream answered with a web page", 502), retry=True)
    stream: AnyStream = exchange.stream(leg.errand.asked.served.array)
    tail = StreamUsage(exchange.upstream.name) if isinstance(stream, ForwardedStream) else None
    if leg.keeper:
        stream = StoredStream(stream, leg.keeper)
    try:
        last = await _pass_on(leg, pulse, stream, tail)
    except TransportError as error:
        last = stream.close() if stream.ended else stream.fail(_broken(error))
    except Exception as error:
        if seen.first is None:
            raise
        seen.crash = error
        last = stream.fail(CRASHED)
    if isinstance(stream, StoredStream):
        last = await stream.end(last, seen)
        if tail:
            tail.feed(last)
    if seen.first is None:
        if stream.failure or not last:
            failure = stream.failure or Failure("truncated", "the upstream's answer was empty", 502)
            raise AttemptFailed(failure, retry=failure.kind in RETRYABLE)
        await _begin(leg, pulse)
    if leg.talk:
        await leg.talk.keep()
    seen.failure = stream.failure or (_failure_in(exchange.client, tail.last) if tail else None)
    _count_stream(tail, exchange, seen)
    pulse.busy = True
    await leg.errand.answer.end(last)


async def _pass_on(leg: Leg, pulse: KeepAlive, stream: AnyStream, tail: StreamUsage | None) -> bytes:
    """Pieces as they come; gives what the end of the stream adds."""
    seen, answer, talk = leg.errand.seen, leg.errand.answer, leg.talk
    async for chunk in leg.reply:
        out = stream.feed(chunk)
        if not out:
            continue
        if seen.first is None:
            failure = stream.failure or (_failure_in(leg.exchange.client, out) if tail else None)
            if failure:
                raise AttemptFailed(failure, retry=failure.kind in RETRYABLE)
            await _begin(leg, pulse)
        if tail:
            tail.feed(out)
        if talk and stream.ended:
            await talk.keep()
        pulse.busy = True  # nobody but this stream speaks now
        await answer.piece(out)
        pulse.busy, pulse.quiet = False, 0
    return stream.close()


async def _begin(leg: Leg, pulse: KeepAlive) -> None:
    """The status goes out with the first bytes, unless a ping went before."""
    errand = leg.errand
    errand.seen.first_byte()
    await pulse.settle()
    if not errand.answer.begun:
        await errand.answer.begin(errand.asked.content_type, loss_header(leg.exchange.losses))


async def _read(reply: Reply) -> bytes:
    try:
        return await reply.read(LARGEST_REPLY)
    except TransportError as error:
        raise AttemptFailed(_broken(error), retry=True) from error


def failed_stream(asked: Asked, failure: Failure) -> bytes:
    """A stream of nothing but a failure, for a client that has only heard pings."""
    return encode_failure(asked.client, failure, array=asked.served.array)


def _failure_in(speaker: Codec, out: bytes) -> Failure | None:
    """The error among forwarded events. Where it comes first, it may still become a status or another try."""
    if b"error" not in out or not _ERROR.search(out):
        return None
    decoder = sse.Decoder()
    for frame in (*decoder.feed(out), *decoder.close()):
        with suppress(ValueError):
            value = jsontext.decode(frame.data)
            inner = value.values() if jsontext.is_object(value) else ()
            for told in (value, *inner):  # an error is an event, or stands in the response that failed
                if jsontext.is_object(told) and (failure := speaker.decode_error(told, 0)):
                    return failure
    return None


def _count_stream(tail: StreamUsage | None, exchange: Exchange, seen: ExchangeRecord) -> None:
    """What passed as it is was counted on the way, unless it turned out to be no stream at all."""
    if tail and exchange.usage is None:
        seen.usage, seen.calls = tail.usage(), tail.calls
    else:
        seen.usage, seen.calls = exchange.usage, exchange.calls


def _broken(error: TransportError) -> Failure:
    slow = isinstance(error, TimedOut)
    problem = f"the upstream's answer broke: {error}"
    return Failure("timeout", problem, 504) if slow else Failure("truncated", problem, 502)


def _malformed(error: WireError) -> Failure:
    return Failure("server", f"malformed upstream answer: {error}", 502)
