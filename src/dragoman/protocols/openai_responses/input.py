"""`input` <-> messages.

The wire is flat: a turn of the assistant is a row of items (reasoning, messages, calls), and the
results are another row. Here each row is one message.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.protocols.openai_responses.calls import encode_call, encode_result
from dragoman.protocols.openai_responses.items import (
    decode_item,
    encode_reasoning,
    encode_reply,
    item_type,
    together,
)
from dragoman.protocols.openai_responses.parts import decode_content, encode_content, encode_part
from dragoman.protocols.openai_responses.wire import ITEM, PROTOCOL_NAME, QUIET_ITEM, native

_ROLES = frozenset({"user", "assistant", "system", "developer"})


def decode_input(items: str | list[Any], losses: Losses, searches: bool = False) -> tuple[Message, ...]:
    """`searches`: the client declared that it searches for tools itself."""
    if isinstance(items, str):
        return (
            Message("user", (Text(items, where="input"),), where="input", extras={ITEM: {"string": True}}),
        )
    messages: list[Message] = []
    row: list[AnyPart] = []
    role: Role | None = None
    for i, item in enumerate(items):
        where = f"input[{i}]"
        kind = item_type(item, where)
        if kind == "message" and item.get("role") != "assistant":
            _close(row, messages)
            role = None
            messages.append(_decode_message(Fields(item, where, PROTOCOL_NAME), losses))
            continue
        parts = decode_item(item, where, i, losses, history=True, searches=searches)
        if (side := _side(parts, kind, role)) != role:
            _close(row, messages)
            role = side
            messages.append(Message(side, (), where=where))
        row += [_noted(part) for part in parts]
    _close(row, messages)
    return tuple(messages)


def encode_input(messages: tuple[Message, ...], losses: Losses) -> str | list[Wire]:
    match messages:
        case (Message(parts=(Text(text),)) as only,) if own(only.extras, ITEM).get("string"):
            return text
        case _:
            return [item for message in messages for item in _encode_items(message, losses)]


def _close(row: list[AnyPart], messages: list[Message]) -> None:
    if row:
        messages[-1] = replace(messages[-1], parts=tuple(row))
        row.clear()


def _side(parts: tuple[AnyPart, ...], kind: str, role: Role | None) -> Role:
    """Whose row an item stands in; what nobody else understands breaks no row."""
    match parts:
        case (ToolResult(),):
            return "user"
        case (Foreign(),) if kind != "message":
            return role or ("assistant" if kind.endswith("_call") else "user")
        case _:
            return "assistant"


def _noted(part: AnyPart) -> AnyPart:
    """Reasoning that came with its state must not go back without it."""
    if isinstance(part, Reasoning) and part.state:
        return replace(part, extras={**(part.extras or {}), ITEM: {"state": True}})
    return part


def _decode_message(fields: Fields, losses: Losses) -> Message:
    role = fields.need("role", str)
    if role not in _ROLES:
        raise WireError(
            PROTOCOL_NAME, fields.path("role"), f"expected user, assistant, system or developer, got {role!r}"
        )
    parts = decode_content(fields.any("content"), fields.path("content"), losses)
    return Message(role, parts, where=fields.where, extras=fields.extras(losses, quiet=QUIET_ITEM))  # pyright: ignore[reportArgumentType] - checked above


def _encode_items(message: Message, losses: Losses) -> list[Wire]:
    if native(message):
        content = encode_content(message.parts, "input_text", losses)
        return [{"role": message.role, "content": content, **own(message.extras, PROTOCOL_NAME)}]
    return _encode_turn(message, losses) if message.role == "assistant" else _encode_rows(message, losses)


def _encode_turn(message: Message, losses: Losses) -> list[Wire]:
    """A turn of the assistant, as history.

    Servers check by their ids that items stand beside their reasoning: where that is left out, what
    follows it goes without an id.
    """
    items: list[Wire] = []
    orphaned = False
    for group in together(message.parts):
        match part := group[0]:
            case Reasoning():
                item = _encode_reasoning(part, losses)
                orphaned |= item is None
                items += [item] if item else []
            case ToolCall():
                item = encode_call(part, losses)
                items.append({key: value for key, value in item.items() if key != "id"} if orphaned else item)
            case ToolResult():
                items.append(encode_result(part, losses))
            case Foreign() if ITEM not in (part.extras or ()):
                items += [part.body] if part.origin == PROTOCOL_NAME else []
            case _ if ITEM in (part.extras or ()) and not orphaned:
                items.append(encode_reply(group, losses))
            case _:
                items += [item for part in group for item in _encode_said(part, losses)]
    if items and items[-1].get("type") == "reasoning" and not any(native(part) for part in message.parts):
        losses.dropped(message.where, "reasoning that nothing follows is refused")
        items.pop()
    return items


def _encode_reasoning(part: Reasoning, losses: Losses) -> Wire | None:
    """Only reasoning that its server can open, or that was never sealed, goes back."""
    if part.state and part.state.origin == PROTOCOL_NAME:
        return encode_reasoning(part, part.state.id, part.state.data)
    if native(part) and part.state is None and ITEM not in (part.extras or ()):
        return encode_reasoning(part, "", "")
    losses.dropped(part.where or "reasoning", f"{PROTOCOL_NAME} takes back only reasoning that it encrypted")
    return None


def _encode_said(part: AnyPart, losses: Losses) -> list[Wire]:
    """What the assistant said, in the short form that needs no id."""
    if isinstance(part, Text | Refusal):
        text = part.text
    else:
        text = "".join(wire.get("text", "") for wire in encode_part(part, "output_text", losses))
    if isinstance(part, Refusal):
        losses.changed(part.where, "a refusal goes back as its text")
    phase = own(part.extras, ITEM).get("message", {}).get("phase")
    more = {"phase": phase} if phase else {}
    return [{"type": "message", "role": "assistant", "content": text, **more}] if text else []


def _encode_rows(message: Message, losses: Losses) -> list[Wire]:
    """Results and items of ours, each on its own; what the user or the system said is one message."""
    items: list[Wire] = []
    spoken: list[AnyPart] = []
    for part in message.parts:
        match part:
            case ToolResult():
                items.append(encode_result(part, losses))
            case Foreign():
                items += [part.body] if part.origin == PROTOCOL_NAME else []
            case _:
                spoken.append(part)
    content = encode_content(spoken, "input_text", losses) if spoken else ""
    return [*items, {"type": "message", "role": message.role, "content": content}] if content else items
