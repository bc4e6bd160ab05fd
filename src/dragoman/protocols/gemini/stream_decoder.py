"""Stream chunks -> neutral events.

A chunk is a small response, and the last one carries the finish reason. Some servers repeat it in
every chunk, so only the end of the stream is the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import Event, KeepAlive, ResponseEnd, ResponseFailed, ResponseStart
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Stop, Wire
from dragoman.protocols.gemini.assembly import TEXT, THOUGHT, Assembly
from dragoman.protocols.gemini.http import decode_error, truncated
from dragoman.protocols.gemini.objects import opened
from dragoman.protocols.gemini.parts import decode_part
from dragoman.protocols.gemini.response import decode_block, decode_stop, decode_time, read_usage
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, QUIET_CANDIDATE, STOP

_CANDIDATE_KEYS = QUIET_CANDIDATE | {"content", "finishReason"}
_THOUGHT_KEYS = frozenset({"text", "thought"})
_WHOLE_CALL = frozenset({"id", "name", "args"})


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
        if not self._finish and self._blocked is None:
            return (ResponseFailed(truncated("finishReason")),)
        events: list[Event] = []
        self._assembly.close(events, cut=STOP.decode(self._finish.upper()) == "length")
        stop = decode_stop(self._finish, self._assembly.called) if self._finish else self._blocked
        usage = read_usage(opened(self._usage, "usageMetadata"))
        return (*events, ResponseEnd(stop or Stop("other"), usage))

    def _chunk(self, chunk: Wire, events: list[Event]) -> None:
        if self._ended:
            return
        if "error" in chunk and (failure := decode_error(chunk, 0)):
            self._ended = True
            events.append(ResponseFailed(failure))
            return
        if not self._started:
            self._started = True
            events.append(_decode_start(chunk))
        if (usage := chunk.get("usageMetadata")) is not None:
            if not is_object(usage):
                raise _wrong("usageMetadata", "an object", usage)
            self._usage.update(usage)
        if (feedback := chunk.get("promptFeedback")) is not None:
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
            self._losses.dropped("candidates[1]", "only the first candidate is the answer")
            return
        if not _CANDIDATE_KEYS.issuperset(candidate):
            opened(candidate, "candidates[0]").extras(self._losses, quiet=_CANDIDATE_KEYS)
        if sources := candidate.get("groundingMetadata"):
            self._assembly.cite(sources)
        if (content := candidate.get("content")) is not None:
            if not is_object(content):
                raise _wrong("candidates[0].content", "an object", content)
            self._parts(content.get("parts"), events)
        if finish := candidate.get("finishReason"):
            if not isinstance(finish, str):
                raise _wrong("candidates[0].finishReason", "a string", finish)
            if finish != "FINISH_REASON_UNSPECIFIED":
                self._finish = finish

    def _parts(self, parts: Any, events: list[Event]) -> None:
        """A text by itself, as most parts are, takes the short way."""
        if parts is None:
            return
        if not is_array(parts):
            raise _wrong("candidates[0].content.parts", "an array", parts)
        for number, part in enumerate(parts):
            if is_object(part) and len(part) == 1 and type(text := part.get("text")) is str:
                self._assembly.say(TEXT, text, events)
            else:
                self._part(part, _path(number), events)

    def _part(self, part: Any, where: str, events: list[Event]) -> None:
        if is_object(part):
            if part.keys() == _THOUGHT_KEYS and part["thought"] is True and type(part["text"]) is str:
                self._assembly.say(THOUGHT, part["text"], events)
                return
            if is_object(call := part.get("functionCall")) and self._grows(call):
                self._assembly.add_call(part, where, events)
                return
        self._assembly.add(decode_part(part, where, self._losses), events)

    def _grows(self, call: Wire) -> bool:
        """Whether a call is told in pieces; the last piece says nothing at all."""
        return not call or not _WHOLE_CALL.issuperset(call) or ("name" not in call and self._assembly.grows())


def _decode_start(chunk: Wire) -> ResponseStart:
    fields = opened(chunk, "")
    value = fields.rest.get("usageMetadata")
    usage = None if value is None else read_usage(opened(value, "usageMetadata"))
    created = decode_time(fields.rest.get("createTime"))
    return ResponseStart(fields.text("responseId"), fields.text("modelVersion"), usage, created)


def _parse(frame: Frame) -> Any:
    if frame.data == b"[DONE]":  # not Google's, but some proxies say it
        return []
    try:
        return jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, "chunk", str(error)) from None


def _path(number: int) -> str:
    return f"candidates[0].content.parts[{number}]"


def _wrong(path: str, expected: str, value: Any) -> WireError:
    return WireError(PROTOCOL_NAME, path, f"expected {expected}, got {describe(value)}")
