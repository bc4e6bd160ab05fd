"""System text and messages <-> neutral ones.

A request that came from Anthropic's wire goes back as it came. A request of another protocol is put in the
order that Anthropic demands: it begins with a user turn, thinking is never last in a turn, system text stands
in front or right before a turn of the model, and no text is blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own, rows
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
from dragoman.protocols.anthropic.hosted import (
    inline_definitions,
    is_made_here,
    loaded_tools,
    text_made_here,
)
from dragoman.protocols.anthropic.parts import decode_content, encode_content
from dragoman.protocols.anthropic.wire import NO_EXTRAS, PROTOCOL_NAME, is_native

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
# Claude Code's first system block; it differs in every request (G58: vllm#36829)
_ATTRIBUTION = "x-anthropic-billing-header:"
_CONTINUED = "(conversation continues)"
_ROLE = attrgetter("role")


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
        losses.dropped(
            f"system[{i}]",
            f"This billing header is for {PROTOCOL_NAME}. Other providers do not get it.",
            "system.attribution",
        )
    return tuple([part for part in texts if not part.text.startswith(_ATTRIBUTION)]), withheld


class DecodeMessages(Fold, frozen=True):
    def begin(self, state: _DecodedState | None = None) -> DecodedMessages:
        state = state or _UNREAD
        return DecodedMessages(decode_message, "messages", state.count, state, state.is_compacted, ())


class _DecodedState(Struct, frozen=True, gc=False):
    count: int = 0
    inline: tuple[tuple[Any, str], ...] = ()
    loaded: frozenset[str] = frozenset()
    is_compacted: bool = False


_UNREAD = _DecodedState()


class DecodedMessages(DecodeRun):
    """It also tells what the messages say about the tools; that is looked for when somebody asks.

    `is_compacted`: there is a compaction block at the beginning. `new` are the messages since `before`.
    """

    before: _DecodedState
    is_compacted: bool
    new: Sequence[Message]

    def feed(self, items: Sequence[Any], /) -> list[Message]:
        first = not self.count
        messages = DecodeRun.feed(self, items)
        self.new = [*self.new, *messages] if self.new else messages
        if first and messages and messages[0].parts:
            self.is_compacted = type(messages[0].parts[0]) is Foreign
        return messages

    def state(self) -> _DecodedState:
        loaded = self.before.loaded | loaded_tools(self.new)
        return _DecodedState(self.count, self.inline(), loaded, self.is_compacted)

    def inline(self) -> tuple[tuple[Any, str], ...]:
        """Tools that messages define, with their places."""
        if "system" not in map(_ROLE, self.new):
            return self.before.inline
        return (*self.before.inline, *inline_definitions(self.new))

    def loaded(self, names: frozenset[str]) -> frozenset[str]:
        """Those of `names` that the conversation has loaded."""
        return names & (self.before.loaded | loaded_tools(self.new))


class EncodeNative(Fold, frozen=True):
    """Messages as they came; only what others signed or cited is withheld."""

    def begin(self, state: Any = None) -> FoldRun:
        return _NativeWriter()


class _NativeWriter(FoldRun):
    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        for message in items:
            parts = [sent for part in message.parts if (sent := _sendable(part, self.losses))]
            if parts or not message.parts:
                wire = {"role": message.role, "content": encode_content(parts, self.losses)}
                entries.append(wire | own(message.extras, PROTOCOL_NAME))
        return entries


class EncodeForeign(Fold, frozen=True):
    """Messages from elsewhere in the order that Anthropic demands.

    `finds_marks`, `finds_calls`, `thinks`: the head depends on cache breakpoints, on the calls of the
    history, on whether the turn that goes on begins with thinking. Without `fills` no turn is invented, and
    the last one stays as it is.
    """

    system_messages: bool
    prefill: bool
    finds_marks: bool = False
    finds_calls: bool = False
    thinks: bool = False
    fills: bool = True

    def begin(self, state: _OrderState | None = None) -> FoldRun:
        if state is None:
            unwritten = (), True, None, False, (), "", True, (), False
            return _OrderedWriter(self, *unwritten, {}, None, None, [], Losses())
        return _OrderedWriter(
            self,
            state.system,
            state.is_leading,
            state.turn,
            state.is_closed,
            state.waiting,
            state.role,
            state.is_orderly,
            state.last,
            state.has_marks,
            state.calls.copy(),
            state.content,
            state.facts,
            [],
            Losses(),
        )


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
    """`turn` is a turn of the model that may go on, unless it `is_closed`, and `content` what it becomes if
    it does not; `waiting` is system text that waits for its place; `role` is that of the entry before."""

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
    content: str | list[Wire] | None = None
    facts: ForeignFacts | None = None


# Phases of losses, after those of the text in front; the last one has those of a conversation in order
_FITTED, _ENDED, _PLACED, _BOUNDED, _WRITTEN, _IN_TURN = range(1, 7)


class _OrderedWriter(FoldRun):
    """Messages → entries. In a conversation that is in order the losses of each message come together.

    `found` collects the losses of one step, until it is noted to which phase they belong.
    """

    fold: EncodeForeign
    system: tuple[Text, ...]
    is_leading: bool
    turn: Message | None
    is_closed: bool
    waiting: tuple[Message, ...]
    role: str
    is_orderly: bool
    last: tuple[Wire, ...]
    has_marks: bool
    calls: dict[str, str]
    content: str | list[Wire] | None
    known: ForeignFacts | None
    entries: list[Wire]
    found: Losses

    @property
    def phases(self) -> tuple[Losses, ...]:
        if not self.more:
            self.more = tuple([Losses() for _ in range(_IN_TURN)])
        return (self.losses, *self.more)

    def state(self) -> _OrderState:
        return _OrderState(
            self.system,
            self.is_leading,
            self.turn,
            self.is_closed,
            self.waiting,
            self.role,
            self.is_orderly,
            self.last,
            self.has_marks,
            self.calls.copy(),
            self._encode_turn(),
            self.facts(),
        )

    def _encode_turn(self) -> str | list[Wire] | None:
        """The content of the turn that may go on; None where its losses would come too early."""
        turn, losses = self.turn, Losses()
        if self.content is not None or turn is None or not turn.parts:
            return self.content
        content = encode_content(turn.parts, losses)
        return None if losses.items else content

    def facts(self) -> ForeignFacts:
        lacks_thinking = self.fold.thinks and _lacks_thinking(self.last)
        several, calls, known = len(self.last) > 1, tuple(self.calls.items()), self.known
        facts = ForeignFacts(self.system, several, lacks_thinking, self.has_marks, calls)
        return known if known and known.system is facts.system and known == facts else facts

    def reported(self) -> Iterable[Losses]:
        phases = self.phases
        return (self.losses, phases[_IN_TURN]) if self.is_orderly else phases[:_IN_TURN]

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        self.entries = entries
        looks = self.fold.finds_marks or self.fold.finds_calls
        for message in items:
            if looks:
                self._look(message)
            if self.is_leading:
                if is_system(message):
                    self.system += tuple(_texts(message, self.losses))
                    continue
                self.is_leading = False
                if message.role != "user":
                    self.is_orderly = False
            self._add(message)
        self.last = (*self.last, *entries[-2:])[-2:]
        return entries

    def _look(self, message: Message) -> None:
        if self.fold.finds_marks and not self.has_marks:
            self.has_marks = is_marked(message)
        if self.fold.finds_calls:
            for part in message.parts:
                if type(part) is ToolCall:
                    self.calls[part.name] = part.where

    def _add(self, message: Message) -> None:
        fitted = _fit(message, self.found)
        if self.found.items:
            self._note(_FITTED)
        if message.role == "assistant":
            if self.turn is None or self.is_closed:
                self._end_turn()
                self.turn, self.is_closed = fitted, False
            else:
                self.is_orderly, self.content = False, None
                self.turn = replace(self.turn, parts=(*self.turn.parts, *fitted.parts))
            return
        from_system = is_system(message)
        if from_system:
            self.is_orderly = False
        if not fitted.parts:
            self.is_orderly, self.is_closed = False, True
            return
        self._end_turn()
        if self.waiting or from_system:
            self._place(fitted)
        else:
            self._write(fitted)

    def _note(self, phase: int) -> None:
        """What was found belongs to this phase, and to the message under way."""
        for each in (self.phases[phase], self.phases[_IN_TURN]):
            each.extend(self.found)
        self.found.items.clear()

    def _cut_thinking(self, turn: Message) -> Message:
        turn = _ended(turn, self.found)
        if self.found.items:
            self._note(_ENDED)
        return turn

    def _end_turn(self) -> None:
        turn, content = self.turn, self.content
        if turn is None:
            return
        self.turn = self.content = None
        if not turn.parts or type(turn.parts[-1]) is Reasoning:
            turn = self._cut_thinking(turn)
            if not turn.parts:
                self.is_orderly = False
                return
            content = None
        if self.waiting:
            self._place(turn)
        else:
            self._write(turn, content)

    def _place(self, turn: Message | None) -> None:
        """System messages go right before a turn of the model, or to the end; elsewhere they are user text.

        They stay in the conversation: moved to the front they would invalidate the cached prefix (G54).
        """
        if turn is not None and is_system(turn):
            self.waiting += (turn,)
            return
        waiting, losses = self.waiting, self.phases[_PLACED]
        if waiting and self.fold.system_messages and self.role == "user":
            if turn is None or turn.role == "assistant":
                self.waiting = ()
                for message in waiting:
                    self._write(Message("system", tuple(_texts(message, losses))))
            for message in self.waiting:
                why = "System text was moved behind the user's message that follows it."
                losses.changed(message.where, why, "message.order")
        elif waiting and not _has_results(turn):  # results must follow their calls
            self.waiting = ()
            for message in waiting:
                self._write(_as_user(message, losses))
        if turn is not None:
            self._write(turn)

    def _write(self, turn: Message, content: str | list[Wire] | None = None) -> None:
        if not self.role and turn.role != "user" and self.fold.fills:
            self._fill("For Anthropic a conversation begins with the user.")
        self.role = turn.role
        if content is None:
            content = encode_content(turn.parts, self.found)
            if self.found.items:
                self._note(_WRITTEN)
        self.entries.append({"role": turn.role, "content": content})

    def _fill(self, why: str) -> None:
        """The first turn is the user's, and for most models the last one too."""
        self.is_orderly = False
        self.phases[_BOUNDED].invented("messages", f"{why} {_CONTINUED!r} was sent.", "message.filler")
        self.role = "user"
        self._write(Message("user", (Text(_CONTINUED),)))

    def close(self) -> list[Wire]:
        entries: list[Wire] = []
        self.entries = entries
        turn = self.turn
        if turn is not None:
            self.is_orderly, self.turn, self.content = False, None, None
            turn = self._cut_thinking(turn)
            if turn.parts:
                if self.fold.prefill and self.fold.fills:
                    turn = _trimmed(turn, self.phases[_BOUNDED])
                self._place(turn)
        if self.waiting:
            self._place(None)
        if not self.role and self.fold.fills:
            self._fill("For Anthropic a conversation begins with the user.")
        if self.role == "assistant":
            self.is_orderly = False
            if not self.fold.prefill:
                self._fill("For this model a conversation ends with the user.")
        self.last = (*self.last, *entries[-2:])[-2:]
        return entries


def is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def _texts(message: Message, losses: Losses) -> list[Text]:
    texts = [part for part in message.parts if isinstance(part, Text)]
    if len(texts) < len(message.parts):
        losses.dropped(message.where, "Anthropic takes only text from the system.", "part.place")
    return texts


def _sendable(part: AnyPart, losses: Losses) -> AnyPart | None:
    """Anthropic takes back only what it made: thinking that it signed, searches and citations of its own."""
    if type(part) is Text:
        return _without_foreign_citations(part, losses) if part.citations else part
    if isinstance(part, Foreign) and is_made_here(part.body):
        return text_made_here(part, losses)
    if not isinstance(part, Reasoning):
        return part
    if is_native(part) if part.state is None else part.state.origin == PROTOCOL_NAME:
        return part
    losses.dropped(part.where, "Anthropic takes back only reasoning that it signed.", "reasoning.signature")
    return None


def _fit(message: Message, losses: Losses) -> Message:
    """The parts that Anthropic takes: no blank text, no reasoning or citation but its own."""
    for part in message.parts:
        if not _fits(part):
            parts = [fitted for part in message.parts if (fitted := _fit_part(part, losses))]
            is_same = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
            return message if is_same else replace(message, parts=tuple(parts))
    return message


def _fits(part: AnyPart) -> bool:
    """Whether the part passes as it is; for others it takes a closer look."""
    if type(part) is Text:
        return part.text != "" and not part.text.isspace() and not part.citations
    return type(part) is ToolCall or (type(part) is ToolResult and len(part.content) < 2)


def _fit_part(part: AnyPart, losses: Losses) -> AnyPart | None:
    match part:
        case Text():
            return _fit_text(part, losses)
        case ToolCall():
            return part
        case ToolResult() if len(part.content) > 1:
            content = [item for item in part.content if not (isinstance(item, Text) and is_blank(item.text))]
            return part if len(content) == len(part.content) else replace(part, content=tuple(content))
        case Refusal():
            losses.changed(
                part.where,
                "Anthropic has no refusals in requests. It was sent as text.",
                "message.refusal",
            )
            return None if is_blank(part.text) else Text(part.text)
        case _:
            return _sendable(part, losses)


def _fit_text(part: Text, losses: Losses) -> AnyPart | None:
    if is_blank(part.text):
        if part.text:
            losses.dropped(part.where, "Anthropic refuses blank text.", "text.blank")
        return None
    return _sendable(part, losses)


def _without_foreign_citations(part: Text, losses: Losses) -> Text:
    if all(is_native(citation) for citation in part.citations):
        return part
    report_citations(losses, part, "Anthropic takes back only citations that it made.")
    return replace(part, citations=())


def _ended(turn: Message, losses: Losses) -> Message:
    """A turn of the model may not end with thinking."""
    parts = turn.parts
    while turn.role == "assistant" and parts and isinstance(parts[-1], Reasoning):
        losses.dropped(
            parts[-1].where,
            "Anthropic refuses a model's message that ends with thinking.",
            "message.order",
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
    why = "The model takes no system text at this place. It was sent as the user's."
    losses.changed(message.where, why, "message.role")
    return replace(message, role="user", parts=tuple(_texts(message, losses)))


def _trimmed(turn: Message, losses: Losses) -> Message:
    match turn.parts[-1]:
        case Text(text) as part if text != text.rstrip():
            losses.changed(
                part.where,
                "For Anthropic the last message cannot end in white space. It was cut off.",
                "text.blank",
            )
            return replace(turn, parts=(*turn.parts[:-1], replace(part, text=text.rstrip())))
        case _:
            return turn
