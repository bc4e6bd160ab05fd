"""Frames of a stream, read with care, and the events that need no translation."""

from __future__ import annotations

import re

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

_NUMBER = re.compile(rb'"sequence_number":\s*(\d{1,18})\b')  # more digits are no count
_NAMED = re.compile(rb'"response":\s*{\s*"id":\s*"([^"]+)"')
ALIVE = frozenset({"response.queued", "response.in_progress", "keepalive", "ping"})
TOLD_AGAIN = frozenset(
    {
        "response.created",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
    }
)
PROGRESS = (
    "response.web_search_call",
    "response.file_search_call",
    "response.code_interpreter_call",
    "response.image_generation_call",
    "response.mcp_",
    "response.shell_call",
    "response.apply_patch_call",
    "response.compaction",
)


def parse(frame: Frame) -> Wire:
    try:
        body = jsontext.decode(frame.data)
    except ValueError as error:
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", str(error)) from None
    if type(body) is not dict:
        raise WireError(PROTOCOL_NAME, f"event {frame.event or '(unnamed)'}", "expected an object")
    return body  # pyright: ignore[reportUnknownVariableType] - JSON


def continued(frame: Frame, first: bytes, last: bytes) -> Frame:
    """Our frame behind those of an upstream: it counts on, and speaks of the same response."""
    numbers, named = _NUMBER.findall(last), _NAMED.search(first)
    data = dict(frame.data)
    if numbers:
        data["sequence_number"] = int(numbers[-1]) + 1
    if named:
        data["response"] = {**data["response"], "id": named[1].decode("utf-8", "replace")}
    return Frame(frame.event, data)


def text_of(body: Wire, key: str) -> str:
    value = body.get(key)
    if type(value) is not str:
        raise WireError(PROTOCOL_NAME, key, f"expected a string, got {describe(value)}")
    return value


def number_of(body: Wire, key: str) -> int:
    """A whole number, 0 where there is none."""
    value = body.get(key)
    if value is None:
        return 0
    if type(value) is not int:
        raise WireError(PROTOCOL_NAME, key, f"expected a whole number, got {describe(value)}")
    return value
