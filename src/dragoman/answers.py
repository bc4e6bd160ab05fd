"""Several answers to one request: `n` of Chat, `candidateCount` of Gemini.

On the wires that know it, answers are the entries of one array (`Codec.answers`). A reply is split there,
each answer is translated on its own, and the results are merged in the array of the client's wire. So nothing
between the two knows of more than one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing, Stage, frame_object
from dragoman.core.errors import WireError
from dragoman.core.events import Event
from dragoman.core.losses import Losses, Strictness
from dragoman.core.model import Failure, Request, Wire
from dragoman.pipeline import EventReader, Pipeline, TranslatedStream, decoder_for, malformed
from dragoman.serving.protocol import Protocol

_MOST = 128  # answers; OpenAI takes n up to 128, Gemini up to 8


def split(reply: Wire, field: str) -> list[Wire]:
    """A whole reply as one for each answer."""
    answers = reply[field]
    return [{**reply, field: [_set_index(answer, 0)]} for answer in answers[:_MOST]]


def merge(replies: Sequence[Wire], field: str) -> Wire:
    """Everything but the answers is that of the first reply."""
    answers = [_set_index(reply[field][0], number) for number, reply in enumerate(replies)]
    return {**replies[0], field: answers}


def _set_index(answer: Wire, number: int) -> Wire:
    return {**answer, "index": number} if jsontext.is_object(answer) else answer


def stream_answers(
    pipeline: Pipeline,
    upstream: Protocol,
    client: Protocol,
    request: Request,
    strict: Strictness = False,
    framing: Framing | None = None,
) -> AnswersStream:
    """Like `Pipeline.translate_stream`."""

    def new_lane() -> tuple[EventReader, Stage[Event, Frame]]:
        return pipeline.read_stream(), client.codec.stream_encoder(pipeline.losses, request)

    return AnswersStream(new_lane, upstream, client, framing or client.framing, pipeline.losses, strict)


class _Lane:
    """One answer: its part of the upstream's stream → frames for the client."""

    def __init__(self, reader: EventReader, encoder: Stage[Event, Frame]) -> None:
        self.reader, self._encoder = reader, encoder

    def feed(self, data: bytes) -> list[Frame]:
        return self._encode(self.reader.feed(data))

    def close(self) -> list[Frame]:
        return self._encode(self.reader.close())

    def fail(self, failure: Failure) -> list[Frame]:
        return self._encode(self.reader.fail(failure))

    def _encode(self, events: Iterable[Event]) -> list[Frame]:
        return [frame for event in events for frame in self._encoder.feed(event)]


class AnswersStream(TranslatedStream):
    """A stream with several answers.

    empty    --{ ...-------------------> whole body   split at its end
    empty    --anything else-----------> frames
    frames   --frame with answers------> frames       each answer goes to the lane of its index
    frames   --another frame, the end--> frames       it goes to every lane, to the first one last: its
                                                      end ends the stream
    any      --a lane fails------------> ended        the first lane fails with it
    """

    def __init__(
        self,
        new_lane: Callable[[], tuple[EventReader, Stage[Event, Frame]]],
        upstream: Protocol,
        client: Protocol,
        framing: Framing,
        losses: Losses,
        strict: Strictness,
    ) -> None:
        reader, encoder = new_lane()
        super().__init__(reader, encoder, framing, losses, strict)
        self._new_lane, self._upstream = new_lane, upstream
        self._field, self._client_field = upstream.codec.answers, client.codec.answers
        self._lanes = [_Lane(reader, encoder)]
        self._frames: Stage[bytes, Frame] | None = None
        self._whole: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        if self.ended or not (self._frames or self._whole or data.strip()):
            return b""
        if self._whole or (self._frames is None and data.lstrip()[:1] == b"{"):
            self._whole.append(data)
            return b""
        if self._frames is None:
            self._frames = decoder_for(self._upstream.framing, data)
        try:
            return self._print_checked(
                [out for frame in self._frames.feed(data) for out in self._route(frame)]
            )
        except WireError as error:
            return self._print(self._lanes[0].fail(malformed(error)))

    def close(self) -> bytes:
        out: list[Frame] = []
        for frame in self._frames.close() if self._frames and not self.ended else ():
            out += self._route(frame)
        if self._whole:
            out += self._route_whole(b"".join(self._whole))
        out += self._broadcast(lambda lane: lane.close())
        return self._finish([self._print_checked(out)])

    def fail(self, failure: Failure) -> bytes:
        return self._finish([self._print(self._lanes[0].fail(failure))])

    def _route(self, frame: Frame) -> list[Frame]:
        chunk = frame_object(frame) if frame.data[:1] == b"{" else {}
        answers = chunk.get(self._field)
        if not jsontext.is_array(answers) or not answers:
            return self._broadcast(lambda lane: lane.feed(self._bytes(frame.event, frame.data)))
        out: list[Frame] = []
        for position, answer in enumerate(answers):
            number = answer.get("index", position) if jsontext.is_object(answer) else position
            if type(number) is not int or not 0 <= number < _MOST:
                continue
            while len(self._lanes) <= number:
                self._lanes.append(_Lane(*self._new_lane()))
            part = {**chunk, self._field: [_set_index(answer, 0)]}
            out += self._give(number, self._lanes[number].feed(self._bytes(frame.event, part)))
        return out

    def _route_whole(self, data: bytes) -> list[Frame]:
        reply = frame_object(Frame("", data))
        answers = reply.get(self._field)
        bodies = split(reply, self._field) if jsontext.is_array(answers) and answers else [reply]
        while len(self._lanes) < len(bodies):
            self._lanes.append(_Lane(*self._new_lane()))
        out: list[Frame] = []
        for lane, body in zip(self._lanes, bodies, strict=True):
            out += lane.feed(jsontext.encode(body))  # it is decoded when the lane is closed
        return out

    def _broadcast(self, run: Callable[[_Lane], list[Frame]]) -> list[Frame]:
        out: list[Frame] = []
        for number in reversed(range(len(self._lanes))):
            if self.ended:
                return out
            out += self._give(number, run(self._lanes[number]))
        return out

    def _give(self, number: int, frames: list[Frame]) -> list[Frame]:
        """What lane `number` gives to the client: of all but the first lane, the answers alone."""
        if number == 0:
            return frames
        if failure := self._lanes[number].reader.failure:
            return self._lanes[0].fail(failure)
        return [renumbered for frame in frames if (renumbered := self._renumber(frame, number))]

    def _renumber(self, frame: Frame, number: int) -> Frame | None:
        answers = frame.data.get(self._client_field) if jsontext.is_object(frame.data) else None
        if not answers:
            return None
        return Frame(frame.event, {**frame.data, self._client_field: [_set_index(answers[0], number)]})

    def _bytes(self, event: str, data: object) -> bytes:
        encoder = self._upstream.framing.encoder()
        return b"".join([*encoder.feed(Frame(event, data)), *encoder.close()])

    def _print_checked(self, frames: list[Frame]) -> bytes:
        if self._strict:
            self._losses.refuse(self._strict)
        return self._print(frames)

    def _print(self, frames: list[Frame]) -> bytes:
        return b"".join([piece for frame in frames for piece in self._framing.feed(frame)])
