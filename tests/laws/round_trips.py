"""Whether a conversation that goes to another protocol and back as a transcript says what it said, minus the
losses that both ways report.

A conversation is taken apart into facts: texts by role, calls, results, reasoning, media and tools.
A kind of fact may differ only where a loss of that kind was reported. Ids of calls may change, not which
result belongs to which call. A result may say in its text that the call failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Exchange, protocols
from dragoman.core.errors import DragomanError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    HostedTool,
    Media,
    Reasoning,
    Refusal,
    Request,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.protocols import codec
from laws.taint import Sample, of_the_tree, recorded

Fact = tuple[str, str]  # its kind, and what it says


class Trip(NamedTuple):
    """`missing` and `added` are facts that no loss explains; `codes` what both ways reported."""

    source: str
    target: str
    facts: int
    missing: tuple[Fact, ...]
    added: tuple[Fact, ...]
    codes: frozenset[str]


def trip(source: str, target: str, body: Any) -> Trip | None:
    """None where the body is refused on its way out, which is an error and no loss."""
    there = Exchange(source, target, transcript=True)
    try:
        before = facts(codec(source).decode_request(body, Losses()))
        away = there.request(body)
    except DragomanError:
        return None
    back = Exchange(target, source, transcript=True)
    after = facts(codec(source).decode_request(back.request(away), Losses()))
    codes = frozenset(loss.code for loss in (*there.losses, *back.losses))
    missing, added = unexplained(before, after, codes), unexplained(after, before, codes)
    return Trip(source, target, before.total(), missing, added, codes)


def unexplained(facts: Counter[Fact], others: Counter[Fact], codes: Iterable[str]) -> tuple[Fact, ...]:
    """The facts that the others lack though no loss of their kind was reported."""
    explained = {kind for code in codes for kind in EXPLAINS.get(code.partition(".")[0], ())}
    return tuple(fact for fact in (facts - others).elements() if fact[0] not in explained)


def facts(request: Request) -> Counter[Fact]:
    found = Counter[Fact]()
    texts: dict[str, list[str]] = {"system": [part.text for part in request.system]}
    calls = _Calls()
    for message in request.messages:
        role = "system" if message.role == "developer" else message.role
        for part in message.parts:
            if isinstance(part, Text):
                texts.setdefault(role, []).append(part.text)
            elif isinstance(part, Foreign) and part.body.get("type") == "additional_tools":
                pass  # they are among the tools
            elif isinstance(part, Reasoning):
                texts.setdefault("reasoning", []).append(part.text)
            else:
                found[_fact(part, calls)] += 1
    for role, said in texts.items():
        if text := "".join("".join(said).split()):
            kind = "reasoning" if role == "reasoning" else "text"
            found[kind, f"{role}: {text}"] += 1
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            found["hosted", tool.kind] += 1
        else:
            schema = json.dumps(_meaning(tool.parameters or {}), sort_keys=True)
            found["tool", f"{tool.name}: {tool.description}: {schema}"] += 1
    return found


def _meaning(schema: Any) -> Any:
    """Without what protocols spell in two ways: the order of names, null, and what `strict` says."""
    match schema:
        case {"additionalProperties": False, **rest}:
            return _meaning(rest)
        case {"nullable": True, "type": str(kind), **rest}:
            return _meaning({**rest, "type": [kind, "null"]})
        case {"required": [], **rest}:
            return _meaning(rest)
        case {"enum": [*values], **rest} if None in values:
            return _meaning({**rest, "enum": [value for value in values if value is not None]})
        case dict():
            return {name: sorted(value) if name == "required" and isinstance(value, list) else _meaning(value)
                    for name, value in schema.items()}  # fmt: skip
        case list():
            return [*map(_meaning, schema)]
        case _:
            return schema


def _fact(part: AnyPart, calls: _Calls) -> Fact:
    match part:
        case ToolCall():
            calls.add(part)
            try:
                arguments = json.dumps(json.loads(part.arguments or "{}"), sort_keys=True)
            except ValueError:
                arguments = part.arguments
            return "call", f"{part.name} {arguments}"
        case ToolResult():
            text = "".join(item.text for item in part.content if isinstance(item, Text))
            return "result", f"of call {calls.place(part)}: {''.join(_error(text).split())}"
        case Media():
            return "media", repr(part.source).replace("=')", "')")  # padding
        case Refusal():
            return "text", f"refusal: {part.text}"
        case Foreign():
            return "foreign", part.origin
        case _:
            return "text", part.text


class _Calls:
    """Which call a result answers: by its id, or, where the wire has none, the first open one of its name."""

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._open: list[int] = []

    def add(self, call: ToolCall) -> None:
        self._open.append(len(self._calls))
        self._calls.append(call)

    def place(self, result: ToolResult) -> int | None:
        for number in self._open:
            call = self._calls[number]
            if call.id == result.call_id and (call.id or call.name == result.name):
                self._open.remove(number)
                return number
        return None


def _error(text: str) -> str:
    """Gemini says in the text that a call failed, others beside it."""
    try:
        match json.loads(text):
            case {"error": str(error)}:
                return error
            case _:
                return text
    except ValueError:
        return text


# The kinds of facts that a loss explains, by the first word of its code
EXPLAINS: dict[str, tuple[str, ...]] = {
    "call": ("call",),
    "compaction": ("text", "foreign"),
    "hosted": ("hosted", "foreign", "call", "result", "text", "tool"),  # shown as text, or as a function
    "media": ("media", "text", "result"),  # a text says what is missing
    "message": ("text",),
    "part": ("foreign", "text", "result"),
    "reasoning": ("reasoning",),
    "result": ("result", "media", "text"),
    "store": ("foreign",),
    "setting": ("text",),  # the shape of an output, asked for in words
    "text": ("text", "result", "reasoning"),
    "tool": ("tool", "result"),  # a deferred tool is announced by the result of a search
}


def trips(samples: Iterable[Sample]) -> Iterator[Trip | None]:
    for (kind, source, body), target in product(samples, protocols()):
        if kind == "request" and target != source:
            yield trip(source, target, body)


def main() -> None:
    parser = argparse.ArgumentParser(description="Send recorded conversations to every protocol and back")
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    samples = (
        recorded(given.files) if given.files else (each for it in protocols() for each in of_the_tree(it))
    )
    made = [*trips(samples)]
    found = [each for each in made if each]
    reported = sum(bool(each.codes) for each in found)
    different = [each for each in found if each.missing or each.added]
    print(f"{len(found)} round trips with {sum(each.facts for each in found)} facts: {reported} with losses, "
          f"{len(different)} that differ otherwise; {len(made) - len(found)} refused")  # fmt: skip
    for each in different:
        print(f"{each.source} to {each.target} and back: {sorted(each.codes)}")
        for sign, several in (("-", each.missing), ("+", each.added)):
            for kind, said in several:
                print(f"  {sign} {kind} {said}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
