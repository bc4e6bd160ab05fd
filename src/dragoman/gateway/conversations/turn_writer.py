"""Stores a turn before the end of its reply is sent, so that the client can continue it at once.

Where the store fails, a client that asked for storage explicitly gets an error; one that left the default
gets its reply, which says that it is not stored.

    StoredStream:  PASSING   an end event                -> HOLDING   (it and what follows are held back)
                   PASSING   the stream fails or is cut  -> ENDED     (nothing is stored)
                   HOLDING   `end`: stored               -> ENDED     (the held events are sent)
                             not stored, required        -> FAILED    (an error event is sent instead)
                             not stored, by default      -> ENDED     (the held events say that it is not)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.fields import Body
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Wire
from dragoman.forwarding import ForwardedStream
from dragoman.framing import sse
from dragoman.gateway.conversations.conversations import LockedConversation
from dragoman.gateway.conversations.store import Store, StoreAway, StoredTurn, StoreError
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import AttemptFailed, GatewayRequest
from dragoman.pipeline import JoinedStream, TranslatedStream, encode_failure
from dragoman.profiles import ProviderSettings
from dragoman.serving.conversations import StorageRequest, TurnCodec

_MOST = 64 * 1024 * 1024  # bytes of a streamed reply
STORE_RETRY = 2.0  # seconds, where the database of the store is away
_PROBLEM = "the answer could not be stored, but the request requires it"
_UNSTORED = Failure("server", _PROBLEM, 500)
_UNSTORED_NOW = Failure("overloaded", f"{_PROBLEM}: its database is away", 503, retry_after=STORE_RETRY)


def stores_turns(protocol: str, provider: ProviderSettings) -> bool:
    """Whether clients of `protocol` talk to a provider that stores conversations itself."""
    return provider.keeps and provider.forwards(protocol)


class NewTurn(Struct, frozen=True, eq=False):
    """A request whose turn is to be stored: `given` as its client wrote it, `body` with all before it.

    `items` is what is new in it, `previous` the turn that it refers to. The items are added to the
    conversation, where it has one. Where the request came over WebSocket, its connection (`request.lane`)
    remembers the turn, with the whole conversation, whether or not it is stored.
    """

    request: GatewayRequest
    codec: TurnCodec
    storage: StorageRequest
    given: Wire
    body: Body
    items: list[Any]
    previous: str | None
    conversation: LockedConversation | None


class TurnWriter:
    """`always`: also for providers that store turns themselves, because the conversation began here."""

    def __init__(self, turn: NewTurn, store: Store, report: Callable[[StoreError], object]) -> None:
        self.turn, self._store, self._report = turn, store, report
        self.codec, self.storage, self.body = turn.codec, turn.storage, turn.body
        self.client = turn.request.client
        self.always = bool(turn.storage.previous_id) or not turn.storage.store or bool(turn.conversation)
        self._settings = turn.codec.inherited_settings(turn.given)
        self.failure = _UNSTORED  # where it could not be stored
        self.id = turn.codec.id_prefix + os.urandom(16).hex()

    def serves(self, provider: ProviderSettings) -> bool:
        return self.always or not stores_turns(self.client.name, provider)

    def label(self, reply: Wire, stored: bool = True) -> Wire:
        """The reply as the client gets it, under our own id."""
        stored = stored and self.storage.store
        reply = self.codec.label_reply(reply, self.id, self.storage.previous_id, stored)
        conversation = self.turn.conversation
        return conversation.label(reply) if conversation else reply

    def label_frame(self, frame: Frame) -> Frame:
        """An event that holds the reply."""
        field = self.codec.reply_field
        return Frame(frame.event, {**frame.data, field: self.label(frame.data[field])})

    async def whole(self, reply: Wire, lost: list[Loss]) -> Wire:
        out = self.label(reply)
        if await self.put(out):
            return out
        if self.storage.required:
            raise AttemptFailed(self.failure)
        lost.append(_NOT_STORED)
        return self.label(reply, stored=False)

    async def put(self, reply: Wire | None) -> bool:
        """Whether it is stored durably."""
        turn, lane = self.turn, self.turn.request.lane
        try:
            if reply is None:
                raise StoreError("the reply is too large, or could not be found in its stream")
            if lane:
                whole = self.codec.new_items(self.body.wire)
                await lane.put(await run_for(len(self.body.data), self.encode_turn, reply, whole, None))
            if self.storage.store:
                size = len(self.body.data)
                await self._store.put(await run_for(size, self.encode_turn, reply, turn.items, turn.previous))
            if turn.conversation:
                await turn.conversation.add(turn.items, reply)
        except StoreError as error:
            self._report(error)
            self.failure = _UNSTORED_NOW if isinstance(error, StoreAway) else _UNSTORED
            return False
        return True

    async def put_warm_up(self, reply: Wire) -> None:
        """Store a request that no model has seen; the next one inherits more of it."""
        self._settings = {**self._settings, **self.codec.warmed_settings(self.turn.given)}
        await self.put(reply)

    def encode_turn(self, reply: Wire, items: list[Any], previous: str | None) -> StoredTurn:
        codec = self.codec
        items = [codec.without_secrets(item) if is_object(item) else item for item in items]
        return StoredTurn(
            self.id,
            self.turn.request.owner,
            self.client.name,
            previous,
            jsontext.encode(items),
            jsontext.encode(codec.without_secrets(reply)),
            jsontext.encode(self._settings),
            tuple(codec.items_by_id(codec.new_items(self.turn.given), reply)),
        )


class StoredStream:
    """See the states above."""

    def __init__(self, stream: ForwardedStream | TranslatedStream | JoinedStream, writer: TurnWriter) -> None:
        self._stream, self._writer = stream, writer
        self._sent: list[
            bytes
        ] = []  # what the reply is read from; one of more than `_MOST` bytes is not stored
        self._size = 0
        self._held: list[Frame] = []
        self._failure: Failure | None = None

    @property
    def ended(self) -> bool:
        return self._stream.ended

    @property
    def failure(self) -> Failure | None:
        return self._failure or self._stream.failure

    def feed(self, data: bytes) -> bytes:
        return self.accept(self._stream.feed(data))

    def close(self) -> bytes:
        return self.accept(self._stream.close())

    def fail(self, failure: Failure) -> bytes:
        self._held.clear()
        return self.accept(self._stream.fail(failure))

    async def end(self, last: bytes, lost: list[Loss]) -> bytes:
        """The last bytes of the stream. One that did not end well is not changed."""
        if not self._held:
            return last
        writer = self._writer
        frames = _frames(b"".join(self._sent)) + [Frame(frame.event, _data(frame)) for frame in self._held]
        reply = writer.codec.reply_of_stream(frames) if self._size <= _MOST else None
        if not await writer.put(reply):
            if writer.storage.required:
                return last + self._fail()
            lost.append(_NOT_STORED)
            self._held = [self._label(frame, stored=False) for frame in self._held]
        return last + _print(self._held)

    def accept(self, out: bytes) -> bytes:
        """Bytes of the client's stream as the client gets them."""
        if self._held or any(marker in out for marker in self._writer.codec.reply_markers):
            out = self._hold_end(out)
        if out and self._size <= _MOST:
            if self._writer.codec.end_holds_reply:  # the first and the last piece say how a failure goes on
                del self._sent[1:]
            self._sent.append(out)
            self._size += len(out)
        return out

    def _hold_end(self, out: bytes) -> bytes:
        passed: list[Frame] = []
        end_types = self._writer.codec.end_types
        for frame in _frames(out):
            frame = self._label(frame)
            is_end = is_object(frame.data) and frame.data.get("type", frame.event) in end_types
            (self._held if self._held or is_end else passed).append(frame)
        return _print(passed)

    def _label(self, frame: Frame, stored: bool = True) -> Frame:
        """The reply in an event gets our id, and whether it is stored."""
        try:
            data = jsontext.decode(_data(frame))
        except ValueError:
            return frame
        field = self._writer.codec.reply_field
        if not is_object(data):
            return frame
        reply = data.get(field)
        return Frame(
            frame.event, {**data, field: self._writer.label(reply, stored)} if is_object(reply) else data
        )

    def _fail(self) -> bytes:
        """An error event that continues what was sent."""
        self._failure = self._writer.failure
        first, last = (self._sent[0], self._sent[-1]) if self._sent else (b"", b"")
        return encode_failure(self._writer.client, self._failure, first, last)


_NOT_STORED = Loss("changed", "store", "The store could not be written. The answer says store: false.")


def _frames(out: bytes) -> list[Frame]:
    decoder = sse.Decoder()
    return [*decoder.feed(out), *decoder.close()]


def _data(frame: Frame) -> bytes:
    return frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data)


def _print(frames: Sequence[Frame]) -> bytes:
    return b"".join(piece for frame in frames for piece in sse.Encoder().feed(frame))
