"""Responses in the background: accepted at once, run by the queue, polled, streamed again, cancelled.

The run is an ordinary request (see replay.py). Of a streamed one every event is stored under its number
before a client sees it, so that any gateway can go on where a connection was lost. An attempt that takes
over a job deletes the events of the one before, and counts on after their numbers.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object
from dragoman.core.model import Failure, Wire
from dragoman.framing import sse
from dragoman.gateway.conversations.store import Store, StoredTurn, StoreError
from dragoman.gateway.conversations.turn_writer import NewTurn, TurnWriter
from dragoman.gateway.jobs.job_table import Job, JobEnd, JobEvents, JobRef, JobSettings
from dragoman.gateway.jobs.replay import CapturedResponse, ReplayedExchange
from dragoman.gateway.jobs.services import JobServices
from dragoman.gateway.large_bodies import hold
from dragoman.gateway.request import GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.protocols import server
from dragoman.serving.conversations import ConversationError, PastTurn, TurnCodec
from dragoman.serving.jobs import BackgroundCodec

UNSTORED_LIFE = 600.0  # seconds for which the reply to a request with `store: false` can be polled
_FLUSH = 0.1  # seconds for which events are collected before they are written
_MOST = 64 * 1024 * 1024  # bytes of events of one response; later ones are not stored, except the last
_POLL = 0.5  # seconds between looks for events that another gateway writes
_KEEP_ALIVE = 10.0
_ATTEMPTS = 5  # of a run whose upstreams are overloaded
_LONGEST_WAIT = 60.0
_GIVE_UP = 3600.0  # seconds after which the limits of this gateway are a failure, too
_WORTH_WAITING = ("rate_limit", "overloaded")


class BackgroundResponses:
    """`interrupt` ends a run in this process."""

    def __init__(self, services: JobServices) -> None:
        self._services, self.table, self._life = services, services.table, services.life
        self._followers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.interrupt: Callable[[JobRef], None] = lambda ref: None

    # A client's requests

    async def accept(self, routed: RoutedRequest) -> None:
        """Store the request, put it on the queue, and answer with the queued response or its events."""
        request = routed.arrived
        codec, turns = _codecs(request.client.name)
        _refuse_passthrough(routed.targets)
        wire, now = routed.body.wire, time.time()
        storage = turns.decode_storage(wire)
        reply = codec.encode_queued(wire, turns.id_prefix + os.urandom(16).hex(), int(now))
        forwarded = request.protocol_server.forwards
        settings = JobSettings(
            {name: request.headers[name] for name in forwarded if name in request.headers},
            routed.stream or codec.logs_all,
            storage is None or storage.store,
        )
        job = Job(
            owner=request.owner,
            id=str(reply["id"]),
            batch="",
            line=0,
            custom_id="",
            protocol=request.client.name,
            caller=request.caller.id if request.caller else "",
            path=request.incoming.path,
            settings=jsontext.encode(settings),
            body=jsontext.encode(codec.run_body(wire)),
            reply=jsontext.encode(turns.without_secrets(reply)),
            status="queued",
            attempt=0,
            interrupted=0,
            created=now,
            ended=None,
            expires=now + self._life,
        )
        first = [jsontext.encode(event) for event in codec.first_events(turns.without_secrets(reply))]
        await self.table.add(job, JobEvents(0, first) if settings.stream else None, self._services.space)
        await self._services.queue.add([job.ref])
        request.record.action = "enqueue"
        if routed.stream:
            await self._follow(request, job, -1)
        else:
            await request.writer.json(200, reply)

    async def answer(self, request: GatewayRequest) -> bool:
        """A request for a stored response; False where it is not one of the background."""
        job = await self.table.get(request.owner, request.route.id)
        if job is None or job.batch or job.protocol != request.client.name:
            return False
        hold(request.incoming, BODY_WEIGHT * (len(job.body) + len(job.reply)))
        codec, turns = _codecs(job.protocol)
        match request.route.action:
            case "retrieve" if request.route.stream:
                if not job.read_settings().stream:
                    raise ConversationError(codec.not_streamed)
                await self._follow(request, job, codec.starting_after(request.query))
            case "retrieve":
                await request.writer.json(200, _state(job))
            case "cancel":
                await request.writer.json(200, await self._cancel(job))
            case "delete":
                await self._cancel(job)
                await self.table.delete(job.owner, job.id)
                await self._services.gateway.store.delete(job.owner, job.id)
                await request.writer.json(200, turns.encode_deleted(job.id))
            case "items" if job.body:
                turn = PastTurn(job.id, turns.new_items(jsontext.decode(job.body)), _state(job), {})
                await request.writer.json(200, turns.encode_items([turn], request.query))
            case _:
                return False
        return True

    async def _cancel(self, job: Job) -> Wire:
        """The final reply. One that has ended before stays as it is."""
        codec, _ = _codecs(job.protocol)
        while job.ended is None:
            reply = codec.with_status(jsontext.decode(job.reply), "cancelled", None)
            events: JobEvents | None = None
            if job.read_settings().stream:
                number = await self._next_number(job)
                events = JobEvents(number, [jsontext.encode(codec.last_event(reply, number))])
            if await self.table.cancel(job, jsontext.encode(reply), events):
                self._count("cancelled")
                self.interrupt(job.ref)
                self.wake(job.id)
                return reply
            found = await self.table.get(job.owner, job.id)
            if found is None:
                break
            job = found
        return _state(job)

    async def _follow(self, request: GatewayRequest, job: Job, after: int) -> None:
        """Send the events with a greater number than `after`, until the last one."""
        writer, field = request.writer, _codecs(job.protocol)[0].event_field
        await writer.begin(request.content_type)
        changed = asyncio.Event()
        self._followers[job.id].add(changed)
        sent_at = time.monotonic()
        try:
            while True:
                changed.clear()
                ended = await self.table.has_ended(job.owner, job.id)  # before the events are read
                events = await self.table.events(job.owner, job.id, after)
                if events:
                    after, sent_at = events[-1][0], time.monotonic()
                    await writer.piece(b"".join(_print(text, field) for _, text in events))
                if ended:
                    break
                if not events and time.monotonic() - sent_at > _KEEP_ALIVE:
                    sent_at = time.monotonic()
                    await writer.piece(request.client.keep_alive)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL):
                        await changed.wait()
        finally:
            self._followers[job.id].discard(changed)
            if not self._followers[job.id]:
                del self._followers[job.id]
        await writer.end()

    # The run

    async def run(self, job: Job) -> float | None:
        """The seconds after which it is to be run again; None where it has ended."""
        codec, _ = _codecs(job.protocol)
        settings = job.read_settings()
        log = None
        if settings.stream:
            number = await self._next_number(job)
            if job.attempt > 1:
                await self.table.forget_events(job, len(codec.first_events({})))
            log = _EventLog(self, codec, job, number)
            log.begin(codec.restart_event(_state(job), number))
        run = BackgroundRun(codec, job)
        exchange = await self._services.gateway.replay(job, CapturedResponse(log.add if log else None), run)
        failed = log.reply if log and not run.reply else None
        if run.reply is None and failed is None:
            failure = exchange.record.failure or Failure("server", "the run ended without an answer", 500)
            wait = _wait(job, failure, exchange)
            if wait is not None:
                return wait
            failed = codec.with_status(jsontext.decode(job.reply), "failed", failure)
        reply, status = (run.reply, "completed") if run.reply else (failed or {}, "failed")
        events = await log.close(reply) if log else None
        life = self._life if settings.store else UNSTORED_LIFE
        end = JobEnd(status, jsontext.encode(reply), time.time() + life, run.turn, events)
        if await self.table.finish(job, end):
            self._count(status)
        self.wake(job.id)
        return None

    async def give_up(self, job: Job, failure: Failure) -> None:
        codec, _ = _codecs(job.protocol)
        reply = codec.with_status(jsontext.decode(job.reply), "failed", failure)
        events: JobEvents | None = None
        if job.read_settings().stream:
            number = await self._next_number(job)
            events = JobEvents(number, [jsontext.encode(codec.last_event(reply, number))])
        end = JobEnd("failed", jsontext.encode(reply), time.time() + self._life, None, events)
        if await self.table.finish(job, end):
            self._count("failed")
        self.wake(job.id)

    async def _next_number(self, job: Job) -> int:
        events = await self.table.events(job.owner, job.id, -1)
        return events[-1][0] + 1 if events else 0

    def wake(self, id: str) -> None:
        for changed in self._followers.get(id, ()):
            changed.set()

    def _count(self, status: str) -> None:
        self._services.gateway.metrics.count_job("background", status)


class BackgroundRun:
    """One attempt at a job: its reply and turn, which are stored together with the end of the job."""

    def __init__(self, codec: BackgroundCodec, job: Job) -> None:
        self.codec, self.job = codec, job
        self.reply: Wire | None = None
        self.turn: StoredTurn | None = None

    def turn_writer(self, turn: NewTurn, store: Store, report: Callable[[StoreError], object]) -> TurnWriter:
        writer = _RunWriter(turn, store, report)
        writer.run, writer.id, writer.always = self, self.job.id, True
        return writer


class _RunWriter(TurnWriter):
    run: BackgroundRun

    def label(self, reply: Wire, stored: bool = True) -> Wire:
        return self.run.codec.label(super().label(reply, stored))

    async def put(self, reply: Wire | None) -> bool:
        self.run.reply = reply and self.codec.without_secrets(reply)
        if reply and self.storage.store:
            self.run.turn = self.encode_turn(reply, self.turn.items, self.turn.previous)
        return reply is not None


class _EventLog:
    """The events of one attempt, on their way to the store. The last one is only written by `close`'s caller,
    with the end of the job: a client that sees it may continue the response at once."""

    def __init__(self, responses: BackgroundResponses, codec: BackgroundCodec, job: Job, number: int) -> None:
        self._responses, self._codec, self._job = responses, codec, job
        self._decoder = sse.Decoder()
        self._number = number  # of the next event
        self._texts: list[bytes] = []
        self._size = 0
        self._flushing: asyncio.Task[None] | None = None
        self.reply: Wire | None = None  # in the event that ended the stream

    def begin(self, event: Wire) -> None:
        self._append(event)

    async def add(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            event = self._codec.renumber(frame_object(frame), self._number)
            if event is None or self.reply:
                continue
            self.reply = self._codec.reply_of(event)
            if self.reply is None and self._size < _MOST:
                self._append(event)

    async def close(self, reply: Wire) -> JobEvents:
        """What is not written yet, and the event of the end."""
        if self._flushing:
            await self._flushing
        number, texts = self._number - len(self._texts), self._texts
        return JobEvents(number, [*texts, jsontext.encode(self._codec.last_event(reply, self._number))])

    def _append(self, event: Wire) -> None:
        text = jsontext.encode(event)
        self._texts.append(text)
        self._number += 1
        self._size += len(text)
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(_FLUSH)
        texts, self._texts = self._texts, []
        events = JobEvents(self._number - len(texts), texts)
        try:
            held = await self._responses.table.add_events(self._job, events)
        except StoreError:  # they are written with the next ones
            self._texts = texts + self._texts
            held = True
        self._flushing = None
        if not held:
            self._responses.interrupt(self._job.ref)
        self._responses.wake(self._job.id)


def _codecs(protocol: str) -> tuple[BackgroundCodec, TurnCodec]:
    found = server(protocol)
    assert found.background, "only protocols that run in the background come here"
    assert found.turn_codec
    return found.background, found.turn_codec


def _state(job: Job) -> Wire:
    """The reply as its client sees it now."""
    reply = jsontext.decode(job.reply)
    codec, _ = _codecs(job.protocol)
    return codec.with_status(reply, "in_progress", None) if job.status == "running" else reply


def _print(text: bytes, field: str) -> bytes:
    event = jsontext.decode(text)
    return sse.Encoder().feed(Frame(str(event.get(field) or ""), event))[0]


def _refuse_passthrough(targets: tuple[Target, ...]) -> None:
    """The key of a client is never stored, so nothing can run with it later."""
    for target in targets:
        if target.provider.passthrough:
            name = target.provider.name
            problem = f"the provider {name} needs the client's own key, which is not stored for later"
            raise ConversationError(Failure("bad_request", problem, 400))


def _wait(job: Job, failure: Failure, exchange: ReplayedExchange) -> float | None:
    """Seconds until the next attempt; None where another one would not help."""
    if failure.kind not in _WORTH_WAITING or time.time() - job.created > _GIVE_UP:
        return None
    if not exchange.record.shed and job.attempt >= _ATTEMPTS:
        return None
    return min(failure.retry_after or 2.0 ** min(job.attempt, 10), _LONGEST_WAIT)
