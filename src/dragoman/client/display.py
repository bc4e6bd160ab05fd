"""Messages as Markdown, for Jupyter: a notebook shows what a cell returns by its `_repr_markdown_`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LONGEST = 2000  # characters of a result that are shown


def markdown_of(messages: Iterable[Any]) -> str:
    """The text of the replies, with calls and their results between."""
    return "\n\n".join(piece for message in messages for piece in _pieces(message))


def _pieces(message: Any) -> Iterable[str]:
    match getattr(message, "role", ""), hasattr(message, "tool_call_id"):
        case "assistant", _:
            yield from [message.content] if message.content else []
            for call in message.tool_calls:
                function = call["function"]
                yield f"**→ {function['name']}**\n{_fence(function['arguments'], 'json')}"
        case _, True:
            mark = "✗" if message.failed else "✓"
            yield f"**{mark} {message.name}**\n{_fence(message.content[:_LONGEST])}"
        case "user", _ if message.content:
            yield "\n".join(f"> {line}" for line in message.content.split("\n"))
        case _:
            pass


def _fence(text: str, language: str = "") -> str:
    """A block of code, whose fence is longer than any inside."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"\n{fence}{language}\n{text}\n{fence}"
