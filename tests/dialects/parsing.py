"""A model's text through a dialect's parser: whole, or cut wherever a test likes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core.codec import Stage
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseStart,
    fold,
)
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import AnyPart, Reasoning, Stop, Text, ToolCall, ToolDeclaration
from dragoman.dialects.engine.dialect import Dialect


def tool(
    name: str, required: Iterable[str] = (), description: str = "", **properties: Any
) -> ToolDeclaration:
    """A tool; a property is its type, or a whole schema."""
    shown = {key: {"type": it} if isinstance(it, str) else it for key, it in properties.items()}
    return ToolDeclaration(
        name, description, {"type": "object", "properties": shown, "required": [*(required or properties)]}
    )


def events(stage: Stage[Event, Event], pieces: Iterable[str], stop: Stop) -> list[Event]:
    reply: list[Event] = [ResponseStart("r", "m"), PartStart(0, Text())]
    reply += [PartDelta(0, piece) for piece in pieces]
    reply += [PartEnd(0), ResponseEnd(stop)]
    return [out for event in reply for out in stage.feed(event)] + list(stage.close())


def joined(events: Iterable[Event]) -> list[Event]:
    """Events with neighbouring deltas as one, which is all that a cut may change."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, PartDelta) and isinstance(last, PartDelta) and last.index == event.index:
            out[-1] = PartDelta(event.index, last.text + event.text)
        else:
            out.append(event)
    return out


def parse(
    dialect: Dialect, tools: Iterable[ToolDeclaration], *pieces: str, stop: str = "end"
) -> tuple[list[AnyPart], str, list[Loss]]:
    """The parts, the reason to stop, and the losses."""
    losses = Losses()
    response = fold(events(dialect.parser(tuple(tools), losses), pieces, Stop(stop)))  # type: ignore[arg-type]
    return list(response.parts), response.stop.reason, list(losses)


def in_short(*parts: AnyPart) -> list[Any]:
    """Parts in short: a text is its text, a call is (name, arguments), reasoning is ("think", text)."""
    return [short(part) for part in parts]


def short(part: AnyPart) -> Any:
    match part:
        case Text():
            return part.text
        case Reasoning():
            return ("think", part.text)
        case ToolCall():
            return (part.name, part.arguments)
        case _:
            return part
