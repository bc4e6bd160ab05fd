"""One turn that a client asked to keep: it is in the store before the end of its reply goes out.

Where it cannot be written, a client that insisted gets an error instead; one that only left the default gets
its answer, which says that it is not stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.body import Body
from dragoman.core.codec import Codec, Frame
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Wire
from dragoman.core.stored_turns import StorageRequest, TurnCodec
from dragoman.framing import sse
from dragoman.gateway.conversations.store import Store, StoredTurn, StoreError
from dragoman.gateway.upstreams.sending import AttemptFailed
from dragoman.pipeline import ForwardedStream, TranslatedStream, encode_failure
from dragoman.profiles import Provider

_UNSTORED = Failure("server", "the answer could not be stored, which the request asked for", 500)


def stores_turns(protocol: str, provider: Provider) -> bool:
    """Whether clients of `protocol` talk to a provider that stores conversations itself."""
    return provider.keeps and provider.forwards(protocol)


class TurnWriter:
    """`body` is the request with everything that came before it; `items` only what is new in it.

    `always`: also where the provider would store it, because the conversation began here.
    """

    def __init__(
        self,
        kept: TurnCodec,
        store: Store,
        owner: str,
        client: Codec,
        wish: StorageRequest,
        items: list[Any],
        asked: Wire,
        body: Body,
        report: Callable[[StoreError], object],
    ) -> None:
        self.kept, self.client, self.wish, self.body = kept, client, wish, body
        self.always = bool(wish.continues)
        self._store, self._owner, self._report = store, owner, report
        self._items, self._asked = items, asked
        self._id = kept.prefix + os.urandom(16).hex()

    def serves(self, provider: Provider) -> bool:
        return self.always or not stores_turns(self.client.name, provider)

    def told(self, reply: Wire, stored: bool = True) -> Wire:
        """The reply as the client gets it: under an id that nobody else gives."""
        return self.kept.told(reply, self._id, self.wish.continues, stored)

    async def whole(self, reply: Wire, lost: list[Loss]) -> Wire:
        out = self.told(reply)
        if await self.put(out):
            return out
        if self.wish.insists:
            raise AttemptFailed(_UNSTORED)
        lost.append(_NOT_STORED)
        return self.told(reply, stored=False)

    async def put(self, reply: Wire | None) -> bool:
        """Whether it is durable now."""
        try:
            if reply is None:
                raise StoreError("the whole reply could not be found in its stream")
            await self._store.put(self._turn(reply))
        except StoreError as error:
            self._report(error)
            return False
        return True

    def _turn(self, reply: Wire) -> StoredTurn:
        kept = self.kept
        return StoredTurn(
            self._id,
            self._owner,
            self.client.name,
            self.wish.continues or None,
            jsontext.encode([kept.safe(item) if is_object(item) else item for item in self._items]),
            jsontext.encode(kept.safe(reply)),
            jsontext.encode(kept.settings(self._asked)),
            tuple(kept.named(kept.items(self._asked), reply)),
        )


class StoredStream:
    """A stream whose end is held back until its turn is stored."""

    def __init__(self, stream: ForwardedStream | TranslatedStream, keeper: TurnWriter) -> None:
        self._stream, self._keeper = stream, keeper
        self._pieces: list[bytes] = []  # what went out
        self._late: list[Frame] = []  # the end, and what follows it
        self._failure: Failure | None = None

    @property
    def ended(self) -> bool:
        return self._stream.ended

    @property
    def failure(self) -> Failure | None:
        return self._failure or self._stream.failure

    def feed(self, data: bytes) -> bytes:
        return self._passed(self._stream.feed(data))

    def close(self) -> bytes:
        return self._passed(self._stream.close())

    def fail(self, failure: Failure) -> bytes:
        self._late.clear()
        return self._passed(self._stream.fail(failure))

    async def end(self, last: bytes, lost: list[Loss]) -> bytes:
        """What goes out at last: nothing is changed in a stream that did not end well."""
        if not self._late:
            return last
        keeper = self._keeper
        frames = _frames(b"".join(self._pieces)) + [Frame(frame.event, _data(frame)) for frame in self._late]
        if not await keeper.put(keeper.kept.whole(frames)):
            if keeper.wish.insists:
                return last + self._unstored()
            lost.append(_NOT_STORED)
            self._late = [self._told(frame, stored=False) for frame in self._late]
        return last + _printed(self._late)  # what the close of the stream said before its end

    def _passed(self, out: bytes) -> bytes:
        if self._late or any(mark in out for mark in self._keeper.kept.marks):
            out = self._looked_through(out)
        if out:
            self._pieces.append(out)
        return out

    def _looked_through(self, out: bytes) -> bytes:
        passed: list[Frame] = []
        for frame in _frames(out):
            frame = self._told(frame)
            is_end = is_object(frame.data) and frame.data.get("type", frame.event) in self._keeper.kept.ends
            (self._late if self._late or is_end else passed).append(frame)
        return _printed(passed)

    def _told(self, frame: Frame, stored: bool = True) -> Frame:
        """Where an event holds the reply, it is the one that is kept."""
        try:
            data = jsontext.decode(_data(frame))
        except ValueError:
            return frame
        field = self._keeper.kept.field
        if not is_object(data):
            return frame
        reply = data.get(field)
        return Frame(
            frame.event, {**data, field: self._keeper.told(reply, stored)} if is_object(reply) else data
        )

    def _unstored(self) -> bytes:
        """The stream goes on from what went out, and fails."""
        self._failure = _UNSTORED
        first, last = (self._pieces[0], self._pieces[-1]) if self._pieces else (b"", b"")
        return encode_failure(self._keeper.client, _UNSTORED, first, last)


_NOT_STORED = Loss("changed", "store", "the store could not be written; the answer says store: false")


def _frames(out: bytes) -> list[Frame]:
    decoder = sse.Decoder()
    return [*decoder.feed(out), *decoder.close()]


def _data(frame: Frame) -> bytes:
    return frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data)


def _printed(frames: Sequence[Frame]) -> bytes:
    return b"".join(piece for frame in frames for piece in sse.Encoder().feed(frame))
