"""Which fields of two wires correspond, so that pointing at one shows the other.

Both requests are decoded, and what stands for the same part, tool or setting is a pair. Inside of a pair
equal values are paired. A field without a counterpart belongs to that of its nearest parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import ABSENT, Loss, resolve
from dragoman.core.model import (
    AnyPart,
    Media,
    Reasoning,
    Request,
    Settings,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)
from dragoman.inspector.analysis import decode_request
from dragoman.protocols import protocol

URL = "$url"  # stands for the address of a request: Gemini names model and stream there
_SHORT = 4  # characters: shorter texts are equal by chance
# Objects that another protocol writes as text
_WHOLE = frozenset(
    {"input", "args", "arguments", "parameters", "inputschema", "parametersjsonschema", "schema"}
)
# Names for one thing in a part
_ALIKE = (
    ("id", "call_id", "tool_use_id", "tool_call_id"),
    ("text", "content", "output", "thinking", "result", "error"),
    ("arguments", "input", "args"),
    ("description",),
    ("parameters", "input_schema", "parametersJsonSchema"),
    ("signature", "thoughtSignature", "encrypted_content"),
    ("role",),
    ("name",),
)
_ALIAS = {name: group[0] for group in _ALIKE for name in group}
_SETTINGS = (*Settings.__struct_fields__, "tool_choice", "parallel", "model", "stream")
_REASONING = ("effort", "budget", "show_reasoning")  # one is often said by another
Pairs = list[tuple[str, str]]


def request_pairs(client: str, sent: Any, upstream: str, got: Any, losses: Sequence[Loss] = ()) -> Pairs:
    """Paths in what the client sent, and their counterparts in what the upstream got."""
    if not (is_object(sent) and is_object(got) and upstream):
        return []
    found: dict[tuple[str, str], None] = {}
    left, right = decode_request(client, sent), decode_request(upstream, got)
    if left and right:
        for one, other in _alike(left, right):
            found[one, other] = None
            found.update(dict.fromkeys(_inside(sent, one, got, other)))
    found.update(dict.fromkeys(_arrays(found)))
    found.update(dict.fromkeys(_settings(client, sent, upstream, got, losses)))
    found.update(dict.fromkeys([(loss.where, loss.target) for loss in losses if loss.target]))
    pairs = [pair for pair in found if all(pair)]
    mine, theirs = {one for one, _ in pairs}, {other for _, other in pairs}
    rest = [leaf for leaf in leaves(sent, "", _WHOLE) if leaf[0] not in mine]
    return pairs + _equal(rest, [leaf for leaf in leaves(got, "", _WHOLE) if leaf[0] not in theirs])


def find_repeated(pairs: Iterable[tuple[str, str]], repeated: Mapping[str, int]) -> dict[str, int]:
    """How many entries at the beginning of the upstream's arrays stand for repeated ones of the client's.

    For a turn whose last one was sent in another protocol: there is no array to compare with.
    """
    found: dict[str, int] = {}
    for one, other in pairs:
        (mine, at), (theirs, there) = _entry(one), _entry(other)
        if theirs and at >= repeated.get(mine, 0):
            found[theirs] = min(there, found.get(theirs, there))
    return {name: count for name, count in found.items() if count and repeated}


def _entry(path: str) -> tuple[str, int]:
    """The array and the number of `messages[3].content`; no name where there is none."""
    name, _, rest = path.partition("[")
    number = rest.partition("]")[0]
    return (name, int(number)) if number.isdigit() and name.isidentifier() else ("", -1)


def reply_pairs(source: Any, target: Any) -> Pairs:
    """Pairs of two whole replies: equal values."""
    return _equal(leaves(source, "", _WHOLE), leaves(target, "", _WHOLE))


def leaves(value: Any, path: str = "", whole: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Every scalar with its path, in document order; objects with a name in `whole` stand before theirs."""
    if is_object(value):
        if value and last_name(path) in whole:
            yield path, value
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key), whole)
    elif is_array(value):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{number}]", whole)
    else:
        yield path, value


def last_name(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].replace("_", "").lower()


def _arrays(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arrays whose entries correspond."""
    return [
        (one.rpartition("[")[0], other.rpartition("[")[0])
        for one, other in pairs
        if one.endswith("]") and other.endswith("]")
    ]


def _settings(
    client: str, sent: Any, upstream: str, got: Any, losses: Sequence[Loss]
) -> Iterator[tuple[str, str]]:
    """As the codecs themselves spell them. One that was invented is named where the client would say it."""
    invented = {loss.where for loss in losses if loss.kind == "invented"}
    mine, theirs = protocol(client).codec.spelling, protocol(upstream).codec.spelling
    for name in _SETTINGS:
        names = (name, *[each for each in _REASONING if each != name]) if name in _REASONING else (name,)
        here = next((path for path in mine.paths([name]) if _has(sent, path) or path in invented), "")
        there = next((path for path in theirs.paths(names) if _has(got, path)), "")
        if not there and name in ("model", "stream"):
            there = URL
        if here and there:
            yield here, there


def _has(wire: Any, path: str) -> bool:
    return resolve(wire, path) not in (ABSENT, None)


def _alike(left: Request, right: Request) -> Iterator[tuple[str, str]]:
    """Parts, messages and tools that stand for each other."""
    tools = {tool.name: tool.where for tool in right.tools if isinstance(tool, ToolDeclaration)}
    for tool in left.tools:
        if isinstance(tool, ToolDeclaration) and tool.name in tools:
            yield tool.where, tools[tool.name]
    for place, one in enumerate(left.system if right.system else ()):
        yield one.where, right.system[min(place, len(right.system) - 1)].where  # or all in one text
    ours, theirs = list(_parts(left)), list(_parts(right))
    for one, other in _match([part for _, part in ours], [part for _, part in theirs]):
        yield ours[one][1].where, theirs[other][1].where
        yield ours[one][0], theirs[other][0]


def _parts(request: Request) -> Iterator[tuple[str, AnyPart]]:
    for message in request.messages:
        for part in message.parts:
            yield message.where, part


def _match(ours: list[AnyPart], theirs: list[AnyPart]) -> Iterator[tuple[int, int]]:
    """Equal parts first, in order; what is left by its kind, in order."""
    waiting: dict[Any, list[int]] = {}
    for place, part in enumerate(theirs):
        waiting.setdefault(_key(part), []).append(place)
    left: list[int] = []
    used: set[int] = set()
    for place, part in enumerate(ours):
        if found := waiting.get(_key(part)):
            used.add(found[0])
            yield place, found.pop(0)
        else:
            left.append(place)
    kinds: dict[type, list[int]] = {}
    for place, part in enumerate(theirs):
        if place not in used:
            kinds.setdefault(type(part), []).append(place)
    for place in left:
        if found := kinds.get(type(ours[place])):
            yield place, found.pop(0)


def _key(part: AnyPart) -> Any:
    match part:
        case Text() | Reasoning():
            return type(part), part.text
        case ToolCall():
            return (
                ToolCall,
                part.name,
                _encode_sorted(jsontext.decode_object(part.arguments) or part.arguments),
            )
        case ToolResult():
            return ToolResult, tuple([item.text if isinstance(item, Text) else "" for item in part.content])
        case Media():
            return Media, part.kind, str(part.source)[:200]
        case _:
            return type(part), part.where


def _inside(sent: Any, one: str, got: Any, other: str) -> Pairs:
    """Fields of two corresponding objects: equal values, then names that mean the same."""
    left, right = resolve(sent, one), resolve(got, other)
    if left is ABSENT or right is ABSENT:
        return []
    mine, theirs = list(leaves(left, "", _WHOLE)), list(leaves(right, "", _WHOLE))
    pairs = [(one + _join_path(a), other + _join_path(b)) for a, b in _equal(mine, theirs)]
    taken = {b for _, b in pairs}
    names: dict[str, str] = {}
    for path, _ in theirs:
        whole = other + _join_path(path)
        if path and whole not in taken:
            names.setdefault(_alias(path), whole)
    paired = {a for a, _ in pairs}
    for path, _ in mine:
        whole = one + _join_path(path)
        if path and whole not in paired and (found := names.pop(_alias(path), None)):
            pairs.append((whole, found))
    return pairs


def _join_path(path: str) -> str:
    return path if not path or path[0] == "[" else f".{path}"


def _alias(path: str) -> str:
    name = path.rpartition(".")[2].partition("[")[0]
    return _ALIAS.get(name, name)


def _equal(source: Iterable[tuple[str, Any]], target: Iterable[tuple[str, Any]]) -> Pairs:
    """Equal values of two lists of leaves, matched in document order.

    Texts of some length are matched wherever they stand, numbers and short texts only under the same name.
    """
    places: dict[Any, list[str]] = {}
    for path, value in target:
        places.setdefault(_token(path, value), []).append(path)
    pairs: Pairs = []
    for path, value in source:
        if found := places.get(_token(path, value)):
            pairs.append((path, found.pop(0)))
    return pairs


def _token(path: str, value: Any) -> Any:
    if is_object(value):
        return "text", _encode_sorted(value)
    if isinstance(value, str) and len(value) >= _SHORT:
        parsed = jsontext.decode_object(value) if value[:1] == "{" else None
        return "text", value if parsed is None else _encode_sorted(parsed)
    return last_name(path), type(value).__name__, str(value)


def _encode_sorted(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def silent_fields(sent: Any, pairs: Pairs, losses: Iterable[Loss]) -> list[str]:
    """Fields of the client that neither have a counterpart nor are reported as lost."""
    known = {one for one, _ in pairs} | {loss.where for loss in losses}
    return [path for path, _ in leaves(sent) if not any(each in known for each in _with_parents(path))]


def _with_parents(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
