"""The stage from the text of a reply to its calls.

For each text part of the upstream, while it is open:

    NOTHING    no part of ours is open    -> TEXT, REASONING  a token of that kind: a part starts
    TEXT       a text part is open        -> REASONING        the text part ends, a reasoning part starts
    REASONING  a reasoning part is open   -> TEXT             the other way round
    any                                   -> NOTHING          a call: the open part ends, the call is one of
                                                              its own; or the upstream's part ends

A reasoning part of the upstream passes. From a call in it on, it waits: where reasoning is never closed, vLLM
and SGLang put the whole reply there (G122). The call counts where neither text nor a call follows.

It sees the text of a reply and nothing else of the conversation, so what a user or a tool wrote is never
parsed as a call (G124: OmniRoute#9343). Every other part passes; indices are counted anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.events import Event, EventStage, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseFailed
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, AnyTool, Reasoning, Response, Stop, StopReason, Text, ToolCall
from dragoman.dialects.engine.call_grammar import (
    CallGrammar,
    CallToken,
    EndToken,
    ProblemToken,
    ReasoningToken,
    TextGrammar,
    TextToken,
    Think,
    Token,
)
from dragoman.dialects.engine.scanner import Scanner
from dragoman.dialects.engine.values import declare


class DialectParser(EventStage):
    """`opened`: the chat template opens the reasoning. `only_first`: further calls are dropped.

    Without a `dialect` the prompt did not request any calls: broken ones are not reported, and only those of
    declared tools count.
    """

    def __init__(
        self,
        grammar: TextGrammar,
        losses: Losses,
        dialect: str,
        *,
        opened: bool = False,
        only_first: bool = False,
    ) -> None:
        self._grammar, self._losses, self._dialect = grammar, losses, dialect
        self._opened, self._only_first = opened, only_first
        self._texts: dict[int, OpenText] = {}
        self._others: dict[int, int] = {}
        self._count = 0
        self._called = self._reasoned = False
        self._reasoning: dict[int, OpenReasoning] = {}
        self._draft: OpenReasoning | None = None  # has ended, with a call: waits for what follows
        self._unended: tuple[OpenText, CallToken] | None = None  # waits for the reason of the end
        self._considered: dict[str, str] = {}  # name of a call in reasoning -> where it stands

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            return self._delta(event)
        if type(event) is PartStart:
            return self._start(event.index, event.part)
        if type(event) is PartEnd:
            return self._end(event)
        if type(event) is ResponseEnd:
            accept = event.stop.reason in _NOT_CUT
            events = [*self._finish(), *self._decide(accept=accept), *self._decide_draft(accept=accept)]
            stop = Stop("tool_calls", event.stop.raw) if self._called else event.stop
            # A call in the reasoning does not run; it is worth a report where the reply makes no
            # other call.
            if not self._called:
                for name, where in self._considered.items():
                    why = f"{self._dialect}: A call of {name} is part of the reasoning. It does not run."
                    self._losses.dropped(where, why, "reasoning.call")
            return (*events, replace(event, stop=stop))
        if type(event) is ResponseFailed:
            return (*self.close(), event)
        return (event,)

    def close(self) -> Iterable[Event]:
        return [*self._finish(), *self._decide(accept=False), *self._decide_draft(accept=False)]

    def whole(self, response: Response) -> Response:
        """Most replies hold no call, and a text without any marker stays as it is."""
        texts = [part.text for part in response.parts if isinstance(part, Text | Reasoning)]
        if not self._opened and all(map(self._grammar.finds_nothing, texts)):
            return response
        return super().whole(response)

    @property
    def special(self) -> re.Pattern[str] | None:  # pyright: ignore[reportIncompatibleVariableOverride] - it is only read
        text = next(iter(self._texts.values()), None)
        return text.scanner.special if text else None

    def flows(self) -> bool:
        """A text of which nothing is held back: what has no special character passes."""
        text = next(iter(self._texts.values())) if len(self._texts) == 1 else None
        return text is not None and text.open is not None and type(text.kind) is Text and text.scanner.idle

    def _start(self, index: int, part: AnyPart) -> Iterable[Event]:
        decided = self._decide(accept=False)  # more follows: the reply does not end behind that call
        if type(part) is Text:
            self._texts[index] = OpenText(part, self._scanner(first=not self._reasoned))
            return decided
        decided += self._decide_draft(accept=False)
        self._others[index] = place = self._next()
        if type(part) is Reasoning:
            self._reasoned = True
            if self._dialect:
                self._reasoning[index] = OpenReasoning(place, part, self._grammar)
        return (*decided, PartStart(place, part))

    def _scanner(self, *, first: bool) -> Scanner:
        """`first`: no reasoning came before, so the text may begin inside it."""
        opened = self._opened and first
        return Scanner(self._grammar, opened=opened, may_be_opened=first, verbatim=not self._dialect)

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        text = self._texts.get(delta.index)
        if text is None:
            if (reasoning := self._reasoning.get(delta.index)) and delta.text:
                delta = replace(delta, text=reasoning.feed(delta.text))
                if not (delta.text or delta.state or delta.citation):
                    return ()
            return (replace(delta, index=self._others[delta.index]),)
        events = self._decide_draft(accept=False) if self._draft and delta.text else []
        events += self._events(text, text.scanner.feed(delta.text)) if delta.text else ()
        if delta.state or delta.citation:
            events += self._text(text, "") if text.open is None else ()
            events.append(PartDelta(text.open or 0, "", delta.state, delta.citation))
        return events

    def _end(self, end: PartEnd) -> Iterable[Event]:
        text = self._texts.pop(end.index, None)
        if text is not None:
            return self._end_text(text, complete=end.complete)
        reasoning, place = self._reasoning.pop(end.index, None), self._others.pop(end.index)
        events = self._end_reasoning(reasoning) if reasoning else []
        return events if self._draft else (*events, replace(end, index=place))

    def _end_reasoning(self, reasoning: OpenReasoning) -> list[Event]:
        rest = reasoning.close()
        if reasoning.held:
            self._draft = reasoning
        return [PartDelta(reasoning.place, rest)] if rest else []

    def _decide_draft(self, *, accept: bool) -> list[Event]:
        """Whether the calls in reasoning that has ended count: `accept` where the reply ended with it."""
        draft, self._draft = self._draft, None
        if draft is None:
            return []
        end = PartEnd(draft.place)
        if accept and not self._called:
            text = OpenText(Text(where=draft.where), self._scanner(first=False))
            return [end, *self._events(text, draft.held), *self._decide(accept=True), *self._close(text)]
        self._considered |= {token.name: draft.where for token in draft.held if type(token) is CallToken}
        return [PartDelta(draft.place, "".join(draft.waiting)), end]

    def _finish(self) -> list[Event]:
        """The reply ends while texts are open: they end here."""
        texts, self._texts = self._texts, {}
        open_reasoning, self._reasoning = self._reasoning, {}
        events = [event for reasoning in open_reasoning.values() for event in self._end_reasoning(reasoning)]
        return events + [event for text in texts.values() for event in self._end_text(text, complete=False)]

    def _end_text(self, text: OpenText, *, complete: bool) -> list[Event]:
        events = self._events(text, text.scanner.close())
        if self._unended:
            return events
        if text.untouched and not self._draft:  # an empty text is one all the same
            events += self._text(text, "")
        return [*events, *self._close(text, complete=complete)]

    def _events(self, text: OpenText, tokens: list[Token]) -> list[Event]:
        events: list[Event] = []
        for token in _join(tokens) if len(tokens) > 1 else tokens:
            match token:
                case TextToken():
                    events += self._text(text, token.text)
                case ReasoningToken():
                    events += self._open(text, Reasoning()) if not isinstance(text.kind, Reasoning) else ()
                    events.append(PartDelta(text.open or 0, token.text))
                case CallToken():
                    events += self._call(text, token)
                case EndToken():
                    self._note_frame(token.raw)
                case ProblemToken():
                    if self._dialect:
                        why = f"{self._dialect}: {token.why}"
                        self._losses.changed(text.part.where or "text", why, "dialect.call")
        return events

    def _text(self, text: OpenText, written: str) -> list[Event]:
        events = self._open(text, text.part) if not isinstance(text.kind, Text) else []
        if written:
            events.append(PartDelta(text.open or 0, written))
        return events

    def _decide(self, *, accept: bool) -> list[Event]:
        """A call whose end is missing at the end of the reply counts where the reply was not cut there."""
        if self._unended is None:
            return []
        (text, call), self._unended = self._unended, None
        if accept:
            return [*self._call(text, replace(call, unended=False)), *self._close(text)]
        return [*self._text(text, call.raw), *self._close(text)]

    def _call(self, text: OpenText, call: CallToken) -> list[Event]:
        text.untouched = False
        if call.unended:
            self._unended = text, call
            return []
        if self._only_first and self._called:
            why = f"{self._dialect} allows one call in a reply. A further call of {call.name} was left out."
            self._losses.dropped(text.part.where or "text", why, "dialect.call")
            return []
        self._called = True
        events = self._close(text)
        index = self._next()
        self._note_call(index, call)
        part = ToolCall(call.id, call.name)
        return [*events, PartStart(index, part), PartDelta(index, call.arguments), PartEnd(index)]

    def _note_call(self, index: int, call: CallToken) -> None:
        """A call is about to go out as the part with this index."""

    def _note_frame(self, raw: str) -> None:
        """What closed the last call, as it was written."""

    def _open(self, text: OpenText, part: Text | Reasoning) -> list[Event]:
        events = self._close(text)
        text.kind, text.open, text.untouched = part, self._next(), False
        events.append(PartStart(text.open, part))
        if part is text.part:  # its state, citations and extras go with the first piece of it
            text.part = Text(where=text.part.where)
        return events

    def _close(self, text: OpenText, *, complete: bool = True) -> list[Event]:
        events: list[Event] = [PartEnd(text.open, complete)] if text.open is not None else []
        text.kind, text.open = None, None
        return events

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


_NOT_CUT: tuple[StopReason, ...] = ("end", "stop_sequence", "tool_calls")


class OpenText:
    """A text of the upstream while it is read: `open` is the index of the part that it has open now."""

    __slots__ = ("kind", "open", "part", "scanner", "untouched")

    def __init__(self, part: Text, scanner: Scanner) -> None:
        self.part, self.scanner = part, scanner
        self.kind: Text | Reasoning | None = None
        self.open: int | None = None
        self.untouched = True


class OpenReasoning:
    """Reasoning of the upstream while it is read. `place`: its index; `held`: its first call and the rest."""

    __slots__ = ("held", "place", "scanner", "waiting", "where")

    def __init__(self, place: int, part: Reasoning, grammar: TextGrammar) -> None:
        self.place, self.where = place, part.where or "reasoning"
        self.scanner = Scanner(TextGrammar(grammar.grammars, grammar.declared))
        self.held: list[Token] = []
        self.waiting: list[str] = []  # the text that did not go out yet, as it was written

    def feed(self, text: str) -> str:
        """What can go out now."""
        self.waiting.append(text)
        return self._pass(self.scanner.feed(text))

    def close(self) -> str:
        return self._pass(self.scanner.close())

    def _pass(self, tokens: list[Token]) -> str:
        out = 0
        for token in tokens:
            if self.held or type(token) is CallToken:
                self.held.append(token)
            elif type(token) is TextToken:
                out += len(token.text)
        waiting = "".join(self.waiting) if out else ""
        if out:
            self.waiting = [waiting[out:]]
        return waiting[:out]


def _join(tokens: list[Token]) -> Iterator[Token]:
    """Neighbours of one kind as one."""
    run: list[str] = []
    kind: type[TextToken] | type[ReasoningToken] = TextToken
    for token in tokens:
        if run and type(token) is not kind:
            yield kind("".join(run))
            run = []
        if isinstance(token, TextToken | ReasoningToken):
            kind = type(token)
            run.append(token.text)
        else:
            yield token
    if run:
        yield kind("".join(run))


class Recovery(DialectParser):
    """Calls that a native upstream's model wrote as text, in whatever dialect, become calls (G114:
    qwen-code#10692, hermes-agent#35706).

    Only calls of declared tools count, and only in a reply without a native call (G115: opencodex#5499).
    Whether one comes is known at the end, so from the first call in the text on, everything waits for the end
    of the reply.
    """

    def __init__(self, grammars: tuple[CallGrammar, ...], tools: Iterable[AnyTool], losses: Losses) -> None:
        self._leaks: dict[int, CallToken] = {}
        self._waiting: list[Event] = []
        self._native: dict[int, NativeCall] = {}
        super().__init__(TextGrammar(grammars, declare(tools, losses), Think()), losses, "")

    def feed(self, event: Event, /) -> Iterable[Event]:
        self._watch(event)
        events = super().feed(event)
        if not self._leaks:
            return events
        self._waiting += events
        return self._release(event) if isinstance(event, ResponseEnd | ResponseFailed) else ()

    def close(self) -> Iterable[Event]:
        waiting, self._waiting = self._waiting, []
        return (*waiting, *super().close())

    def _watch(self, event: Event) -> None:
        match event:
            case PartStart(index, ToolCall() as call):
                self._native[index] = NativeCall(call.name)
            case PartDelta(index, text) if index in self._native:
                self._native[index].arguments.append(text)
            case _:
                pass

    def _note_call(self, index: int, call: CallToken) -> None:
        self._leaks[index] = call

    def _note_frame(self, raw: str) -> None:
        if self._leaks:
            index, leak = self._leaks.popitem()
            self._leaks[index] = replace(leak, raw=leak.raw + raw)

    def _release(self, last: ResponseEnd | ResponseFailed) -> Iterator[Event]:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            match event:
                case PartStart(index) | PartDelta(index) | PartEnd(index) if index in self._leaks:
                    yield from self._judge(event, self._leaks[index])
                case ResponseEnd():
                    yield last if self._native else event
                case _:
                    yield event

    def _judge(self, event: PartStart | PartDelta | PartEnd, leak: CallToken) -> Iterator[Event]:
        """At the end of the reply: a leaked call is a call, a copy of a native one, or text after all."""
        if not self._native:
            yield event
            why = f"The model wrote a call of {leak.name} as text. Your client gets it as a call."
            self._losses.changed("text", why, "call.recovered")
        elif any(native.equals(leak) for native in self._native.values()):
            why = f"The model called {leak.name} and wrote the call as text too. Your client gets it once."
            self._losses.dropped("text", why, "call.recovered")
        elif isinstance(event, PartStart):
            yield PartStart(event.index, Text())
            yield PartDelta(event.index, leak.raw)
        elif isinstance(event, PartEnd):
            yield event


class NativeCall:
    """A call while it arrives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: list[str] = []

    def equals(self, leak: CallToken) -> bool:
        """Whether `leak` is the same call."""
        mine = jsontext.decode_object("".join(self.arguments))
        return self.name == leak.name and (mine or {}) == jsontext.decode_object(leak.arguments)
