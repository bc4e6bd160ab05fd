"""Stream chunks -> neutral events.

A chunk is a small response. Text parts continue the previous one of their kind, calls arrive whole or value
by value, and nothing marks where a part ends. Some servers repeat the finish reason in every chunk, so only
the end of input is the end.

States of the stream:

    waiting --chunk--> open                       ResponseStart
    open    --chunk with parts--> open            events of the parts; a chunk without candidates: KeepAlive
    waiting, open --chunk with an error--> ended  ResponseFailed
    open    --end of input after a finishReason or blockReason--> ended   ResponseEnd
    waiting, open --end of input without one--> ended                     ResponseFailed (truncated)

States of a part (`Assembly`):

    none    --text or thought--> text             PartStart, PartDelta
    text    --text of the same kind--> text       PartDelta
    none    --functionCall with willContinue--> growing   PartStart; `partialArgs` are collected
    growing --functionCall without willContinue--> none   PartDelta with all arguments, PartEnd
    none    --any other part, or a signed one--> none     PartStart, PartDelta, PartEnd
    text    --another part or the end--> none     citations of the text, PartEnd
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    emptied,
    spelled,
)
from dragoman.core.failures import truncated
from dragoman.core.fields import describe, rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Stop, Text, ToolCall, ToolResult, Wire
from dragoman.core.seal import unseal_state
from dragoman.protocols.gemini.hosted import decode_grounding
from dragoman.protocols.gemini.partial_arguments import PartialArguments
from dragoman.protocols.gemini.parts import decode_arguments, decode_part, executed
from dragoman.protocols.gemini.response import (
    decode_block,
    decode_stop,
    decode_usage,
    read_usage,
    report_feedback,
    report_finish,
)
from dragoman.protocols.gemini.wire import (
    FINISH_REASONS,
    PROTOCOL_NAME,
    QUIET_CANDIDATE,
    QUIET_CONTENT,
    QUIET_PART,
    QUIET_RESPONSE,
    STOP,
    enum_name,
    opened,
    printed,
)
from dragoman.protocols.google import decode_error_object, decode_time

_CHUNK_KEYS = QUIET_RESPONSE | {"candidates", "responseId", "modelVersion"}
_CANDIDATE_KEYS = QUIET_CANDIDATE | {"content", "finishReason"}
_PLAIN_KEYS = frozenset({"content", "index"})
# The decoder reads these counts from the last chunk that has them
VARYING = re.compile(
    rb'"(?:candidatesTokenCount|thoughtsTokenCount|totalTokenCount|tokenCount)":\s*(?P<number>\d+)'
)
_THOUGHT_KEYS = frozenset({"text", "thought"})
_WHOLE_CALL = frozenset({"id", "name", "args"})
_CALL_KEYS = QUIET_PART | {"functionCall"}
_NAMED = frozenset({"id"})
TEXT, THOUGHT = Text(), Reasoning()


def is_end(frame: Frame) -> bool:
    """Whether a frame ends the stream: it gives a reason why, or an error. Usage may still follow."""
    chunk = frame_object(frame)
    feedback = chunk.get("promptFeedback")
    return bool(chunk.get("error") or (is_object(feedback) and feedback.get("blockReason"))) or any(
        candidate.get("finishReason") for candidate in rows(chunk.get("candidates"))
    )


def delta_text(chunk: Wire) -> str:
    """The text of a chunk that only continues a text or thought, and perhaps counts tokens; empty for any
    other."""
    candidates = chunk.get("candidates")
    if not is_array(candidates) or len(candidates) != 1 or chunk.get("error") or chunk.get("promptFeedback"):
        return ""
    candidate = candidates[0]
    content = candidate.get("content") if is_object(candidate) and candidate.keys() <= _PLAIN_KEYS else None
    parts = content.get("parts") if is_object(content) and not candidate.get("index") else None
    part = parts[0] if is_array(parts) and len(parts) == 1 else None
    if not is_object(part) or not part.keys() <= _THOUGHT_KEYS:
        return ""
    text = part.get("text")
    return text if type(text) is str else ""


def state_slots(reply: Wire) -> Iterable[tuple[Wire, str]]:
    """The parts of a whole reply, or of a frame, that may hold a signature."""
    for candidate in rows(reply.get("candidates")):
        content = candidate.get("content")
        for part in rows(content.get("parts") if is_object(content) else None):
            yield part, "thoughtSignature"


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._assembly = Assembly(losses)
        self._started = self._ended = False
        self._usage: Wire = {}
        self._finish = ""
        self._blocked: Stop | None = None

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        body = _parse(frame)
        events: list[Event] = []
        if is_object(body):
            self._chunk(body, events)
        elif is_array(body):  # Google wraps the error of a stream that is not SSE
            for chunk in body:
                self._chunk(opened(chunk, "chunk").rest, events)
        else:
            raise _wrong("chunk", "an object", body)
        return events

    def close(self) -> Iterable[Event]:
        if self._ended:
            return ()
        self._ended = True
        events: list[Event] = []
        if not self._finish and self._blocked is None:
            self._assembly.flush(events)
            return (*events, ResponseFailed(truncated("finishReason")))
        self._assembly.close(events, cut=STOP.decode(self._finish.upper()) == "length")
        stop = (
            decode_stop(self._finish, self._assembly.called, self._losses) if self._finish else self._blocked
        )
        usage = decode_usage(self._usage, self._losses)
        return (*events, ResponseEnd(stop or Stop("other"), usage))

    def _chunk(self, chunk: Wire, events: list[Event]) -> None:
        if self._ended:
            return
        if error := chunk.get("error"):
            self._ended = True
            self._assembly.flush(events)
            events.append(ResponseFailed(decode_error_object(error)))
            return
        if not self._started:
            self._started = True
            events.append(_decode_start(chunk))
        if not _CHUNK_KEYS.issuperset(chunk):
            opened(chunk, "").extras(self._losses, quiet=_CHUNK_KEYS)
        if (usage := chunk.get("usageMetadata")) is not None:
            if not is_object(usage):
                raise _wrong("usageMetadata", "an object", usage)
            self._usage.update(usage)
        if (feedback := chunk.get("promptFeedback")) is not None:
            report_feedback(feedback, self._losses)
            self._blocked = decode_block(feedback) or self._blocked
        candidates = chunk.get("candidates")
        if not candidates:
            events.append(KeepAlive())
            return
        if not is_array(candidates):
            raise _wrong("candidates", "an array", candidates)
        for candidate in candidates:
            self._candidate(candidate, events)

    def _candidate(self, candidate: Any, events: list[Event]) -> None:
        if not is_object(candidate):
            raise _wrong("candidates[0]", "an object", candidate)
        if candidate.get("index"):
            why = "Only the first candidate is passed on."
            self._losses.dropped("candidates[1]", why, "response.choices")
            return
        if not _CANDIDATE_KEYS.issuperset(candidate):
            opened(candidate, "candidates[0]").extras(self._losses, quiet=_CANDIDATE_KEYS)
        if sources := candidate.get("groundingMetadata"):
            self._assembly.cite(sources)
        if (content := candidate.get("content")) is not None:
            if not is_object(content):
                raise _wrong("candidates[0].content", "an object", content)
            if not QUIET_CONTENT.issuperset(content):
                opened(content, "candidates[0].content").extras(self._losses, quiet=QUIET_CONTENT)
            self._parts(content.get("parts"), events)
        if finish := candidate.get("finishReason"):
            finish = enum_name(finish, FINISH_REASONS)
            if not isinstance(finish, str):
                raise _wrong("candidates[0].finishReason", "a string", finish)
            if finish != "FINISH_REASON_UNSPECIFIED":
                self._finish = finish
                report_finish(candidate, finish, self._losses)

    def _parts(self, parts: Any, events: list[Event]) -> None:
        """Plain texts, which most parts are, skip decode_part."""
        if parts is None:
            return
        if not is_array(parts):
            raise _wrong("candidates[0].content.parts", "an array", parts)
        for number, part in enumerate(parts):
            if is_object(part) and len(part) == 1 and type(text := part.get("text")) is str:
                self._assembly.add_text(TEXT, text, events)
            else:
                self._part(part, _path(number), events)

    def _part(self, part: Any, where: str, events: list[Event]) -> None:
        if is_object(part):
            if part.keys() == _THOUGHT_KEYS and part["thought"] is True and type(part["text"]) is str:
                self._assembly.add_text(THOUGHT, part["text"], events)
                return
            if is_object(call := part.get("functionCall")) and self._grows(call):
                self._assembly.add_call(part, where, events)
                return
        self._assembly.add_wire(part, where, events)

    def _grows(self, call: Wire) -> bool:
        """Whether a call comes in pieces; the last piece is an empty object."""
        return not call or not _WHOLE_CALL.issuperset(call) or ("name" not in call and self._assembly.grows())


def _decode_start(chunk: Wire) -> ResponseStart:
    fields = opened(chunk, "")
    value = fields.rest.get("usageMetadata")
    usage = None if value is None else read_usage(opened(value, "usageMetadata"))
    created = decode_time(fields.rest.get("createTime"))
    return ResponseStart(fields.text("responseId"), fields.text("modelVersion"), usage, created)


def _parse(frame: Frame) -> Any:
    if frame.data == b"[DONE]":  # proxies end a stream as Chat does
        return []
    try:
        return jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, "chunk", str(error)) from None


def _path(number: int) -> str:
    return f"candidates[0].content.parts[{number}]"


def _wrong(path: str, expected: str, value: Any) -> WireError:
    return WireError(PROTOCOL_NAME, path, f"expected {expected}, got {describe(value)}")


class Assembly:
    """The open part of the answer. Every method appends its events to `events`."""

    def __init__(self, losses: Losses) -> None:
        self.called = False
        self._losses = losses
        self._index = -1
        self._open: AnyPart | None = None
        self._arguments: PartialArguments | None = None  # of the open call, while it grows
        self._texts: list[list[str]] = []  # pieces of each text, for citations to count in
        self._sources: Any = None
        self._uncited = 0  # texts that ended before their sources came
        self._waiting: list[tuple[AnyPart, Any]] = []  # calls, and what they are on the wire
        self._answers: list[AnyPart] = []  # of some of them

    def add_text(self, kind: Text | Reasoning, text: str, events: list[Event]) -> None:
        """More of a text or thought; `kind` is TEXT or THOUGHT."""
        if not text:
            return
        if self._waiting:
            self.flush(events)
        if self._open is not kind:
            self._start(kind, events)
        if kind is TEXT:
            self._texts[-1].append(text)
        events.append(PartDelta(self._index, text))

    def add_wire(self, wire: Any, where: str, events: list[Event]) -> None:
        """A part that came whole. Calls wait for the part behind them, which may be an answer: then Gemini
        itself has run them."""
        part = decode_part(wire, where, self._losses)
        if type(part) is ToolCall:
            self.end(events)
            self._waiting.append((part, wire))
        elif type(part) is ToolResult and self._waiting:
            wires = [each for _, each in self._waiting]
            decoded = [*(call for call, _ in self._waiting), part]
            *calls, answer = executed(decoded, [*wires, wire], False, self._losses)
            self._waiting = [*zip(calls, wires, strict=True)]
            if type(answer) is ToolResult or not any(type(call) is ToolCall for call, _ in self._waiting):
                self.flush(events)
                self.add(answer, events)
            else:
                self._answers.append(answer)
        else:
            self.flush(events)
            self.add(part, events)

    def flush(self, events: list[Event]) -> None:
        """What waits: no answer follows it."""
        if self._waiting or self._answers:
            waiting, answers = self._waiting, self._answers
            self._waiting, self._answers = [], []
            for part in (*(call for call, _ in waiting), *answers):
                self.add(part, events)

    def add(self, part: AnyPart, events: list[Event]) -> None:
        """A part that came whole."""
        if isinstance(part, Text | Reasoning) and part.state is None:
            self.add_text(TEXT if isinstance(part, Text) else THOUGHT, part.text, events)
            return
        self._start(replace(emptied(part), extras=None), events)
        if text := spelled(part):
            events.append(PartDelta(self._index, text))
            if isinstance(part, Text):
                self._texts[-1].append(text)
        if part.state:
            events.append(PartDelta(self._index, state=part.state))
        self.end(events)

    def add_call(self, part: Wire, where: str, events: list[Event]) -> None:
        """A piece of a call: its name, some of its arguments, or its end."""
        self.flush(events)
        call = opened(part["functionCall"], f"{where}.functionCall")
        if name := call.text("name"):
            self._start(ToolCall(call.text("id"), name, where=where), events)
            self._arguments = PartialArguments()
        if self._arguments is None:
            if call.rest.get("partialArgs"):
                raise WireError(
                    PROTOCOL_NAME, call.path("partialArgs"), "expected a call that was begun by its name"
                )
            return
        if isinstance(signature := part.get("thoughtSignature"), str) and signature:
            events.append(PartDelta(self._index, state=unseal_state(signature, PROTOCOL_NAME)))
        if (arguments := decode_arguments(call)) is not None:
            self._arguments.whole = printed(arguments, call.path("args"))
        if (pieces := call.list("partialArgs")) is not None:
            self._arguments.add(pieces, call.path("partialArgs"))
        more = call.take("willContinue", bool)
        call.extras(self._losses, quiet=_NAMED)
        opened(part, where).extras(self._losses, quiet=_CALL_KEYS)
        if not more:
            self.end(events)

    def grows(self) -> bool:
        """Whether a call is growing."""
        return self._arguments is not None

    def cite(self, sources: Any) -> None:
        """Sources of the answer; a later list replaces an earlier one."""
        if self._sources is None:
            self._uncited = len(self._texts) - isinstance(self._open, Text)
        self._sources = sources

    def end(self, events: list[Event], cut: bool = False) -> None:
        """The open part ends. `cut`: because the answer does, so that a call may not be whole."""
        if self._open is None:
            return
        complete = True
        if self._arguments is not None:
            if text := self._arguments.text():
                events.append(PartDelta(self._index, text))
            complete = not cut and self._arguments.complete
            self._arguments = None
        elif isinstance(self._open, Text) and self._sources is not None:
            events += [
                PartDelta(self._index, citation=c) for n, c in self._cited() if n == len(self._texts) - 1
            ]
        self.called |= complete and isinstance(self._open, ToolCall)
        self._open = None
        events.append(PartEnd(self._index, complete))

    def close(self, events: list[Event], cut: bool) -> None:
        self.flush(events)
        self.end(events, cut)
        if self._sources is not None and not self._texts:
            self._cited()  # reports them
        if self._uncited and any(number < self._uncited for number, _ in self._cited()):
            why = "Sources came after their text had ended."
            self._losses.dropped("candidates[0].groundingMetadata", why, "citation")

    def _start(self, part: AnyPart, events: list[Event]) -> None:
        self.end(events)
        self._index += 1
        self._open = part
        if isinstance(part, Text):
            self._texts.append([])
        events.append(PartStart(self._index, part))

    def _cited(self) -> list[Any]:
        texts = ["".join(pieces) for pieces in self._texts]
        return decode_grounding(self._sources, texts, "candidates[0].groundingMetadata", self._losses)
