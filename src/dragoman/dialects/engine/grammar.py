"""What a dialect's grammar is to the engine: how a call begins, and a reader for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol

from msgspec import Struct

from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.source import LONGEST_NAME, Reader, Source


class Call(Struct, frozen=True):
    """A call that is certain. `id` is empty where the text has none; `raw` is how it was written."""

    name: str
    arguments: str
    id: str = ""
    raw: str = ""


class Said(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    text: str


class Framing(Struct, frozen=True):
    """What closed the calls before it, as it was written."""

    raw: str


class Problem(Struct, frozen=True):
    """What was not as it should be."""

    why: str


Token = Call | Said | Thought | Framing | Problem


class Opening(Struct, frozen=True):
    """How a call begins, as regular expressions: `full`, and `partial` for what may still become one.

    `first` holds every character that it may begin with.
    """

    full: str
    partial: str
    longest: int
    first: str


@lru_cache(maxsize=256)
def literal(*texts: str) -> Opening:
    """A call begins with one of these texts."""
    return Opening(
        "|".join(re.escape(text) for text in texts),
        "|".join(_beginning(text) for text in texts),
        max(len(text) for text in texts),
        "".join({text[0] for text in texts}),
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


class Sink(Protocol):
    """Where a reader puts what is certain; nothing before it can be taken back."""

    def call(self, name: str, arguments: str, id: str = "") -> None: ...

    def said(self, text: str) -> None: ...

    def thought(self, text: str) -> None: ...

    def changed(self, why: str) -> None: ...


Where = Literal["anywhere", "line", "start"]


class Grammar(Struct, frozen=True):
    """`read` starts at the opening. `where`: anywhere, at the start of a line, or of the reply.

    A reader raises Broken where no call of its kind stands; from the last thing that it put into the
    sink on, the text then stays text.
    """

    opening: Opening
    read: Callable[[Source, Declared, Sink], Reader[None]]
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
