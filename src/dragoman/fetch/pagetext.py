"""The text of an HTML page: title, headings, paragraphs, lists, without markup.

A scanner of our own: `html.parser` takes quadratic time for unclosed comments and tags (50 kB of `<!--` took
seconds on CPython 3.11), and pages come from anywhere. Here the time is linear.
"""

from __future__ import annotations

import re
from html import unescape

_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head", "iframe"))
_RAW = frozenset(("script", "style"))  # their content is not markup
_INLINE = re.compile(  # every other tag ends a line
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp|small|span|strong|sub|sup"
    "|time|tt|u|var|wbr"
)
_NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
_STOP = re.compile(r"[>\"']")


def page_text(html: str) -> str:
    """The title, then the text, with at most one empty line in a row."""
    scanner = _Scanner(html)
    scanner.run()
    lines = [line.strip() for line in "".join(scanner.found).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    title = " ".join("".join(scanner.title).split())
    return f"{title}\n\n{text}".strip() if title and not text.startswith(title) else text


class _Scanner:
    """States: in text; in the title (`_in_title`); inside hidden elements (`_hidden`, outermost first)."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._lower = html.lower()
        self.found: list[str] = []
        self.title: list[str] = []
        self._hidden: list[str] = []
        self._in_title = False
        self._absent: set[str] = set()  # quotes that do not occur again: no search for them is repeated

    def run(self) -> None:
        at = 0
        while at < len(self._html):
            start = self._html.find("<", at)
            self._text(self._html[at : start if start >= 0 else None])
            if start < 0:
                return
            at = self._markup(start)

    def _markup(self, start: int) -> int:
        """Handle what begins with `<` at `start`; where it ends."""
        if self._html.startswith("<!--", start):
            return self._after("-->", start + 4)
        if self._html.startswith(("<!", "<?"), start):
            return self._after(">", start)
        name = _NAME.match(self._html, start)
        if not name:
            self._text("<")
            return start + 1
        end, tag = self._tag_end(name.end()), name[1].lower()
        if self._html.startswith("</", start):
            self._close(tag)
        elif self._open(tag):
            closing = self._lower.find(f"</{tag}", end)
            return closing if closing >= 0 else len(self._html)
        return end

    def _open(self, tag: str) -> bool:
        """Whether its content is raw text, to be skipped."""
        if tag == "body":
            self._hidden.clear()  # ends a <head> that was not closed
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _HIDDEN:
            if tag not in self._hidden:  # its first end tag ends them all
                self._hidden.append(tag)
        elif not _INLINE.fullmatch(tag):
            self.found.append("\n- " if tag == "li" else "\n")
        return tag in _RAW

    def _close(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _HIDDEN:
            if tag in self._hidden:
                del self._hidden[self._hidden.index(tag) :]
        elif not _INLINE.fullmatch(tag):
            self.found.append("\n")

    def _text(self, text: str) -> None:
        if self._in_title:
            self.title.append(unescape(text))
        elif text and not self._hidden:
            self.found.append(re.sub(r"\s+", " ", unescape(text)))

    def _tag_end(self, at: int) -> int:
        """After the `>` that is not inside quotes; after the first `>` if a quote is not closed."""
        while stop := _STOP.search(self._html, at):
            quote = stop[0]
            if quote == ">":
                return stop.end()
            closing = -1 if quote in self._absent else self._html.find(quote, stop.end())
            if closing < 0:
                self._absent.add(quote)
                return self._after(">", stop.end())
            at = closing + 1
        return len(self._html)

    def _after(self, mark: str, at: int) -> int:
        found = self._html.find(mark, at)
        return found + len(mark) if found >= 0 else len(self._html)
