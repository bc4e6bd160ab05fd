"""Text that arrives in pieces, read as if it were all there.

A reader is a generator that yields where it needs more text, so a grammar reads top-down like blocking code,
and where the text was cut cannot matter (G117: sglang#34458, vllm#38168). What a reader consumed since the
mark is stored, so that a call that proves broken becomes text again. Every character is examined once: no
reader leaves text in the window that it has already examined.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
Reader = Generator[None, None, T]

_SPACE = re.compile(r"\s*")
LONGEST_NAME = 128  # nobody names a tool or a parameter at greater length


class Broken(Exception):
    """What stands here is not what the grammar expects."""


class Source:
    """`window[at:]` is what has arrived and is not read yet.

    A reader sets `named` to what it takes the text for, as soon as it can be nothing else.
    """

    __slots__ = ("_base", "_consumed", "_mark", "_searched", "at", "ended", "named", "window")

    def __init__(self) -> None:
        self.window, self.at, self.ended = "", 0, False
        self.named = ""
        self._base, self._mark, self._searched = 0, 0, 0
        self._consumed: list[str] = []

    # For the scanner, which feeds it

    def push(self, text: str) -> None:
        if self.at:
            if self.at > self._mark:
                self._consumed.append(self.window[self._mark : self.at])
            self._base += self.at
            self._mark = 0
            self.window, self.at = self.window[self.at :] + text, 0
        else:
            self.window += text

    @property
    def offset(self) -> int:
        """How many characters were read."""
        return self._base + self.at

    def mark(self) -> None:
        """What is read from here on can be taken back."""
        self._consumed, self._mark = [], self.at

    def raw(self) -> str:
        """Everything since the mark, as it was written."""
        return "".join([*self._consumed, self.window[self._mark : self.at]])

    def reset(self) -> None:
        """Back to the mark."""
        if self._consumed:
            raw = self.raw()
            self._base = self.offset - len(raw)
            self.window, self.at = raw + self.window[self.at :], 0
            self._consumed, self._mark = [], 0
        else:
            self.at = self._mark

    # For grammars

    def more(self) -> Reader[bool]:
        """Wait for text; false where none will come."""
        if self.ended:
            return False
        yield
        return not self.ended

    def space(self) -> Reader[str]:
        """White space, consumed."""
        first = self.window[self.at : self.at + 1]
        if first and not first.isspace():
            return ""
        return (yield from self.run(_SPACE, 0))

    def run(self, pattern: re.Pattern[str], longest: int = LONGEST_NAME) -> Reader[str]:
        """All that `pattern`, a repeated class, matches here. 0: however long."""
        parts: list[str] = []
        length = 0
        while True:
            found = pattern.match(self.window, self.at)
            end = found.end() if found else self.at
            parts.append(self.window[self.at : end])
            length += end - self.at
            self.at = end
            if longest and length > longest:
                raise Broken(f"a name longer than {longest} characters")
            if end < len(self.window) or not (yield from self.more()):
                return "".join(parts)

    def next(self, *options: str) -> Reader[str]:
        """Which of `options` stands here, not consumed; empty where none does."""
        found = yield from self.skip(*options)
        self.at -= len(found)
        return found

    def skip(self, *options: str) -> Reader[str]:
        """Like `next`, consumed."""
        ordered = options if len(options) == 1 else sorted(options, key=len, reverse=True)
        while True:
            for option in ordered:
                if self.window.startswith(option, self.at):
                    self.at += len(option)
                    return option
                if not self.ended and option.startswith(self.window[self.at : self.at + len(option)]):
                    break  # undecided
            else:
                return ""
            yield from self.more()

    def expect(self, *options: str) -> Reader[str]:
        found = yield from self.skip(*options)
        if not found:
            raise Broken(f"expected {' or '.join(options)}")
        return found

    def until(self, needle: str) -> Reader[str]:
        """The text before `needle`, both consumed."""
        return (yield from self.until_any(needle))[0]

    def until_any(self, *needles: str) -> Reader[tuple[str, str]]:
        """The text before the first of `needles`, and which it was, both consumed."""
        parts: list[str] = []
        pattern = any_of(needles)
        while not (found := pattern.search(self.window, self.at)):
            end = len(self.window) - max(overlap(self.window, self.at, needle) for needle in needles)
            parts.append(self.window[self.at : end])
            self.at = end
            if not (yield from self.more()):
                raise Broken(f"{needles[0]} is missing")
        parts.append(self.window[self.at : found.start()])
        self.at = found.end()
        return "".join(parts), found[0]

    def between(self, opens: str, closes: str) -> tuple[int, int] | None:
        """Where in the window the text between these markers begins and ends, if `opens` stands here and
        `closes` has arrived. Nothing is consumed, and no text is searched twice."""
        start = self.at + len(opens)
        if self.offset < self._searched or not self.window.startswith(opens, self.at):
            return None
        end = self.window.find(closes, start)
        self._searched = self._base + (len(self.window) if end < 0 else end)
        return (start, end) if end >= 0 else None

    def is_exhausted(self) -> Reader[bool]:
        """Whether the text ends here."""
        return self.at == len(self.window) and not (yield from self.more())

    def close(self, marker: str) -> Reader[bool]:
        """Consume white space and the end marker; one that the end of the text cut short counts too.

        Where something else stands, nothing is consumed but what `raw` can give back.
        """
        yield from self.space()
        if (yield from self.skip(marker)):
            return True
        rest = self.window[self.at :]
        if self.ended and marker.startswith(rest):
            self.at += len(rest)
            return True
        return False


@lru_cache(256)
def any_of(needles: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(needle) for needle in needles))


def overlap(text: str, start: int, needle: str) -> int:
    """How many characters at the end of `text` begin `needle`."""
    at = text.find(needle[0], max(start, len(text) - len(needle) + 1))
    while at >= 0:
        if needle.startswith(text[at:]):
            return len(text) - at
        at = text.find(needle[0], at + 1)
    return 0
