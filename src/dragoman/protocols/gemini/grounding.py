"""`groundingMetadata` <-> citations.

Gemini lists its sources once, and says for segments of the answer which of them support it. Segments
count UTF-8 bytes of the whole answer (thoughts aside), citations count characters of one text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields
from dragoman.core.losses import Losses
from dragoman.core.model import Citation, Wire
from dragoman.protocols.gemini.objects import inner, opened
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

_SOURCES = ("web", "maps", "retrievedContext", "image")


def decode_grounding(
    metadata: Any, texts: Sequence[str], where: str, losses: Losses
) -> list[tuple[int, Citation]]:
    """The citations, each with the number of the text that it belongs to."""
    fields = opened(metadata, where)
    sources = [_decode_source(chunk, losses) for chunk in _objects(fields, "groundingChunks")]
    supports = _objects(fields, "groundingSupports")
    if not texts:
        return []
    if not supports:
        return [(len(texts) - 1, source) for source in sources if source]
    answer = _Answer(texts)
    return [cited for support in supports for cited in _decode_support(support, sources, answer)]


def encode_grounding(texts: Iterable[tuple[str, Sequence[Citation]]], losses: Losses) -> Wire:
    """What a candidate says about the sources of its answer; nothing where no text has any."""
    chunks: dict[tuple[str, str], int] = {}
    supports: list[Wire] = []
    base = 0
    for text, citations in texts:
        for citation in citations:
            if not citation.url:
                losses.dropped(citation.where or "citation", "Gemini cites only what has a URL")
                continue
            chunk = chunks.setdefault((citation.url, citation.title), len(chunks))
            supports.append({"segment": _segment(text, citation, base), "groundingChunkIndices": [chunk]})
        base += _size(text)
    if not chunks:
        return {}
    listed = [{"web": {"uri": url, "title": title or url}} for url, title in chunks]
    return {"groundingMetadata": {"groundingChunks": listed, "groundingSupports": supports}}


class _Answer:
    """Texts in a row, to find the characters that a count of bytes means."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._bytes = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._starts = [0, *accumulate(len(data) for data in self._bytes)][:-1]
        self._characters: dict[int, list[int]] = {}

    def find(self, start: int, end: int) -> tuple[int, int, int]:
        """The text in which byte `start` lies, and the characters of it from there to byte `end`."""
        number = max(bisect_right(self._starts, start) - 1, 0)
        base = self._starts[number]
        return number, self._character(number, start - base), self._character(number, end - base)

    def _character(self, number: int, offset: int) -> int:
        data = self._bytes[number]
        offset = min(max(offset, 0), len(data))
        if data.isascii():
            return offset
        if number not in self._characters:
            self._characters[number] = [0, *accumulate((byte & 0xC0) != 0x80 for byte in data)]
        return self._characters[number][offset]


def _objects(fields: Fields, key: str) -> list[Fields]:
    return [opened(item, f"{fields.path(key)}[{i}]") for i, item in enumerate(fields.list(key) or ())]


def _decode_source(chunk: Fields, losses: Losses) -> Citation | None:
    """A source that has a URL; others cannot be cited elsewhere."""
    key = next((key for key in _SOURCES if chunk.rest.get(key) is not None), None)
    source = inner(chunk, key) if key else None
    url = source and (source.text("uri") or source.text("sourceUri"))
    if not source or not url:
        losses.dropped(chunk.where, "a source without a URL")
        return None
    return Citation(url, source.text("title"), source.text("text"), where=chunk.where)


def _decode_support(
    support: Fields, sources: list[Citation | None], answer: _Answer
) -> list[tuple[int, Citation]]:
    segment = inner(support, "segment")
    start, end = (segment.integer("startIndex") or 0, segment.integer("endIndex") or 0) if segment else (0, 0)
    number, first, last = answer.find(start, end)
    cited: list[tuple[int, Citation]] = []
    for index in support.list("groundingChunkIndices") or ():
        if type(index) is not int or not 0 <= index < len(sources):
            raise WireError(
                PROTOCOL_NAME, support.path("groundingChunkIndices"), "expected numbers of groundingChunks"
            )
        if source := sources[index]:
            cited.append(
                (number, Citation(source.url, source.title, source.cited, first, last, where=support.where))
            )
    return cited


def _segment(text: str, citation: Citation, base: int) -> Wire:
    """A citation that does not say where it belongs is about the whole text."""
    start, end = (citation.start, citation.end) if 0 <= citation.start <= citation.end else (0, len(text))
    first = base + _size(text[:start])
    return {"startIndex": first, "endIndex": first + _size(text[start:end]), "text": text[start:end]}


def _size(text: str) -> int:
    """Gemini counts bytes."""
    return len(text.encode("utf-8", "surrogatepass"))
