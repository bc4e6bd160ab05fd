"""Finds calls in a model's text while it streams.

    START      white space                     -> REASONING  the text begins with the marker of reasoning, or
                                                             the chat template has opened it
                                               -> TEXT       anything else
    TEXT       text goes out                   -> CALL       an opening that does not stand in Markdown code
                                               -> HELD       a call, before any marker of reasoning came
                                               -> REASONING  its marker, where that is a token of its own
                                               -> END        the text ends
    CALL       nothing goes out until it is    -> TEXT       whole: the call goes out
               whole                           -> TEXT       broken: it is text again, as it was written; the
                                                             search goes on right behind its opening
    REASONING  reasoning goes out              -> TEXT       the closing marker, or a call after which no
                                                             closing marker comes
                                               -> END        the text ends

    HELD       as TEXT, but nothing goes out   -> TEXT       a closing marker without an opening one: what was
                                                             held becomes reasoning, calls included
                                               -> END        the text ends: what was held goes out

HELD exists because many chat templates (DeepSeek-R1, Qwen3-Thinking, GLM, Nemotron) open the reasoning
themselves, so the reply begins inside it without a marker; a call that the model only considers there must
not run (G122: vllm#35687, llama.cpp#26269). Text that went out before the first call stays text; a blank line
takes the place of the marker.

In TEXT, held back is only what may become an opening (G116: vllm#38992, openclaude#1791), and white space
from a newline on: it belongs to a call that may follow.
"""

from __future__ import annotations

from dragoman.dialects.engine.call_grammar import (
    CallGrammar,
    CallToken,
    EndToken,
    OpeningSearch,
    ProblemToken,
    ReasoningToken,
    Sink,
    TextGrammar,
    TextToken,
    Think,
    Token,
)
from dragoman.dialects.engine.markdown import MarkdownCode
from dragoman.dialects.engine.source import Broken, Reader, Source

# How many openings inside one broken call are tried in their turn; this bounds the work per character
RETRIES = 4


class Scanner:
    """One run of text. `opened`: the chat template has opened the reasoning, so the text starts inside it.

    `may_be_opened`: it may have, so a closing marker may come without an opening one. `verbatim`: reasoning
    stays text, markers included, and only calls of declared tools count.
    """

    def __init__(
        self,
        grammar: TextGrammar,
        *,
        opened: bool = False,
        may_be_opened: bool = True,
        verbatim: bool = False,
    ) -> None:
        self._grammars, self._declared = grammar.grammars, grammar.declared
        self._think, self._opened, self._verbatim = grammar.think, opened, verbatim
        # A closing marker may come without an opening one
        self._may_close = grammar.think is not None and may_be_opened
        self._ready: list[Token] | None = None  # in HELD: what goes out nevertheless; `_out` is held
        self._search = grammar.search
        self.special = self._search.special
        self._source = Source()
        self._code = MarkdownCode()
        self._kind: type[TextToken] | type[ReasoningToken] = TextToken
        self._out: list[Token] = []
        self._space: list[str] = []  # white space that waits for what follows it
        self._fresh = True  # neither text nor a call went out yet
        self._quiet = True  # no text since the start or the last call: all white space waits
        self._framed = False  # a call or reasoning came: white space beside it means nothing
        self.idle = False  # in text, with nothing held back: what holds no special character is text
        self._commits = 0
        self._frontier, self._tries = 0, 0
        self._reading = self._read()
        next(self._reading)

    def feed(self, text: str) -> list[Token]:
        if not text:
            return []
        if self.idle and not self.special.search(text):
            self._code.words(text)
            return [TextToken(text)]
        self._source.push(text)
        next(self._reading)
        if self._ready is not None:
            out, self._ready = self._ready, []
            return out
        out, self._out = self._out, []
        return out

    def close(self) -> list[Token]:
        self._source.ended = True
        next(self._reading, None)
        return [*(self._ready or ()), *self._out]

    # Sink: what the readers of grammars report

    def call(self, name: str, arguments: str, id: str = "", *, unended: bool = False) -> None:
        if self._verbatim and name not in self._declared:
            raise Broken(f"{name} is not declared")
        if self._may_close and self._ready is None:
            self._ready, self._out = self._out, []
        self._out.append(CallToken(name, arguments, id, "".join([*self._space, self._source.raw()]), unended))
        self._space, self._quiet, self._framed = [], True, True
        self._commit()

    def text(self, text: str) -> None:
        self._flush()
        self._out.append(TextToken(text))
        self._commit()

    def reasoning(self, text: str) -> None:
        self._flush()
        self._out.append(ReasoningToken(text))
        self._commit()

    def changed(self, why: str) -> None:
        self._out.append(ProblemToken(why))

    def _commit(self) -> None:
        self._source.mark()
        self._source.named = ""
        self._code = MarkdownCode()
        self._commits += 1
        self._fresh = False

    # States

    def _read(self) -> Reader[None]:
        source, think = self._source, self._think
        yield
        if think:
            leading = yield from source.space()
            opens = yield from source.skip(think.opens)
            if opens and self._verbatim:
                self._pass(leading)
                yield from self._pass_reasoning(think)
            elif opens or self._opened:
                yield from self._reason(think)
            else:
                self._pass(leading)
            self._may_close = self._may_close and not (opens or self._opened)
        while (yield from self._text()) and think:
            self._flush()
            self._may_close = False
            self._out, self._ready = [*(self._ready or ()), *self._out], None
            yield from self._reason(think)
        if not (self._framed and self._quiet):
            self._flush()

    def _text(self) -> Reader[bool]:
        """Text and calls. True where reasoning begins, false at the end."""
        source = self._source
        while True:
            search = self._search.closings if self._may_close else self._search.openings
            found = search.full.search(source.window, source.at)
            if not found:
                if not (yield from self._read_more(search)):
                    return False
                continue
            self._advance(found.start())
            if self._is_quoted():
                if not (yield from self._pass_quoted_call()):
                    self._advance(source.at + 1)
                continue
            if self._think and self._may_close and (yield from source.skip(self._think.closes)):
                yield from self._close_unopened(self._think)
                continue
            if self._think and self._think.anywhere and (yield from source.skip(self._think.opens)):
                return True
            if not (yield from self._attempt(self)):
                self._advance(source.at + 1)

    def _read_more(self, search: OpeningSearch) -> Reader[bool]:
        """Nothing opens in the window: passes what is text in any case. False at the end of the reply."""
        source = self._source
        self._advance_safely(search)
        waits = self._space or self._quiet or self._ready is not None
        self.idle = source.at == len(source.window) and not waits
        if not (yield from source.more()):
            self._advance(len(source.window))
            return False
        self.idle = False
        return True

    def _pass_quoted_call(self) -> Reader[bool]:
        """A call in inline code is text as a whole: a line of it could look like a call of its own."""
        if not self._code.inline or not (yield from self._attempt(Probe(whole=True))):
            return False
        self._pass(self._source.raw())
        self._source.mark()
        return True

    def _close_unopened(self, think: Think) -> Reader[None]:
        """The reply began inside its reasoning: what was held since the first call is reasoning too."""
        if self._verbatim:
            self._pass(think.closes)
        else:
            self._space = ["".join(self._space).removesuffix("\n")]
        self._flush()
        if self._ready is not None:
            kind = TextToken if self._verbatim else ReasoningToken
            written = "".join(_write(token) for token in self._out)
            self._out, self._ready = [*self._ready, *([kind(written)] if written else [])], None
        elif not (self._verbatim or self._fresh):
            self._space.append("\n\n")  # the text before it went out already
        self.changed(f"The reply began inside its reasoning. {think.closes} came without {think.opens}.")
        self._may_close, self._fresh, self._code = False, True, MarkdownCode()
        if not self._verbatim:
            self._framed = self._quiet = True
            yield from self._source.skip("\n\n", "\n")
        self._source.mark()

    def _pass_reasoning(self, think: Think) -> Reader[None]:
        """Reasoning that stays text, with its markers; calls in it do not count."""
        source, endings = self._source, self._search.endings
        self._pass(think.opens)
        while not (found := endings.full.search(source.window, source.at)):
            self._advance(endings.find_partial(source))
            if not (yield from source.more()):
                self._advance(len(source.window))
                return
        self._advance(found.end())
        self._code, self._fresh = MarkdownCode(), True

    def _reason(self, think: Think) -> Reader[None]:
        """Reasoning up to its end; a call ends it too, unless the block is closed after the call."""
        source, search, fresh = self._source, self._search.closings, self._fresh
        self._kind, self._code, self._space, self._quiet = ReasoningToken, MarkdownCode(), [], False
        yield from source.skip(f"{think.label}\n", "\n")
        while True:
            found = search.full.search(source.window, source.at)
            if not found:
                self._advance_safely(search)
                if not (yield from source.more()):
                    self._advance(len(source.window))
                    self._flush()
                    break
                continue
            self._advance(found.start())
            if (yield from source.skip(think.closes)):
                self._space = ["".join(self._space).removesuffix("\n")]
                self._flush()
                yield from source.skip("\n\n", "\n")
                break
            if not self._is_quoted() and (yield from self._attempt(Probe())):
                if not (yield from self._closes_later(think)):
                    self._space = []
                    break
                search = self._search.endings  # what stands before the end was only a draft
                continue
            self._advance(source.at + 1)
        self._kind, self._code, self._fresh = TextToken, MarkdownCode(), fresh
        self._quiet = self._framed = True
        source.mark()

    def _attempt(self, sink: Sink) -> Reader[bool]:
        """Whether a call stands here. If not, nothing was consumed."""
        source = self._source
        source.mark()
        start, commits, problem = source.offset, self._commits, ""
        self._tries = self._tries + 1 if start < self._frontier else 0
        for grammar in self._eligible() if self._tries <= RETRIES else ():
            source.named = ""
            try:
                yield from grammar.read(source, self._declared, sink)
                if source.offset > start:
                    if (raw := source.raw()) and not isinstance(sink, Probe):
                        self._out.append(EndToken(raw))
                    return True
            except Probe.Certain:
                return True
            except Broken as broken:
                self._frontier = max(self._frontier, source.offset)
                if source.named:
                    problem = problem or f"{source.named} is broken: {broken}"
            source.reset()
            if self._commits > commits:
                break
        if problem and not isinstance(sink, Probe):
            self._out.append(ProblemToken(f"{problem}. It stays text."))
        return self._commits > commits

    def _eligible(self) -> list[CallGrammar]:
        """The grammars whose calls may begin here."""
        first = self._source.window[self._source.at]
        line_start = self._code.line_start
        return [
            grammar
            for grammar in self._grammars
            if first in grammar.opening.first
            and (grammar.where != "start" or self._fresh)
            and (grammar.where != "line" or line_start)
        ]

    def _closes_later(self, think: Think) -> Reader[bool]:
        try:
            yield from self._source.until(think.closes)
            closes = True
        except Broken:
            closes = False
        self._source.reset()
        return closes

    # Text on its way out

    def _advance_safely(self, search: OpeningSearch) -> None:
        """What cannot be the beginning of an opening is text; in code only the end of reasoning counts."""
        start = search.find_partial(self._source)
        self._advance(start)
        if start < len(self._source.window) and self._is_quoted():
            reasons = self._kind is ReasoningToken
            self._advance(
                self._search.endings.find_partial(self._source) if reasons else len(self._source.window)
            )

    def _is_quoted(self) -> bool:
        """Whether what stands here is in code."""
        return self._code.inside(self._source.window[self._source.at])

    def _advance(self, end: int) -> None:
        """What stands before `end` is text."""
        source = self._source
        if end > source.at:
            text = source.window[source.at : end]
            source.at = end
            self._pass(text)
        source.mark()

    def _pass(self, text: str) -> None:
        """Text goes out but for white space at its end: from a newline on, it waits."""
        self._code.feed(text)
        body = len(text.rstrip())
        if not body and (self._quiet or self._space):
            self._space.append(text)
            return
        cut = text.find("\n", body)
        ready, waits = (text, "") if cut < 0 else (text[:cut], text[cut:])
        if body:
            self._quiet = self._fresh = False
        self._flush(ready)
        if waits:
            self._space.append(waits)

    def _flush(self, text: str = "") -> None:
        if self._space:
            text, self._space = "".join([*self._space, text]), []
        if text:
            self._out.append(self._kind(text))


class Probe:
    """A sink that finds out whether a call stands here: it stops the reader there, or reads it `whole`."""

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole

    class Certain(Exception):
        pass

    def call(self, name: str, arguments: str, id: str = "", *, unended: bool = False) -> None:
        if not self._whole:
            raise Probe.Certain

    def text(self, text: str) -> None:
        raise Broken("no call")

    def reasoning(self, text: str) -> None:
        raise Broken("no call")

    def changed(self, why: str) -> None:
        pass


def _write(token: Token) -> str:
    """A token as the model wrote it."""
    match token:
        case TextToken() | ReasoningToken():
            return token.text
        case CallToken() | EndToken():
            return token.raw
        case ProblemToken():
            return ""
