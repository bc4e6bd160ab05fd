"""Items <-> parts: what the input of a request and the output of a response have in common.

A message item may hold several parts; a note under ITEM remembers which parts were one item, so
that they go back as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Foreign, Reasoning, Wire
from dragoman.core.seal import unseal_state
from dragoman.protocols.openai_responses.calls import CALLS, OUTPUTS, decode_call, decode_result
from dragoman.protocols.openai_responses.foreign import decode_foreign
from dragoman.protocols.openai_responses.parts import decode_content, encode_content
from dragoman.protocols.openai_responses.search import decode_found, decode_search, is_clients_search
from dragoman.protocols.openai_responses.wire import ITEM, PROTOCOL_NAME, QUIET_ITEM


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
    item: Any, where: str, at: int, losses: Losses, history: bool = False, searches: bool = False
) -> tuple[AnyPart, ...]:
    """The parts of an item that is not a user's message. `at` is its place among the items.

    `history`: it belongs to a request, whose client `searches` for tools itself.
    """
    kind = item_type(item, where)
    fields = Fields(item, where, PROTOCOL_NAME)
    match kind:
        case "message":
            return _decode_reply(fields, at, losses)
        case "reasoning":
            return (_decode_reasoning(fields, losses),)
        case _ if kind in CALLS:
            return (decode_call(fields, CALLS[kind], losses),)
        case _ if kind in OUTPUTS:
            return (decode_result(fields, OUTPUTS[kind], losses),)
        case "tool_search_call" if searches and is_clients_search(item):
            return (decode_search(fields, losses),)
        case "tool_search_output" if searches and is_clients_search(item):
            return (decode_found(fields, losses),)
        case _:
            return (decode_foreign(item, kind, where, losses, history),)


def together(parts: Iterable[AnyPart]) -> list[list[AnyPart]]:
    """`parts` in groups that were one item; what came from elsewhere stands alone."""
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
    """A message of the assistant. One without content says nothing elsewhere, and is kept whole."""
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


def _decode_reasoning(fields: Fields, losses: Losses) -> Reasoning:
    """A summary of one plain text is taken; any other stays in the extras too, to go back as it came."""
    text = "\n\n".join([*_texts(fields, "summary"), *_texts(fields, "content")])
    if text and "content" not in fields.rest and fields.rest.get("summary") == encode_summary(text):
        del fields.rest["summary"]
    id = fields.rest.get("id")
    encrypted = fields.nonempty("encrypted_content")
    state = unseal_state(encrypted, PROTOCOL_NAME, id if isinstance(id, str) else "") if encrypted else None
    return Reasoning(
        text,
        hidden=state is not None and not text,
        state=state,
        where=fields.where,
        extras=fields.extras(losses, quiet=QUIET_ITEM),
    )


def encode_reasoning(part: Reasoning, id: str, encrypted: str) -> Wire:
    rest = own(part.extras, PROTOCOL_NAME)
    wire: Wire = {"type": "reasoning", "id": id} if id else {"type": "reasoning"}
    if not rest or (part.text and "content" not in rest):
        wire["summary"] = encode_summary(part.text)
    if encrypted:
        wire["encrypted_content"] = encrypted
    return {**wire, **rest}


def encode_summary(text: str) -> list[Wire]:
    return [{"type": "summary_text", "text": text}] if text else []


def _texts(fields: Fields, key: str) -> list[str]:
    """The texts in an array that is read and left where it is."""
    entries: list[Any] = fields.rest.get(key) or []
    if type(entries) is not list:
        raise fields.wrong(key, "list", entries)
    inner = [Fields(entry, f"{fields.path(key)}[{i}]", PROTOCOL_NAME) for i, entry in enumerate(entries)]
    return [text for text in (entry.text("text") for entry in inner) if text]
