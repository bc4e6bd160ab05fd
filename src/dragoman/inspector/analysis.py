"""What a request shows beside its bytes: what changed since the last turn, where a prompt cache broke, and
what fills the context window.

Paths are spelled as in losses: `messages[3].content[0].text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Media, Reasoning, Request, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.protocols import protocol

CHARACTERS = 3.6  # of a token, about; the window is shown in proportions
_IMAGE_TOKENS = 1600
_MESSAGES = ("messages", "contents", "input")
# The order in which a prompt cache reads a request, in the names of all protocols
_CACHE_ORDER = ("tools", "system", "systemInstruction", "system_instruction", "instructions", *_MESSAGES)
_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})

Difference = tuple[str, Any, Any]  # a path, and the value there before and after


def parse(body: bytes) -> Any:
    """The JSON value of a body; None where it is none."""
    try:
        return jsontext.decode(body)
    except (ValueError, RecursionError):
        return None


class Prefix(Struct, frozen=True):
    """How much of a request a prompt cache can match. Tokens are estimates.

    `path`: the first field that differs from the request before; empty where that one was only continued.
    """

    same: int  # tokens that still match
    total: int  # tokens of the request
    path: str = ""
    before: str = ""
    after: str = ""


def prefix_break(before: Any, after: Any) -> Prefix:
    """Where the upstream's prompt cache stops matching, compared as caches do: tools, system, messages.

    A conversation that only grew differs behind the last message that it had: that is no break.
    """
    total = sum([_characters(after.get(field)) for field in _CACHE_ORDER])
    same = 0
    for field in _CACHE_ORDER:
        old, new = strip_marks(before.get(field)), strip_marks(after.get(field))
        found = _difference(old, new, field, field in _MESSAGES)
        if found is None:
            same += _characters(old if field in _MESSAGES else new)
            continue
        path, was, now = found
        same += _characters_before(new, field, path)
        return Prefix(_tokens(same), _tokens(total), path, _show(was), _show(now))
    return Prefix(_tokens(same), _tokens(total))


def strip_marks(value: Any) -> Any:
    """`value` without marks for a prompt cache, which move from turn to turn."""
    if is_object(value):
        return {key: strip_marks(inner) for key, inner in value.items() if key not in _MARKS}
    return [strip_marks(inner) for inner in value] if is_array(value) else value


def _difference(old: Any, new: Any, path: str, may_grow: bool) -> Difference | None:
    """The first field that differs, with both values. `may_grow`: entries may follow at the end."""
    if is_object(old) and is_object(new):
        for key in dict.fromkeys((*old, *new)):
            if found := _difference(old.get(key), new.get(key), f"{path}.{key}", may_grow):
                return found
        return None
    if is_array(old) and is_array(new):
        return _array_difference(old, new, path, may_grow)
    return None if old == new else (path, old, new)


def _array_difference(old: list[Any], new: list[Any], path: str, may_grow: bool) -> Difference | None:
    last = len(old) - 1
    for number, (one, other) in enumerate(zip(old, new, strict=False)):
        if found := _difference(one, other, f"{path}[{number}]", may_grow and number == last):
            return found
    if len(old) == len(new) or (may_grow and len(old) < len(new)):
        return None
    at = min(len(old), len(new))
    return f"{path}[{at}]", *[held[at] if at < len(held) else None for held in (old, new)]


def _characters(value: Any) -> int:
    return len(_text(value))


def _characters_before(value: Any, path: str, broken: str) -> int:
    """How much of `value`, which stands at `path`, comes before the field at `broken`."""
    if path == broken or not broken.startswith(path):
        return 0
    entries: list[tuple[str, Any]] = []
    if is_object(value):
        entries = [(f"{path}.{key}", inner) for key, inner in value.items()]
    elif is_array(value):
        entries = [(f"{path}[{number}]", inner) for number, inner in enumerate(value)]
    total = 0
    for at, inner in entries:
        if broken == at or broken.startswith((f"{at}.", f"{at}[")):
            return total + _characters_before(inner, at, broken)
        total += _characters(inner)
    return total


def _tokens(characters: int) -> int:
    return round(characters / CHARACTERS)


def _show(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 300 else text[:299] + "…"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else jsontext.dumps(value)


def count_repeated(before: Any, after: Any) -> dict[str, int]:
    """For each array of a request: how many entries at its beginning are those of the turn before."""
    if not (is_object(before) and is_object(after)):
        return {}
    found: dict[str, int] = {}
    for key, entries in after.items():
        old = before.get(key)
        if is_array(entries) and is_array(old):
            alike = takewhile(
                lambda pair: strip_marks(pair[0]) == strip_marks(pair[1]), zip(old, entries, strict=False)
            )
            if count := sum(1 for _ in alike):
                found[key] = count
    return found


class Segment(Struct, frozen=True):
    """A piece of the context window: what it is, where it stands, and about how many tokens it takes."""

    kind: str  # system, tool, text, reasoning, call, result, media
    label: str
    path: str
    tokens: int
    used: bool = True  # of a tool: whether the conversation ever called it


def window(request: Request | None) -> list[Segment]:
    """What fills the context of a request, piece by piece; empty where it could not be read."""
    if request is None:
        return []
    parts = [(message.role, part) for message in request.messages for part in message.parts]
    names = {part.id: part.name for _, part in parts if isinstance(part, ToolCall)}
    segments = [_segment("system", "system prompt", part.where, len(part.text)) for part in request.system]
    for tool in request.tools:
        if isinstance(tool, ToolDeclaration):
            size = len(tool.name) + len(tool.description) + len(jsontext.dumps(tool.parameters or {}))
            segments.append(_segment("tool", tool.name, tool.where, size, tool.name in names.values()))
        else:
            segments.append(Segment("tool", tool.kind, tool.where, 350))
    return segments + [part_segment(role, part, names) for role, part in parts]


def part_segment(role: str, part: Any, names: dict[str, str]) -> Segment:
    match part:
        case Text():
            kind = "system" if role in ("system", "developer") else "text"
            return _segment(kind, role, part.where, len(part.text))
        case Reasoning():
            state = part.state.data if part.state else ""
            return _segment("reasoning", role, part.where, len(part.text) + len(state))
        case ToolCall():
            return _segment("call", part.name, part.where, len(part.arguments) + len(part.name))
        case ToolResult():
            size = sum(len(item.text) if isinstance(item, Text) else 0 for item in part.content)
            images = sum(isinstance(item, Media) for item in part.content)
            segment = _segment("result", part.name or names.get(part.call_id) or "result", part.where, size)
            return replace(segment, tokens=segment.tokens + images * _IMAGE_TOKENS)
        case Media():
            return Segment("media", part.media_type or part.kind, part.where, _IMAGE_TOKENS)
        case _:
            return _segment("text", role, getattr(part, "where", ""), len(str(getattr(part, "text", ""))))


def _segment(kind: str, label: str, path: str, characters: int, used: bool = True) -> Segment:
    return Segment(kind, label, path, max(_tokens(characters), 1), used)


def decode_request(protocol_name: str, wire: Any) -> Request | None:
    if not is_object(wire):
        return None
    try:
        return protocol(protocol_name).codec.decode_request(wire, Losses())
    except (DragomanError, RecursionError, ValueError, TypeError, KeyError):
        return None


def tools_of(request: Request | None) -> dict[str, str]:
    """The declared tools of a request: name and declaration as text."""
    declared: dict[str, str] = {}
    for tool in request.tools if request else ():
        if isinstance(tool, ToolDeclaration):
            declared[tool.name] = tool.description + "\n" + jsontext.dumps(tool.parameters or {})
        else:
            declared[tool.kind] = "hosted"
    return declared


def tools_difference(before: dict[str, str], after: dict[str, str]) -> dict[str, list[str]]:
    return {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and after[name] != before[name]],
    }


def losses_today(summaries: Iterable[Any], now: float) -> Counter[str]:
    """How often each code was reported in the last 24 hours."""
    counts: Counter[str] = Counter()
    for summary in summaries:
        if now - summary.time < 24 * 3600:
            counts.update(summary.code_counts)
    return counts
