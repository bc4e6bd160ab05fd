"""Opaque state goes back to the provider that made it, and to no other.

A text may be signed too (Gemini); a client protocol without a slot on its texts carries that state
in a hidden reasoning part right after the text, and here it finds its way back.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Reasoning, State, Text, ToolCall
from dragoman.core.seal import MAGIC, tag

_OF_TEXT, _ALONE = (
    "@text",
    "@alone",
)  # ids of state that belongs to a text: the one before it, or an empty one


def carrier(state: State, alone: bool) -> Reasoning:
    """The hidden part that carries the state of a text (or of an empty text, which says nothing itself)."""
    return Reasoning(hidden=True, state=State(state.origin, state.data, _ALONE if alone else _OF_TEXT))


def return_states(message: Message, origin: str, own: str, losses: Losses) -> Message:
    """`message` with the state that `origin` made under the name `own`, and without anybody else's."""
    if message.role != "assistant" or all(part.state is None for part in message.parts):
        return message
    parts = [_judge(part, origin, own, losses) for part in message.parts]
    return replace(message, parts=tuple(_uncarried(part for part in parts if part is not None)))


def _judge(part: AnyPart, origin: str, own: str, losses: Losses) -> AnyPart | None:
    state = part.state
    if state is None:
        return part
    if state.origin in (origin, own, tag(origin)):  # bare state of the protocol was not made by us: it passes
        if not state.data:
            return replace(part, state=None)
        return part if state.origin == own else replace(part, state=State(own, state.data, state.id))
    if not state.data:  # a mark that the part is not of the client's own protocol
        return replace(part, state=None, extras=None)
    maker = "another provider or account" if state.origin.startswith(MAGIC) else state.origin
    why = f"It was signed by {maker}. Nobody else can verify the signature."
    losses.dropped(part.where or "reasoning", why, "reasoning.signature")
    if isinstance(part, Reasoning) and not part.text:
        return None
    # without its extras: another provider of the same protocol did not make this reasoning or call
    return replace(part, state=None, extras=None if isinstance(part, Reasoning | ToolCall) else part.extras)


def _uncarried(parts: Iterable[AnyPart]) -> list[AnyPart]:
    """Hidden parts that carry the state of a text are put back on it."""
    settled: list[AnyPart] = []
    for part in parts:
        state = part.state
        if not isinstance(part, Reasoning) or state is None or state.id not in (_OF_TEXT, _ALONE):
            settled.append(part)
            continue
        bare = State(state.origin, state.data)
        last = settled[-1] if settled else None
        if state.id == _OF_TEXT and isinstance(last, Text) and last.state is None:
            settled[-1] = replace(last, state=bare)
        else:
            settled.append(Text(state=bare))
    return settled
