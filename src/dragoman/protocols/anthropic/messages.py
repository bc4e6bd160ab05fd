"""System text and messages <-> neutral ones.

A request that came from Anthropic's wire goes back as it came. A request of another protocol is put in the
order that Anthropic demands: it begins with a user turn, thinking is never last in a turn, system text stands
in front or right before a turn of the model, and no text is blank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.fold import DecodeRun, Fold, FoldRun
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses, report_citations
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
from dragoman.core.server import rows
from dragoman.protocols.anthropic.hosted import inline_definitions, is_made_here, loaded_tools
from dragoman.protocols.anthropic.parts import decode_content, encode_content
from dragoman.protocols.anthropic.wire import NO_EXTRAS, PROTOCOL_NAME, is_native

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
# Claude Code's first system block; it differs in every request (G58: vllm#36829)
_ATTRIBUTION = "x-anthropic-billing-header:"
_CONTINUED = "(conversation continues)"


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


class DecodeMessages(Fold, frozen=True):
    def begin(self, state: _DecodedState | None = None) -> DecodedMessages:
        return DecodedMessages(state or _DecodedState())


class _DecodedState(Struct, frozen=True, gc=False):
    count: int = 0
    inline: tuple[tuple[Any, str], ...] = ()
    loaded: frozenset[str] = frozenset()
    is_compacted: bool = False


class DecodedMessages(DecodeRun):
    """It also tells what the messages say about the tools; that is looked for when somebody asks."""

    def __init__(self, state: _DecodedState) -> None:
        super().__init__(decode_message, "messages", state.count)
        self._before, self._messages = state, list[Message]()
        self.is_compacted = state.is_compacted  # a compaction block at the beginning

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        first = not self.count
        messages = super().feed(items)
        self._messages += messages
        if first and messages and messages[0].parts:
            self.is_compacted = type(messages[0].parts[0]) is Foreign
        return messages

    def state(self) -> _DecodedState:
        loaded = self._before.loaded | loaded_tools(self._messages)
        return _DecodedState(self.count, self.inline(), loaded, self.is_compacted)

    def facts(self) -> DecodedMessages:
        return self

    def inline(self) -> tuple[tuple[Any, str], ...]:
        """Tools that messages define, with their places."""
        if not any(map(is_system, self._messages)):
            return self._before.inline
        return (*self._before.inline, *inline_definitions(self._messages))

    def loaded(self, names: frozenset[str]) -> frozenset[str]:
        """Those of `names` that the conversation has loaded."""
        return names & (self._before.loaded | loaded_tools(self._messages))


class EncodeNative(Fold, frozen=True):
    """Messages as they came; only thinking that others signed is withheld."""

    def begin(self, state: Any = None) -> FoldRun:
        return _NativeWriter()


class _NativeWriter(FoldRun):
    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        for message in items:
            parts = [part for part in message.parts if _is_sendable(part, self.losses)]
            if parts or not message.parts:
                wire = {"role": message.role, "content": encode_content(parts, self.losses)}
                entries.append(wire | own(message.extras, PROTOCOL_NAME))
        return entries


class EncodeForeign(Fold, frozen=True):
    """Messages from elsewhere in the order that Anthropic demands.

    `finds_marks`, `finds_calls`: the head depends on cache breakpoints, or on the calls of the history.
    """

    system_messages: bool
    prefill: bool
    finds_marks: bool = False
    finds_calls: bool = False

    def begin(self, state: _OrderState | None = None) -> FoldRun:
        return _OrderedWriter(self, state or _OrderState())


class ForeignFacts(Struct, frozen=True, gc=False):
    """`system` is system text that leads the conversation. `several`: there is more than one entry;
    `lacks_thinking`: the turn of the model that goes on does not begin with thinking. `calls` are the names
    that the history calls, with their places."""

    system: tuple[Text, ...]
    several: bool
    lacks_thinking: bool
    has_marks: bool
    calls: tuple[tuple[str, str], ...]


class _OrderState(Struct, frozen=True, gc=False):
    """`turn` is a turn of the model that may go on, unless it `is_closed`; `waiting` is system text that
    waits for its place; `role` is that of the entry before."""

    system: tuple[Text, ...] = ()
    is_leading: bool = True
    turn: Message | None = None
    is_closed: bool = False
    waiting: tuple[Message, ...] = ()
    role: str = ""
    is_orderly: bool = True
    last: tuple[Wire, ...] = ()
    has_marks: bool = False
    calls: dict[str, str] = {}


_FRONT, _FITTED, _ENDED, _PLACED, _BOUNDED, _WRITTEN, _IN_TURN = range(7)  # phases of losses


class _OrderedWriter(FoldRun):
    """Messages → entries. In a conversation that is in order the losses of each message come together."""

    def __init__(self, fold: EncodeForeign, state: _OrderState) -> None:
        super().__init__(_IN_TURN + 1)
        self._fold = fold
        self._system, self._is_leading = list(state.system), state.is_leading
        self._turn, self._is_closed = state.turn, state.is_closed
        self._waiting, self._role, self._is_orderly = list(state.waiting), state.role, state.is_orderly
        self._last, self._has_marks, self._calls = list(state.last), state.has_marks, state.calls.copy()
        self._entries: list[Wire] = []
        self._turn_losses: list[Losses] = []

    def state(self) -> _OrderState:
        return _OrderState(
            tuple(self._system),
            self._is_leading,
            self._turn,
            self._is_closed,
            tuple(self._waiting),
            self._role,
            self._is_orderly,
            tuple(self._last),
            self._has_marks,
            self._calls.copy(),
        )

    def facts(self) -> ForeignFacts:
        calls = tuple(self._calls.items())
        several, lacks_thinking = len(self._last) > 1, _lacks_thinking(self._last)
        return ForeignFacts(tuple(self._system), several, lacks_thinking, self._has_marks, calls)

    def reported(self) -> Iterable[Losses]:
        if self._is_orderly:
            return self.phases[_FRONT], self.phases[_IN_TURN]
        return self.phases[:_IN_TURN]

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        self._entries = entries
        for message in items:
            self._look(message)
            if self._is_leading:
                if is_system(message):
                    self._system += _texts(message, self.phases[_FRONT])
                    continue
                self._is_leading = False
                if message.role != "user":
                    self._is_orderly = False
            self._add(message)
        return entries

    def _look(self, message: Message) -> None:
        if self._fold.finds_marks and not self._has_marks:
            self._has_marks = is_marked(message)
        if self._fold.finds_calls:
            for part in message.parts:
                if type(part) is ToolCall:
                    self._calls[part.name] = part.where

    def _add(self, message: Message) -> None:
        fitted = self._report(_FITTED, _fitted, message)
        if message.role == "assistant":
            if self._turn is None or self._is_closed:
                self._end_turn()
                self._turn, self._is_closed = fitted, False
            else:
                self._is_orderly = False
                self._turn = replace(self._turn, parts=(*self._turn.parts, *fitted.parts))
            return
        if is_system(message):
            self._is_orderly = False
        if not fitted.parts:
            self._is_orderly, self._is_closed = False, True
            return
        self._end_turn()
        self._place(fitted)

    def _report(self, phase: int, function: Callable[..., Any], item: Any) -> Any:
        """`function` of an item, with its losses in both orders."""
        own_losses = Losses()
        made = function(item, own_losses)
        if own_losses.items:
            self.phases[phase].extend(own_losses)
            self.phases[_IN_TURN].extend(own_losses)
        return made

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn = self._report(_ENDED, _ended, turn)
        if turn.parts:
            self._place(turn)
        else:
            self._is_orderly = False

    def _place(self, turn: Message | None) -> None:
        """System messages go right before a turn of the model, or to the end; elsewhere they are user text.

        They stay in the conversation: moved to the front they would invalidate the cached prefix (G54).
        """
        if turn is not None and is_system(turn):
            self._waiting.append(turn)
            return
        waiting, losses = self._waiting, self.phases[_PLACED]
        if waiting and self._fold.system_messages and self._role == "user":
            if turn is None or turn.role == "assistant":
                self._waiting = []
                for message in waiting:
                    self._write(Message("system", tuple(_texts(message, losses))))
            for message in self._waiting:
                why = "system text goes behind the user's turn that follows it"
                losses.changed(message.where, why, "message.order")
        elif waiting and not _has_results(turn):  # results must follow their calls
            self._waiting = []
            for message in waiting:
                self._write(_as_user(message, losses))
        if turn is not None:
            self._write(turn)

    def _write(self, turn: Message) -> None:
        if not self._role and turn.role != "user":
            self._fill("Anthropic needs a user's turn to begin with")
        self._role = turn.role
        content = self._report(_WRITTEN, encode_content, turn.parts)
        entry: Wire = {"role": turn.role, "content": content}
        self._entries.append(entry)
        self._last = [*self._last[-1:], entry]

    def _fill(self, why: str) -> None:
        """The first turn is the user's, and for most models the last one too."""
        self._is_orderly = False
        self.phases[_BOUNDED].invented("messages", f"{why}: {_CONTINUED}", "message.filler")
        self._role = "user"
        self._write(Message("user", (Text(_CONTINUED),)))

    def close(self) -> list[Wire]:
        entries: list[Wire] = []
        self._entries = entries
        turn = self._turn
        if turn is not None:
            self._is_orderly, self._turn = False, None
            turn = self._report(_ENDED, _ended, turn)
            if turn.parts:
                if self._fold.prefill:
                    turn = _trimmed(turn, self.phases[_BOUNDED])
                self._place(turn)
        self._place(None)
        if not self._role:
            self._fill("Anthropic needs a user's turn to begin with")
        if self._role == "assistant":
            self._is_orderly = False
            if not self._fold.prefill:
                self._fill("the model needs a user's turn to end with")
        return entries


def is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def is_blank(text: str) -> bool:
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
            content = [item for item in part.content if not (isinstance(item, Text) and is_blank(item.text))]
            return part if len(content) == len(part.content) else replace(part, content=tuple(content))
        case Refusal():
            losses.changed(
                part.where, "Anthropic knows no refusals but in replies: sent as text", "message.refusal"
            )
            return None if is_blank(part.text) else Text(part.text)
        case _:
            return part if _is_sendable(part, losses) else None


def _fitted_text(part: Text, losses: Losses) -> Text | None:
    if is_blank(part.text):
        if part.text:
            losses.dropped(part.where, "Anthropic takes no blank text", "text.blank")
        return None
    if part.citations and not all(is_native(citation) for citation in part.citations):
        report_citations(losses, part, "Anthropic takes back only citations that it made")
        return replace(part, citations=())
    return part


def _ended(turn: Message, losses: Losses) -> Message:
    """A turn of the model may not end with thinking."""
    parts = turn.parts
    while turn.role == "assistant" and parts and isinstance(parts[-1], Reasoning):
        losses.dropped(
            parts[-1].where, "Anthropic takes no turn of the model that ends with thinking", "message.order"
        )
        parts = parts[:-1]
    return turn if parts is turn.parts else replace(turn, parts=parts)


def _lacks_thinking(entries: Sequence[Wire]) -> bool:
    """Whether the conversation ends with the result of a call whose turn does not begin with thinking."""
    if len(entries) < 2 or "tool_result" not in _kinds(entries[-1]):
        return False
    return _kinds(entries[-2])[:1] not in (["thinking"], ["redacted_thinking"])


def _kinds(entry: Wire) -> list[str]:
    return [block["type"] for block in rows(entry["content"])]


def is_marked(message: Message) -> bool:
    """Whether the client sets cache breakpoints itself."""
    for part in message.parts:
        if part.cache or (type(part) is ToolResult and part.content and part.content[-1].cache):
            return True
    return False


def _has_results(turn: Message | None) -> bool:
    return turn is not None and any(isinstance(part, ToolResult) for part in turn.parts)


def _as_user(message: Message, losses: Losses) -> Message:
    why = "the model takes no system text at this place: it is sent as the user's"
    losses.changed(message.where, why, "message.role")
    return replace(message, role="user", parts=tuple(_texts(message, losses)))


def _trimmed(turn: Message, losses: Losses) -> Message:
    match turn.parts[-1]:
        case Text(text) as part if text != text.rstrip():
            losses.changed(
                part.where, "Anthropic takes no last turn that ends in white space: trimmed", "text.blank"
            )
            return replace(turn, parts=(*turn.parts[:-1], replace(part, text=text.rstrip())))
        case _:
            return turn
