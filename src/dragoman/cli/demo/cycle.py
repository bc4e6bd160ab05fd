"""The four steps of a tool call, walked for real from one protocol to another.

What is checked at the end is what a translation is for: the agent ran the calls that the model
meant, and the model got back its results, its ids and its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman import Exchange, GrammarError, Loss, ToolCall
from dragoman.cli.demo.actors import MODEL, ScriptedAgent, ScriptedModel, lay_out, results_of, text_of
from dragoman.core.codec import Codec, Frame
from dragoman.core.events import Event, PartDelta, fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Request, Response, Text, Wire
from dragoman.demo import textual
from dragoman.demo.textual import Rendered
from dragoman.framing import sse

MANY = 8  # fields that replies have in common, from which on they are not shown

_CREATED = 1_700_000_000  # seconds since 1970: the same output every time


@dataclass(frozen=True)
class Sheet:
    """One side of a step: a body or the bytes of a stream. `path` is where a request goes."""

    body: Wire | bytes
    path: str = ""
    skipped: int = 0  # turns that an earlier step showed
    alike: frozenset[str] = frozenset()  # fields that are the same in every reply


@dataclass(frozen=True)
class Step:
    title: str
    client: Sheet
    upstream: Sheet
    losses: tuple[Loss, ...]
    asks: bool  # from the client to the upstream


@dataclass(frozen=True)
class Check:
    what: str
    good: bool


@dataclass(frozen=True)
class Cycle:
    client: str
    upstream: str
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]

    @property
    def good(self) -> bool:
        return all(check.good for check in self.checks)


def walk(client: str, upstream: str, stream: bool, dialect: str | None = None) -> Cycle:
    with TemporaryDirectory() as directory:
        root = Path(directory)
        lay_out(root)
        return _Walk(client, upstream, stream, root, dialect).cycle()


class _Walk:
    def __init__(self, client: str, upstream: str, stream: bool, root: Path, dialect: str | None) -> None:
        self._names, self._stream, self._dialect = (client, upstream), stream, dialect
        self._rendered: Rendered | None = None  # how the prompt of a dialect was read
        first = Exchange(client, upstream, reply_created=_CREATED)
        self._client, self._upstream = first.client, first.upstream
        self._agent, self._model = ScriptedAgent(self._client, root, stream), ScriptedModel(self._upstream)

    def cycle(self) -> Cycle:
        exchange = Exchange(*self._names, dialect=self._dialect, reply_created=_CREATED)
        question, sent = self._ask(exchange, "The agent asks and declares its tools.")
        called = self._model.reply(self._decoded(sent))
        rides = "; its opaque state rides along" if _states(called.parts) else ""
        calls = "them, both at once" if len(_calls(called)) > 1 else "one of them"
        title = f"The model calls {calls}{rides}."
        call, reply = self._reply(exchange, called, title, question.losses)
        turns = len(self._agent.wire[self._client.turns]), len(sent[self._upstream.turns])
        self._agent.continue_with(reply)

        exchange = Exchange(*self._names, dialect=self._dialect, reply_created=_CREATED)
        result, sent = self._ask(exchange, "The agent has run them and sends the results.", turns)
        answered = self._model.reply(self._decoded(sent))
        answer, final = self._reply(exchange, answered, "The model answers.", result.losses)
        checks = self._checks(called, self._read(reply), self._decoded(sent), answered, self._read(final))
        if self._stream:
            checks += (self._ordered(call, answer),)
        return Cycle(*self._names, (question, *_shortened(call, result, answer)), checks)

    def _ask(self, exchange: Exchange, title: str, turns: tuple[int, int] = (0, 0)) -> tuple[Step, Wire]:
        wire = self._agent.wire
        sent = exchange.request(wire, MODEL, self._stream)
        client = _sheet(wire, self._client, turns[0], self._client.http.path(MODEL, self._stream))
        upstream = _sheet(sent, self._upstream, turns[1], exchange.path)
        return Step(title, client, upstream, tuple(exchange.losses), asks=True), sent

    def _reply(
        self, exchange: Exchange, reply: Response, title: str, before: tuple[Loss, ...]
    ) -> tuple[Step, Wire]:
        """The model's reply on both wires, and as the agent holds it once it is whole."""
        body = self._encoded(reply)
        if isinstance(body, bytes):
            stream = exchange.stream()
            out: Wire | bytes = stream.feed(body) + stream.close()
        else:
            out = exchange.response(body)
        losses = tuple(loss for loss in exchange.losses if loss not in before)
        whole = self._gathered(out) if isinstance(out, bytes) else out
        return Step(title, Sheet(out), Sheet(body), losses, asks=False), whole

    def _encoded(self, reply: Response) -> Wire | bytes:
        if self._rendered:
            reply = textual.write(reply, self._rendered)
        if not self._stream:
            return self._upstream.encode_response(reply, Losses())
        encoder, printer = self._upstream.stream_encoder(Losses()), sse.Encoder()
        frames = [frame for event in _halved(unfold(reply)) for frame in encoder.feed(event)]
        return b"".join(piece for frame in (*frames, *encoder.close()) for piece in printer.feed(frame))

    def _gathered(self, out: bytes) -> Wire:
        decoder = self._client.stream_decoder(Losses())
        events = [*(event for frame in _frames(out) for event in decoder.feed(frame)), *decoder.close()]
        return self._client.encode_response(fold(events), Losses())

    def _decoded(self, wire: Wire) -> Request:
        request = self._upstream.decode_request(wire, Losses())
        if self._dialect:
            # the second request does not repeat the prompt to a model that holds the conversation
            self._rendered = textual.read(request) or self._rendered
            return self._rendered.request if self._rendered else request
        return request

    def _read(self, wire: Wire) -> Response:
        return self._client.decode_response(wire, Losses())

    def _checks(
        self, called: Response, received: Response, result: Request, answered: Response, final: Response
    ) -> tuple[Check, ...]:
        calls, run = _calls(called), _calls(received)
        returned = results_of(result)
        states = _states(part for message in result.messages for part in message.parts)
        ran = Check(
            "the agent ran the calls that the model made",
            [(call.name, call.arguments) for call in calls] == [(call.name, call.arguments) for call in run],
        )
        gave = Check(
            "the results are what the tools gave", [text_of(part) for part in returned] == self._agent.outputs
        )
        read = Check("the agent read the answer that the model gave", _text(answered) == _text(final))
        if self._dialect:  # text has neither ids nor opaque state
            return ran, gave, read
        return (
            ran,
            Check(
                "each result went back under the id of its call",
                [call.id for call in calls] == [part.call_id for part in returned],
            ),
            gave,
            Check("the model's opaque state came back byte for byte", _states(called.parts) <= states),
            read,
        )

    def _ordered(self, *steps: Step) -> Check:
        streams = [(self._client, step.client.body) for step in steps]
        streams += [(self._upstream, step.upstream.body) for step in steps]
        good = all(isinstance(body, bytes) and _keeps_grammar(body, codec) for codec, body in streams)
        return Check("every stream keeps to its protocol's order of events", good)


def _keeps_grammar(stream: bytes, codec: Codec) -> bool:
    grammar = codec.grammar()
    try:
        for frame in _frames(stream):
            grammar.feed(frame)
        grammar.close()
    except GrammarError:
        return False
    return True


def _frames(stream: bytes) -> list[Frame]:
    framing = sse.Decoder()
    return [*framing.feed(stream), *framing.close()]


def _sheet(wire: Wire, codec: Codec, skipped: int, path: str) -> Sheet:
    """A request that continues a conversation shows only what is new."""
    if not skipped:
        return Sheet(wire, path)
    return Sheet({codec.turns: wire[codec.turns][skipped:]}, path, skipped)


def _shortened(call: Step, result: Step, answer: Step) -> tuple[Step, ...]:
    """Replies that echo a whole configuration show only what differs between them."""
    client, upstream = _alike(call.client, answer.client), _alike(call.upstream, answer.upstream)
    call, answer = (
        replace(
            step,
            client=replace(step.client, alike=client),
            upstream=replace(step.upstream, alike=upstream),
        )
        for step in (call, answer)
    )
    return call, result, answer


def _alike(one: Sheet, other: Sheet) -> frozenset[str]:
    if isinstance(one.body, bytes) or isinstance(other.body, bytes):
        return frozenset()
    alike = [key for key, value in one.body.items() if key in other.body and other.body[key] == value]
    return frozenset(alike) if len(alike) >= MANY else frozenset()


def _halved(events: Iterable[Event]) -> Iterator[Event]:
    """Each text in two deltas: a stream that came in one piece would show nothing."""
    for event in events:
        if isinstance(event, PartDelta) and len(event.text) > 1:
            middle = len(event.text) // 2
            yield PartDelta(event.index, event.text[:middle])
            yield PartDelta(event.index, event.text[middle:])
        else:
            yield event


def _calls(reply: Response) -> list[ToolCall]:
    return [part for part in reply.parts if isinstance(part, ToolCall)]


def _text(reply: Response) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def _states(parts: Iterable[AnyPart]) -> set[tuple[str, str]]:
    return {(part.state.origin, part.state.data) for part in parts if part.state}
