"""System text and messages <-> neutral ones.

A request that came from this wire goes back as it came. One of another protocol is put in the order that
Bedrock demands: system text in front, then turns of user and model in alternation, the user's first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Foreign, Media, Message, Reasoning, Request, Role, Text, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.bedrock_converse.parts import CachePoints, decode_content, encode_content
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_CONTINUED = "(conversation continues)"
_SEE_DOCUMENT = "(see the document)"


def decode_message(message: Any, where: str, losses: Losses) -> Message:
    fields = Fields(message, where, PROTOCOL_NAME)
    role = _ROLES.get(name := fields.need("role", str))
    if role is None:
        raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected user, assistant or system, got {name!r}")
    parts = decode_content(fields.any("content"), f"{where}.content", losses)
    return Message(role, parts, where=where, extras=fields.extras(losses))


def decode_system(system: Any, losses: Losses) -> tuple[tuple[Text, ...], list[Wire]]:
    """The system text, and the blocks of it that are no text."""
    parts = decode_content(system, "system", losses)
    texts = tuple([part for part in parts if isinstance(part, Text)])
    return texts, [part.body for part in parts if isinstance(part, Foreign)]


def encode_native(request: Request, points: CachePoints, losses: Losses) -> tuple[list[Wire], list[Wire]]:
    """System text and messages as they came; only reasoning that others signed is withheld."""
    system = encode_content(request.system, points, losses)
    messages: list[Wire] = []
    for message in request.messages:
        if (blocks := encode_content(message.parts, points, losses)) or not message.parts:
            messages.append({"role": message.role, "content": blocks} | own(message.extras, PROTOCOL_NAME))
    return system, messages


def encode_foreign(
    request: Request, profile: ModelProfile, points: CachePoints, losses: Losses
) -> tuple[list[Wire], list[Wire]]:
    """System text and messages of a request from elsewhere, in the order that Bedrock demands."""
    leading = next(
        (i for i, each in enumerate(request.messages) if not _is_system(each)), len(request.messages)
    )
    texts = [*request.system]
    for message in request.messages[:leading]:
        texts += _texts(message, losses)
    system = encode_content(texts, points, losses)
    turns: list[Wire] = []
    for message in request.messages[leading:]:
        turn = encode_message(message, points, losses)
        if turn["content"]:
            _join(turns, turn)
    return system, _bounded(turns, profile, losses)


def encode_message(message: Message, points: CachePoints, losses: Losses) -> Wire:
    """A message that depends on no other; system text within the conversation is sent as the user's."""
    parts: tuple[AnyPart, ...] = message.parts
    role = "assistant" if message.role == "assistant" else "user"
    if _is_system(message):
        why = "system text within the conversation is sent as the user's"
        losses.changed(message.where, why, "message.role")
        parts = tuple(_texts(message, losses))
    if role == "assistant":
        parts = _without_last_thinking(parts, losses)
    blocks = encode_content(parts, points, losses)
    if _has_lone_document(parts):  # "A text block is required when using documents" (Converse API reference)
        losses.invented(
            message.where, f"Bedrock needs text beside a document: {_SEE_DOCUMENT}", "message.filler"
        )
        blocks.append({"text": _SEE_DOCUMENT})
    return {"role": role, "content": blocks}


def _is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def _texts(message: Message, losses: Losses) -> list[Text]:
    texts = [part for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        losses.dropped(
            message.where, "Bedrock takes system text, and nothing else from the system", "part.place"
        )
    return texts


def _without_last_thinking(parts: tuple[AnyPart, ...], losses: Losses) -> tuple[AnyPart, ...]:
    """Claude refuses a turn of the model that ends with thinking."""
    while parts and isinstance(parts[-1], Reasoning):
        why = "Claude takes no turn of the model that ends with thinking"
        losses.dropped(parts[-1].where, why, "message.order")
        parts = parts[:-1]
    return parts


def _has_lone_document(parts: Iterable[AnyPart]) -> bool:
    kinds = [isinstance(part, Media) and part.kind == "document" for part in parts]
    return any(kinds) and not any(isinstance(part, Text) and part.text.strip() for part in parts)


def _join(turns: list[Wire], turn: Wire) -> None:
    """Neighbours of one role are one turn."""
    if turns and turns[-1]["role"] == turn["role"]:
        turns[-1] = {"role": turn["role"], "content": [*turns[-1]["content"], *turn["content"]]}
    else:
        turns.append(turn)


def _bounded(turns: list[Wire], profile: ModelProfile, losses: Losses) -> list[Wire]:
    """The first turn is the user's, and the last one where the model goes on with no turn of its own."""
    filler: Wire = {"role": "user", "content": [{"text": _CONTINUED}]}
    if not turns or turns[0]["role"] != "user":
        why = f"Bedrock needs a user's turn to begin with: {_CONTINUED}"
        losses.invented("messages", why, "message.filler")
        turns = [filler, *turns]
    if turns[-1]["role"] == "assistant" and not profile.prefill:
        why = f"the model needs a user's turn to end with: {_CONTINUED}"
        losses.invented("messages", why, "message.filler")
        turns = [*turns, filler]
    return turns
