"""Reasoning fields of assistant messages <-> reasoning parts.

Chat has no such field of its own. Servers show thoughts in `reasoning_content` or `reasoning`, and
some sign them in `reasoning_details`, which must come back unchanged. Toward clients we use the
first for the text and the last for sealed state: a client that echoes unknown fields returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, State, Text, Wire
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.openai_chat import models
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, SEALED, is_native

UNKNOWN = "[reasoning unavailable]"
_TEXTS = ("reasoning_content", "reasoning")


def decode_reasoning(fields: Fields) -> list[Reasoning]:
    """The thoughts of a reply: one part, with the fields it came in."""
    said = {key: fields.any(key) for key in _TEXTS if _has_text(fields.rest.get(key))}
    details = fields.rest.get("reasoning_details")
    if is_array(details) and details:
        said["reasoning_details"] = fields.any("reasoning_details")
    if not said:
        return []
    text = next((said[key] for key in _TEXTS if key in said), "") or details_text(details)
    state = State(PROTOCOL_NAME, jsontext.dumps(details)) if "reasoning_details" in said else None
    where = fields.path(next(iter(said)))
    return [Reasoning(text, not text, state=state, where=where, extras={PROTOCOL_NAME: said})]


def decode_echoed(fields: Fields) -> tuple[list[Reasoning], list[Reasoning]]:
    """The thoughts of a history, as (before the text, after it); what we sealed is opened again."""
    details = fields.rest.get("reasoning_details")
    sealed = [entry for entry in details if _is_sealed(entry)] if is_array(details) else []
    if not sealed:
        return decode_reasoning(fields), []
    where = fields.path("reasoning_details")
    for key in (*_TEXTS, "reasoning_details"):  # the sealed entries say it all
        fields.any(key)
    before = [_opened(entry, where) for entry in sealed if "after" not in entry]
    return before, [_opened(entry, where) for entry in sealed if "after" in entry]


def encode_history(parts: Sequence[AnyPart], model: str, losses: Losses) -> Wire:
    """The fields that give an upstream its thoughts back: all that it signed, text where it wants it."""
    wire: Wire = {}
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Reasoning) or "type" in (extras := own(part.extras, PROTOCOL_NAME)):
            continue
        if is_native(part):
            wire |= extras
        elif details := _own_details(part.state):
            wire["reasoning_details"] = [*wire.get("reasoning_details", ()), *details]
        elif part.text and models.takes_reasoning(model):
            texts.append(part.text)
        else:
            losses.dropped(part.where or "reasoning", "this upstream takes no reasoning back")
    return {"reasoning_content": "\n\n".join(texts), **wire} if texts else wire


def encode_reasoning(parts: Sequence[AnyPart]) -> Wire:
    """The fields that show a client the thoughts, and let it echo their state."""
    wire: Wire = {}
    thoughts = [part for part in parts if isinstance(part, Reasoning)]
    if any(is_native(part) for part in thoughts):
        for part in thoughts:
            extras = own(part.extras, PROTOCOL_NAME)
            wire |= extras if "type" not in extras else {}
        return wire
    if text := "".join([part.text for part in thoughts]):
        wire["reasoning_content"] = text
    if any(part.state for part in thoughts):
        wire["reasoning_details"] = _encode_details(parts)
    return wire


def encode_details(part: Reasoning, index: int, after: bool) -> list[Wire]:
    """The entries that carry one part; `after`: it stood behind the text."""
    if details := _own_details(part.state):
        return details
    kind, slot = ("reasoning.encrypted", "data") if part.hidden else ("reasoning.text", "signature")
    entry: Wire = {"type": kind, "format": SEALED, "index": index}
    if part.text:
        entry["text"] = part.text
    if part.state:
        entry[slot] = seal_state(part.state, "")
    return [{**entry, "after": "content"} if after else entry]


def details_text(details: Any) -> str:
    """What entries say in the open, where no other field does."""
    entries: Iterable[Any] = details if is_array(details) else ()
    spoken = [entry.get("text") or entry.get("summary") for entry in entries if is_object(entry)]
    return "".join([text for text in spoken if type(text) is str])


class Details:
    """`reasoning_details` as they stream in: pieces of the same entry are joined."""

    def __init__(self) -> None:
        self._entries: dict[str, Wire] = {}

    def add(self, details: list[Any]) -> str:
        """Keeps the pieces, and gives what they say in the open."""
        for piece in details:
            if is_object(piece):
                key = f"{piece.get('type')} {piece.get('index', len(self._entries))}"
                entry = self._entries.setdefault(key, {})
                for name, value in piece.items():
                    _grow(entry, name, value)
        return details_text(details)

    def settle(self) -> State | None:
        """The state that has come together; what comes later is another one."""
        if not self._entries:
            return None
        entries, self._entries = self._entries, {}
        return State(PROTOCOL_NAME, jsontext.dumps(list(entries.values())))


def _grow(entry: Wire, name: str, value: Any) -> None:
    old = entry.get(name)
    if name in ("text", "summary") and isinstance(old, str) and isinstance(value, str):
        entry[name] = old + value
    elif value is not None or old is None:
        entry[name] = value


def _encode_details(parts: Sequence[AnyPart]) -> list[Wire]:
    details: list[Wire] = []
    after = False
    for part in parts:
        after |= isinstance(part, Text)
        if isinstance(part, Reasoning):
            details += encode_details(part, len(details), after)
    return details


def _own_details(state: State | None) -> list[Wire]:
    """The entries behind state that Chat made."""
    if state is None or state.origin != PROTOCOL_NAME:
        return []
    try:
        details = jsontext.decode(state.data)
    except ValueError:
        return []
    return details if is_array(details) else []


def _opened(entry: Wire, where: str) -> Reasoning:
    text, sealed = entry.get("text"), entry.get("signature") or entry.get("data")
    return Reasoning(
        text if type(text) is str else "",
        entry.get("type") == "reasoning.encrypted",
        state=unseal_state(sealed, PROTOCOL_NAME) if type(sealed) is str else None,
        where=where,
    )


def _is_sealed(entry: Any) -> bool:
    return is_object(entry) and entry.get("format") == SEALED


def _has_text(value: Any) -> bool:
    return type(value) is str and value != ""
