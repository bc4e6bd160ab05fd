"""What a recording shows beside its bytes: which fields correspond, what changed since the last turn, where a
prompt cache broke, what fills the context window, and the life of each call id.

Paths are spelled as in losses: `messages[3].content[0].text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Media, Reasoning, Request, State, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.gateway.observability.recording import Recording
from dragoman.protocols import protocol

_CHARACTERS = 3.6  # of a token, about; the window is shown in proportions
_IMAGE_TOKENS = 1600
_WHOLE_OBJECTS = frozenset(
    {"input", "args", "arguments", "parameters", "inputschema", "parametersjsonschema", "schema"}
)
_SHORT = 4  # characters: shorter texts are equal by chance


def parsed(body: bytes) -> Any:
    """The JSON value of a body; None where it is none."""
    try:
        return jsontext.decode(body)
    except (ValueError, RecursionError):
        return None


def leaves(value: Any, path: str = "", whole: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Every scalar with its path, in document order; objects with a name in `whole` stand before theirs."""
    if is_object(value):
        if value and _last_name(path) in whole:
            yield path, value
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key), whole)
    elif is_array(value):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]", whole)
    else:
        yield path, value


def correspondences(source: Any, target: Any) -> list[tuple[str, str]]:
    """Pairs of paths that hold the same thing in two wires: equal values, matched in document order.

    Texts of some length are matched wherever they stand; numbers and short texts only under the same last
    name, because they are equal by chance. Arguments and schemas are matched as a whole too: one protocol
    writes them as an object, another as text.
    """
    places: dict[Any, list[str]] = {}
    for path, value in leaves(target, whole=_WHOLE_OBJECTS):
        places.setdefault(_token(path, value), []).append(path)
    pairs: list[tuple[str, str]] = []
    for path, value in leaves(source, whole=_WHOLE_OBJECTS):
        found = places.get(_token(path, value))
        if found:
            pairs.append((path, found.pop(0)))
    return pairs


def _last_name(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].replace("_", "").lower()


def _token(path: str, value: Any) -> Any:
    if is_object(value):
        return ("text", _sorted_text(value))
    if isinstance(value, str) and len(value) >= _SHORT:
        parsed_object = jsontext.decode_object(value) if value[:1] == "{" else None
        return ("text", _sorted_text(parsed_object) if parsed_object is not None else value)
    return (_last_name(path), type(value).__name__, str(value))


def _sorted_text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


class Prefix(Struct, frozen=True):
    """How far a request repeats the one before it. `path`: the first field that differs."""

    same: int  # bytes
    total: int  # bytes of the request before
    path: str = ""
    before: str = ""
    after: str = ""

    @property
    def broke(self) -> bool:
        """Whether more than the end of the request before differs, which costs a prompt cache."""
        return bool(self.path)


def prefix_break(before: bytes, after: bytes) -> Prefix:
    """Where the upstream's prompt cache stops matching: the field that changed.

    A conversation that only grew differs first behind the last entry that it had: that is no break.
    """
    same = _common(before, after)
    old, new = parsed(before), parsed(after)
    if not (is_object(old) and is_object(new)):
        return Prefix(same, len(before))
    for (path, was), (other, now) in zip(leaves(old), leaves(new), strict=False):
        if path == other and was == now:
            continue
        if path != other and _appended(path, other, old):
            break
        return Prefix(same, len(before), other if path != other else path, _shown(was), _shown(now))
    return Prefix(same, len(before))


def _appended(path: str, other: str, old: Any) -> bool:
    """Whether `other` is an entry behind the last one that its array in `old` had."""
    array, bracket, rest = other.rpartition("[")
    while bracket:
        held = _at(old, array)
        number = rest.partition("]")[0]
        if is_array(held) and number.isdigit() and int(number) >= len(held):
            return True
        array, bracket, rest = array.rpartition("[")
    return False


def _at(value: Any, path: str) -> Any:
    for step in path.replace("[", ".[").split("."):
        if not step:
            continue
        if step[0] == "[":
            number = int(step[1:-1])
            value = value[number] if is_array(value) and number < len(value) else None
        else:
            value = value.get(step) if is_object(value) else None
    return value


def _common(one: bytes, other: bytes) -> int:
    """The length of the common prefix, by halves."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else jsontext.dumps(value)
    return text if len(text) <= 120 else text[:119] + "…"


def repeated_entries(before: Any, after: Any) -> dict[str, int]:
    """For each array of a request: how many entries at its beginning are those of the turn before."""
    if not (is_object(before) and is_object(after)):
        return {}
    found: dict[str, int] = {}
    for key, entries in after.items():
        old = before.get(key)
        if is_array(entries) and is_array(old):
            count = 0
            for one, other in zip(old, entries, strict=False):
                if one != other:
                    break
                count += 1
            if count:
                found[key] = count
    return found


class Segment(Struct, frozen=True):
    """A piece of the context window: what it is, where it stands, and about how many tokens it takes."""

    kind: str  # system, tool, text, reasoning, call, result, media
    label: str
    path: str
    tokens: int
    used: bool = True  # of a tool: whether the conversation ever called it


def window(protocol_name: str, body: bytes) -> list[Segment]:
    """What fills the context of a request, piece by piece; empty where it cannot be read."""
    request = decoded_request(protocol_name, body)
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
    return segments + [_part_segment(role, part, names) for role, part in parts]


def _part_segment(role: str, part: Any, names: dict[str, str]) -> Segment:
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
    return Segment(kind, label, path, max(round(characters / _CHARACTERS), 1), used)


def decoded_request(protocol_name: str, body: bytes) -> Request | None:
    wire = parsed(body)
    if not is_object(wire):
        return None
    try:
        return protocol(protocol_name).codec.decode_request(wire, Losses())
    except (DragomanError, RecursionError):
        return None


class Thread(Struct, frozen=True):
    """The life of one call or one opaque state in a session."""

    kind: str  # call, state
    label: str
    id: str
    born: str  # the exchange whose reply held it, or "" where it came with the first request
    returned: tuple[str, ...]  # the exchanges that sent it back, or its result
    answered: str = ""  # the exchange that brought the result of a call
    origin: str = ""  # who made the state
    withheld: tuple[str, ...] = ()  # the exchanges that did not pass the state on


def threads(recordings: Sequence[Recording]) -> list[Thread]:
    """Every call id and every opaque state of a session, from its birth to its last return."""
    found: dict[tuple[str, str], Thread] = {}
    for recording in recordings:
        exchange = recording.summary.id
        request = decoded_request(recording.summary.client, recording.request.body.data)
        withheld = any(
            loss.code.startswith("reasoning.") and loss.kind == "dropped" for loss in recording.losses
        )
        for kind, label, id, origin, is_result in _marks(request):
            old = found.get((kind, id)) or Thread(kind, label, id, "", (), origin=origin)
            found[kind, id] = replace(
                old,
                label=old.label or label,
                returned=(*old.returned, exchange),
                answered=old.answered or (exchange if is_result else ""),
                origin=old.origin or origin,
                withheld=(*old.withheld, exchange) if withheld and kind == "state" else old.withheld,
            )
        for kind, label, id, origin in _born(recording):
            found.setdefault((kind, id), Thread(kind, label, id, exchange, (), origin=origin))
    return list(found.values())


def _marks(request: Request | None) -> Iterator[tuple[str, str, str, str, bool]]:
    for message in request.messages if request else ():
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield "call", part.name, part.id, "", False
            elif isinstance(part, ToolResult):
                yield "call", part.name, part.call_id, "", True
            if part.state:
                yield "state", type(part).__name__.lower(), _short(part.state), part.state.origin, False


def _born(recording: Recording) -> Iterator[tuple[str, str, str, str]]:
    from dragoman.gateway.observability.recorded_stream import client_framing, reply_parts

    if not recording.summary.client:
        return
    framing = client_framing(recording)
    for part in reply_parts(recording.summary.client, recording.reply.body.data, framing):
        if isinstance(part, ToolCall):
            yield "call", part.name, part.id, ""
        if part.state:
            yield "state", type(part).__name__.lower(), _short(part.state), part.state.origin


def _short(state: State) -> str:
    return state.data if len(state.data) <= 24 else f"{state.data[:12]}…{state.data[-8:]}"


def tools_of(protocol_name: str, body: bytes) -> dict[str, str]:
    """The declared tools of a request: name and declaration as text."""
    request = decoded_request(protocol_name, body)
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


def losses_today(recordings: Iterable[Any], now: float) -> Counter[str]:
    """How often each code was reported in the last 24 hours, from summaries."""
    counts: Counter[str] = Counter()
    for summary in recordings:
        if now - summary.time < 24 * 3600:
            counts.update(summary.codes)
    return counts
