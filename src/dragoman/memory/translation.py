"""A request whose conversation is known: its folds go on from a checkpoint, its head is not printed again.

The result is that of `Pipeline.encode_request`, as text. Two rows of folds follow each other, because what
the second one writes depends on all names of the first. The tuple of all folds is the key of a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import with_encoded_tools
from dragoman.core.codec import Codec
from dragoman.core.fold import Fold, FoldRun, Restart, Row
from dragoman.core.jsontext import CUT, CUT_TEXT
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.token_estimate import TallyRun
from dragoman.dialects.engine.dialect import RenderHistory
from dragoman.memory.checkpoints import Checkpoint
from dragoman.memory.conversation_memory import Found, Reading
from dragoman.pipeline import LossOrder, Pipeline, Prepared, Writing, collect, find_run
from dragoman.transforms.identify import IdentifyRun

_POINT, _LOSS = 4_500, 100  # bytes of a checkpoint beside what it holds, and of a loss
_ID = 400  # bytes for each call of the conversation, in all states
_MOST_PREPARED, _MOST_FINISHED = 8, 4  # of one head and target


class TranslationTarget(Struct, frozen=True):
    """Where a request goes. `head` changes the decoded head (model, overrides), `wire` the other fields of
    the result; both depend on `key` alone."""

    key: Hashable
    head: Callable[[Request, Losses], Request]
    wire: Callable[[Wire, Losses], Wire]
    new_pipeline: Callable[[Losses], Pipeline]


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


def translate(reading: Reading, client: Codec, target: TranslationTarget) -> KnownRequest | None:
    """None where all messages have to be looked at together."""
    folds: tuple[Fold, ...] = ()
    try:
        while True:
            attempt = _Attempt(reading, client, target)
            if not attempt.takes_messages_apart:
                return None
            found = reading.find(folds or attempt.prepare_folds)
            if not attempt.prepare(found):
                return None
            if found is None or found.folds[len(attempt.prepare_folds) :] == attempt.write_folds:
                return attempt.write(found)
            # It was made for another target, or before a name was known: one for this very row, or none
            folds = (*attempt.prepare_folds, *attempt.write_folds)
    except Restart:
        return None


class Print(Fold, frozen=True):
    def begin(self, state: Any = None) -> FoldRun:
        return _Printer()


class _Printer(FoldRun):
    def feed(self, items: Sequence[Any], /) -> list[bytes]:
        return [jsontext.encode(item) for item in items]


_PRINT = Print()


class _FinishedHead(Struct, frozen=True):
    """`front` and `back` are the text before and behind the messages."""

    head: Request
    wire: Wire
    order: LossOrder
    changing: Losses
    front: bytes
    back: bytes

    def around(self, entries: list[bytes]) -> bytes:
        if not self.back:
            return self.front  # the messages are a string
        if not entries:
            return self.front.removesuffix(b",") + self.back
        pieces = [self.front]
        for entry in entries:
            pieces += entry, b","
        pieces[-1] = self.back
        return b"".join(pieces)


class _PreparedMemo(Struct, eq=False):
    """`finished` depends on what the folds found."""

    prepared: Prepared
    writing: Writing
    folds: tuple[Fold, ...]
    finished: tuple[tuple[list[Any], _FinishedHead], ...] = ()


class _TargetMemo(Struct, eq=False):
    """What was made of a head for a target. `prepared` depends on the names that the conversation calls."""

    request: Request
    decoding: Losses
    changing: Losses
    profile: ModelProfile | None = None
    folds: tuple[Fold, ...] = ()
    prepared: dict[tuple[str, ...], _PreparedMemo] = {}


class _Attempt:
    def __init__(self, reading: Reading, client: Codec, target: TranslationTarget) -> None:
        self._reading, self._client, self._target = reading, client, target
        self._conversation = client.conversation
        self._losses, self._decoding = Losses(), Losses()
        self._pipeline = target.new_pipeline(self._losses)
        self._memo = memo = self._decode_head()
        self._request = memo.request
        self.takes_messages_apart = self._pipeline.takes_messages_apart(memo.request)
        if memo.folds:
            self._pipeline.profile = memo.profile
        elif self.takes_messages_apart:
            decode = self._conversation.decode_messages(memo.request, False)
            memo.folds = (decode, *self._pipeline.prepare_folds(memo.request, whole=False))
            memo.profile = self._pipeline.profile
        self.prepare_folds = memo.folds
        self.write_folds: tuple[Fold, ...] = ()
        self._first: Sequence[Any] = ()
        self._states: tuple[Any, ...] = ()
        self._counts: tuple[int, ...] = ()

    def _decode_head(self) -> _TargetMemo:
        known, conversation, target = self._reading.head, self._conversation, self._target
        memo: _TargetMemo | None = known.get(target.key) if known else None
        if memo is None:
            decoding, changing = Losses(), Losses()
            head = target.head(conversation.decode_head(self._reading.fields, decoding), changing)
            memo = _TargetMemo(head, decoding, changing)
            if known:
                known.keep(target.key, memo, 3 * known.length + _POINT)
        if changing := memo.changing.items:
            self._losses.extend(changing)
        hoisted = self._reading.hoisted(conversation.hoists) if conversation.hoists else ()
        if not hoisted:
            return memo
        decoding = Losses()
        decoding.extend(memo.decoding)
        return _TargetMemo(conversation.load(memo.request, [*hoisted], decoding), decoding, memo.changing)

    def prepare(self, found: Found | None) -> bool:
        """Run the first row of folds, and find out what the second is to be. False: all messages have to be
        looked at together."""
        reading, conversation = self._reading, self._conversation
        self._start = found.point.count if found else 0
        self._wires = wires = reading.wires_from(self._start)
        cut = reading.place - self._start
        self._keeps = cut > 0
        self._row = row = _resumed(self.prepare_folds, found, 0)
        if self._keeps:
            self._first = row.feed(wires[:cut])
            self._states, self._counts = row.states(), _counts(row.runs)
            wires = wires[cut:]
        self._rest = [*row.feed(wires), *row.close()]
        decoder, added = row.runs[0], Losses()
        self._request = conversation.finish_head(self._memo.request, decoder.facts(), added)
        if self._request is not self._memo.request:
            if not self._pipeline.takes_messages_apart(self._request):
                return False
            self._memo = replace(self._memo, request=self._request, prepared={})
        parts = [decoder.losses, self._memo.decoding]
        for each in (*(parts[::-1] if conversation.head_first else parts), added):
            if each.items:
                self._decoding.extend(each)
        self._made = self._prepare_head()
        self._pipeline.adopt(self._made.prepared, row.runs)
        self.write_folds = self._made.folds
        return True

    def _prepare_head(self) -> _PreparedMemo:
        used, memo = find_run(self._row.runs, IdentifyRun).used, self._memo
        key = tuple(used)
        made = memo.prepared.get(key)
        if made is None:
            prepared = self._pipeline.prepare(self._request, used, len(self.prepare_folds) - 1)
            writing = self._pipeline.write(prepared)
            made = _PreparedMemo(prepared, writing, (*writing.folds, _PRINT))
            if len(memo.prepared) >= _MOST_PREPARED:
                memo.prepared.clear()
            memo.prepared[key] = made
        return made

    def write(self, found: Found | None) -> KnownRequest:
        """Run the second row of folds, and put the whole body together."""
        row = _resumed(self.write_folds, found, len(self.prepare_folds))
        pieces = [found.entry.text[: found.point.written]] if found and found.point.written else []
        states, counts = self._states, self._counts
        if self._keeps:
            pieces += row.feed(self._first)
            pieces = [b",".join(pieces)] if pieces else []
            states, counts = (*states, *row.states()), (*counts, *_counts(row.runs))
        text = pieces[0] if pieces else b""
        pieces += row.feed(self._rest)
        pieces += row.close()
        self._pipeline.ledger.tally = find_run(row.runs, TallyRun)
        finished, losses = self._finish([run.facts() for run in row.runs[:-1]]), self._losses
        collect(self._made.prepared.order, self._row.runs[1:], losses)
        collect(finished.order, row.runs, losses)
        if finished.changing.items:
            losses.extend(finished.changing)
        source = self._reading.fields
        if losses.items:
            source = {**source, self._conversation.field: self._source(finished.order)}
        if self._keeps:
            lost = self._spelled((*self._row.runs, *row.runs), counts, source, found)
            size = _POINT + _ID * self._pipeline.ledger.calls + _LOSS * sum(map(len, lost)) + self._held
            if any(type(fold) is RenderHistory for fold in self.write_folds):
                size += len(text)  # it holds the arguments of all calls
            point = Checkpoint(self._reading.place, states, len(text), lost, size)
            self._reading.keep((*self.prepare_folds, *self.write_folds), text, point, found)
        self._reading.succeed(self._request.tools)
        return KnownRequest(
            finished.around(pieces),
            finished.wire,
            finished.head,
            self._request,
            source,
            self._decoding,
            losses,
            self._pipeline,
        )

    def _source(self, order: LossOrder) -> list[Any]:
        """The messages, for the places of losses: of the known ones those to which the head refers."""
        entries = [*[None] * self._start, *self._wires]
        for losses in order:
            for loss in losses if isinstance(losses, Losses) else ():
                place = re.match(rf"{self._conversation.field}\[(\d+)\]", loss.where)
                if place and int(place[1]) < self._start and self._reading.prefix:
                    entries[int(place[1])] = self._reading.prefix.wire(int(place[1]))
        return entries

    @property
    def _held(self) -> int:
        """Bytes of what a state may hold: the last message, where that waits for the next."""
        prefix = self._reading.prefix
        ends = prefix.ends if prefix else ()
        return ends[-1] - (ends[-2] if len(ends) > 1 else 0) if ends else 0

    def _spelled(
        self, runs: Sequence[FoldRun], counts: Sequence[int], source: Wire, found: Found | None
    ) -> tuple[tuple[Loss, ...], ...]:
        """The losses so far, by phase, as they are kept: with places as the client spells them, because later
        the source is not there. Those of the decoder are spelled so already."""
        phases = [phase for run in runs for phase in run.phases]
        before: Sequence[tuple[Loss, ...]] = found.point.losses if found else ((),) * len(phases)
        kept: list[tuple[Loss, ...]] = []
        for place, (phase, count) in enumerate(zip(phases, counts, strict=True)):
            known = before[place]
            new: Iterable[Loss] = [*phase.items][len(known) : count] if count > len(known) else ()
            if new and place >= len(runs[0].phases):
                new = [each for loss in new for each in self._client.spelling.spelled((loss,), source)]
            kept.append((*known, *new) if new else known)
        return tuple(kept)

    def _finish(self, facts: list[Any]) -> _FinishedHead:
        for before, finished in self._made.finished:
            if before == facts:
                return finished
        done, changing = self._made.writing.finish([CUT], facts), Losses()
        wire = self._target.wire(done.wire, changing)
        printed = jsontext.encode(with_encoded_tools(wire, self._request.tools))
        front, _, back = printed.partition(CUT_TEXT)
        finished = _FinishedHead(done.head, wire, done.order, changing, front, back)
        self._made.finished = ((facts, finished), *self._made.finished[: _MOST_FINISHED - 1])
        return finished


def _resumed(folds: tuple[Fold, ...], found: Found | None, first: int) -> Row:
    """Some of the folds of a checkpoint, from the one at `first` on, with what was lost before."""
    if found is None:
        return Row(folds)
    row = Row(folds, found.point.states[first : first + len(folds)])
    lost = found.point.losses
    if any(lost):
        skipped = len(lost) - sum([len(run.phases) for run in row.runs]) if first else 0
        for run in row.runs:
            for phase in run.phases:
                phase.extend(lost[skipped])
                skipped += 1
    return row


def _counts(runs: Sequence[FoldRun]) -> tuple[int, ...]:
    return tuple([len(phase.items) for run in runs for phase in run.phases])
