"""System text and messages <-> neutral ones.

A request that came from this wire goes back as it came. One of another protocol is put in the order that
Bedrock demands: system text in front, then turns of user and model in alternation, the user's first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.fold import DecodeRun, Fold, FoldRun
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.protocols.bedrock_converse.parts import CachePoints, decode_content, encode_content
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_CONTINUED = "(conversation continues)"
_SEE_DOCUMENT = "(see the document)"
_FILLER: Wire = {"role": "user", "content": [{"text": _CONTINUED}]}


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


class DecodeConverse(Fold, frozen=True):
    def begin(self, state: Any = None) -> DecodeRun:
        return DecodeRun(decode_message, "messages", state or 0)


class EncodeConverse(Fold, frozen=True):
    """`native`: messages as they came; only reasoning that others signed is withheld. `caches`: the model has
    a prompt cache. `short`: the system text has a cache point of five minutes."""

    native: bool
    prefill: bool
    caches: bool
    short: bool
    record: bool  # no server answers: nothing is added that one would demand

    def begin(self, state: _WrittenState | None = None) -> FoldRun:
        written = state or _WrittenState(short=self.short)
        kind = _AsItCameWriter if self.native else _ConverseWriter
        return kind(self, written, dict(written.calls), dict(written.names), more=(Losses(),))


class ConverseFacts(Struct, frozen=True, gc=False):
    """`system` is system text that leads the conversation. `calls` are the names that the history calls, with
    their places. `lacks_thinking`: the turn of the model that goes on does not begin with thinking."""

    system: tuple[Text, ...]
    calls: tuple[tuple[str, str], ...]
    has_tools: bool
    lacks_thinking: bool


class _WrittenState(Struct, frozen=True, gc=False):
    """`role` and `content` are the turn that the next message may join, `before` what the turn before it
    began with. `short`: a cache point of five minutes was written. `names` of documents, and how often each
    was asked for."""

    system: tuple[Text, ...] = ()
    is_leading: bool = True
    role: str = ""
    content: tuple[Wire, ...] = ()
    before: str = ""
    short: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, int], ...] = ()
    has_tools: bool = False


class _AsItCameWriter(FoldRun):
    """Messages → entries."""

    fold: EncodeConverse
    written: _WrittenState
    calls: dict[str, str]
    names: dict[str, int]

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        points = CachePoints(self.fold.caches, self.losses, self.written.short)
        for message in items:
            entries += self._write(message, points)
            self._note(message, points)
        return entries

    def state(self) -> _WrittenState:
        return replace(self.written, calls=tuple(self.calls.items()), names=tuple(self.names.items()))

    def facts(self) -> ConverseFacts:
        written = self.written
        ends_in_result = any("toolResult" in block for block in written.content)
        lacks_thinking = ends_in_result and written.before not in ("", "reasoningContent")
        return ConverseFacts(written.system, tuple(self.calls.items()), written.has_tools, lacks_thinking)

    def _write(self, message: Message, points: CachePoints) -> list[Wire]:
        blocks = encode_content(message.parts, points, self.losses)
        if not blocks and message.parts:
            return []
        return [{"role": message.role, "content": blocks} | own(message.extras, PROTOCOL_NAME)]

    def _note(self, message: Message, points: CachePoints) -> None:
        """What the other fields need to know of the conversation."""
        has_tools = False
        for part in message.parts:
            if isinstance(part, ToolCall):
                self.calls.setdefault(part.name, part.where or part.name)
            has_tools = has_tools or isinstance(part, ToolCall | ToolResult)
        if (has_tools and not self.written.has_tools) or points.short != self.written.short:
            self.written = replace(
                self.written, has_tools=has_tools or self.written.has_tools, short=points.short
            )


class _ConverseWriter(_AsItCameWriter):
    """In the order that Bedrock demands: the last turn stays open, because the next message may join it."""

    def _write(self, message: Message, points: CachePoints) -> list[Wire]:
        written = self.written
        if written.is_leading and _is_system(message):
            self.written = replace(written, system=(*written.system, *_texts(message, self.losses)))
            return []
        turn = encode_message(message, points, self.fold.record, self.losses)
        role, content = turn["role"], tuple(turn["content"])
        for document in _documents(content):
            self._name_once(document)
        if not content:
            self.written = replace(written, is_leading=False)
            return []
        if role == written.role:  # neighbours of one role are one turn
            self.written = replace(written, content=(*written.content, *content))
            return []
        entries = [_turn(written.role, written.content)] if written.role else []
        if not written.role and role == "assistant" and not self.fold.record:
            why = f"For Bedrock a conversation begins with the user. {_CONTINUED!r} was sent."
            self.losses.invented("messages", why, "message.filler")
            entries = [_FILLER]
        before = next(iter(written.content[0])) if written.content else ""
        self.written = replace(written, is_leading=False, role=role, content=content, before=before)
        return entries

    def _name_once(self, document: Wire) -> None:
        """A file that stands in the conversation twice would have one name twice, which is refused
        ("Messages can't contain duplicate document names", aws-samples/generative-ai-use-cases#1685)."""
        name = document["name"]
        self.names[name] = count = self.names.get(name, 0) + 1
        if count > 1:
            document["name"] = f"{name} ({count})"

    def close(self) -> list[Wire]:
        """The open turn, and a turn of the user where the model demands one."""
        written = self.written
        entries = [_turn(written.role, written.content)] if written.role else []
        if not entries and not self.fold.record:
            why = f"For Bedrock a conversation begins with the user. {_CONTINUED!r} was sent."
            self.more[0].invented("messages", why, "message.filler")
            return [_FILLER]
        if written.role == "assistant" and not self.fold.prefill:
            why = f"For this model a conversation ends with the user. {_CONTINUED!r} was sent."
            self.more[0].invented("messages", why, "message.filler")
            entries.append(_FILLER)
        return entries


def _documents(content: Iterable[Wire]) -> Iterator[Wire]:
    for block in content:
        if "document" in block:
            yield block["document"]
        elif "toolResult" in block:
            yield from _documents(block["toolResult"]["content"])


def _turn(role: str, content: tuple[Wire, ...]) -> Wire:
    return {"role": role, "content": [*content]}


def encode_message(message: Message, points: CachePoints, record: bool, losses: Losses) -> Wire:
    """A message that depends on no other; system text within the conversation is sent as the user's."""
    parts: tuple[AnyPart, ...] = message.parts
    role = "assistant" if message.role == "assistant" else "user"
    if _is_system(message):
        why = "Bedrock takes no system text inside the conversation. It was sent as the user's."
        losses.changed(message.where, why, "message.role")
        parts = tuple(_texts(message, losses))
    if role == "assistant":
        parts = _without_last_thinking(parts, losses)
    blocks = encode_content(parts, points, losses)
    if (
        _has_lone_document(parts) and not record
    ):  # "A text block is required when using documents" (Converse API reference)
        losses.invented(
            message.where,
            f"Bedrock needs text beside a document. {_SEE_DOCUMENT!r} was sent.",
            "message.filler",
        )
        blocks.append({"text": _SEE_DOCUMENT})
    return {"role": role, "content": blocks}


def _is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def _texts(message: Message, losses: Losses) -> list[Text]:
    texts = [part for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        losses.dropped(message.where, "Bedrock takes only text from the system.", "part.place")
    return texts


def _without_last_thinking(parts: tuple[AnyPart, ...], losses: Losses) -> tuple[AnyPart, ...]:
    """Claude refuses a turn of the model that ends with thinking."""
    while parts and isinstance(parts[-1], Reasoning):
        why = "Claude refuses a model's message that ends with thinking."
        losses.dropped(parts[-1].where, why, "message.order")
        parts = parts[:-1]
    return parts


def _has_lone_document(parts: Iterable[AnyPart]) -> bool:
    kinds = [isinstance(part, Media) and part.kind == "document" for part in parts]
    return any(kinds) and not any(isinstance(part, Text) and part.text.strip() for part in parts)
