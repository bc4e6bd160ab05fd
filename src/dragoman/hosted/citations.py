"""Citations of a text that a model wrote from what we found: its links to pages among the sources."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.core.hosted import FoundSource
from dragoman.core.model import Citation

LONGEST_QUOTE = 150  # characters; Anthropic's `cited_text` has no more
# A link of Markdown, or an address by itself, with pairs of parentheses as in those of Wikipedia, and up to
# the punctuation of Chinese and Japanese. Both patterns are linear
_LINK = re.compile(
    r"\[[^\[\]\n]*\]\((https?://(?:[^\s()]|\([^\s()]*\))+)\)"
    r"|(https?://(?:[^\s<>\"'`()\[\]“”‘’（）【】「」『』《》。，、；：！？]|\([^\s<>()]*\))+)"
)
_AFTER = ".,;:!?*_"  # what ends a sentence, or its emphasis, and no address


def source_key(url: str) -> str:
    """The same for spellings of one address that a model mixes up."""
    return url.partition("#")[0].rstrip("/").removeprefix("https://").removeprefix("http://")


def find_citations(text: str, sources: Mapping[str, FoundSource], quotes: bool) -> tuple[Citation, ...]:
    """`sources` by their keys. `quotes`: the words of the source instead of the range in the text; protocols
    have one of the two."""
    if not sources or "://" not in text:
        return ()
    found: list[Citation] = []
    cited: set[str] = set()
    for link in _LINK.finditer(text):
        url, end = link[1] or link[2].rstrip(_AFTER), link.end()
        source = sources.get(source_key(url))
        if source is None or (quotes and source.url in cited):
            continue
        cited.add(source.url)
        if quotes:
            found.append(Citation(source.url, source.title, source.text[:LONGEST_QUOTE]))
            continue
        end = end if link[1] else link.start() + len(url)
        found.append(Citation(source.url, source.title, "", link.start(), end))
    return tuple(found)
