"""State that follows its text.

A stream tells a text before the state that belongs to it, so to a client the state goes in an empty
part of its own. Gemini's own state is never moved; another's comes back here to the text it was made for.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.model import AnyPart, Message, Reasoning, Text
from dragoman.protocols.gemini.wire import PROTOCOL_NAME


def rejoined(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """`messages` with foreign state on its text, even where a client made a content of every chunk."""
    if not any(_is_trailer(part) for message in messages for part in message.parts):
        return messages
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == joined[-1].role == "assistant":
            joined[-1] = replace(joined[-1], parts=joined[-1].parts + message.parts)
        else:
            joined.append(message)
    return tuple([replace(message, parts=tuple(_settled(message.parts))) for message in joined])


def _is_trailer(part: AnyPart) -> bool:
    state = part.state
    return (
        state is not None
        and state.origin != PROTOCOL_NAME
        and isinstance(part, Text | Reasoning)
        and not part.text
    )


def _settled(parts: tuple[AnyPart, ...]) -> list[AnyPart]:
    settled: list[AnyPart] = []
    for part in parts:
        if isinstance(part, Text | Reasoning) and _is_trailer(part):
            part = _onto(part, _taken_back(settled, type(part)))
        settled.append(part)
    return settled


def _taken_back(settled: list[AnyPart], kind: type[Text | Reasoning]) -> str:
    """The text at the end of `settled` that has no state yet, taken off it."""
    texts: list[str] = []
    while settled and isinstance(last := settled[-1], kind) and last.state is None:
        texts.append(last.text)
        settled.pop()
    return "".join(reversed(texts))


def _onto(trailer: Text | Reasoning, text: str) -> Text | Reasoning:
    if isinstance(trailer, Text):
        return replace(trailer, text=text)
    return replace(trailer, text=text, hidden=not text)
