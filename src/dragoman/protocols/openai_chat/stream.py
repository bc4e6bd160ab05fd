"""Chunks -> neutral events.

A chunk adds to the message of its choice, in any mixture of fields. The end waits for `[DONE]` or
for the close, because usage comes after the finish; without either the stream was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.events import Event, PartDelta, ResponseEnd, ResponseFailed, ResponseStart
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Foreign, Wire
from dragoman.protocols.openai_chat.assistant import decode_citation, decode_images
from dragoman.protocols.openai_chat.http import decode_error, truncated
from dragoman.protocols.openai_chat.parts import thought_text
from dragoman.protocols.openai_chat.response import decode_stop, decode_usage, is_cut
from dragoman.protocols.openai_chat.stream_parts import REASONING, REFUSAL, TEXT, Parts
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_CHOICE, QUIET_RESPONSE

_KNOWN_CHUNK = QUIET_RESPONSE | {"choices"}
_KNOWN_CHOICE = QUIET_CHOICE | {"delta", "logprobs"}
_EXTENSIONS = frozenset({"annotations", "images", "audio"})
_KNOWN_DELTA = _EXTENSIONS | frozenset(
    {
        "role",
        "content",
        "refusal",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "function_call",
        "index",
        "token_id",
        "channel",
    }
)


class StreamDecoder:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._begun = self._ended = False
        self._parts = Parts(losses)
        self._plain = False  # the text of reasoning has a field of its own, beside the details
        self._audio: Wire = {}
        self._finish: str | None = None
        self._usage: Wire | None = None

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if self._ended:
            return ()
        data = frame.data
        if data[:1] != b"{" and (data := data.strip())[:6] in (b"", b"[DONE]"):
            return self._done() if data else ()
        body = _parse(data)
        if self._parts.flow is TEXT and (text := _more_text(body)):  # the hot path
            return (PartDelta(self._parts.index, text),)
        if (body.get("error") or frame.event == "error") and self._finish is None:
            return self._fail(body)
        choices = body.get("choices")
        events: list[Event] = [] if self._begun else self._begin(body, choices)
        if choices:
            events += self._choice(choices)
        if usage := body.get("usage"):
            self._usage = usage if is_object(usage) else None
        if not choices or self._finish is not None:
            self._read_rest(body)
        return events

    def close(self) -> Iterable[Event]:
        if self._ended:
            return ()
        if self._finish is not None:
            return self._end()
        self._ended = True
        self._parts.close(cut=True)
        return (*self._parts.take(), ResponseFailed(truncated("a finish reason or [DONE]")))

    def _begin(self, body: Wire, choices: Any) -> list[Event]:
        """Azure sends a nameless chunk about its filters ahead; the reply begins with the next one."""
        id, model, created = body.get("id"), body.get("model"), body.get("created")
        if not id and not choices:
            return []
        self._begun = True
        self._read_rest(body)
        return [
            ResponseStart(
                id if isinstance(id, str) else "",
                model if isinstance(model, str) else "",
                created=created if isinstance(created, int) else 0,
            )
        ]

    def _choice(self, choices: Any) -> Iterable[Event]:
        choice = choices[0] if is_array(choices) else None
        if not is_object(choice):
            raise WireError(
                PROTOCOL_NAME, "choices", f"expected an array of objects, got {describe(choices)}"
            )
        delta, parts = choice.get("delta"), self._parts
        if len(choices) > 1 or choice.get("index"):
            self._losses.dropped("choices[1]", "only the first choice is the reply")
        if not choice.get("index"):
            self._message(choice, delta)
        return parts.take()

    def _message(self, choice: Wire, delta: Any) -> None:
        if is_object(delta):
            self._delta(delta)
        elif delta is not None:
            raise WireError(PROTOCOL_NAME, "choices[0].delta", f"expected an object, got {describe(delta)}")
        finish, logprobs = choice.get("finish_reason"), choice.get("logprobs")
        if finish is not None:
            self._finish = _text(finish, "finish_reason")
            self._report(choice, _KNOWN_CHOICE, "choices[0]")
        if is_object(logprobs) and any(logprobs.values()):
            self._losses.dropped("choices[0].logprobs", f"only {PROTOCOL_NAME} understands it")

    def _delta(self, delta: Wire) -> None:
        """One chunk may hold every kind at once: reasoning, then text, then calls."""
        parts = self._parts
        if not delta.keys() <= _KNOWN_DELTA:
            self._report(delta, _KNOWN_DELTA, "choices[0].delta")
        self._reasoning(delta)
        if content := delta.get("content"):
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
        text = delta.get("reasoning_content") or delta.get("reasoning")
        if text:
            self._plain = True
            text = _text(text, "delta.reasoning_content")
        if details := delta.get("reasoning_details"):
            spoken = self._parts.details.add(_list(details, "reasoning_details"))
            text = text if self._plain else spoken
        if text:
            self._parts.say(REASONING, text)

    def _content(self, content: Any) -> None:
        if type(content) is str:
            self._parts.say(TEXT, content)
            return
        for part in _list(content, "content"):  # Mistral
            match part:
                case {"type": "text", "text": str(text)}:
                    self._parts.say(TEXT, text)
                case {"type": "thinking", "thinking": thinking}:
                    self._parts.say(REASONING, thought_text(thinking))
                case _:
                    self._losses.dropped(
                        "choices[0].delta.content", f"only {PROTOCOL_NAME} understands it all"
                    )

    def _extensions(self, delta: Wire) -> None:
        """Sources, pictures, and speech in pieces of base64 and of transcript."""
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
        """Some servers never say why they ended; `[DONE]` after content is an end all the same."""
        if self._finish is None and not self._parts:
            self._ended = True
            return (ResponseFailed(truncated("any content")),)
        return self._end()

    def _end(self) -> Iterable[Event]:
        self._ended = True
        parts = self._parts
        stop = decode_stop(self._finish or "", (REFUSAL,) if parts.refused else ())
        broken = self._finish is None and any(call.pieces and call.is_broken() for call in parts.calls)
        parts.close(cut=is_cut(stop) or broken)
        if self._audio:
            self._losses.dropped("choices[0].delta.audio", f"only {PROTOCOL_NAME} understands spoken replies")
            parts.whole(Foreign(PROTOCOL_NAME, {"audio": self._audio}))
        return (*parts.take(), ResponseEnd(stop, decode_usage(self._usage) if self._usage else None))

    def _fail(self, body: Wire) -> Iterable[Event]:
        self._ended = True
        self._parts.close(cut=True)
        failure = decode_error(body, 0) or decode_error({"error": body}, 0)
        return (*self._parts.take(), ResponseFailed(failure)) if failure else ()

    def _read_rest(self, body: Wire) -> None:
        """Groq hides its usage; other leftovers are reported where the reply begins and ends."""
        groq = body.get("x_groq")
        if is_object(groq) and is_object(usage := groq.get("usage")):
            self._usage = self._usage or usage
        if not body.keys() <= _KNOWN_CHUNK:
            self._report(body, _KNOWN_CHUNK, "")

    def _report(self, wire: Wire, known: frozenset[str], where: str) -> None:
        for key, value in wire.items():
            if key not in known and value:
                path = f"{where}.{key}" if where else key
                self._losses.dropped(path, f"only {PROTOCOL_NAME} understands it")


def _parse(data: bytes) -> Wire:
    try:
        body = jsontext.decode(data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, "chunk", str(error)) from None
    if not is_object(body):
        raise WireError(PROTOCOL_NAME, "chunk", f"expected an object, got {describe(body)}")
    return body


def _more_text(body: Wire) -> str:
    """The text of a chunk that says nothing else; empty for every other chunk."""
    choices = body.get("choices")
    if not is_array(choices) or len(choices) != 1 or body.get("usage") or body.get("error"):
        return ""
    choice = choices[0]
    if not is_object(choice) or choice.get("finish_reason") or choice.get("index") or choice.get("logprobs"):
        return ""
    delta = choice.get("delta")
    text = delta.get("content") if is_object(delta) and len(delta) == 1 else ""
    return text if type(text) is str else ""


def _text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise WireError(PROTOCOL_NAME, f"choices[0].{path}", f"expected a string, got {describe(value)}")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not is_array(value):
        raise WireError(PROTOCOL_NAME, f"choices[0].delta.{key}", f"expected an array, got {describe(value)}")
    return value
