"""A digest of a conversation that is the same however a client repeats it.

A reply counts without its white space, its reasoning and its ids, with arguments by their value: clients
trim, drop and encode these anew. What the client itself sent counts to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import AnyPart, Message, Refusal, Text, ToolCall, ToolResult


def fingerprint(beginning: Iterable[str], messages: Iterable[Message]) -> str:
    """Of `messages` behind a beginning that is given as texts."""
    return hashlib.sha256(jsontext.encode([list(beginning), *_turns(messages)])).hexdigest()


def _turns(messages: Iterable[Message]) -> Iterator[list[Any]]:
    """However many messages a client makes of it, a reply is one turn; calls are numbered in their order."""
    numbers: dict[str, int] = {}
    count = 0
    for is_reply, group in groupby(messages, lambda message: message.role == "assistant"):
        if not is_reply:
            yield [[message.role, _content(part, numbers)] for message in group for part in message.parts]
            continue
        parts = [part for message in group for part in message.parts]
        calls = [part for part in parts if isinstance(part, ToolCall) and part.complete]
        numbers |= {call.id: number for number, call in enumerate(calls, count)}
        count += len(calls)
        yield [_text(parts), *([call.name, call.namespace, _value(call.arguments)] for call in calls)]


def _text(parts: list[AnyPart]) -> str:
    texts = [part.text for part in parts if isinstance(part, Text | Refusal)]
    return "".join("".join(texts).split())


def _content(part: AnyPart, numbers: dict[str, int]) -> Any:
    match part:
        case Text():
            return part.text
        case ToolResult():
            content = [_content(item, numbers) for item in part.content]
            return [numbers.get(part.call_id, part.name), part.failed, content]
        case _:
            return _plain(part)


def _plain(value: Any) -> Any:
    """The fields of a part; its place and what only its protocol understands do not count."""
    if isinstance(value, Struct):
        fields = {name: _plain(item) for name, item in asdict(value).items()}
        return {name: item for name, item in fields.items() if name not in ("where", "extras", "state")}
    return value


def _value(arguments: str) -> Any:
    """JavaScript prints 5.0 as 5, and clients reorder keys; no arguments are an empty object."""
    try:
        return _ordered(jsontext.decode(arguments or "{}"))
    except ValueError:
        return "".join(arguments.split())


def _ordered(value: Any) -> Any:
    if is_object(value):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if is_array(value):
        return [_ordered(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    return value
