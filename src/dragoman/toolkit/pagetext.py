"""The words of an HTML page: headings, paragraphs, lists and links, without what only a browser needs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = {"script", "style", "noscript", "template", "svg", "head", "iframe"}
_INLINE = re.compile(  # every other tag ends a line
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp|small|span|strong|sub|sup"
    "|time|tt|u|var|wbr"
)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.title = ""
        self._unseen: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._unseen.clear()  # a head that was never closed ends here
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _UNSEEN:
            self._unseen.append(tag)
        elif not _INLINE.fullmatch(tag):
            self.found.append("\n- " if tag == "li" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        elif not _INLINE.fullmatch(tag):
            self.found.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._unseen:
            self.found.append(re.sub(r"\s+", " ", data))


def page_text(html: str) -> str:
    """The title, then the text, with at most one empty line in a row."""
    words = _Words()
    words.feed(html)
    words.close()
    lines = [line.strip() for line in "".join(words.found).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    title = " ".join(words.title.split())
    return f"{title}\n\n{text}".strip() if title and not text.startswith(title) else text
