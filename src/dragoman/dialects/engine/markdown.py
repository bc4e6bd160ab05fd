"""Whether a text so far ends inside Markdown code, where a call is only quoted.

A run of three or more backticks (or, at the start of a line, tildes) opens code that lasts until
such a run on a line of its own, or until an equal run on the same line. A shorter run opens inline
code, which ends at an equal run or with its line, so that a stray backtick hides nothing for long.

    TEXT    -> INLINE  a run of backticks
            -> FENCE   three or more tildes at the start of a line
    INLINE  -> TEXT    an equal run; or the line ends, and the run had one or two backticks
            -> FENCE   the line ends, and the run had three or more
    FENCE   -> TEXT    a line that holds nothing but such a run, at least as long
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r"\n|`+|~+|[^\n`~]+")
_SPECIAL = re.compile(r"[\n`~]")


class MarkdownCode:
    __slots__ = ("_blank", "_closing", "_fence", "_inline", "_run", "_run_blank", "_run_char")

    def __init__(self) -> None:
        self._blank = True  # only white space on this line so far
        self._run, self._run_char, self._run_blank = 0, "", False  # a run of marks that may go on
        self._inline = 0  # marks that opened code on this line
        self._fence: tuple[str, int] | None = None
        self._closing = False  # this line closes the fence, unless more follows on it

    def inside(self, following: str) -> bool:
        """Whether what begins with this character is in code; so is what continues a run of marks."""
        if self._run and following == self._run_char:
            return True
        self._settle()
        return bool(self._inline) or (self._fence is not None and not self._closing)

    @property
    def inline(self) -> bool:
        """Whether the text ends inside inline code, or a run of marks that may open it."""
        return bool(self._inline or self._run) and self._fence is None

    @property
    def line_start(self) -> bool:
        self._settle()
        return self._blank

    def feed(self, text: str) -> None:
        if not _SPECIAL.search(text):
            self.words(text)
            return
        for found in _TOKENS.finditer(text):
            token = found[0]
            if token == "\n":
                self._line()
            elif token[0] in "`~":
                if self._run and self._run_char != token[0]:
                    self._settle()
                if not self._run:
                    self._run_char, self._run_blank = token[0], self._blank
                self._run += len(token)
                self._blank = False
            else:
                self.words(token)

    def words(self, text: str) -> None:
        """Text without line breaks, backticks and tildes."""
        if self._run:
            self._settle()
        if self._blank or self._closing:
            blank = not text or text.isspace()
            self._blank &= blank
            self._closing &= blank

    def _settle(self) -> None:
        """The run of marks is over: what did it mean?"""
        run, self._run = self._run, 0
        if not run:
            return
        char = self._run_char
        if self._fence:
            self._closing = self._run_blank and char == self._fence[0] and run >= self._fence[1]
        elif self._inline:
            self._inline = 0 if char == "`" and run == self._inline else self._inline
        elif char == "`":
            self._inline = run
        elif self._run_blank and run >= 3:
            self._fence = (char, run)

    def _line(self) -> None:
        self._settle()
        if self._closing:
            self._fence = None
        elif self._inline >= 3:
            self._fence = ("`", self._inline)
        self._inline, self._closing, self._blank = 0, False, True
