"""System text and messages <-> neutral ones.

A request that came from Anthropic's wire goes back as it came. A request of another protocol is put in the
order that Anthropic demands: it begins with a user turn, thinking is never last in a turn, system text stands
in front or right before a turn of the model, and no text is blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.history import sent_before, sent_prefix
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Message,
    Reasoning,
    Refusal,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.anthropic.hosted import is_made_here
from dragoman.protocols.anthropic.parts import decode_content, encode_content
from dragoman.protocols.anthropic.wire import NO_EXTRAS, PROTOCOL_NAME, is_native

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
# Claude Code's first system block; it differs in every request (G58: vllm#36829)
_ATTRIBUTION = "x-anthropic-billing-header:"
_CONTINUED = "(conversation continues)"
_TAKEN_ROLES = frozenset({"user", "assistant"})


def decode_message(message: Any, where: str, losses: Losses) -> Message:
    if is_object(message) and len(message) == 2 and (role := message.get("role")) in ("user", "assistant"):
        parts = decode_content(message.get("content"), f"{where}.content", losses, history=True)
        return Message(role, parts, where=where, extras=NO_EXTRAS)
    fields = Fields(message, where, PROTOCOL_NAME)
    role = _ROLES.get(name := fields.need("role", str))
    if role is None:
        raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected user, assistant or system, got {name!r}")
    parts = decode_content(fields.any("content"), f"{where}.content", losses, history=True)
    return Message(role, parts, where=where, extras=fields.extras(losses))


def decode_system(fields: Fields, losses: Losses) -> tuple[tuple[Text, ...], list[tuple[int, Wire]]]:
    """The system text, and the blocks of it that only Anthropic gets, with their places."""
    system = fields.any("system") if fields.rest.get("system") != [] else None
    if system is None:
        return (), []
    parts = decode_content(system, "system", losses)
    texts = [part for part in parts if isinstance(part, Text)]
    if len(texts) < len(parts):
        raise WireError(PROTOCOL_NAME, "system", "expected a string or an array of text blocks")
    if type(system) is str:
        return tuple(texts), []
    withheld = [(i, system[i]) for i, part in enumerate(texts) if part.text.startswith(_ATTRIBUTION)]
    if not withheld:
        return tuple(texts), []
    for i, _ in withheld:
        losses.dropped(f"system[{i}]", f"a billing header for {PROTOCOL_NAME} alone", "system.attribution")
    return tuple([part for part in texts if not part.text.startswith(_ATTRIBUTION)]), withheld


def encode_native(request: Request, losses: Losses) -> tuple[tuple[Text, ...], list[Wire]]:
    """System text and messages as they came; only thinking that others signed is withheld."""
    messages: list[Wire] = []
    for message in request.messages:
        parts = [part for part in message.parts if _is_sendable(part, losses)]
        if parts or not message.parts:
            wire = {"role": message.role, "content": encode_content(parts, losses)}
            messages.append(wire | own(message.extras, PROTOCOL_NAME))
    return request.system, messages


def encode_foreign(
    request: Request, profile: ModelProfile, losses: Losses
) -> tuple[list[Text], list[Wire | Raw]]:
    """System text and messages of a request from elsewhere, in the order that Anthropic demands."""
    system, leading = list(request.system), 0
    for message in request.messages:
        if not is_system(message):
            break
        system += _texts(message, losses)
        leading += 1
    messages = _encode_in_order(request, leading, losses) or _encode_mended(
        request.messages[leading:], profile, losses
    )
    return [text for text in system if not _is_blank(text.text)], messages


def _encode_in_order(request: Request, start: int, losses: Losses) -> list[Wire | Raw] | None:
    """Messages from `start` on that follow each other as Anthropic demands, as in nearly every request; None
    for others."""
    messages, past = request.messages, request.past
    roles = [message.role for message in messages[start:]]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        return None
    if not _TAKEN_ROLES.issuperset(roles) or "assistant assistant" in " ".join(roles):
        return None
    reported = Losses()
    count, wires = sent_prefix(messages, start, past, "", _encode_alone, reported)
    for message in messages[count:]:
        if sent := sent_before(message, past, "", _encode_alone):
            wires += sent.entries
            if sent.losses:
                reported.extend(sent.losses)
        elif (entry := _encode_alone(message, reported)) is None:
            return None
        else:
            wires += entry
    if reported.items:
        losses.extend(reported)
    return wires


def _encode_alone(message: Message, losses: Losses) -> list[Wire] | None:
    """A message that depends on no other; None where nothing is left of it."""
    turn = _ended(_fitted(message, losses), losses)
    return [{"role": turn.role, "content": encode_content(turn.parts, losses)}] if turn.parts else None


def _encode_mended(messages: Sequence[Message], profile: ModelProfile, losses: Losses) -> list[Wire | Raw]:
    turns = _joined([_fitted(message, losses) for message in messages])
    turns = [turn for turn in (_ended(turn, losses) for turn in turns) if turn.parts]
    turns = _placed(turns, profile.system_messages, losses)
    turns = _bounded(turns, not profile.prefill, losses)
    return [{"role": turn.role, "content": encode_content(turn.parts, losses)} for turn in turns]


def is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _texts(message: Message, losses: Losses) -> list[Text]:
    texts = [part for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        losses.dropped(
            message.where, "Anthropic takes system text, and nothing else from the system", "part.place"
        )
    return texts


def _is_sendable(part: AnyPart, losses: Losses) -> bool:
    """Anthropic takes back only what it made: thinking that it signed, searches of its own."""
    if isinstance(part, Foreign) and is_made_here(part.body):
        losses.dropped(part.where, "Anthropic takes back only searches of its own", "hosted.web_search")
        return False
    if not isinstance(part, Reasoning):
        return True
    if is_native(part) if part.state is None else part.state.origin == PROTOCOL_NAME:
        return True
    losses.dropped(part.where, "Anthropic takes back only reasoning that it signed", "reasoning.signature")
    return False


def _fitted(message: Message, losses: Losses) -> Message:
    """The parts that Anthropic takes: no blank text, no reasoning or citation but its own."""
    parts = [fitted for part in message.parts if (fitted := _fitted_part(part, losses))]
    is_same = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if is_same else replace(message, parts=tuple(parts))


def _fitted_part(part: AnyPart, losses: Losses) -> AnyPart | None:
    if type(part) is ToolCall or (type(part) is ToolResult and len(part.content) < 2):
        return part
    match part:
        case Text():
            return _fitted_text(part, losses)
        case ToolResult():
            content = [item for item in part.content if not (isinstance(item, Text) and _is_blank(item.text))]
            return part if len(content) == len(part.content) else replace(part, content=tuple(content))
        case Refusal():
            losses.changed(
                part.where, "Anthropic knows no refusals but in replies: sent as text", "message.refusal"
            )
            return None if _is_blank(part.text) else Text(part.text)
        case _:
            return part if _is_sendable(part, losses) else None


def _fitted_text(part: Text, losses: Losses) -> Text | None:
    if _is_blank(part.text):
        if part.text:
            losses.dropped(part.where, "Anthropic takes no blank text", "text.blank")
        return None
    if part.citations and not all(is_native(citation) for citation in part.citations):
        report_citations(losses, part, "Anthropic takes back only citations that it made")
        return replace(part, citations=())
    return part


def _joined(messages: list[Message]) -> list[Message]:
    """Turns of the model that follow each other are one turn, as Anthropic reads them."""
    joined: list[Message] = []
    for message in messages:
        if message.role == "assistant" and joined and joined[-1].role == "assistant":
            joined[-1] = replace(joined[-1], parts=(*joined[-1].parts, *message.parts))
        else:
            joined.append(message)
    return joined


def _ended(turn: Message, losses: Losses) -> Message:
    """A turn of the model may not end with thinking."""
    parts = turn.parts
    while turn.role == "assistant" and parts and isinstance(parts[-1], Reasoning):
        losses.dropped(
            parts[-1].where, "Anthropic takes no turn of the model that ends with thinking", "message.order"
        )
        parts = parts[:-1]
    return turn if parts is turn.parts else replace(turn, parts=parts)


def _placed(turns: list[Message], allowed: bool, losses: Losses) -> list[Message]:
    """System messages go right before a turn of the model, or to the end; elsewhere they are user text.

    They stay in the conversation: moved to the front they would invalidate the cached prefix (G54).
    """
    if not any(map(is_system, turns)):
        return turns
    placed: list[Message] = []
    waiting: list[Message] = []
    for turn in [*turns, None]:
        if turn is not None and is_system(turn):
            waiting.append(turn)
            continue
        if waiting and allowed and placed and placed[-1].role == "user":
            if turn is None or turn.role == "assistant":
                placed += [Message("system", tuple(_texts(message, losses))) for message in waiting]
                waiting = []
            for message in waiting:
                why = "system text goes behind the user's turn that follows it"
                losses.changed(message.where, why, "message.order")
        elif waiting and not _has_results(turn):  # results must follow their calls
            placed += [_as_user(message, losses) for message in waiting]
            waiting = []
        if turn is not None:
            placed.append(turn)
    return placed


def _has_results(turn: Message | None) -> bool:
    return turn is not None and any(isinstance(part, ToolResult) for part in turn.parts)


def _as_user(message: Message, losses: Losses) -> Message:
    why = "the model takes no system text at this place: it is sent as the user's"
    losses.changed(message.where, why, "message.role")
    return replace(message, role="user", parts=tuple(_texts(message, losses)))


def _bounded(turns: list[Message], user_last: bool, losses: Losses) -> list[Message]:
    """The first turn is the user's; the last one too, or else it does not end in white space."""
    if not turns or turns[0].role != "user":
        losses.invented(
            "messages", f"Anthropic needs a user's turn to begin with: {_CONTINUED}", "message.filler"
        )
        turns = [Message("user", (Text(_CONTINUED),)), *turns]
    last = turns[-1]
    if last.role != "assistant":
        return turns
    if user_last:
        losses.invented(
            "messages", f"the model needs a user's turn to end with: {_CONTINUED}", "message.filler"
        )
        return [*turns, Message("user", (Text(_CONTINUED),))]
    return [*turns[:-1], _trimmed(last, losses)]


def _trimmed(turn: Message, losses: Losses) -> Message:
    match turn.parts[-1]:
        case Text(text) as part if text != text.rstrip():
            losses.changed(
                part.where, "Anthropic takes no last turn that ends in white space: trimmed", "text.blank"
            )
            return replace(turn, parts=(*turn.parts[:-1], replace(part, text=text.rstrip())))
        case _:
            return turn
