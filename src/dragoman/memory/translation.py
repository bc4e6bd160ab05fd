"""A request whose conversation is known: its folds go on from a checkpoint, its head is not printed again.

The result is that of `Pipeline.encode_request`, as text. Two rows of folds follow each other, because what
the second one writes depends on all names of the first. The tuple of all folds is the key of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from dragoman.core import jsontext
from dragoman.core.caches import with_encoded_tools
from dragoman.core.codec import Codec
from dragoman.core.errors import DragomanError
from dragoman.core.fold import (
    EncodedMessages,
    Fold,
    FoldRun,
    RequestShape,
    Restart,
    begin,
    end,
    feed,
    same_head,
)
from dragoman.core.jsontext import CUT, CUT_TEXT, TOO_DEEP
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.core.token_estimate import TallyRun
from dragoman.dialects.engine.dialect import RenderHistory
from dragoman.memory.checkpoints import Checkpoint
from dragoman.memory.conversation_memory import Found, Reading
from dragoman.pipeline import LossOrder, Pipeline, Prepared, Writing, collect, find_run
from dragoman.transforms.identify import IdentifyRun

Facts = tuple[Any, Any]

_POINT, _LOSS = 5_300, 100  # bytes of a checkpoint beside what it holds, and of a loss
_ID = 400  # bytes for each call of the conversation, in all states
_MOST_PREPARED, _MOST_FINISHED, _MOST_ALIASES = 8, 4, 64  # of one head and target


class TranslationTarget(Struct, frozen=True):
    """Where a request goes. `head` changes the decoded head (model, overrides), `wire` the other fields of
    the result; both depend on `key` alone."""

    key: Hashable
    head: Callable[[Request, Losses], Request]
    wire: Callable[[Wire, Losses], Wire]
    new_pipeline: Callable[[Losses], Pipeline]


class Echo(Struct, eq=False):
    """What a reply repeats of the head of its request, once somebody has printed it."""

    text: bytes = b""


class KnownRequest(Struct, frozen=True):
    """`body` is the text for the upstream, and `wire` its fields beside the messages. `sent` is the request
    that it says, `request` the client's, both without messages. `decoding` are losses of reading it; `source`
    is where losses are looked up."""

    body: bytes
    wire: Wire
    sent: Request
    request: Request
    source: Wire
    decoding: Losses
    losses: Losses
    pipeline: Pipeline
    echo: Echo


def translate(reading: Reading, client: Codec, target: TranslationTarget) -> KnownRequest | None:
    """None where all messages have to be looked at together. So has a broken body, for its first error."""
    if reading.takes_whole(target.key):
        return None
    try:
        try:
            return _translate(reading, client, target, holds=False)
        except Restart as restart:
            if not restart.holds:
                raise
            return _translate(reading, client, target, holds=True)
    except Restart:
        reading.note_whole(target.key)
        return None
    except (DragomanError, *TOO_DEEP):
        return None


def _translate(
    reading: Reading, client: Codec, target: TranslationTarget, holds: bool
) -> KnownRequest | None:
    losses = Losses()
    pipeline = target.new_pipeline(losses)
    memo = _decode_head(reading, client.conversation, target, pipeline)
    if not memo.folds:
        return None
    place = reading.place
    if holds:
        memo.has_held = True
    folds = memo.holding if holds else memo.folds
    found = reading.find(folds, place)
    if memo.has_held and not holds:
        held = reading.find(memo.holding, place)
        if held and held.point.count > (found.point.count if found else 0):
            folds, found = memo.holding, held
    translation = _Translation(reading, client, target, pipeline, losses, place)
    if not translation.prepare(memo, folds, found):
        return None
    if found and found.folds[len(folds) :] != translation.write_folds:
        # It was made for another target, or before a name was known: one for this very row, or none
        found = reading.find((*folds, *translation.write_folds), place)
        if not translation.prepare(memo, folds, found):
            return None
    return translation.write(found)


class _FinishedHead(Struct, frozen=True):
    """`front` and `back` are the text before and behind the messages; without `back` the messages are a
    string, which is in `front`."""

    head: Request
    wire: Wire
    order: LossOrder
    changing: Losses
    front: bytes
    back: bytes

    def around(self, known: bytes, new: bytes) -> bytes:
        """With the text of known entries, and that of an array with the new ones."""
        if not self.back:
            return self.front
        entries = memoryview(new)[1:-1]
        if not known:
            return b"".join((self.front if entries else self.front.removesuffix(b","), entries, self.back))
        return b"".join((self.front, known, b"," if entries else b"", entries, self.back))


class _PreparedMemo(Struct, eq=False):
    """`finished` depends on what the folds found. `aliases` are equal facts of other conversations, by id."""

    prepared: Prepared
    writing: Writing
    finished: tuple[tuple[Facts, _FinishedHead], ...] = ()
    aliases: dict[int, tuple[Any, _FinishedHead]] = {}


class _TargetMemo(Struct, eq=False):
    """What was made of a head for a target. `prepared` depends on the names that the conversation calls;
    `derived` is the same for the head as the messages changed it last. Without `folds` all messages have to
    be looked at together; `holding` are the same, which hold back what may still change."""

    request: Request
    decoding: Losses
    changing: Losses
    profile: ModelProfile | None = None
    folds: tuple[Fold, ...] = ()
    holding: tuple[Fold, ...] = ()
    prepared: dict[tuple[str, ...], _PreparedMemo] = {}
    derived: _TargetMemo | None = None
    has_held: bool = False
    echo: Echo = field(default_factory=Echo)


def _decode_head(
    reading: Reading, shape: RequestShape, target: TranslationTarget, pipeline: Pipeline
) -> _TargetMemo:
    known = reading.head
    memo: _TargetMemo | None = known.get(target.key) if known else None
    if memo is None:
        decoding, changing = Losses(), Losses()
        head = target.head(shape.decode_head(reading.fields, decoding), changing)
        memo = _with_folds(_TargetMemo(head, decoding, changing), shape, pipeline)
        if known:
            known.keep(target.key, memo, 4 * known.length + _POINT)
    pipeline.profile = memo.profile or pipeline.profile
    hoisted = reading.hoisted(shape.hoists) if shape.hoists else None
    if not hoisted:
        return memo
    decoding = Losses()
    decoding.extend(memo.decoding)
    head = shape.load(memo.request, hoisted, decoding)
    return _with_folds(_TargetMemo(head, decoding, memo.changing), shape, pipeline)


def _with_folds(memo: _TargetMemo, shape: RequestShape, pipeline: Pipeline) -> _TargetMemo:
    if pipeline.takes_messages_apart(memo.request):
        decode = shape.decode_messages(memo.request, False)
        memo.folds = (decode, *pipeline.prepare_folds(memo.request, whole=False))
        if shape.decode_holding:
            decode = shape.decode_holding(memo.request)
        memo.holding = (decode, *pipeline.prepare_folds(memo.request, whole=False, holds=True))
        memo.profile = pipeline.profile
    return memo


class _Translation:
    """One request on its way. `prepare` runs the first row of folds, `write` the second one."""

    def __init__(
        self,
        reading: Reading,
        client: Codec,
        target: TranslationTarget,
        pipeline: Pipeline,
        losses: Losses,
        place: int,
    ) -> None:
        self._reading, self._client, self._target, self._place = reading, client, target, place
        self._pipeline, self._losses = pipeline, losses

    def prepare(self, memo: _TargetMemo, folds: tuple[Fold, ...], found: Found | None) -> bool:
        """Find out what the second row is to be. False: all messages have to be looked at together."""
        reading, shape = self._reading, self._client.conversation
        self._start = start = found.point.count if found else 0
        self._wires = wires = reading.wires_from(start)
        cut = self._place - start
        self._keeps = cut > 0
        self._runs = runs = _begin(folds, found, 0)
        if cut > 0:
            self._first = feed(runs, wires[:cut])
            self._states, self._lost = [run.state() for run in runs], _count_losses(runs, 0)
            wires = wires[cut:]
        self._rest = end(runs, wires)
        decoder, added, request = runs[0], Losses(), memo.request
        if shape.finish_head is not same_head:
            request = shape.finish_head(request, decoder, added)
        if request is not memo.request:
            if not self._pipeline.takes_messages_apart(request):
                return False
            memo = _derive(memo, request)
        self._memo, self._folds, self._decoding = memo, folds, memo.decoding
        if decoder.losses.items or added.items:
            parts = memo.decoding, decoder.losses
            self._decoding = Losses()
            for each in (*(parts if shape.head_first else parts[::-1]), added):
                self._decoding.extend(each)
        identified = find_run(runs, IdentifyRun)
        self._made = made = _prepare_head(memo, identified, self._pipeline)
        self._pipeline.adopt(made.prepared, identified)
        self.write_folds = made.writing.folds
        return True

    def write(self, found: Found | None) -> KnownRequest:
        """Run the second row of folds, and put the whole body together."""
        runs = _begin(self.write_folds, found, len(self._folds))
        text = found.entry.text if found else b""
        if found and len(text) > found.point.written:
            text = text[: found.point.written]
        if self._keeps:
            entries = feed(runs, self._first)
            self._states += [run.state() for run in runs]
            self._lost |= _count_losses(runs, len(self._folds))
            if entries:
                new = jsontext.encode(entries)[1:-1]
                text = b"".join((text, b",", new)) if text else new
        rest = end(runs, self._rest)
        pipeline, losses, memo = self._pipeline, self._losses, self._memo
        pipeline.ledger.tally = find_run(runs, TallyRun)
        finished = self._finish(self._facts(runs))
        if memo.changing.items:
            losses.extend(memo.changing)
        collect(self._made.prepared.order, self._runs[1:], losses)
        collect(finished.order, runs, losses)
        if finished.changing.items:
            losses.extend(finished.changing)
        source, field = self._reading.fields, self._client.conversation.field
        if losses.items and any(loss.where.startswith(field) for loss in losses.items):
            source = {**source, field: self._source(finished.order)}
        if self._keeps:
            self._keep(runs, text, source, found)
        self._reading.succeed(memo.request.tools)
        return KnownRequest(
            finished.around(text, jsontext.encode(rest)),
            finished.wire,
            finished.head,
            memo.request,
            source,
            self._decoding,
            losses,
            pipeline,
            memo.echo,
        )

    def _keep(self, runs: list[FoldRun], text: bytes, source: Wire, found: Found | None) -> None:
        """A checkpoint for later requests."""
        lost = self._spelled([*self._runs, *runs], source, found)
        count = sum(map(len, lost.values()))
        size = _POINT + _ID * self._pipeline.ledger.calls + _LOSS * count + self._held
        if RenderHistory in map(type, self.write_folds):
            size += len(text)  # it holds the arguments of all calls
        point = Checkpoint(self._place, tuple(self._states), len(text), lost, size)
        self._reading.keep((*self._folds, *self.write_folds), text, point, found)

    def _source(self, order: LossOrder) -> list[Any]:
        """The messages, for the places of losses: of the known ones those to which the head refers."""
        entries, prefix = [*[None] * self._start, *self._wires], self._reading.prefix
        array = f"{self._client.conversation.field}["
        for losses in order:
            for loss in losses if isinstance(losses, Losses) else ():
                if prefix and loss.where.startswith(array):
                    place = int(loss.where[len(array) :].partition("]")[0])
                    if place < self._start:
                        entries[place] = prefix.wire(place)
        return entries

    @property
    def _held(self) -> int:
        """Bytes of what a state may hold: the last message, where that waits for the next."""
        prefix = self._reading.prefix
        ends = prefix.ends if prefix else ()
        return ends[-1] - (ends[-2] if len(ends) > 1 else 0) if ends else 0

    def _spelled(
        self, runs: Sequence[FoldRun], source: Wire, found: Found | None
    ) -> dict[tuple[int, int], tuple[Loss, ...]]:
        """The losses so far, as they are kept: with places as the client spells them, because later the
        source is not there. Those of the decoder are spelled so already."""
        kept = found.point.losses if found else {}
        if not self._lost:
            return kept
        kept = kept.copy()
        for (place, phase), count in self._lost.items():
            known = kept.get((place, phase), ())
            new = [*runs[place].phases[phase].items][len(known) : count]
            if place:
                new = [each for loss in new for each in self._client.spelling.spelled((loss,), source)]
            kept[place, phase] = (*known, *new)
        return kept

    def _facts(self, runs: Sequence[FoldRun]) -> Facts:
        """What the other fields need of the messages: of the last run that renders and the first that
        encodes."""
        first = len(self._made.writing.rendering)
        return runs[first - 1].facts(), runs[first].facts()

    def _finish(self, facts: Facts) -> _FinishedHead:
        aliases, found = self._made.aliases, facts[1]
        known = aliases.get(id(found))
        if known and known[0] is found and facts[0] is None:
            return known[1]
        finished = self._find_finished(facts) or self._finish_head(facts)
        if len(aliases) >= _MOST_ALIASES:
            aliases.clear()
        if facts[0] is None:
            aliases[id(found)] = found, finished
        return finished

    def _find_finished(self, facts: Facts) -> _FinishedHead | None:
        for before, finished in self._made.finished:
            if _is_same(before, facts):
                return finished
        return None

    def _finish_head(self, facts: Facts) -> _FinishedHead:
        writing, codec = self._made.writing, self._pipeline.plan.codec
        head, order = writing.declare(facts[0])
        before, after, changing = Losses(), Losses(), Losses()
        messages = EncodedMessages([CUT], facts[1], partial(_divide, before))
        wire = codec.conversation.encode_around(head, messages, after, self._pipeline.profile or UNKNOWN)
        wire = self._target.wire(wire, changing)
        printed = jsontext.encode(with_encoded_tools(wire, self._memo.request.tools))
        front, _, back = printed.partition(CUT_TEXT)
        encoders = range(len(writing.rendering), len(writing.folds))
        order = _without_empty((*order, before, *encoders, after))
        finished = _FinishedHead(head, wire, order, changing, front, back)
        self._made.finished = ((facts, finished), *self._made.finished[: _MOST_FINISHED - 1])
        return finished


def _divide(before: Losses, losses: Losses) -> None:
    """What was reported so far comes before the losses of the messages."""
    before.extend(losses)
    losses.items.clear()


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with the places that their losses name."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Struct):
        one, other = astuple(one), astuple(other)
    if not isinstance(one, tuple):
        return one == other
    if len(one) != len(other):  # pyright: ignore[reportUnknownArgumentType] - of anything
        return False
    return all(map(_is_same, one, other))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _without_empty(order: LossOrder) -> LossOrder:
    return tuple([each for each in order if isinstance(each, int) or each.items])


def _derive(memo: _TargetMemo, request: Request) -> _TargetMemo:
    """The memo of a head that the messages changed; the same for the same tools."""
    known = memo.derived
    if known and known.request.tools is request.tools and known.request.edits == request.edits:
        return known
    memo.derived = derived = replace(memo, request=request, prepared={}, derived=None, echo=Echo())
    return derived


def _prepare_head(memo: _TargetMemo, identified: IdentifyRun, pipeline: Pipeline) -> _PreparedMemo:
    key = tuple(identified.used)
    made = memo.prepared.get(key)
    if made is None:
        prepared = pipeline.prepare(memo.request, identified.used, len(memo.folds) - 1)
        made = _PreparedMemo(prepared, Writing(pipeline.plan, prepared, pipeline.profile or UNKNOWN))
        if len(memo.prepared) >= _MOST_PREPARED:
            memo.prepared.clear()
        memo.prepared[key] = made
    return made


def _begin(folds: tuple[Fold, ...], found: Found | None, first: int) -> list[FoldRun]:
    """Some of the folds of a checkpoint, from the one at `first` on, with what was lost before."""
    if found is None:
        return begin(folds)
    states, lost = found.point.states, found.point.losses
    runs = [fold.begin(states[place]) for place, fold in enumerate(folds, first)]
    for (place, phase), known in lost.items():
        if first <= place < first + len(folds):
            runs[place - first].phases[phase].extend(known)
    return runs


def _count_losses(runs: Sequence[FoldRun], first: int) -> dict[tuple[int, int], int]:
    """How many there are, by fold and phase; `first` is the place of the first fold."""
    counts: dict[tuple[int, int], int] = {}
    for place, run in enumerate(runs, first):
        if run.losses.items or run.more:
            for number, phase in enumerate(run.phases):
                if phase.items:
                    counts[place, number] = len(phase.items)
    return counts
