"""Requests over WebSocket: each message takes the way of a POST, and each event of its stream is a message.

    message  --malformed, or over a limit-->  an error message; the connection stays open
    message  --of a lane that is busy------>  waits for its lane
    message  --16 responses under way------>  waits for one of them
    message  --its turn------------------->   request -> events -> the lane is free

Admission, access log, recorder, retries and keep-alives are those of a POST: `respond` is what POST calls.
The connection ends when the client leaves (responses under way are cancelled), after `seconds`, or when the
server shuts down (responses under way end first).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from random import getrandbits

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import ResponseEnd, ResponseStart
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Stop, Usage, Wire
from dragoman.framing import sse
from dragoman.gateway.conversations.connection_turns import ConnectionTurns, LaneTurns
from dragoman.gateway.handlers.count_tokens import estimate
from dragoman.gateway.handlers.request_reader import RequestReader
from dragoman.gateway.large_bodies import TooManyValues, count_values, decode_object, run_for
from dragoman.gateway.request import ExchangeRecord, GatewayRequest, RoutedRequest
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.http.server import Headers, ResponseWriter, ServerRequest, WebSocket
from dragoman.http.server.websocket import GOING_AWAY, INTERNAL, NORMAL
from dragoman.serving.routes import RouteMatch
from dragoman.serving.server import SocketCodec, SocketRequest

Respond = Callable[[GatewayRequest, bool], Awaitable[None]]

_MOST_WAITING = 64  # requests of one connection; above it, no more messages are read
_UNFINISHED = Failure("server", "The gateway failed. Its log tells more.", 500)


class WebSocketHandler:
    """`respond` answers a message as a POST, or only stores it. `max_size`: bytes of a message."""

    def __init__(self, respond: Respond, max_size: int) -> None:
        self._respond, self._max_size = respond, max_size

    async def answer(self, request: GatewayRequest) -> None:
        """The request was authenticated."""
        codec = request.protocol_server.websocket
        assert codec, "only protocols with WebSocket have this route"
        socket = request.writer.upgrade(self._max_size)
        if socket:
            turns = ConnectionTurns(request.incoming.memory)
            try:
                await _Session(request, codec, socket, turns, self._respond).run()
            finally:
                turns.clear()


class _Asked(Struct, frozen=True):
    """A message that asks for a response: the request as a POST would take it."""

    body: bytes
    lane: str
    generate: bool


class _Session:
    """One connection. A lane has a task while it has requests."""

    def __init__(
        self,
        request: GatewayRequest,
        codec: SocketCodec,
        socket: WebSocket,
        turns: ConnectionTurns,
        respond: Respond,
    ) -> None:
        self._request, self._codec, self._socket, self._turns = request, codec, socket, turns
        self._respond, self._memory = respond, request.incoming.memory
        self._lanes: dict[str, deque[_Asked]] = {}  # waiting, with the memory that each takes
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._incoming: dict[str, ServerRequest] = {}  # of the responses under way
        self._in_flight = asyncio.Semaphore(codec.in_flight)
        self._waiting = asyncio.Semaphore(_MOST_WAITING)

    async def run(self) -> None:
        expired = False
        try:
            try:
                async with asyncio.timeout(self._codec.seconds):
                    await self._receive()
            except TimeoutError:
                expired = True
            if expired or self._socket.stopping:
                await asyncio.gather(*self._tasks.values())
            if expired:
                await self._refuse(self._codec.expired)
            await self._socket.close(GOING_AWAY if expired or self._socket.stopping else NORMAL)
        finally:
            for incoming in self._incoming.values():
                incoming.gone = True
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._memory.used -= BODY_WEIGHT * sum(
                len(asked.body) for lane in self._lanes.values() for asked in lane
            )

    async def _receive(self) -> None:
        while (message := await self._socket.receive()) is not None:
            match await run_for(len(message), self._read, message):
                case _Asked() as asked:
                    await self._enqueue(asked)
                case Failure() as failure, lane:
                    await self._refuse(failure, lane)
                case bytes() as answer if answer:
                    await self._socket.send(answer)
                case _:
                    pass

    def _read(self, message: bytes) -> _Asked | tuple[Failure, str] | bytes:
        """What a message asks for; or a failure with its lane; or what is answered at once."""
        try:
            count_values(message)
            wire = decode_object(message, self._request.client.name)
        except TooManyValues as error:
            return Failure("too_large", str(error), 413), ""
        except WireError:
            return Failure("bad_request", "A message is one JSON object.", 400), ""
        match self._codec.decode(wire):
            case SocketRequest() as request:
                return _Asked(jsontext.encode(request.body), request.lane, request.generate)
            case Failure() as failure:
                return failure, self._codec.lane_of(wire)
            case None:
                return b""
            case answer:
                return jsontext.encode(answer)

    async def _enqueue(self, asked: _Asked) -> None:
        lane, weight = asked.lane, BODY_WEIGHT * len(asked.body)
        if lane and lane not in self._lanes and len(self._lanes.keys() - {""}) >= self._codec.lanes:
            await self._refuse(self._codec.too_many_lanes, lane)
            return
        await self._waiting.acquire()
        self._lanes.setdefault(lane, deque()).append(asked)
        self._memory.used += weight
        if lane not in self._tasks:
            self._tasks[lane] = asyncio.create_task(self._run_lane(lane))

    async def _run_lane(self, lane: str) -> None:
        waiting = self._lanes[lane]
        try:
            while waiting:
                async with self._in_flight:
                    asked = waiting.popleft()
                    self._memory.used -= BODY_WEIGHT * len(asked.body)  # it is counted from here on
                    self._waiting.release()
                    await self._answer(asked)
        except Exception:
            await self._socket.close(INTERNAL)
            raise
        finally:
            if asyncio.current_task() is self._tasks.get(lane):
                del self._tasks[lane]

    async def _answer(self, asked: _Asked) -> None:
        upgrade, lane = self._request, asked.lane
        incoming = upgrade.incoming.with_body("POST", asked.body)
        writer = SocketWriter(self._socket, self._codec, lane)
        record = ExchangeRecord(f"req_{getrandbits(96):024x}", upgrade.client.name, "generate")
        record.address = incoming.address
        writer.lines = f"x-request-id: {record.id}\r\n".encode()
        turns = LaneTurns(self._turns, lane)
        request = GatewayRequest(
            upgrade.client,
            upgrade.protocol_server,
            RouteMatch("generate"),
            incoming,
            upgrade.query,
            upgrade.key,
            upgrade.owner,
            writer,
            record,
            lane=turns,
        )
        self._incoming[lane] = incoming
        try:
            await self._respond(request, asked.generate)
            if not writer.ended:
                await self._refuse(_UNFINISHED, lane)
        finally:
            del self._incoming[lane]
            incoming.release()
            if record.failure or not writer.ended:
                turns.forget()

    async def _refuse(self, failure: Failure, lane: str = "") -> None:
        status, body = self._request.client.encode_error(failure)
        await self._socket.send(jsontext.encode(self._codec.encode_error(status, body, {}, lane)))


class SocketWriter(ResponseWriter):
    """A response as messages: each event of a stream is one, and so is an error."""

    def __init__(self, socket: WebSocket, codec: SocketCodec, lane: str) -> None:
        self._socket, self._codec, self._lane = socket, codec, lane
        self._decoder = sse.Decoder()

    async def whole(self, status: int, body: bytes, extra: Headers | None = None, kind: bytes = b"") -> None:
        """Only errors are sent whole."""
        self.begun = self.ended = True
        self.status = status
        if self.observer:
            self.observer(status, body)
        headers = {name.decode(): value.decode() for name, value in [*self.headers, *(extra or ())]}
        error: Wire = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
        await self._socket.send(jsontext.encode(self._codec.encode_error(status, error, headers, self._lane)))

    async def begin(self, content_type: str, extra: Headers | None = None) -> None:
        self.begun, self.status = True, 200
        if self.observer:
            self.observer(200, b"")

    async def piece(self, data: bytes) -> None:
        if data and self.observer:
            self.observer(0, data)
        for frame in self._decoder.feed(data):
            await self._send(frame)

    async def end(self, data: bytes = b"") -> None:
        await self.piece(data)
        for frame in self._decoder.close():
            await self._send(frame)
        self.ended = True

    async def _send(self, frame: Frame) -> None:
        event: bytes = frame.data
        if event[:1] == b"{":  # `[DONE]` is no event
            await self._socket.send(self._codec.with_lane(event, self._lane) if self._lane else event)


class WarmUpHandler:
    """A request that is stored without asking the model, so that the next one continues it."""

    def __init__(self, reader: RequestReader) -> None:
        self._reader = reader

    async def answer(self, request: GatewayRequest) -> None:
        routed = await self._reader.read(request)
        try:
            await self._store(request, routed)
        finally:
            if routed.conversation:
                await routed.conversation.release()

    async def _store(self, request: GatewayRequest, routed: RoutedRequest) -> None:
        writer = routed.turn_writer
        assert writer, "each request of a connection has one"
        client, wire, losses = request.client, writer.body.wire, Losses()
        neutral = client.decode_request(wire, losses)
        encoder = client.stream_encoder(losses, neutral)
        usage = Usage(estimate(client, wire))
        start = ResponseStart(request.record.id, routed.model, created=int(time.time()))
        frames: list[Frame] = []
        for event in (start, ResponseEnd(Stop("end"), usage)):
            frames += [writer.label_frame(frame) for frame in encoder.feed(event)]
        await writer.put_warm_up(frames[-1].data[writer.codec.reply_field])
        request.record.usage = usage
        request.record.first_byte()
        await request.writer.begin(request.content_type)
        printer = sse.Encoder()
        await request.writer.end(b"".join(piece for frame in frames for piece in printer.feed(frame)))
