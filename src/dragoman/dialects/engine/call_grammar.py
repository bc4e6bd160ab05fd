"""What a dialect's grammar is to the engine: how a call begins, and a reader for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.dialects.engine.source import LONGEST_NAME, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_MOST_SPACES = 4


class CallToken(Struct, frozen=True):
    """A call. `id` is empty where the text has none; `raw` is how it was written.

    `unended`: the text ended before the call was closed, so it counts only if the reply was not cut there.
    """

    name: str
    arguments: str
    id: str = ""
    raw: str = ""
    unended: bool = False


class TextToken(Struct, frozen=True):
    text: str


class ReasoningToken(Struct, frozen=True):
    text: str


class EndToken(Struct, frozen=True):
    """What closed the calls before it, as it was written."""

    raw: str


class ProblemToken(Struct, frozen=True):
    """What was not as it should be."""

    why: str


Token = CallToken | TextToken | ReasoningToken | EndToken | ProblemToken


class Opening(Struct, frozen=True):
    """How a call begins, as regular expressions: `full`, and `partial` for what may still become one.

    `first` holds every character that it may begin with.
    """

    full: str
    partial: str
    longest: int
    first: str


@lru_cache(maxsize=256)
def opens_with(*texts: str) -> Opening:
    """A call begins with one of these texts."""
    return Opening(
        "|".join(re.escape(text) for text in texts),
        "|".join(_beginning(text) for text in texts),
        max(len(text) for text in texts),
        "".join({text[0] for text in texts}),
    )


def tag_of(*names: str) -> Opening:
    """A call begins with a tag of one of these names; some spaces may stand behind the name."""
    spaced = [f"<{name}{' ' * _MOST_SPACES}>" for name in names]
    return Opening(
        f"<(?:{'|'.join(re.escape(name) for name in names)}) {{0,{_MOST_SPACES}}}>",
        "|".join(_beginning(text) for text in spaced),
        max(len(text) for text in spaced),
        "<",
    )


def tag() -> Opening:
    """A call begins with a tag of any name."""
    name = rf"[A-Za-z_][\w.:\-]{{0,{LONGEST_NAME - 1}}}"
    return Opening(f"<{name}>", f"<(?:{name})?", LONGEST_NAME + 2, "<")


def _beginning(text: str) -> str:
    """Matches every text that `text` may continue: a(?:b(?:c)?)? for abcd."""
    pattern = ""
    for char in reversed(text[:-1]):
        pattern = re.escape(char) + (f"(?:{pattern})?" if pattern else "")
    return pattern or "(?!)"


def stray(*markers: str) -> CallGrammar:
    """Markers of a model's template that stand alone: they belong to no text and are left out."""

    def read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
        yield from source.expect(*markers)

    return CallGrammar(opens_with(*markers), read, leaks=False)


class Sink(Protocol):
    """Where a reader puts what is certain; nothing before it can be taken back."""

    def call(self, name: str, arguments: str, id: str = "", *, unended: bool = False) -> None: ...

    def text(self, text: str) -> None: ...

    def reasoning(self, text: str) -> None: ...

    def changed(self, why: str) -> None: ...


Where = Literal["anywhere", "line", "start"]


class CallGrammar(Struct, frozen=True):
    """`read` starts at the opening. `where`: anywhere, at the start of a line, or of the reply.

    A reader raises Broken where no call of its kind stands; from the last thing that it put into the
    sink on, the text then stays text.
    """

    opening: Opening
    read: Callable[[Source, DeclaredTools, Sink], Reader[None]]
    where: Where = "anywhere"
    leaks: bool = True  # whether a native upstream's text is searched for it


class Think(Struct, frozen=True):
    """How reasoning is written at the start of a reply. `anywhere`: its markers are tokens of their own.

    `label`: a word that may stand on the line of the opening.
    """

    opens: str = "<think>"
    closes: str = "</think>"
    label: str = ""
    anywhere: bool = False


class OpeningSearch:
    """Openings as two searches: for whole ones, and for the beginning of one at the end of a text."""

    def __init__(self, *openings: Opening) -> None:
        self.full = re.compile("|".join(opening.full for opening in openings) or "(?!)")
        self.partial = re.compile(f"(?:{'|'.join(o.partial for o in openings) or '(?!)'})\\Z")
        self._longest = max((opening.longest for opening in openings), default=0)

    def find_partial(self, source: Source) -> int:
        """Where the beginning of an opening starts at the end of the window."""
        end = len(source.window)
        found = self.partial.search(source.window, max(source.at, end - self._longest))
        return found.start() if found else end


class DialectSearch:
    """All that is searched for in a text with these openings, and reasoning that is written so."""

    def __init__(self, openings: tuple[Opening, ...], think: Think | None) -> None:
        closings = [opens_with(think.closes)] if think else []
        if think and think.anywhere:
            openings = (*openings, opens_with(think.opens))
        self.openings, self.endings = OpeningSearch(*openings), OpeningSearch(*closings)
        self.closings = OpeningSearch(*openings, *closings)
        first = "".join(re.escape(opening.first) for opening in (*openings, *closings))
        self.special = re.compile(f"[\n`~{first}]")


@lru_cache(maxsize=256)
def _searches(openings: tuple[Opening, ...], think: Think | None) -> DialectSearch:
    """A dialect's are the same in every reply, but where they name the tools."""
    return DialectSearch(openings, think)


class TextGrammar:
    """All that decides how a text is read: how calls and reasoning are written, and the declared tools."""

    def __init__(
        self, grammars: tuple[CallGrammar, ...], declared: DeclaredTools, think: Think | None = None
    ) -> None:
        self.grammars, self.declared, self.think = grammars, declared, think
        self.search = _searches(tuple([grammar.opening for grammar in grammars]), think)

    def finds_nothing(self, text: str) -> bool:
        """Whether a whole text has no opening and no marker of reasoning, so that it stays as it is."""
        begins = self.think is not None and text.lstrip().startswith(self.think.opens)
        return not begins and self.search.closings.full.search(text) is None
