"""Which parts of an answer cite a page that a tool found."""

from __future__ import annotations

import pytest

from dragoman.core.hosted import FoundSource
from dragoman.hosted.citations import find_citations, source_key

PAGE, PLANET = "https://e.org/p", "https://en.wikipedia.org/wiki/Mercury_(planet)"
SOURCES = {source_key(url): FoundSource(url, "T", "text") for url in (PAGE, PLANET)}
# an answer -> what of it is cited
CASES = {
    "a link": (f"Warm ([e.org]({PAGE})).", [f"[e.org]({PAGE})"]),
    "an address by itself": (f"See {PAGE}.", [PAGE]),
    "in parentheses": (f"Warm ({PAGE}).", [PAGE]),
    "emphasised": (f"**{PAGE}**", [PAGE]),
    "a link to an address with parentheses": (f"[Mercury]({PLANET}) is hot.", [f"[Mercury]({PLANET})"]),
    "an address with parentheses, in parentheses": (f"It is hot ({PLANET}).", [PLANET]),
    "before a full stop of Chinese": (f"见 {PAGE}。下一句", [PAGE]),
    "in brackets of Japanese": (f"【{PAGE}】", [PAGE]),
    "another page": ("See https://e.org/other.", []),
    "the scheme mixed up": ("See http://e.org/p/", ["http://e.org/p/"]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_cited(case: str) -> None:
    text, cited = CASES[case]
    assert [text[found.start : found.end] for found in find_citations(text, SOURCES, False)] == cited
