"""One exchange, from the client's body to its answer: targets in order, tries, whole or streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import DragomanError, WireError
from dragoman.core.model import Failure, Wire
from dragoman.core.server import Served
from dragoman.exchange import Exchange
from dragoman.gateway.answers import Answer, loss_header, retry_header
from dragoman.gateway.circuits import Circuits
from dragoman.gateway.pings import Pings
from dragoman.gateway.routing import Target
from dragoman.gateway.upstream import LARGEST_REPLY, Call, Refused, send
from dragoman.protocols import server
from dragoman.transport import Reply, Transport, TransportError
from dragoman.transport.retries import backoff

TRIES = 3  # of one target, where another try may help
_ELSEWHERE = frozenset({"unauthenticated", "billing", "forbidden", "not_found"})  # another provider may do


class Asked(Struct, frozen=True):
    """What a client asked: its protocol, what its URL said, its body and its key."""

    client: Codec
    served: Served
    wire: Wire
    body: bytes
    key: str

    @property
    def stream(self) -> bool:
        return bool(self.wire.get("stream")) if self.served.stream is None else self.served.stream


class Serving:
    """Everything exchanges share."""

    def __init__(self, transport: Transport, circuits: Circuits, pings: Pings) -> None:
        self._transport, self._circuits, self._pings = transport, circuits, pings

    async def serve(self, asked: Asked, targets: tuple[Target, ...], answer: Answer, seen: Seen) -> None:
        """Answer from the first target that can; the last failure is the answer where none can."""
        failure = Failure(
            "overloaded", "every provider of this model is resting after failures", 503, retry_after=5
        )
        for target in [target for target in targets if self._circuits.passes(target.provider.name)]:
            try:
                await self._tries(asked, target, answer, seen)
                return
            except Refused as refused:
                failure = refused.failure
                if not refused.retry and failure.kind not in _ELSEWHERE:
                    break
        await refuse(asked.client, failure, answer, seen)

    async def _tries(self, asked: Asked, target: Target, answer: Answer, seen: Seen) -> None:
        for attempt in range(TRIES):
            seen.target, seen.tries = target, seen.tries + 1
            try:
                await self._try(asked, target, answer, seen)
                self._circuits.succeeded(target.provider.name)
                return
            except Refused as refused:
                if not refused.reachable:
                    self._circuits.failed(target.provider.name)
                if (
                    not refused.retry
                    or attempt == TRIES - 1
                    or not self._circuits.passes(target.provider.name)
                ):
                    raise
                await asyncio.sleep(backoff(attempt, refused.failure.retry_after))

    async def _try(self, asked: Asked, target: Target, answer: Answer, seen: Seen) -> None:
        provider = target.provider
        exchange = Exchange(
            asked.client.name,
            provider.protocol,
            provider.dialect,
            recover=provider.recover,
            origin=provider.name,
        )
        seen.exchange = exchange
        self._refuse_stateful(asked, provider.protocol)
        out = exchange.request(asked.wire, target.model, asked.stream)
        body = asked.body if out is asked.wire else jsontext.encode(out)
        reply = await send(self._transport, Call(target, exchange.path, exchange.headers, body), asked.key)
        try:
            if asked.stream:
                await self._stream(asked, exchange, reply, answer, seen)
            else:
                await self._whole(exchange, reply, answer, seen)
        finally:
            reply.close()

    async def _whole(self, exchange: Exchange, reply: Reply, answer: Answer, seen: Seen) -> None:
        try:
            body = await reply.read(LARGEST_REPLY)
        except TransportError as error:
            raise Refused(Failure("truncated", str(error), 502), retry=True) from error
        try:
            out = exchange.response(body)
        except WireError as error:
            raise Refused(
                Failure("server", f"malformed upstream answer: {error}", 502), retry=False
            ) from error
        if exchange.failure:
            raise Refused(
                exchange.failure, retry=exchange.failure.kind in ("rate_limit", "overloaded", "server")
            )
        seen.reply(out)
        await answer.json(200, out, loss_header(exchange.losses))

    async def _stream(
        self, asked: Asked, exchange: Exchange, reply: Reply, answer: Answer, seen: Seen
    ) -> None:
        """The status goes out with the first bytes; until then a failure is an HTTP error or another try."""
        stream = exchange.stream(array=asked.served.array)
        content_type = "application/json" if asked.served.array else asked.client.http.stream_type
        try:
            async for chunk in reply:
                out = stream.feed(chunk)
                if out and not answer.begun:
                    if stream.failure:
                        raise Refused(stream.failure, retry=True)
                    await answer.begin(content_type, loss_header(exchange.losses))
                    seen.first_byte()
                    self._pings.watch(answer, asked.client.keep_alive)
                if out:
                    self._pings.passed(answer, out)
                    await answer.piece(out)
            out = stream.close()
        except TransportError as error:
            out = stream.fail(Failure("truncated", f"the upstream's stream broke: {error}", 502))
        finally:
            self._pings.forget(answer)
        if not answer.begun:
            failure = stream.failure or Failure("truncated", "the upstream's stream was empty", 502)
            raise Refused(failure, retry=True)
        seen.streamed(stream)
        await answer.end(out)

    def _refuse_stateful(self, asked: Asked, upstream: str) -> None:
        """A conversation kept by the provider cannot go on at another; the client must send it whole."""
        if asked.client.name == upstream:
            return
        for field, code in server(asked.client.name).stateful.items():
            if asked.wire.get(field):
                problem = f"{field}: this gateway keeps no conversations; send the whole conversation instead"
                raise Refused(Failure("bad_request", problem, 400, code), retry=False)


async def refuse(client: Codec, failure: Failure, answer: Answer, seen: Seen) -> None:
    """A failure in the client's words: as an HTTP error, or inside a stream that has begun."""
    seen.failure = failure
    status, body = client.encode_error(failure)
    if answer.begun:
        await answer.end()
    else:
        await answer.json(status, body, retry_header(failure.retry_after))


def as_failure(error: DragomanError) -> Failure:
    """What is wrong with a client's own request."""
    return Failure("bad_request", str(error), 400)


class Seen:
    """What the log and the metrics will say about an exchange."""

    def __init__(self, client: str, now: Callable[[], float]) -> None:
        self.client, self._now = client, now
        self.started = now()
        self.model = ""
        self.target: Target | None = None
        self.exchange: Exchange | None = None
        self.failure: Failure | None = None
        self.tries = 0
        self.gone = False
        self.first: float | None = None

    def first_byte(self) -> None:
        self.first = self._now() - self.started

    def reply(self, body: Wire) -> None:
        self.first_byte()

    def streamed(self, stream: object) -> None:
        pass
