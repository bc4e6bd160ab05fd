"""Items of a streamed response, calls above all, while they arrive.

The same text is sent in deltas, in a `.done` event, in the finished item and in the final response, and
servers leave some of them out (G05: litellm#25321, vllm#44348). States of a part:

    unnamed  --name, with the item--> pending     a call whose item was not announced; its pieces are stored
    pending  --first text, or finish--> open      emits PartStart, then PartDelta for each piece
    open     --.done or finished item--> closed   emits what the deltas left out, citations and state, PartEnd
    open     --finished item with broken JSON--> doubtful
    doubtful --end of the response--> closed      complete or cut, as the response was
    open     --end of the response--> closed      nobody closed it: a call with whole JSON counts as complete
    unnamed  --end of the response--> dropped     reported
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, emptied, spelled
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Citation, Reasoning, Refusal, Stop, Text, ToolCall, Wire
from dragoman.protocols.openai_responses.response import is_cut
from dragoman.protocols.openai_responses.wire import ITEM, PROTOCOL_NAME


class StreamedPart:
    """`index` is -1 until the part is open; `part` is None until its name is known."""

    __slots__ = ("cited", "closed", "index", "part", "pieces")

    def __init__(self, part: AnyPart | None) -> None:
        self.index, self.part = -1, part
        self.pieces: list[str] = []
        self.cited = 0
        self.closed = False


class StreamedItem:
    """`section`: the section of the reasoning text that came last; `matched`: found in the final response."""

    __slots__ = ("at", "done", "kind", "matched", "parts", "section", "wire")

    def __init__(self, kind: str, at: int, wire: Wire) -> None:
        self.kind, self.at, self.wire = kind, at, wire
        self.parts: dict[int, StreamedPart] = {}
        self.section: object = None
        self.done = self.matched = False


class ItemAssembly:
    """Numbers the neutral parts and makes the events that start, fill and end them."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._count = 0
        self._doubtful: list[StreamedPart] = []
        self.called = False

    def start(self, growing: StreamedPart, part: AnyPart) -> list[Event]:
        growing.part, growing.index = part, self._count
        self._count += 1
        return [PartStart(growing.index, part)]

    def say(self, growing: StreamedPart, text: str) -> list[Event]:
        """Add `text`. A part opens with its first text; a call without a name only stores it."""
        if growing.closed:
            raise WireError(PROTOCOL_NAME, "delta", "for a part that is done")
        if not text:
            return []
        growing.pieces.append(text)
        if growing.part is None:
            return []
        begun = [] if growing.index >= 0 else self.start(growing, growing.part)
        return [*begun, PartDelta(growing.index, text)]

    def cite(self, growing: StreamedPart, citation: Citation) -> list[Event]:
        if growing.closed:
            self._losses.dropped(citation.where, "It came after the end of its text.", "citation")
            return []
        begun = self.start(growing, growing.part) if growing.index < 0 and growing.part else []
        growing.cited += 1
        return [*begun, PartDelta(growing.index, citation=citation)]

    def catch_up(self, growing: StreamedPart, text: str) -> list[Event]:
        """`text` is the whole text of the part: emit what the deltas left out of it."""
        sent = "".join(growing.pieces)
        growing.pieces = [sent]
        if not text or sent == text:
            return []
        if text.startswith(sent):
            return self.say(growing, text[len(sent) :])
        if not (isinstance(growing.part, ToolCall) and _same_json(sent, text)):
            where = growing.part.where if growing.part else "output"
            self._losses.changed(
                where,
                "The finished item differs from the stream. The stream counts.",
                "stream.mismatch",
            )
        return []

    def finish(self, growing: StreamedPart, part: AnyPart) -> list[Event]:
        """`part` is the finished one: emit the rest of it, and its end."""
        if growing.closed:
            return []
        events: list[Event] = []
        if growing.part is None:
            growing.part = emptied(part)
            if growing.pieces:
                part = _spelling(part, spelled(part) or "".join(growing.pieces))
                growing.pieces = []
        if growing.index < 0 and _has_content(part):
            events += self.start(growing, growing.part)
        events += self.catch_up(growing, spelled(part))
        citations = part.citations[growing.cited :] if isinstance(part, Text) else ()
        events += [PartDelta(growing.index, citation=citation) for citation in citations]
        if part.state:
            events.append(PartDelta(growing.index, state=part.state))
        return [*events, *self._end(growing, part)]

    def _end(self, growing: StreamedPart, part: AnyPart) -> list[Event]:
        """A call with broken arguments stays open: the end of the response decides whether it was cut."""
        growing.closed = True
        if growing.index < 0:
            return []
        if not isinstance(part, ToolCall):
            return [PartEnd(growing.index)]
        if part.complete and part.kind == "function" and not jsontext.is_complete("".join(growing.pieces)):
            self._doubtful.append(growing)
            return []
        self.called |= part.complete
        return [PartEnd(growing.index, part.complete)]

    def settle(self, stop: Stop) -> list[Event]:
        """End the doubtful calls: the stop reason of the response is known."""
        return [self._judge(growing, cut=is_cut(_filled(growing), stop)) for growing in self._doubtful]

    def abandon(self, growing: StreamedPart, stop: Stop) -> list[Event]:
        """End a part that was never closed: the response has ended."""
        if growing.closed:
            return []
        growing.closed = True
        if growing.index >= 0:
            custom = (
                isinstance(growing.part, ToolCall) and growing.part.kind == "custom" and stop.reason != "end"
            )
            return [self._judge(growing, cut=custom or is_cut(_filled(growing), _UNKNOWN_STOP))]
        if growing.part is None:
            self._losses.dropped("tool call", "It never got a name.", "call.name")
        return []

    def _judge(self, growing: StreamedPart, cut: bool) -> Event:
        self.called |= isinstance(growing.part, ToolCall) and not cut
        return PartEnd(growing.index, complete=not cut)


def begun(wire: Wire) -> Wire:
    """An announced item in the form that it will have when it is done, as far as known."""
    done = {key: value for key, value in wire.items() if key not in ("arguments", "input")}
    if wire.get("type") == "custom_tool_call":
        done["input"] = ""
    if wire.get("status") == "in_progress":
        done["status"] = "completed"
    return done


def blank(kind: str, wire: Wire, item: StreamedItem, place: int) -> Text | Refusal:
    """A part of a message before its text; `wire`: how it was announced, if it was."""
    defaults: Wire = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    announced = {"type": kind, **defaults, **wire}
    rest = {key: value for key, value in announced.items() if key not in ("text", "refusal")}
    if "annotations" in rest:
        rest["annotations"] = []
    envelope = {key: value for key, value in begun(item.wire).items() if key != "content"}
    extras = {PROTOCOL_NAME: rest, ITEM: {"at": item.at, "message": envelope}}
    where = f"output[{item.at}].content[{place}]"
    return (
        Refusal(where=where, extras=extras) if rest["type"] == "refusal" else Text(where=where, extras=extras)
    )


_UNKNOWN_STOP = Stop("other")


def _filled(growing: StreamedPart) -> AnyPart | None:
    text = "".join(growing.pieces)
    return replace(growing.part, arguments=text) if isinstance(growing.part, ToolCall) else growing.part


def _has_content(part: AnyPart) -> bool:
    """Empty texts and empty reasoning get no events."""
    if isinstance(part, Text):
        return bool(part.text or part.citations)
    if isinstance(part, Refusal):
        return bool(part.text)
    return not isinstance(part, Reasoning) or bool(part.text or part.state)


def _spelling(part: AnyPart, text: str) -> AnyPart:
    return replace(part, arguments=text) if isinstance(part, ToolCall) else part


def _same_json(first: str, second: str) -> bool:
    try:
        return jsontext.decode(first) == jsontext.decode(second)
    except ValueError:
        return False
