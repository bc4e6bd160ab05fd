"""Streams as users meet them: upstream's bytes in, client's bytes out.

Nothing that an upstream sends can raise here (strict mode aside): what is broken ends the stream
with a failure that the client's protocol understands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.core.codec import Codec, Frame
from dragoman.core.errors import WireError
from dragoman.core.events import Event, ResponseEnd, ResponseFailed, unfold
from dragoman.core.fields import read_body
from dragoman.core.jsontext import TOO_DEEP
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request
from dragoman.core.stage import Pipe, Stage
from dragoman.framing import jsonarray, sse

_BROKEN = (WireError, *TOO_DEEP)


class Forwarded:
    """The same protocol on both sides: each event passes as it is, once it is whole; the end is watched.

    What comes may be no events at all, but a whole body or an array, or events that lack what clients rely
    on: then it is `translated` after all.
    """

    def __init__(self, codec: Codec, translated: Callable[[], Translated]) -> None:
        self._codec, self._translated = codec, translated
        self._instead: Translated | None = None
        self._tail = b""
        self._begun = self._ended = False
        self._overlap = max(len(mark) for mark in codec.terminal)
        self._held: list[bytes] = []  # the beginning of an event
        self._whole = False  # nothing is held: the last event that came was whole
        self._first = self._last = b""  # what was passed on at the beginning, and just now
        self.failure: Failure | None = None

    def feed(self, data: bytes) -> bytes:
        if self._whole and data.endswith(b"\n\n"):  # nearly always: events come whole, one or several
            self._ended = self._ended or self._holds_end(data)
            self._last = data
            return data
        return self._cut(data)

    def _cut(self, data: bytes) -> bytes:
        """Pass on what is whole, hold back the beginning of an event."""
        if not self._tail and not self._instead:
            data = data.lstrip()
            if data[:1] in (b"{", b"["):
                self._instead = self._translated()
        if self._instead:
            return self._followed(self._instead.feed(data))
        seen = self._tail + data
        self._ended = self._ended or self._holds_end(seen)
        end = _after_blank_line(seen) - len(self._tail)
        self._tail = seen[-self._overlap :]
        if end <= 0:
            self._whole = False
            self._held.append(data)
            return b""
        held, self._held = self._held, [data[end:]]
        self._whole = end == len(data)
        self._last = b"".join(held) + data[:end]
        if not self._begun and b"data:" in self._last:
            if self._codec.numbered not in self._last:
                self._instead = self._translated()
                return self._followed(self._instead.feed(self._last + data[end:]))
            self._begun, self._first = True, self._last
        return self._last

    @property
    def ended(self) -> bool:
        """Whether the stream said that it is over, well or not."""
        return self._instead.ended if self._instead else self._ended

    def close(self) -> bytes:
        """A stream that was cut ends in a failure, never in silence that looks like success."""
        if self._instead:
            return self._followed(self._instead.close())
        held, self._held = self._held, []
        return b"".join(held) if self._ended else self.fail(_cut())

    def fail(self, failure: Failure) -> bytes:
        """End the stream with `failure`, as its protocol says it; half an event would only be in the way."""
        if self._instead:
            return self._followed(self._instead.fail(failure))
        self.failure, self._ended = failure, True
        encoder = self._codec.stream_encoder(Losses())
        frames = list(encoder.feed(ResponseFailed(failure)))
        if self._begun:  # and so it was announced
            frames = [self._codec.continued(frames[-1], self._first, self._last)]
        return b"\n\n" + b"".join(piece for frame in frames for piece in sse.Encoder().feed(frame))

    def _holds_end(self, data: bytes) -> bool:
        for mark in self._codec.terminal:  # noqa: SIM110 - a generator costs more than the search
            if mark in data:
                return True
        return False

    def _followed(self, out: bytes) -> bytes:
        self.failure = self._instead.failure if self._instead else None
        return out


class Translated:
    """Upstream's frames -> events -> the stages of an exchange -> client's frames."""

    def __init__(
        self,
        upstream: Codec,
        client: Codec,
        stages: Pipe,
        losses: Losses,
        request: Request | None,
        strict: bool,
        array: bool,
    ) -> None:
        self._upstream, self._losses, self._strict = upstream, losses, strict
        self._framing: Stage[bytes, Frame] | None = None
        self._decoder = upstream.stream_decoder(losses)
        self._decode: Callable[[Frame], Iterable[Event]] = self._decoder.feed
        self._stages = stages
        self._encoder = client.stream_encoder(losses, request)
        self._printer: Stage[Frame, bytes] = jsonarray.Encoder() if array else sse.Encoder()
        self._ended = self._closed = False
        self.failure: Failure | None = None

    def feed(self, data: bytes) -> bytes:
        if self._ended:  # whatever still comes belongs to no part
            return b""
        if self._framing is None:
            if not data.strip():
                return b""
            self._framing = self._framed(data.lstrip()[:1])
        out: list[bytes] = []
        try:
            for frame in self._framing.feed(data):
                self._events(self._decode(frame), out)
        except _BROKEN as error:
            self._events((ResponseFailed(_malformed(error)),), out)
        if self._strict:
            self._losses.refuse()
        return out[0] if len(out) == 1 else b"".join(out)

    @property
    def ended(self) -> bool:
        """Whether the stream said that it is over, well or not."""
        return self._ended

    def close(self) -> bytes:
        out: list[bytes] = []
        try:
            for frame in self._framing.close() if self._framing and not self._ended else ():
                self._events(self._decode(frame), out)
            self._events(() if self._ended else self._decoder.close(), out)
        except _BROKEN:  # what was broken is the frame in which the stream was cut
            self._events((ResponseFailed(_cut()),), out)
        if self._strict:
            self._losses.refuse()
        return self._finished(out)

    def fail(self, failure: Failure) -> bytes:
        """End the stream with `failure`, as the client's protocol says it."""
        out: list[bytes] = []
        self._events((ResponseFailed(failure),), out)
        return self._finished(out)

    def _framed(self, first: bytes) -> Stage[bytes, Frame]:
        """Told from the first byte: an array of chunks, a whole body, or server-sent events."""
        match first:
            case b"[":
                return jsonarray.Decoder()
            case b"{":
                self._decode = self._decode_whole
                return _WholeBody(self._upstream.name)
            case _:
                return sse.Decoder()

    def _decode_whole(self, frame: Frame) -> Iterable[Event]:
        """A server that does not stream answers with a whole body; it is told as the stream it stands for."""
        self._decoder.close()
        failure = self._upstream.decode_error(frame.data, 0)
        if failure:
            return (ResponseFailed(failure),)
        return unfold(self._upstream.decode_response(frame.data, self._losses))

    def _events(self, events: Iterable[Event], out: list[bytes]) -> None:
        through, encode, printed = self._stages.feed, self._encoder.feed, self._printer.feed
        for event in events:
            if self._ended:
                return
            for passed in through(event):
                if type(passed) is ResponseEnd or type(passed) is ResponseFailed:
                    self._ended = True
                    self.failure = passed.failure if isinstance(passed, ResponseFailed) else None
                for frame in encode(passed):
                    out += printed(frame)

    def _finished(self, out: list[bytes]) -> bytes:
        if not self._closed:
            self._closed = True
            out += self._printer.close()
        return b"".join(out)


class _WholeBody:
    """Bytes of one JSON body -> one frame, at the end."""

    def __init__(self, protocol: str) -> None:
        self._protocol, self._pieces = protocol, list[bytes]()

    def feed(self, item: bytes, /) -> tuple[()]:
        self._pieces.append(item)
        return ()

    def close(self) -> tuple[Frame]:
        return (Frame("", read_body(b"".join(self._pieces), self._protocol)),)


def _malformed(error: Exception) -> Failure:
    return Failure("server", f"malformed upstream stream: {error}", 502)


def _after_blank_line(data: bytes) -> int:
    """Where the last event in `data` ends; 0 where none does."""
    return max(data.rfind(end) + len(end) if end in data else 0 for end in (b"\n\n", b"\r\n\r\n", b"\r\r"))


def _cut() -> Failure:
    return Failure("truncated", "the upstream's stream ended before its end was announced", 502)
