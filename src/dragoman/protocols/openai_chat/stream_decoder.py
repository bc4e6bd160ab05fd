"""Chunks -> neutral events.

A chunk adds to the message of its choice, in any mixture of fields, and nothing marks the end of a part.
States of the decoder and what moves between them:

    waiting   --first chunk with an id or choices--> open       emits ResponseStart
    open      --finish_reason--> finished                       parts may still follow; usage comes after it
    open      --error chunk--> ended                            emits ResponseFailed
    open      --[DONE] after content--> ended                   servers that never send a finish reason
    open      --end of stream after status: finished--> ended   chat.qwen.ai; emits ResponseEnd
    open      --end of stream--> ended                          emits ResponseFailed: the stream was cut (G14)
    finished  --[DONE] or end of stream--> ended                emits ResponseEnd; a later error is ignored
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame, frame_object
from dragoman.core.errors import WireError
from dragoman.core.events import (
    Event,
    PartDelta,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.failures import truncated
from dragoman.core.fields import describe, rows, whole_seconds, word_set
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Foreign, Wire
from dragoman.protocols.openai import FILTER_FIELDS, without_alarms
from dragoman.protocols.openai_chat.errors import decode_error
from dragoman.protocols.openai_chat.parts import (
    decode_citation,
    decode_images,
    reasoning_text,
    thought_text,
)
from dragoman.protocols.openai_chat.response import (
    decode_stop,
    decode_usage,
    is_cut,
    report_logprobs,
    report_matched_stop,
    report_usage,
)
from dragoman.protocols.openai_chat.stream_parts import REASONING, REFUSAL, TEXT, OpenParts
from dragoman.protocols.openai_chat.wire import MATCHED_STOP, PROTOCOL_NAME, QUIET_CHOICE, QUIET_RESPONSE

_KNOWN_CHUNK = QUIET_RESPONSE | {"choices"}
_KNOWN_CHOICE = QUIET_CHOICE | {"delta"}
# Those that never say anything to others
_PLAIN_CHUNK = _KNOWN_CHUNK - FILTER_FIELDS - {"x_groq"}
_PLAIN_CHOICE = _KNOWN_CHOICE - FILTER_FIELDS
_EXTENSIONS = frozenset({"annotations", "images", "audio"})
_MATCHED_STOP = frozenset(MATCHED_STOP)
_REASONING = word_set("reasoning_content reasoning reasoning_text reasoning_details")
_KNOWN_DELTA = (
    _EXTENSIONS
    | _REASONING
    | word_set("role content refusal tool_calls function_call index token_id channel phase status")
)


def is_end(frame: Frame) -> bool:
    """Whether a frame ends the stream: `[DONE]`, an error, or a finish reason (some omit `[DONE]`)."""
    if frame.data.strip() == b"[DONE]":
        return True
    chunk = frame_object(frame)
    return bool(chunk.get("error")) or any(c.get("finish_reason") for c in rows(chunk.get("choices")))


def is_answer(frame: Frame) -> bool:
    """Whether a frame holds more than a role or a usage: content, a finish reason or an error."""
    chunk = frame_object(frame)
    return bool(chunk.get("error")) or any(map(_has_answer, rows(chunk.get("choices"))))


def _has_answer(choice: Wire) -> bool:
    delta = choice.get("delta")
    if is_object(delta) and any(value for key, value in delta.items() if key != "role"):
        return True
    return bool(choice.get("finish_reason") or choice.get("message") or choice.get("text"))


def delta_text(chunk: Wire) -> str:
    """The text of a chunk that only continues a text, a thought or a call; empty for any other."""
    text: Any = None
    given = 0
    for key, value in _only_delta(chunk).items():
        if value and key != "role":
            given += 1
            text = value if key in _TEXT_FIELDS else _arguments(value) if key == "tool_calls" else None
    return text if given == 1 and type(text) is str else ""


def _arguments(calls: Any) -> Any:
    """What the only entry of `tool_calls` adds to a call that has begun."""
    entry = calls[0] if is_array(calls) and len(calls) == 1 else None
    if not is_object(entry) or type(entry.get("index")) is not int:
        return None
    if entry.get("id") or entry.get("extra_content") or "custom" in entry:
        return None
    inner = entry.get("function")
    return inner.get("arguments") if is_object(inner) and not inner.get("name") else None


_TEXT_FIELDS = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
# OpenAI pads its chunks, so that their length tells nothing about the text
VARYING = re.compile(rb'"obfuscation":\s*"(?P<padding>[A-Za-z0-9]*)"')


def _only_delta(chunk: Wire) -> Wire:
    """The delta of a chunk that has nothing else; empty for every other chunk."""
    choices = chunk.get("choices")
    if not is_array(choices) or len(choices) != 1 or chunk.get("usage") or chunk.get("error"):
        return {}
    choice = choices[0]
    if not is_object(choice) or choice.get("finish_reason") or choice.get("index") or choice.get("logprobs"):
        return {}
    delta = choice.get("delta")
    return delta if is_object(delta) else {}


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._begun = self._ended = False
        self._parts = OpenParts(losses)
        self._plain = False  # reasoning text comes in a field of its own, so details need not be read for it
        self._audio: Wire = {}
        self._finish: str | None = None
        self._finished = False  # the last chunk had `status: finished`
        self._usage: Wire | None = None

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended:
            return ()
        data = frame.data
        if data[:1] != b"{" and (data := data.strip())[:6] in (b"", b"[DONE]"):
            return self._done() if data else ()
        body = _parse(data)
        if self._parts.flow is TEXT:  # the hot path
            delta = _only_delta(body)
            if len(delta) == 1 and type(text := delta.get("content")) is str and text:
                return (PartDelta(self._parts.index, text),)
        if (body.get("error") or frame.event == "error") and self._finish is None:
            return self._fail(body)
        return self._chunk(body)

    def _chunk(self, body: Wire) -> Iterable[Event]:
        choices = body.get("choices")
        events: list[Event] = [] if self._begun else self._begin(body, choices)
        if choices:
            events += self._choice(choices)
        if usage := body.get("usage"):
            self._usage = usage if is_object(usage) else None
        if (not choices or self._finish is not None) and not body.keys() <= _PLAIN_CHUNK:
            self._read_rest(body)
        return events

    def close(self) -> Iterable[Event]:
        if self._ended:
            return ()
        if self._finish is not None or (self._finished and self._parts):
            return self._end()
        self._ended = True
        self._parts.close(cut=True)
        return (*self._parts.take(), ResponseFailed(truncated("a finish reason or [DONE]")))

    def _begin(self, body: Wire, choices: Any) -> list[Event]:
        """Azure first sends a chunk without an id, about its filters; the reply begins with the next one."""
        id, model, created = body.get("id"), body.get("model"), body.get("created")
        if not id and not choices:
            return []
        self._begun = True
        if not body.keys() <= _PLAIN_CHUNK:
            self._read_rest(body)
        return [
            ResponseStart(
                id if isinstance(id, str) else "",
                model if isinstance(model, str) else "",
                created=whole_seconds(created),
            )
        ]

    def _choice(self, choices: Any) -> Iterable[Event]:
        choice = choices[0] if is_array(choices) else None
        if not is_object(choice):
            raise WireError(
                PROTOCOL_NAME, "choices", f"expected an array of objects, got {describe(choices)}"
            )
        if len(choices) > 1 or choice.get("index"):
            self._losses.dropped("choices[1]", "Only the first choice is passed on.", "response.choices")
            if choice.get("index"):
                return ()
        delta = choice.get("delta")
        if is_object(delta):
            self._delta(delta)
        elif delta is not None:
            raise WireError(PROTOCOL_NAME, "choices[0].delta", f"expected an object, got {describe(delta)}")
        finish = choice.get("finish_reason")
        if finish is not None:
            self._finish = _text(finish, "finish_reason")
            if not choice.keys() <= _PLAIN_CHOICE:
                self._report(choice, without_alarms(_KNOWN_CHOICE, choice), "choices[0]")
            if not _MATCHED_STOP.isdisjoint(choice):
                report_matched_stop(choice, self._losses)
        if logprobs := choice.get("logprobs"):
            report_logprobs(logprobs, self._losses)
        return self._parts.take()

    def _delta(self, delta: Wire) -> None:
        """One chunk may hold every kind at once; the order is reasoning, text, calls (G11)."""
        parts = self._parts
        if not delta.keys() <= _KNOWN_DELTA:
            self._report(delta, _KNOWN_DELTA, "choices[0].delta")
        # chat.qwen.ai ends so, without finish reason or [DONE]; its phase "think" also ends with this status
        self._finished = delta.get("status") == "finished" and delta.get("phase") != "think"
        if not _REASONING.isdisjoint(delta):
            self._reasoning(delta)
        if content := delta.get("content"):
            if type(content) is str:
                parts.say(TEXT, content)
            else:
                self._content(content)
        if refusal := delta.get("refusal"):
            parts.say(REFUSAL, _text(refusal, "delta.refusal"))
        if calls := delta.get("tool_calls"):
            for entry in _list(calls, "tool_calls"):
                parts.call(parts.calls.piece(entry))
        if is_object(legacy := delta.get("function_call")) and any(legacy.values()):
            parts.call(parts.calls.legacy(legacy))
        if not _EXTENSIONS.isdisjoint(delta):
            self._extensions(delta)

    def _reasoning(self, delta: Wire) -> None:
        text = delta.get("reasoning_content") or delta.get("reasoning") or delta.get("reasoning_text")
        if text:
            self._plain = True
            where = "delta.reasoning_content"
            text = _text(reasoning_text(text, f"choices[0].{where}", self._losses), where)
        if details := delta.get("reasoning_details"):
            readable = self._parts.add_details(_list(details, "reasoning_details"))
            text = text if self._plain else readable
        if text:
            self._parts.say(REASONING, text)

    def _content(self, content: Any) -> None:
        """Mistral's reasoning models send an array."""
        for part in _list(content, "content"):
            match part:
                case {"type": "text", "text": str(text)}:
                    self._parts.say(TEXT, text)
                case {"type": "thinking", "thinking": _}:
                    where = "choices[0].delta.content"
                    self._parts.say(REASONING, thought_text(part, where, self._losses))
                case _:
                    self._losses.dropped(
                        "choices[0].delta.content",
                        f"Only {PROTOCOL_NAME} understands all of this.",
                        "part.unknown",
                    )

    def _extensions(self, delta: Wire) -> None:
        """Citations, images (OpenRouter), and audio in pieces of base64 and transcript."""
        if annotations := delta.get("annotations"):
            where = "choices[0].delta.annotations"
            for i, annotation in enumerate(_list(annotations, "annotations")):
                self._parts.cite(decode_citation(annotation, f"{where}[{i}]", self._losses))
        for part in decode_images(delta.get("images"), "choices[0].delta.images", self._losses):
            self._parts.whole(part)
        if is_object(audio := delta.get("audio")):
            for key, value in audio.items():
                joined = key in ("data", "transcript") and isinstance(value, str)
                self._audio[key] = self._audio.get(key, "") + value if joined else value

    def _done(self) -> Iterable[Event]:
        """Some servers send no finish reason; `[DONE]` after content is an ordinary end."""
        if self._finish is None and not self._parts and not self._audio:
            self._ended = True
            return (ResponseFailed(truncated("any content")),)
        return self._end()

    def _end(self) -> Iterable[Event]:
        self._ended = True
        parts = self._parts
        stop = decode_stop(self._finish or "", self._losses, (REFUSAL,) if parts.refused else ())
        broken = self._finish is None and any(call.pieces and call.is_broken() for call in parts.calls.calls)
        parts.close(cut=is_cut(stop) or broken)
        if self._audio:
            self._losses.dropped(
                "choices[0].delta.audio", f"Only {PROTOCOL_NAME} understands spoken replies.", "media.audio"
            )
            said = self._audio.get("transcript")
            text = said if isinstance(said, str) else ""
            parts.whole(Foreign(PROTOCOL_NAME, {"audio": self._audio}, text, where="choices[0].delta.audio"))
        if self._usage:
            report_usage(self._usage, self._losses)
        return (*parts.take(), ResponseEnd(stop, decode_usage(self._usage) if self._usage else None))

    def _fail(self, body: Wire) -> Iterable[Event]:
        self._ended = True
        self._parts.close(cut=True)
        failure = decode_error(body, 0) or decode_error({"error": body or "the upstream failed"}, 0)
        return (*self._parts.take(), ResponseFailed(failure)) if failure else ()

    def _read_rest(self, body: Wire) -> None:
        """Groq sends usage inside `x_groq`; unknown fields are reported for the first and last chunks."""
        groq = body.get("x_groq")
        if is_object(groq) and is_object(usage := groq.get("usage")):
            self._usage = self._usage or usage
        self._report(body, without_alarms(_KNOWN_CHUNK, body), "")

    def _report(self, wire: Wire, known: frozenset[str], where: str) -> None:
        for key, value in wire.items():
            if key not in known and value:
                path = f"{where}.{key}" if where else key
                self._losses.dropped(path, f"Only {PROTOCOL_NAME} has this field.", "field.unknown")


def _parse(data: bytes) -> Wire:
    try:
        body = jsontext.decode(data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, "chunk", str(error)) from None
    if not is_object(body):
        raise WireError(PROTOCOL_NAME, "chunk", f"expected an object, got {describe(body)}")
    return body


def _text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise WireError(PROTOCOL_NAME, f"choices[0].{path}", f"expected a string, got {describe(value)}")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not is_array(value):
        raise WireError(PROTOCOL_NAME, f"choices[0].delta.{key}", f"expected an array, got {describe(value)}")
    return value
