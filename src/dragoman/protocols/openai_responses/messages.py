"""`input` <-> messages, and items <-> parts, which `output` shares.

The wire is flat: a turn of the assistant is a row of items (reasoning, messages, calls), and its results are
another row. Here each row is one message. A message item may hold several parts; a note under ITEM in their
extras says which parts were one item, so that they go back as one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, groups_of, own
from dragoman.core.fold import Fold, FoldRun, Restart
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Extras,
    Foreign,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
    summary_message,
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
from dragoman.protocols.openai_responses.wire import FINAL, ITEM, PROTOCOL_NAME, QUIET_ITEM, is_native

_OUTPUT: Extras = {PROTOCOL_NAME: {"type": "function_call_output"}}  # shared, nobody writes into it
_ROLES = frozenset({"user", "assistant", "system", "developer"})


class InputText(Struct, frozen=True, gc=False):
    """An input that is a string."""

    text: str


class DecodeItems(Fold, frozen=True):
    """`searches`: the client declared a tool search that it runs itself. `holds`: a row goes on once it is
    closed; else it does at its first call, which is often its last item."""

    searches: bool
    holds: bool = True

    def begin(self, state: _RowState | None = None) -> FoldRun:
        state = state or _NO_ROW
        parts, hosted = [*state.parts], [*state.hosted]
        return _RowReader(self, state.count, state.role, state.where, parts, state.is_sent, hosted)


class _RowState(Struct, frozen=True, gc=False):
    """The row that is open: its side, its parts and where it began; if it `is_sent`, it went on already.
    `hosted` are ids of shell calls that the server ran."""

    count: int = 0
    role: Role | None = None
    parts: tuple[AnyPart, ...] = ()
    where: str = ""
    is_sent: bool = False
    hosted: tuple[Any, ...] = ()


_NO_ROW = _RowState()


class _RowReader(FoldRun):
    """Items → messages: each row of items of one side is one.

    States:  no row → a row of the user or of the assistant → closed by an item of the other side
    """

    fold: DecodeItems
    count: int
    role: Role | None
    where: str
    parts: list[AnyPart]
    is_sent: bool
    hosted: list[Any]

    def state(self) -> _RowState:
        parts, hosted = tuple(self.parts), tuple(self.hosted)
        return _RowState(self.count, self.role, parts, self.where, self.is_sent, hosted)

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        out: list[Message] = []
        for at, item in enumerate(items, self.count):
            if type(item) is InputText:
                out.append(_decode_string(item.text))
                continue
            where = f"input[{at}]"
            entry = _decode_entry(item, where, at, self.losses, self.fold.searches, self.hosted)
            if isinstance(entry, Message):
                out += self.close()
                out.append(entry)
                continue
            kind, parts = entry
            if (side := _side(parts, kind, self.role)) != self.role:
                out += self.close()
                self.role, self.where = side, where
            elif self.is_sent:
                raise Restart(holds=True)
            self.parts += parts
            if kind == "function_call" and not self.fold.holds:
                out.append(Message(side, tuple(self.parts), where=self.where))
                self.parts, self.is_sent = [], True
        self.count += len(items)
        return out

    def close(self) -> Sequence[Message]:
        role, is_sent = self.role, self.is_sent
        self.role, self.is_sent = None, False
        if role is None or is_sent:
            return ()
        row = Message(role, tuple(self.parts), where=self.where)
        self.parts = []
        return (row,)


def _decode_string(text: str) -> Message:
    return Message("user", (Text(text, where="input"),), where="input", extras={ITEM: {"string": True}})


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


class EncodeItems(Fold, frozen=True):
    """`takes_system`: the first message becomes `instructions`, where it is system text. `keeps_loaded`:
    `additional_tools` stay; else a dialect has described all tools in the prompt."""

    takes_system: bool
    keeps_loaded: bool

    def begin(self, state: _ItemState | None = None) -> FoldRun:
        state = state or _NO_ITEM
        return _ItemWriter(
            self, state.is_first, state.instructions, state.only, state.is_empty, state.written
        )


class ItemFacts(Struct, frozen=True, gc=False):
    """`string`: all of the input is this text. `is_empty`: there is no message."""

    instructions: Text | None = None
    string: str | None = None
    is_empty: bool = True


class _ItemState(Struct, frozen=True, gc=False):
    """`only` is a message that is sent as a string, if no other comes. `written`: some message was."""

    is_first: bool = True
    instructions: Text | None = None
    only: Message | None = None
    is_empty: bool = True
    written: bool = False


_NO_ITEM = _ItemState()


class _ItemWriter(FoldRun):
    """Messages → items."""

    fold: EncodeItems
    is_first: bool
    instructions: Text | None
    only: Message | None
    is_empty: bool
    written: bool

    def state(self) -> _ItemState:
        return _ItemState(self.is_first, self.instructions, self.only, self.is_empty, self.written)

    def facts(self) -> ItemFacts:
        only = self.only.parts[0] if self.only else None
        string = only.text if isinstance(only, Text) else None
        return ItemFacts(self.instructions, string, self.is_empty)

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        for message in items:
            is_first, self.is_first = self.is_first, False
            if is_first and self.fold.takes_system and (text := _only_system(message)):
                self.instructions = text
                continue
            self.is_empty = False
            kept = message if self.fold.keeps_loaded else _without_loaded(message)
            if kept is None:
                continue
            if self.only:
                entries += _encode_items(self.only, self.losses)
                self.only = None
            elif not self.written and _is_string(kept):
                self.only, self.written = kept, True
                continue
            self.written = True
            entries += _encode_items(kept, self.losses)
        return entries


def _only_system(message: Message) -> Text | None:
    """Chat begins its conversation with the system text."""
    match message:
        case Message("system", (Text() as text,)):
            return text
        case _:
            return None


def _is_string(message: Message) -> bool:
    parts = message.parts
    return len(parts) == 1 and isinstance(parts[0], Text) and bool(own(message.extras, ITEM).get("string"))


def _without_loaded(message: Message) -> Message | None:
    """Without `additional_tools` items; None where it was nothing else."""
    parts = tuple([part for part in message.parts if not _loads(part)])
    if len(parts) == len(message.parts):
        return message
    return replace(message, parts=parts) if parts else None


def _loads(part: AnyPart) -> bool:
    match part:
        case Foreign(body={"type": "additional_tools", "tools": [_, *_]}):
            return True
        case _:
            return False


_REPEATING = frozenset({"message", "reasoning", *CALLS, *OUTPUTS})


def repeats(item: Any) -> bool:
    """Whether the item matters to its conversation alone: it neither declares nor refers to something."""
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
    return Message(role, parts, where=fields.where, extras=fields.extras(losses, quiet=_quiet(fields)))  # pyright: ignore[reportArgumentType] - checked above


def _quiet(fields: Fields) -> frozenset[str]:
    return FINAL if fields.rest.get("phase") == "final_answer" else QUIET_ITEM


def _encode_items(message: Message, losses: Losses) -> list[Wire]:
    if is_native(message):
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
    for group in groups_of(message.parts, ITEM):
        if isinstance(part := group[0], Reasoning):
            item = _encode_past_reasoning(part, losses)
            orphaned |= item is None
            items += [item] if item else []
        else:
            items += _encode_group(group, orphaned, losses)
    if items and items[-1].get("type") == "reasoning" and not any(is_native(part) for part in message.parts):
        losses.dropped(
            message.where,
            "Nothing follows this reasoning. The server refuses reasoning at the end.",
            "reasoning.history",
        )
        items.pop()
    return items


def _encode_group(group: list[AnyPart], orphaned: bool, losses: Losses) -> list[Wire]:
    """Parts that were one item, `orphaned` of the reasoning that it came with."""
    part = group[0]
    is_item = ITEM in (part.extras or ())
    match part:
        case ToolCall():
            item = encode_call(part, losses)
            return [{key: value for key, value in item.items() if key != "id"} if orphaned else item]
        case ToolResult():
            return [encode_result(part, losses)]
        case Foreign() if not is_item:
            return [part.body] if part.origin == PROTOCOL_NAME else []
        case _ if is_item and not orphaned:
            return [encode_reply(group, losses)]
        case _:
            return [item for part in group for item in _encode_short(part, losses)]


def _encode_past_reasoning(part: Reasoning, losses: Losses) -> Wire | None:
    """Only reasoning that this server encrypted, or that was never encrypted, goes back."""
    if part.state and part.state.origin == PROTOCOL_NAME:
        return encode_reasoning(part, part.state.id, part.state.data)
    if is_native(part) and part.state is None and ITEM not in (part.extras or ()):
        return encode_reasoning(part, "", "")
    losses.dropped(
        part.where or "reasoning",
        f"{PROTOCOL_NAME} takes back only reasoning that it encrypted.",
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
        losses.changed(part.where, "A refusal goes back as its text.", "message.refusal")
    if isinstance(part, Text) and part.citations:
        report_citations(losses, part, f"{PROTOCOL_NAME} takes no sources of others.")
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


def _decode_reply(fields: Fields, at: int, losses: Losses) -> tuple[AnyPart, ...]:
    """A message of the assistant. One without content means nothing elsewhere and is kept whole."""
    content = fields.any("content")
    if content == []:
        return (Foreign(PROTOCOL_NAME, {**fields.rest, "content": []}, where=fields.where),)
    if content is None and fields.rest.get("id"):  # of a stream whose deltas say it (Hugging Face)
        return (Foreign(PROTOCOL_NAME, fields.rest, where=fields.where),)
    note = {"at": at, "message": fields.rest}
    fields.extras(losses, quiet=_quiet(fields))
    parts = decode_content(content, f"{fields.where}.content", losses)
    return tuple([replace(part, extras={**(part.extras or {}), ITEM: note}) for part in parts])


def encode_reply(parts: list[AnyPart], losses: Losses) -> Wire:
    """The one item that `parts` came from."""
    envelope: Wire = own(parts[0].extras, ITEM)["message"]
    return {**envelope, "content": encode_content(parts, "output_text", losses)}
