"""`input` <-> messages, and items <-> parts, which `output` shares.

The wire is flat: a turn of the assistant is a row of items (reasoning, messages, calls), and its results are
another row. Here each row is one message. A message item may hold several parts; a note under ITEM in their
extras says which parts were one item, so that they go back as one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from dragoman.core.conversations import summary_message
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.footprint import KeptResult
from dragoman.core.history import decoded_size, keep_decoded, sent_before, sent_prefix
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Loss, Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Extras,
    Foreign,
    Message,
    Past,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turns,
    Wire,
)
from dragoman.protocols.openai_responses.calls import (
    CALLS,
    OUTPUTS,
    decode_call,
    decode_result,
    encode_call,
    encode_result,
)
from dragoman.protocols.openai_responses.compaction import ITEMS as COMPACTIONS
from dragoman.protocols.openai_responses.compaction import TRIGGER, misplaced, summary_of
from dragoman.protocols.openai_responses.hosted import (
    decode_foreign,
    decode_found,
    decode_search,
    is_clients_search,
    is_hosted_shell,
)
from dragoman.protocols.openai_responses.parts import (
    decode_content,
    decode_reasoning,
    encode_content,
    encode_part,
    encode_reasoning,
)
from dragoman.protocols.openai_responses.wire import ITEM, PROTOCOL_NAME, QUIET_ITEM, native

_OUTPUT: Extras = {PROTOCOL_NAME: {"type": "function_call_output"}}  # shared, nobody writes into it
_ROLES = frozenset({"user", "assistant", "system", "developer"})


def decode_input(
    items: str | list[Any], losses: Losses, searches: bool = False
) -> tuple[tuple[Message, ...], Past | None]:
    """The messages, and which of them came before.

    `searches`: the client declared a tool search that it runs itself.
    """
    if isinstance(items, str):
        only = Message("user", (Text(items, where="input"),), where="input", extras={ITEM: {"string": True}})
        return (only,), None
    if type(items) is not Turns or (prefix := items.prefix) is None:
        return _decode_items(_NOTHING, items, len(items), losses, searches).rows.closed(), None
    known: _DecodedItems = prefix.decoded.get(searches, _NOTHING)
    if known.count < prefix.count:
        reported = Losses()
        reported.extend(known.losses)
        first, begun = known.count, len(known.closed)
        known = _decode_items(known, items, prefix.count, reported, searches)
        closed, row = known.rows.messages(), known.rows.row()
        ended = (*closed, row) if row else closed
        known = replace(known, losses=tuple(reported), closed=closed, ended=ended)
        keep_decoded(prefix, searches, known, decoded_size(prefix, first, closed[begun:]))
    if known.losses:
        losses.extend(known.losses)
    messages = _decode_items(known, items, len(items), losses, searches).rows.closed()
    went_on = not known.ended or messages[len(known.ended) - 1] is not known.ended[-1]
    return messages, Past(known.closed if went_on else known.ended, prefix.made, prefix.footprint)


class _DecodedItems(KeptResult):
    """The first `count` items; `closed` are the messages that later ones do not change.

    `ended`: those and the last one, which is the same as long as the next item does not continue it.
    """

    count: int
    rows: _Rows
    hosted: tuple[Any, ...] = ()
    losses: tuple[Loss, ...] = ()
    closed: tuple[Message, ...] = ()
    ended: tuple[Message, ...] = ()


def _decode_items(
    before: _DecodedItems, items: list[Any], end: int, losses: Losses, searches: bool
) -> _DecodedItems:
    """The items up to `end`, from those that were decoded before on."""
    rows, hosted = before.rows.copy(), [*before.hosted]
    wire_at = items.wire if isinstance(items, Turns) else items.__getitem__
    for i in range(before.count, end):
        where = f"input[{i}]"
        rows.add(_decode_entry(wire_at(i), where, i, losses, searches, hosted), where)
    return _DecodedItems(end, rows, tuple(hosted))


_Entry = Message | tuple[str, tuple[AnyPart, ...]]  # an item as a message, or its kind and parts


def _decode_entry(
    item: Any, where: str, at: int, losses: Losses, searches: bool, hosted: list[Any]
) -> _Entry:
    kind = item_type(item, where)
    if kind == "function_call_output" and len(item) == 3:  # the usual result, without the cost of Fields
        call_id, text = item.get("call_id"), item.get("output")
        if type(call_id) is type(text) is str and text:
            content = (Text(text, where=f"{where}.output"),)
            return kind, (ToolResult(call_id, content=content, where=where, extras=_OUTPUT),)
    if kind == "message" and item.get("role") != "assistant":
        return _decode_message(Fields(item, where, PROTOCOL_NAME), losses)
    if kind == "shell_call" and is_hosted_shell(item):
        hosted.append(item.get("call_id"))
    return kind, tuple(map(_noted, decode_item(item, where, at, losses, True, searches, hosted)))


class _Rows:
    """Items become messages: each row of items of one side is one.

    States:  no row → a row of the user or of the assistant → closed by an item of the other side
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._role: Role | None = None
        self._parts: list[AnyPart] = []
        self._where = ""
        self._row: Message | None = None  # the open row, once it was made a message

    def copy(self) -> _Rows:
        rows = _Rows()
        rows._messages, rows._parts = self._messages.copy(), self._parts.copy()
        rows._role, rows._where, rows._row = self._role, self._where, self._row
        return rows

    def messages(self) -> tuple[Message, ...]:
        """Those before the row that is open."""
        return tuple(self._messages)

    def row(self) -> Message | None:
        """The row that is open, as the message that it is if it ends here."""
        if self._row is None and self._role is not None:
            self._row = Message(self._role, tuple(self._parts), where=self._where)
        return self._row

    def add(self, entry: _Entry, where: str) -> None:
        if isinstance(entry, Message):
            self._close()
            self._messages.append(entry)
            return
        kind, parts = entry
        if (side := _side(parts, kind, self._role)) != self._role:
            self._close()
            self._role, self._where = side, where
        self._parts += parts
        self._row = None

    def _close(self) -> None:
        if row := self.row():
            self._messages.append(row)
            self._role, self._parts, self._row = None, [], None

    def closed(self) -> tuple[Message, ...]:
        self._close()
        return self.messages()


_NOTHING = _DecodedItems(0, _Rows())


def encode_input(
    messages: tuple[Message, ...], losses: Losses, past: Past | None = None, front: tuple[Message, ...] = ()
) -> str | list[Wire | Raw]:
    """`front`: messages of the request that are sent elsewhere."""
    match messages:
        case (Message(parts=(Text(text),)) as only,) if own(only.extras, ITEM).get("string"):
            return text
        case _:
            pass
    count, items = sent_prefix((*front, *messages), len(front), past, "", _encode_items, losses)
    for message in messages[count - len(front) :]:
        if sent := sent_before(message, past, "", _encode_items):
            items += sent.entries
            if sent.losses:
                losses.extend(sent.losses)
        else:
            items += _encode_items(message, losses)
    return items


_CHANGING = frozenset({"shell_call", "shell_call_output"})  # their meaning depends on who ran the shell
_REPEATING = frozenset({"message", "reasoning", *CALLS, *OUTPUTS}) - _CHANGING


def repeats(item: Wire) -> bool:
    """Whether the item means the same in every request of its conversation, whatever else stands there."""
    try:
        return item_type(item, "") in _REPEATING
    except WireError:
        return False


def _side(parts: tuple[AnyPart, ...], kind: str, role: Role | None) -> Role:
    """Whose row an item belongs to; an item that only this protocol has does not end a row."""
    match parts:
        case (ToolResult(),):
            return "user"
        case (Text(),) if kind in COMPACTIONS:
            return "user"
        case (Foreign(),) if kind != "message":
            return role or ("assistant" if kind.endswith("_call") else "user")
        case _:
            return "assistant"


def _noted(part: AnyPart) -> AnyPart:
    """Mark reasoning that came with state: it must not go back without it."""
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
    """A turn of the assistant in the history.

    OpenAI checks by id that an item follows the reasoning that it came with; where that reasoning is left
    out, the items after it are sent without an id.
    """
    items: list[Wire] = []
    orphaned = False
    for group in together(message.parts):
        match part := group[0]:
            case Reasoning():
                item = _encode_past_reasoning(part, losses)
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
                items += [item for part in group for item in _encode_short(part, losses)]
    if items and items[-1].get("type") == "reasoning" and not any(native(part) for part in message.parts):
        losses.dropped(message.where, "reasoning that nothing follows is refused", "reasoning.history")
        items.pop()
    return items


def _encode_past_reasoning(part: Reasoning, losses: Losses) -> Wire | None:
    """Only reasoning that this server encrypted, or that was never encrypted, goes back."""
    if part.state and part.state.origin == PROTOCOL_NAME:
        return encode_reasoning(part, part.state.id, part.state.data)
    if native(part) and part.state is None and ITEM not in (part.extras or ()):
        return encode_reasoning(part, "", "")
    losses.dropped(
        part.where or "reasoning",
        f"{PROTOCOL_NAME} takes back only reasoning that it encrypted",
        "reasoning.history",
    )
    return None


def _encode_short(part: AnyPart, losses: Losses) -> list[Wire]:
    """Text of the assistant in the short form, which needs no id."""
    if isinstance(part, Text | Refusal):
        text = part.text
    else:
        text = "".join(wire.get("text", "") for wire in encode_part(part, "output_text", losses))
    if isinstance(part, Refusal):
        losses.changed(part.where, "a refusal goes back as its text", "message.refusal")
    if isinstance(part, Text) and part.citations:
        report_citations(losses, part, f"{PROTOCOL_NAME} takes no foreign sources")
    phase = own(part.extras, ITEM).get("message", {}).get("phase")
    more = {"phase": phase} if phase else {}
    return [{"type": "message", "role": "assistant", "content": text, **more}] if text else []


def _encode_rows(message: Message, losses: Losses) -> list[Wire]:
    """Results and items of this protocol, each on its own; all other parts are one message."""
    items: list[Wire] = []
    content_parts: list[AnyPart] = []
    for part in message.parts:
        match part:
            case ToolResult():
                items.append(encode_result(part, losses))
            case Foreign():
                items += [part.body] if part.origin == PROTOCOL_NAME else []
            case _:
                content_parts.append(part)
    content = encode_content(content_parts, "input_text", losses) if content_parts else ""
    return [*items, {"type": "message", "role": message.role, "content": content}] if content else items


def item_type(item: Any, where: str) -> str:
    """Messages and references may leave their type out."""
    if not is_object(item):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(item)}")
    if type(kind := item.get("type")) is str:
        return kind
    if type(item.get("role")) is str:
        return "message"
    if type(item.get("id")) is str:
        return "item_reference"
    raise WireError(PROTOCOL_NAME, where, "expected an item with a type or a role")


def decode_item(
    item: Any,
    where: str,
    at: int,
    losses: Losses,
    history: bool = False,
    searches: bool = False,
    hosted: Container[Any] = (),
) -> tuple[AnyPart, ...]:
    """The parts of an item that is not a user's message. `at` is its position among the items.

    `history`: it is part of a request. `searches`: the client declared a tool search that it runs itself.
    `hosted`: ids of the shell calls that the server ran.
    """
    kind = item_type(item, where)
    fields = Fields(item, where, PROTOCOL_NAME)
    match kind:
        case "message":
            return _decode_reply(fields, at, losses)
        case "reasoning":
            return (decode_reasoning(fields, losses),)
        case "shell_call" if is_hosted_shell(item):
            return (decode_foreign(item, kind, where, losses, history),)
        case _ if kind in CALLS:
            return (decode_call(fields, CALLS[kind], losses),)
        case "shell_call_output" if not history or item.get("call_id") in hosted:
            return (decode_foreign(item, kind, where, losses, history),)
        case _ if kind in OUTPUTS:
            return (decode_result(fields, OUTPUTS[kind], losses),)
        case "tool_search_call" if searches and is_clients_search(item):
            return (decode_search(fields, losses),)
        case "tool_search_output" if searches and is_clients_search(item):
            return (decode_found(fields, losses),)
        case _ if kind in COMPACTIONS and history and (summary := summary_of(item)):
            return (Text(summary_message(summary), where=where),)
        case _ if kind == TRIGGER:  # decode_request takes the last one
            raise misplaced(where)
        case _:
            return (decode_foreign(item, kind, where, losses, history),)


def together(parts: Iterable[AnyPart]) -> list[list[AnyPart]]:
    """`parts` in groups that were one item; a part of another protocol is a group of its own."""
    groups: list[list[AnyPart]] = []
    last: Any = None
    for part in parts:
        at = own(part.extras, ITEM).get("at")
        if at is not None and at == last:
            groups[-1].append(part)
        else:
            groups.append([part])
        last = at
    return groups


def _decode_reply(fields: Fields, at: int, losses: Losses) -> tuple[AnyPart, ...]:
    """A message of the assistant. One without content means nothing elsewhere and is kept whole."""
    content = fields.any("content")
    if content == []:
        return (Foreign(PROTOCOL_NAME, {**fields.rest, "content": []}, where=fields.where),)
    note = {"at": at, "message": fields.rest}
    fields.extras(losses, quiet=QUIET_ITEM)
    parts = decode_content(content, f"{fields.where}.content", losses)
    return tuple([replace(part, extras={**(part.extras or {}), ITEM: note}) for part in parts])


def encode_reply(parts: list[AnyPart], losses: Losses) -> Wire:
    """The one item that `parts` came from."""
    envelope: Wire = own(parts[0].extras, ITEM)["message"]
    return {**envelope, "content": encode_content(parts, "output_text", losses)}
