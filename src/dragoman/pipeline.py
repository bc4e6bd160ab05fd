"""The only place where the stages of a translation are put in a row. Exchange, client and gateway use it.

    messages:  (decode) → WithoutImages → WithoutSummarised → Identify → JoinPieces → Pair
               → Rename → (KeepUnsigned) → Tally → dialect → encode (→ print)
    head:      summarising → restrict → with_offered_tools → fit_head → dialect → encode_around
    response:  framing → stream_decoder → Sequencer → dialect parser → recovery → Restorer → session
               → Summary → stream_encoder → framing

A whole response passes the same stages between `decode_response` and `encode_response`. Nothing that an
upstream sends raises in a stream (strict mode aside): malformed bytes end it with a failure that the
client's protocol understands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import (
    Codec,
    Frame,
    Framing,
    Pipe,
    ProtocolLimits,
    SessionCodec,
    Stage,
    without_computer,
)
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import (
    Event,
    EventStage,
    PartDelta,
    PartEnd,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    unfold,
)
from dragoman.core.fields import read_body
from dragoman.core.fold import EncodedMessages, Fold, FoldRun, Restart, begin, end, report
from dragoman.core.jsontext import TOO_DEEP
from dragoman.core.losses import Losses, Strictness
from dragoman.core.model import (
    AnyPart,
    ContextEdit,
    Failure,
    Foreign,
    HostedTool,
    Message,
    Request,
    Response,
    Text,
    Wire,
)
from dragoman.core.model_profile import UNKNOWN, ModelProfile, for_transcripts
from dragoman.core.token_estimate import Tally, TallyRun
from dragoman.dialects import recovery
from dragoman.dialects.engine.dialect import Dialect
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.framing.splice import DeltaSplice
from dragoman.framing.sse import SSE
from dragoman.profiles import profile_of
from dragoman.protocols import protocol as find_protocol
from dragoman.serving.protocol import Protocol
from dragoman.transforms import breakpoints
from dragoman.transforms.breakpoints import LatestMarks
from dragoman.transforms.compaction import Summary, summarising
from dragoman.transforms.content import JoinPieces, WithoutImages, WithoutSummarised
from dragoman.transforms.context_edits import edit_context
from dragoman.transforms.hosted import with_offered_tools
from dragoman.transforms.identify import Identify, IdentifyRun
from dragoman.transforms.ledger import Ledger, PreparedTools, fit_head, prepare_tools
from dragoman.transforms.name import Rename
from dragoman.transforms.pairing import Pair
from dragoman.transforms.restorer import Restorer
from dragoman.transforms.restrictions import restrict, restricts
from dragoman.transforms.rounds import RoundJoiner
from dragoman.transforms.sequence import Sequencer
from dragoman.transforms.session import SessionTurn
from dragoman.transforms.tools import flatten
from dragoman.transforms.transcripts import KeepUnsigned, record_limits, without_orders

_BROKEN = (WireError, *TOO_DEEP)


class TranslationPlan:
    """What all translations between a client with these limits and an upstream share.

    The client's side is neutral here: a protocol's codec, or the client library itself, stands before it.
    `dialect` writes tool calls as text; `recover` finds calls that the model wrote as text in any other
    dialect. `summarise` replaces images in tool results by a sentence. `origin` names the maker of the
    response's opaque state. `profile`: what is known about the model at the upstream; without it, what
    follows from its name. `transcript`: the conversation is translated as a record.
    """

    def __init__(
        self,
        client: ProtocolLimits,
        upstream: Protocol,
        *,
        dialect: Dialect | None = None,
        recover: bool = False,
        summarise: bool = False,
        origin: str = "",
        profile: ModelProfile | None = None,
        transcript: bool = False,
    ) -> None:
        self.client, self.upstream, self.codec = client, upstream, upstream.codec
        self.dialect, self.recover, self.summarise = dialect, recover, summarise
        self.origin, self.transcript = origin or upstream.codec.name, transcript
        if transcript:  # facts about a model mean nothing: no model reads it
            profile = for_transcripts(profile or profile_of("", "", self.codec.name))
        self.profile = profile
        self._known: tuple[ModelProfile, ProtocolLimits] | None = None

    def limits(self, profile: ModelProfile) -> ProtocolLimits:
        """Of the upstream."""
        known = self._known
        if known is None or known[0] is not profile:
            self._known = known = profile, self._limits(profile)
        return known[1]

    def _limits(self, profile: ModelProfile) -> ProtocolLimits:
        limits = self.codec.limits(profile)
        if self.client.protocol != self.codec.name:
            limits = without_computer(limits)
        return record_limits(limits) if self.transcript else limits


class Pipeline:
    """One translation.

    `reply_id` is the id of a reply without one, `reply_model` the model that a reply names, `reply_created`
    the time of a reply without one, in seconds since 1970. `compacts`: the upstream does compaction itself,
    so a request for it passes as it is.
    """

    def __init__(
        self,
        plan: TranslationPlan,
        losses: Losses,
        reply_id: str = "",
        reply_model: str = "",
        reply_created: int = 0,
        compacts: bool = False,
    ) -> None:
        self.plan, self._codec, self.profile, self.losses = plan, plan.codec, plan.profile, losses
        self._reply_id, self._reply_model, self._reply_created = reply_id, reply_model, reply_created
        self._compacts = compacts
        self.edits: tuple[ContextEdit, ...] | None = None  # what was cleared, where the client asked for it
        self.session: SessionTurn | None = None  # where the upstream stores the conversation
        self._summary: Summary | None = None  # where the response is to be a summary

    @cached_property
    def ledger(self) -> Ledger:
        """Of the request; a response that comes without one has an empty ledger."""
        limits = self.plan.limits(self.profile or UNKNOWN)
        return Ledger(self.plan.client, limits, self.plan.origin, self._codec.name, self.losses)

    def encode_request(self, request: Request) -> tuple[Request, Wire]:
        """`request` as the upstream takes it: in neutral form, without its messages, and as its wire."""
        if self.plan.transcript:
            request = without_orders(request, self.losses)
        if request.compaction is not None and not self._compacts:
            request = summarising(request, request.compaction, self.losses)
            self._summary = Summary(self._compaction_part)
        if request.edits is not None and not self._compacts:
            request = edit_context(request, self.losses)
            self.edits = request.edits
        runs, paired = self._pair(request)
        identified = find_run(runs, IdentifyRun)
        prepared = self.prepare(request, identified.used, len(runs))
        ledger, losses, codec = self.adopt(prepared, identified), self.losses, self._codec
        profile = self.profile or UNKNOWN
        collect(prepared.order, runs, losses)
        writing = Writing(self.plan, prepared, profile)
        runs = begin(writing.rendering if codec.session else writing.folds)
        entries = end(runs, paired)
        ledger.tally = find_run(runs, TallyRun)
        first = len(writing.rendering)
        head, order = prepared.head, writing.order
        if self.plan.dialect:
            head, order = writing.declare(runs[first - 1].facts())
        if order:
            collect(order, runs, losses)
        if codec.session:
            return head, self._begin_session(codec.session, request, replace(head, messages=tuple(entries)))
        encoders = runs[first:]
        messages = EncodedMessages(entries, encoders[0].facts(), partial(report, encoders))
        wire = codec.conversation.encode_around(head, messages, losses, profile)
        if self._summary:  # what its request needs and the client's did not have is no loss of the client's
            self.losses.items = {loss: None for loss in self.losses.items if loss.kind != "invented"}
        return head, wire

    def _pair(self, request: Request) -> tuple[list[FoldRun], Sequence[Message]]:
        """The messages past the folds that come before their names are known. A conversation that does not
        pass them window by window, or is limited as a whole, begins again."""
        for whole, holds in _WAYS:
            runs = begin(self.prepare_folds(request, whole, holds))
            try:
                return runs, end(runs, request.messages)
            except Restart:
                continue
        raise AssertionError("all messages together need no other way")

    def _begin_session(self, session: SessionCodec, request: Request, sent: Request) -> Wire:
        self.session = SessionTurn(session, request, sent)
        return self._codec.encode_request(self.session.begin(), self.losses, self.profile or UNKNOWN)

    def takes_messages_apart(self, head: Request) -> bool:
        """Whether each message is translated by itself; else all are looked at together."""
        edited = (head.compaction or head.edits is not None) and not self._compacts
        codec = self._codec
        return not edited and codec.session is None

    def prepare_folds(self, head: Request, whole: bool, holds: bool = False) -> tuple[Fold, ...]:
        """What the client's messages pass through first. `whole`: all of them come together. `holds`: nothing
        goes on that later ones may change."""
        plan, codec = self.plan, self._codec
        profile = self.profile = self.profile or profile_of(head.model, "", codec.name)
        upstream = plan.limits(profile)
        declared: frozenset[tuple[str, str]] = frozenset()
        if plan.client.namespaces and not upstream.namespaces:
            offered = restrict(head, profile, Losses()) if restricts(profile) else head
            if HostedTool in map(type, head.tools):
                offered = with_offered_tools(offered, upstream, codec.name, Losses())
            declared = frozenset(flatten(offered.tools, Losses(), upstream).declared)
        marks = None
        if upstream.cache_breakpoints and codec.name != plan.client.protocol:
            marks = [text.cache != "" for text in head.system].count(True)
        identify = Identify(plan.client, upstream, plan.origin, codec.name, plan.summarise, declared)
        return _first_folds(identify, profile.images, marks, whole, holds)

    def prepare(self, head: Request, used: Mapping[str, None], folds: int) -> Prepared:
        """`head` as the upstream takes it; `used` are the names that the conversation calls. `folds` is how
        many `prepare_folds` gave."""
        client, profile, codec = self.plan.client, self.profile or UNKNOWN, self._codec
        upstream = self.plan.limits(profile)
        order: list[Losses | int] = [*range(folds)]
        first = int(profile.images is False)  # what comes before everything but restrictions
        if restricts(profile):
            restricted = Losses()
            head = restrict(head, profile, restricted)
            order.insert(0, restricted)
            first += 1
        flat = Losses()
        if HostedTool in map(type, head.tools):
            head = with_offered_tools(head, upstream, codec.name, flat)
        names = (*used, *head.tool_choice.names) if head.tool_choice else tuple(used)
        tools = prepare_tools(head.tools, flat, upstream, names, client.schema_field)
        if flat.items:
            order.insert(first, flat)
        if head.system and codec.name != client.protocol and not upstream.cache_breakpoints:
            settled = Losses()
            head = breakpoints.unmark_system(head, settled)
            if settled.items:
                order.insert(-1, settled)
        if tools.fitted.items:
            order.append(tools.fitted)
        return Prepared(fit_head(head, tools), tools, tuple(order))

    def adopt(self, prepared: Prepared, identified: IdentifyRun) -> Ledger:
        """What the response needs of the request."""
        plan, limits = self.plan, prepared.tools.flattened.limits
        self.ledger = ledger = Ledger(plan.client, limits, plan.origin, self._codec.name, self.losses)
        ledger.adopt(prepared.head, prepared.tools, identified)
        return ledger

    def decode_response(self, wire: Wire, losses: Losses) -> Response:
        """The upstream's whole reply in the client's terms; `losses` collects those of the decoder alone.

        Raises UpstreamError where the reply is an error, or stands for one.
        """
        failure = self._codec.decode_error(wire, 200)
        if failure:
            raise UpstreamError(failure)
        return self.restore(self._codec.decode_response(wire, losses))

    def restore(self, response: Response) -> Response:
        """The upstream's whole reply in the client's terms; its parts are in a row, without a Sequencer."""
        for stage in self._stages():
            response = stage.whole(response)
        return response

    def read_stream(self, record: list[Any] | None = None) -> EventReader:
        """The upstream's bytes as events in the client's terms; `record` receives the data of each frame."""
        return EventReader(self.plan.upstream, [Sequencer(), *self._stages()], self.losses, record)

    def translate_stream(
        self,
        client: Protocol,
        request: Request | None,
        strict: Strictness = False,
        framing: Framing | None = None,
    ) -> TranslatedStream:
        """The upstream's bytes as the client's bytes; `request` is the client's, for replies that echo it.

        `framing`: another one than that of the client's protocol.
        """
        encoder = client.codec.stream_encoder(self.losses, request)
        stages, framing = self._stages(), framing or client.framing
        reader = EventReader(self.plan.upstream, [Sequencer(), *stages], self.losses)
        stream = TranslatedStream(reader, encoder, framing, self.losses, strict)
        if framing is self.plan.upstream.framing is SSE and not strict:  # deltas may pass undecoded
            skip = getattr(encoder, "skip_numbers", None)
            stream.splice = DeltaSplice(self._codec, client.codec, stream.translate, stages, skip)
        return stream

    def _stages(self) -> list[EventStage]:
        """What stands between decoding and encoding a response, beside the Sequencer of a stream."""
        plan, ledger = self.plan, self.ledger
        stages: list[EventStage] = [Restorer(ledger, self._reply_id, self._reply_model, self._reply_created)]
        if plan.dialect or plan.recover:
            tools = ledger.prepared.tools if ledger.prepared else ()  # as the prompt declares them
            found = [recovery(tools, self.losses)] if plan.recover else []
            parsed = [plan.dialect.parser(tools, self.losses)] if plan.dialect else []
            stages = [*parsed, *found, *stages]
        if self.session:
            stages.append(self.session)
        if self._summary:
            stages.append(self._summary)
        return stages

    def _compaction_part(self, summary: str) -> AnyPart:
        client = self.plan.client
        encode = client.compaction
        return Foreign(client.protocol, encode(summary), summary) if encode else Text(summary)


@lru_cache(256)
def _first_folds(
    identify: Identify, images: bool | None, marks: int | None, whole: bool, holds: bool
) -> tuple[Fold, ...]:
    """`marks`: how many of the upstream's few cache breakpoints the system text has."""
    upstream = identify.upstream
    folds: list[Fold] = []
    if images is False:
        folds.append(WithoutImages())
    if identify.summarise:
        folds.append(WithoutSummarised())
    if marks is not None and not whole:
        identify = replace(identify, most_marks=breakpoints.MOST - marks)
    folds.append(identify)
    if marks is not None and whole:
        folds.append(LatestMarks(upstream, marks))
    if identify.client.text_pieces:
        folds.append(JoinPieces(upstream))
    return (*folds, Pair(upstream, whole, holds))


_WAYS = ((False, False), (False, True), (True, False))  # `whole` and `holds` of `prepare_folds`
# Losses in the order in which they are reported: a number stands for those of a run
LossOrder = tuple[Losses | int, ...]
T = TypeVar("T", bound=FoldRun)


def collect(order: LossOrder, runs: Sequence[FoldRun], losses: Losses) -> None:
    for each in order:
        if isinstance(each, Losses):
            if each.items:
                losses.extend(each)
        elif runs[each].more:
            report((runs[each],), losses)
        elif (lost := runs[each].losses).items:
            losses.extend(lost)


def find_run(runs: Sequence[FoldRun], kind: type[T]) -> T:
    for run in runs:
        if type(run) is kind:
            return run
    raise LookupError(kind)


class Prepared(Struct, frozen=True):
    """The head of a request in the upstream's terms; `order`: the losses of the head and of its messages."""

    head: Request
    tools: PreparedTools
    order: LossOrder


class Writing:
    """A prepared request on its way to the upstream's wire: the folds that its messages pass through next,
    and its other fields, which depend on what these found. It depends on nothing else."""

    def __init__(self, plan: TranslationPlan, prepared: Prepared, profile: ModelProfile) -> None:
        self._dialect, self._head = plan.dialect, prepared.head
        self.order: LossOrder = ()  # where no tools are declared in the prompt
        head, names = self._head, prepared.tools.names
        folds: list[Fold] = [Rename(names.renamed)] if names.changed else []
        if plan.transcript and plan.limits(profile).signs == "reasoning":
            self.order = (len(folds),)
            folds.append(KeepUnsigned(plan.codec.name))
        folds.append(Tally())
        if plan.dialect:
            grammar = Losses()
            folds.append(plan.dialect.history(head, grammar))
            self.order = (*self.order, grammar)
            head = plan.dialect.add_tools(head, (), Losses())
        self.rendering = tuple(folds)
        self.folds = (*folds, *plan.codec.conversation.encode_messages(head, profile))

    def declare(self, facts: Any) -> tuple[Request, LossOrder]:
        """The head, with its tools in the prompt where it is in a dialect; `facts` are those of the last run
        that renders."""
        if not self._dialect:
            return self._head, self.order
        declared = Losses()
        head = self._dialect.add_tools(self._head, facts, declared)
        return head, (*self.order, declared, len(self.rendering) - 1)


class EventReader:
    """An upstream's bytes → neutral events, past all stages.

    States:  empty → framed | whole body | array → ended

    The first byte that is not white space decides: `{` begins a whole body, from a server that does not
    stream, and `[` an array of frames (Gemini without `alt=sse`; error lists of Google's Chat endpoint); no
    framing begins with these. Anything else is in the framing of the protocol. The last event is ResponseEnd
    or ResponseFailed; what comes after it is ignored.
    """

    def __init__(
        self,
        upstream: Protocol,
        stages: Sequence[EventStage],
        losses: Losses,
        record: list[Any] | None = None,
    ) -> None:
        self._upstream, self._losses, self._record = upstream, losses, record
        self._framing: Stage[bytes, Frame] | None = None
        self._decoder = upstream.codec.stream_decoder(losses)
        self._decode: Callable[[Frame], Iterable[Event]] = self._decoder.feed
        self._stages = Pipe(stages)
        self.ended = False  # the reply is over, well or not
        self.failure: Failure | None = None

    def feed(self, data: bytes) -> Sequence[Event]:
        if self.ended:
            return ()
        if self._framing is None:
            if not data.strip():
                return ()
            self._framing = self._choose_framing(data)
        out: list[Event] = []
        try:
            for frame in self._framing.feed(data):
                self._pass(self._decode(frame), out)
        except _BROKEN as error:
            self._pass((ResponseFailed(malformed(error)),), out)
        return out

    def close(self) -> Sequence[Event]:
        """No more bytes will come: a reply that has not ended has failed."""
        out: list[Event] = []
        try:
            for frame in self._framing.close() if self._framing and not self.ended else ():
                self._pass(self._decode(frame), out)
            self._pass(() if self.ended else self._decoder.close(), out)
        except _BROKEN:  # the frame in which the stream was cut
            self._pass((ResponseFailed(TRUNCATED),), out)
        return out

    def fail(self, failure: Failure) -> Sequence[Event]:
        """End the reply with `failure`."""
        out: list[Event] = []
        self._pass((ResponseFailed(failure),), out)
        return out

    def _choose_framing(self, data: bytes) -> Stage[bytes, Frame]:
        framing = decoder_for(self._upstream.framing, data)
        if data.lstrip()[:1] == b"{":
            self._decode, framing = self._decode_whole, _WholeBody()
        if self._record is not None:
            self._decode = _recording(self._decode, self._record)
        return framing

    def _decode_whole(self, frame: Frame) -> Iterable[Event]:
        self._decoder.close()
        codec = self._upstream.codec
        body = read_body(frame.data, codec.name)
        failure = codec.decode_error(body, 200)
        if failure:
            return (ResponseFailed(failure),)
        try:
            return unfold(codec.decode_response(body, self._losses))
        except UpstreamError as error:
            return (ResponseFailed(error.failure),)

    def _pass(self, events: Iterable[Event], out: list[Event]) -> None:
        through = self._stages.feed
        for event in events:
            if self.ended:
                return
            passed = through(event)
            if passed:
                out += passed
                last = passed[-1]
                if type(last) is ResponseEnd or type(last) is ResponseFailed:
                    self.ended = True
                    self.failure = last.failure if isinstance(last, ResponseFailed) else None


def decoder_for(framing: Framing, data: bytes) -> Stage[bytes, Frame]:
    """The decoder of a stream that begins with `data`.

    `[` begins an array of frames, whatever framing was asked for: Gemini without `alt=sse`, error lists of
    Google's Chat endpoint. No framing begins with it, nor with the `{` of a whole body.
    """
    return (JSON_ARRAY if data.lstrip()[:1] == b"[" else framing).decoder()


class TranslatedStream:
    """An upstream's bytes → events → the client's bytes."""

    def __init__(
        self,
        reader: EventReader,
        encoder: Stage[Event, Frame],
        framing: Framing,
        losses: Losses,
        strict: Strictness,
    ) -> None:
        self._reader, self._encoder, self._losses = reader, encoder, losses
        self._strict: Strictness = strict
        self._framing = framing.encoder()
        self._closed = False
        self.splice: DeltaSplice | None = None

    @property
    def ended(self) -> bool:
        """Whether the stream has announced its end, well or not."""
        return self._reader.ended

    @property
    def failure(self) -> Failure | None:
        return self._reader.failure

    def feed(self, data: bytes) -> bytes:
        if self.splice:
            return self.splice.feed(data)
        out = self._encode(self._reader.feed(data))
        if self._strict:
            self._losses.refuse(self._strict)
        return out[0] if len(out) == 1 else b"".join(out)

    def translate(self, data: bytes) -> tuple[Sequence[Event], list[bytes]]:
        events = self._reader.feed(data)
        return events, self._encode(events)

    def close(self) -> bytes:
        out = self.splice.finish() if self.splice else []
        out += self._encode(self._reader.close())
        if self._strict:
            self._losses.refuse(self._strict)
        return self._finish(out)

    def fail(self, failure: Failure) -> bytes:
        """End the stream with `failure`, in the client's protocol."""
        if self.splice:
            self.splice.catch_up()
        return self._finish(self._encode(self._reader.fail(failure)))

    def _encode(self, events: Iterable[Event]) -> list[bytes]:
        out: list[bytes] = []
        encode, to_bytes = self._encoder.feed, self._framing.feed
        for event in events:
            for frame in encode(event):
                out += to_bytes(frame)
        return out

    def _finish(self, out: list[bytes]) -> bytes:
        self.splice = None  # it refers to this stream, and a cycle would wait for the garbage collector
        if not self._closed:
            self._closed = True
            out += self._framing.close()
        return b"".join(out)


class JoinedStream:
    """The bytes of a client's stream whose reply takes several rounds: one encoder for all of them.

    `feed`, `close` and `fail` are for the bytes of one round. A failure does not pass: `end` tells it, once
    nobody tries the round again. What comes before the content of a later round is held, so that one that
    fails there leaves no trace, and may be tried again.
    """

    def __init__(self, client: Protocol, joiner: RoundJoiner, framing: Framing | None = None) -> None:
        self._client, self.joiner, self._framing = client, joiner, framing or client.framing
        self._reader: EventReader | None = None
        self._encoder: Stage[Event, Frame] | None = None
        self._printer: Stage[Frame, bytes] = self._framing.encoder()
        self._held: list[Event] | None = None

    def begin_round(self, reader: EventReader, request: Request | None, losses: Losses) -> None:
        """`request` is the client's, for replies that echo it."""
        self.joiner.begin_round()
        self._reader, self._held = reader, [] if self.joiner.is_begun else None
        if not self.joiner.is_begun:
            self._encoder = self._client.codec.stream_encoder(losses, request)
            self._printer = self._framing.encoder()

    @property
    def ended(self) -> bool:
        return self._reader is not None and self._reader.ended

    @property
    def failure(self) -> Failure | None:
        return self._reader.failure if self._reader else None

    def feed(self, data: bytes) -> bytes:
        return self._join(self._reader.feed(data)) if self._reader else b""

    def close(self) -> bytes:
        return self._join(self._reader.close()) if self._reader else b""

    def fail(self, failure: Failure) -> bytes:
        return self._join(self._reader.fail(failure)) if self._reader else b""

    def write(self, events: Iterable[Event]) -> bytes:
        """Events of no round, for the client."""
        encoder, printer = self._encoder, self._printer
        if encoder is None:
            return b""
        frames = [frame for event in events for frame in encoder.feed(event)]
        return b"".join([piece for frame in frames for piece in printer.feed(frame)])

    def end(self, last: ResponseEnd | ResponseFailed) -> bytes:
        return self.write((last,)) + b"".join(self._printer.close())

    def _join(self, events: Iterable[Event]) -> bytes:
        join = self.joiner.feed
        if self._held is not None:
            events = self._release([*self._held, *events])
        return self.write([joined for event in events for joined in join(event)])

    def _release(self, events: list[Event]) -> list[Event]:
        """Nothing, until it is known that the round has content, or how it ended."""
        kinds = {type(event) for event in events}
        if ResponseFailed in kinds:
            return [event for event in events if type(event) is ResponseFailed]
        begins = kinds & {PartDelta, PartEnd, ResponseEnd}
        self._held = None if begins else events
        return events if begins else []


def encode_failure(
    client: Codec,
    failure: Failure,
    first: bytes = b"",
    last: bytes = b"",
    framing: Framing | None = None,
    start: ResponseStart | None = None,
) -> bytes:
    """A stream that consists of `failure`, or its last event where `first` to `last` went out before it.
    `start` names the response, for a protocol whose failed reply is a response too."""
    to_bytes = (framing or find_protocol(client.name).framing).encoder()
    encoder = client.stream_encoder(Losses())
    begun = encoder.feed(start) if start and client.numbered else ()
    frames = [*begun, *encoder.feed(ResponseFailed(failure)), *encoder.close()]
    if first:
        frames = [client.continued(frames[-1], first, last)]
    return b"".join([*(piece for frame in frames for piece in to_bytes.feed(frame)), *to_bytes.close()])


class _WholeBody:
    """Bytes of one JSON body → one frame, at the end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, item: bytes, /) -> tuple[()]:
        self._pieces.append(item)
        return ()

    def close(self) -> tuple[Frame]:
        return (Frame("", b"".join(self._pieces)),)


def _recording(
    decode: Callable[[Frame], Iterable[Event]], record: list[Any]
) -> Callable[[Frame], Iterable[Event]]:
    def decode_and_record(frame: Frame) -> Iterable[Event]:
        record.append(frame.data)
        return decode(frame)

    return decode_and_record


TRUNCATED = Failure("truncated", "the upstream's stream ended before its end was announced", 502)


def malformed(error: Exception) -> Failure:
    return Failure("server", f"malformed upstream stream: {error}", 502)
