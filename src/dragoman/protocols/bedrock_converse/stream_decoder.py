"""Events of ConverseStream -> neutral events.

    waiting   --messageStart, or any other event--> open           (ResponseStart)
    open      --contentBlockStart / Delta / Stop--> open
    open      --messageStop--> stopped
    stopped   --metadata, end of input--> ended                    (ResponseEnd)
    waiting, open --end of input--> ended                          (ResponseFailed)
    waiting, open, stopped --an exception--> ended                 (ResponseFailed)

Only calls, results and images have a contentBlockStart: a text or a thought begins with its first delta. Two
kinds of parts are *unsettled* at their contentBlockStop, and end with the next block or the stop reason: a
call whose JSON is not complete, which was cut if the reply was, and a text, because Nova tells its sources in
a block of their own behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core import jsontext
from dragoman.core.codec import Frame, read_frame
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.failures import truncated
from dragoman.core.fields import Fields, UnknownFields, describe, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Base64, Failure, Media, Reasoning, Stop, Text, ToolCall, Usage, Wire
from dragoman.protocols.bedrock_converse.errors import decode_exception
from dragoman.protocols.bedrock_converse.parts import decode_citation, skip_kind, state_of
from dragoman.protocols.bedrock_converse.response import CUT, decode_stop, decode_usage
from dragoman.protocols.bedrock_converse.wire import NO_EXTRAS, PROTOCOL_NAME, QUIET_REPLY

_EVENT = word_set("contentBlockIndex start delta p role")  # `p` is padding
_KINDS = word_set("text toolUse toolResult reasoningContent citation image")
_INSIDE = {  # a delta -> what is read in it
    "toolUse": word_set("input"),
    "reasoningContent": word_set("text signature redactedContent"),
}


class _StartedBlock:
    """`part` is None while nothing of it can be passed on."""

    __slots__ = ("data", "format", "json", "part")

    def __init__(self, part: AnyPart | None = None) -> None:
        self.part = part
        self.json: list[str] = []
        self.format, self.data = "", ""  # of an image


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._begun = self._ended = self._called = False
        self._open: dict[int, _StartedBlock] = {}
        self._unsettled: int | None = None  # a part whose block ended, but which has not
        self._is_text = False  # whether that is one
        self._report = UnknownFields(PROTOCOL_NAME, losses)
        self._stop: Stop | None = None
        self._extras: Wire = {}

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended:
            return ()
        body = read_frame(frame, PROTOCOL_NAME)
        if failure := decode_exception(frame.event, body):
            return self._fail(failure)
        begun = () if self._begun else (ResponseStart("", ""),)
        self._begun = True
        return (*begun, *self._step(frame.event, body))

    def close(self) -> Iterable[Event]:
        if self._ended:
            return ()
        if self._stop:
            return self._finish({})  # the reply is whole, only its usage is missing
        begun = () if self._begun else (ResponseStart("", ""),)
        return (*begun, *self._fail(truncated("messageStop")))

    def _step(self, event: str, body: Wire) -> Iterable[Event]:
        match event:
            case "messageStart":
                self._report(body, _EVENT, "")
                return ()
            case "contentBlockStart":
                return self._start_block(body)
            case "contentBlockDelta":
                return self._fill_block(body)
            case "contentBlockStop":
                return self._close_block(_index(body))
            case "messageStop":
                return self._take_stop(body)
            case "metadata":
                return self._finish(body)
            case _:
                self._losses.dropped(
                    event or "event", f"Only {PROTOCOL_NAME} has this event.", "event.unknown"
                )
                return ()

    def _start_block(self, body: Wire) -> Iterable[Event]:
        index, start = _index(body), body.get("start")
        self._report(body, _EVENT, "")
        if is_object(start):
            self._report(start, _KINDS, "start.")
        events = self._settle(complete=True)
        match start:
            case {"toolUse": {"type": "server_tool_use"}} | {"toolResult": _}:
                self._losses.dropped(
                    f"block {index}", f"{PROTOCOL_NAME} ran this call itself.", "part.unknown"
                )
                self._open[index] = _StartedBlock()
            case {"toolUse": given}:
                fields = Fields(given, f"content[{index}].toolUse", PROTOCOL_NAME)
                skip_kind(fields)
                id, name = fields.need("toolUseId", str), fields.need("name", str)
                call = ToolCall(id, name, where=f"content[{index}]", extras=fields.extras(self._losses))
                self._open[index], self._called = _StartedBlock(call), True
                return (*events, PartStart(index, call))
            case {"image": given}:
                self._open[index] = block = _StartedBlock()
                block.format = Fields(given, f"content[{index}].image", PROTOCOL_NAME).text("format")
            case _:  # a newer kind, or a text: its deltas tell
                self._open[index] = _StartedBlock()
        return events

    def _fill_block(self, body: Wire) -> Iterable[Event]:
        index, delta = _index(body), body.get("delta")
        if not is_object(delta):
            raise WireError(PROTOCOL_NAME, "delta", f"expected an object, got {describe(delta)}")
        self._report_delta(body, delta)
        events: list[Event] = []
        block = self._open.get(index)
        if block is None:
            events += [] if self._is_text and "citation" in delta else self._settle(complete=True)
            block = self._open[index] = _StartedBlock()
        where = f"content[{index}]"
        match delta:
            case {"text": str(text)}:
                return [*events, *self._announce(index, block, Text, where), *_filled(index, text)]
            case {"toolUse": {"input": str(text)}}:
                if isinstance(block.part, ToolCall):
                    block.json.append(text)
                    return [*events, *_filled(index, text)]
                return events  # of a call that Bedrock runs
            case {"reasoningContent": given}:
                return [*events, *self._think(index, block, Fields(given, where, PROTOCOL_NAME))]
            case {"citation": given}:
                citation = decode_citation(given, f"{where}.citations", self._losses)
                if block.part is None and self._unsettled is not None:
                    return [PartDelta(self._unsettled, citation=citation)]
                begun = self._announce(index, block, Text, where)
                return [*events, *begun, PartDelta(index, citation=citation)]
            case {"image": {"source": {"bytes": str(data)}}}:
                block.data += data
                return events
            case _:
                kind = next(iter(delta), "{}")
                self._losses.dropped(
                    f"{where}.{kind}", f"Only {PROTOCOL_NAME} has this delta.", "event.unknown"
                )
                return events

    def _report_delta(self, body: Wire, delta: Wire) -> None:
        self._report(body, _EVENT, "")
        if len(delta) > 1:
            self._report(delta, _KINDS, "delta.")
        for kind, known in _INSIDE.items():
            if is_object(inner := delta.get(kind)):
                self._report(inner, known, f"delta.{kind}.")

    def _announce(
        self, index: int, block: _StartedBlock, kind: type[Text | Reasoning], where: str
    ) -> list[Event]:
        if block.part is not None:
            return []
        block.part = kind(where=where, extras=NO_EXTRAS)
        return [*self._settle(complete=True), PartStart(index, block.part)]

    def _think(self, index: int, block: _StartedBlock, fields: Fields) -> list[Event]:
        """The signature is a delta of its own, behind the text."""
        if (hidden := fields.take("redactedContent", str)) is not None:
            begun: list[Event] = []
            if block.part is None:
                block.part = Reasoning(hidden=True, where=fields.where, extras=NO_EXTRAS)
                begun = [PartStart(index, block.part)]
            return [*begun, PartDelta(index, state=state_of(hidden))]
        events = self._announce(index, block, Reasoning, fields.where)
        events += _filled(index, fields.text("text"))
        if signature := fields.nonempty("signature"):
            events.append(PartDelta(index, state=state_of(signature)))
        return events

    def _close_block(self, index: int) -> Iterable[Event]:
        block = self._open.pop(index, None)
        if block is None:
            return ()  # a block without content
        if block.data:
            media = Media("image", f"image/{block.format}", Base64(block.data), where=f"content[{index}]")
            return (PartStart(index, media), PartEnd(index))
        if isinstance(block.part, ToolCall):
            text = "".join(block.json)
            if text not in ("", "{}") and jsontext.is_complete(text):
                return (PartEnd(index),)
        if isinstance(block.part, ToolCall | Text):
            self._unsettled, self._is_text = index, isinstance(block.part, Text)
            return ()
        return (PartEnd(index),) if block.part is not None else ()

    def _settle(self, complete: bool) -> list[Event]:
        index, is_text = self._unsettled, self._is_text
        self._unsettled, self._is_text = None, False
        return [] if index is None else [PartEnd(index, complete or is_text)]

    def _take_stop(self, body: Wire) -> Iterable[Event]:
        fields = Fields(body, "", PROTOCOL_NAME)
        self._stop = stop = decode_stop(fields.text("stopReason"), self._called, "stopReason", self._losses)
        self._extras |= fields.extras(self._losses, quiet=QUIET_REPLY)[PROTOCOL_NAME]
        return self._settle(complete=stop.reason not in CUT)

    def _finish(self, body: Wire) -> Iterable[Event]:
        self._ended = True
        events = [*self._settle(complete=True), *self._left_open()]
        fields = Fields(body, "", PROTOCOL_NAME)
        usage: Usage | None = None
        if counts := fields.fields("usage"):
            usage = decode_usage(counts, self._losses)
            self._extras["usage"] = body["usage"]
        self._extras |= fields.extras(self._losses, quiet=QUIET_REPLY)[PROTOCOL_NAME]
        stop = self._stop or Stop("tool_calls" if self._called else "end")
        return (*events, ResponseEnd(stop, usage, {PROTOCOL_NAME: self._extras} if self._extras else None))

    def _fail(self, failure: Failure) -> Iterable[Event]:
        self._ended = True
        return (*self._settle(complete=False), *self._left_open(), ResponseFailed(failure))

    def _left_open(self) -> list[Event]:
        """Ends of the blocks that were not closed; a call is complete where its JSON is."""
        return [
            PartEnd(index, not isinstance(block.part, ToolCall) or jsontext.is_complete("".join(block.json)))
            for index, block in self._open.items()
            if block.part is not None
        ]


def is_end(frame: Frame) -> bool:
    """Whether a frame ends the stream: the metadata behind the stop, or an exception."""
    return frame.event in ("metadata", "error") or frame.event.endswith("Exception")


def _filled(index: int, text: str) -> list[Event]:
    return [PartDelta(index, text)] if text else []


def _index(body: Wire) -> int:
    index = body.get("contentBlockIndex")
    if type(index) is not int or index < 0:
        raise WireError(PROTOCOL_NAME, "contentBlockIndex", f"expected a whole number, got {describe(index)}")
    return index
