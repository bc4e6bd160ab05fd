"""Checks a Gemini stream frame by frame: what google-genai and the agents on it need of every chunk.

States: open --chunk--> open --finishReason of each candidate, blockReason or error--> ended; nothing may
follow but another candidate.
A call is whole in one part, or grows from a part with `willContinue` to one without.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import expect
from dragoman.core.fields import rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire

_DATA = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
_URL_SAFE = str.maketrans("-_", "+/")


class Grammar:
    """Raises GrammarError at the first frame that a client would misread."""

    def __init__(self) -> None:
        self._ended = False
        self._growing = False
        self._open: dict[int, bool] = {}  # candidates: whether more of them may follow

    def feed(self, frame: Frame, /) -> Iterable[Frame]:
        expect(not frame.event, f"an event named {frame.event!r}; Gemini's have no names")
        chunk = jsontext.decode(frame.data) if isinstance(frame.data, bytes | str) else frame.data
        expect(is_object(chunk), "a chunk that is no object")
        expect(not self._ended or self._begins_another(chunk), "a chunk after the end of the stream")
        if "error" in chunk:
            expect(
                next(iter(chunk)) == "error", "an error that is not the first key: google-genai overlooks it"
            )
            self._ended = True
            return (frame,)
        feedback = chunk.get("promptFeedback")
        self._ended = is_object(feedback) and "blockReason" in feedback
        candidates = chunk.get("candidates", [])
        expect(is_array(candidates) and all(map(is_object, candidates)), "candidates that are no objects")
        for candidate in candidates:
            self._candidate(candidate)
        return (frame,)

    def close(self) -> Iterable[Frame]:
        expect(self._ended, "the stream ends without finishReason, blockReason or error")
        return ()

    def _begins_another(self, chunk: Wire) -> bool:
        return bool(self._open) and any(
            row.get("index", 0) not in self._open for row in rows(chunk.get("candidates"))
        )

    def _candidate(self, candidate: Wire) -> None:
        index = candidate.get("index", 0)
        expect(self._open.get(index, True), f"more of candidate {index} after its finishReason")
        self._open[index] = not candidate.get("finishReason")
        content = candidate.get("content", {"parts": []})
        expect(content.get("role", "model") == "model", f"content of role {content.get('role')!r}, not model")
        for part in content.get("parts", []):
            self._part(part)
        if candidate.get("finishReason"):
            expect(isinstance(candidate["finishReason"], str), "a finishReason that is no string")
            self._ended = not any(self._open.values())

    def _part(self, part: Any) -> None:
        expect(is_object(part), "a part that is no object")
        named = [key for key in _DATA if key in part]
        expect(len(named) == 1, f"a part with {named or 'no data'}; each has one kind of data")
        if "text" in part:
            expect(isinstance(part["text"], str), "a text that is no string")
        if "functionCall" in part:
            self._call(part["functionCall"])
        if "thoughtSignature" in part:
            expect(_is_base64(part["thoughtSignature"]), "a thoughtSignature that is not base64")

    def _call(self, call: Any) -> None:
        """Whole, or begun by its name and grown by pieces."""
        expect(is_object(call), "a functionCall that is no object")
        expect(self._growing or isinstance(call.get("name"), str), "a functionCall without a name")
        expect(is_object(call.get("args", {})), "a functionCall whose args are no object")
        self._growing = call.get("willContinue") is True


def _is_base64(text: Any) -> bool:
    if not isinstance(text, str) or len(text) % 4:
        return False
    try:
        base64.b64decode(text.translate(_URL_SAFE), validate=True)
    except ValueError:
        return False
    return True
