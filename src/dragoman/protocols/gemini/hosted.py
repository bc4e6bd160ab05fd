"""Google's own tools: declarations, MCP servers, the code that ran, and the sources that an answer cites.

A declaration stays whole in the extras, so that it goes back as it came; neutral settings say the same to
other protocols. Gemini lists the sources of an answer once, and says for segments of it which of them support
it: segments count UTF-8 bytes of the whole answer (thoughts aside), citations count characters of one text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields
from dragoman.core.losses import Losses, report_citation_detail
from dragoman.core.model import Citation, Foreign, HostedKind, HostedTool, State, Wire
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, inner, opened

# tools[] key -> kind; the first key of a kind is the one that we write
HOSTED: dict[str, HostedKind] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "enterpriseWebSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
    "googleMaps": "maps",
    "fileSearch": "file_search",
    "computerUse": "computer",
    "retrieval": "file_search",
    "parallelAiSearch": "web_search",
    "exaAiSearch": "web_search",
}
ENTRY = "entry"  # key of a tool's extras: the number of its entry in `tools`


# Declarations


def decode_hosted(fields: Fields, key: str, number: int, losses: Losses) -> HostedTool:
    value = fields.any(key)
    tool = opened(value, fields.path(key))
    settings: Wire = {}
    if HOSTED[key] == "web_search" and (domains := tool.list("excludeDomains")):
        settings["blocked_domains"] = domains
    tool.extras(losses, topic="hosted.setting")
    extras = {ENTRY: number, key: value}
    return HostedTool(HOSTED[key], settings=settings, where=tool.where, extras={PROTOCOL_NAME: extras})


def encode_hosted(tool: HostedTool, losses: Losses) -> Wire:
    if tool.kind == "mcp":
        return _encode_mcp(tool, losses)
    if tool.kind not in _WRITTEN:
        why = f"Gemini has no hosted {tool.kind} tool that takes its place."
        losses.dropped(tool.where, why, f"hosted.{tool.kind}")
        return {}
    _report_settings(tool, frozenset(), losses)
    if tool.kind == "computer":
        losses.changed(tool.where, "Gemini's computer tool has actions of its own.", "hosted.computer")
        return {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
    return {_WRITTEN[tool.kind]: {}}


def _report_settings(tool: HostedTool, taken: frozenset[str], losses: Losses) -> None:
    for name, value in tool.settings.items():
        if value and name not in taken:
            where, why = _SPELLED.get(name, name), f"Gemini's {tool.kind} has no such setting."
            losses.dropped(f"{tool.where}.{where}", why, "hosted.setting")


# How clients spell neutral settings
_SPELLED = {"context_size": "search_context_size", "location": "user_location", "deferred": "defer_loading"}
_MCP_SETTINGS = frozenset({"label", "url", "headers", "approval"})
_WRITTEN = {
    "web_search": "googleSearch",
    "web_fetch": "urlContext",
    "code_execution": "codeExecution",
    "maps": "googleMaps",
    "computer": "computerUse",
}


def decode_mcp(server: Any, where: str, number: int, losses: Losses) -> HostedTool:
    fields = opened(server, where)
    settings: Wire = {}
    if label := fields.text("name"):
        settings["label"] = label
    if transport := inner(fields, "streamableHttpTransport"):
        settings |= {key: value for key in ("url", "headers") if (value := transport.any(key))}
        transport.extras(losses, topic="hosted.setting")
    fields.extras(losses, topic="hosted.setting")
    extras: Wire = {ENTRY: number, "mcpServers": [server]}
    return HostedTool("mcp", label, settings, where=where, extras={PROTOCOL_NAME: extras})


def _encode_mcp(tool: HostedTool, losses: Losses) -> Wire:
    settings = tool.settings
    if not settings.get("url"):
        losses.dropped(tool.where, "Gemini needs the URL of an MCP server.", "hosted.mcp")
        return {}
    _report_settings(tool, _MCP_SETTINGS, losses)
    transport = {key: settings[key] for key in ("url", "headers") if settings.get(key)}
    return {"mcpServers": [{"name": settings.get("label") or "mcp", "streamableHttpTransport": transport}]}


# Parts that only Gemini understands


def decode_foreign(fields: Fields, state: State | None, history: bool, losses: Losses) -> Foreign:
    """A part that only Gemini understands; code that it ran earlier is text for others."""
    body = fields.rest
    text = _code_as_text(body) if history else ""
    if text:
        losses.changed(
            fields.where, f"Only {PROTOCOL_NAME} has this part. It was sent as text.", "part.unknown"
        )
    elif body:
        why = f"Only {PROTOCOL_NAME} understands a part with {', '.join(body)}."
        losses.dropped(fields.where, why, "part.unknown")
    return Foreign(PROTOCOL_NAME, body, text, state=state, where=fields.where)


def _code_as_text(body: Wire) -> str:
    match body:
        case {"executableCode": {"code": str(code)}}:
            return f"```\n{code}\n```"
        case {"codeExecutionResult": {"output": str(output)}}:
            return f"Output:\n```\n{output}\n```"
        case _:
            return ""


# Sources

_SOURCES = ("web", "maps", "retrievedContext", "image")


def decode_grounding(
    metadata: Any, texts: Sequence[str], where: str, losses: Losses
) -> list[tuple[int, Citation]]:
    """The citations, each with the number of the text that it belongs to."""
    fields = opened(metadata, where)
    sources = [_decode_source(chunk, losses) for chunk in _objects(fields, "groundingChunks")]
    supports = _objects(fields, "groundingSupports")
    fields.extras(losses, quiet=frozenset([key for key, value in fields.rest.items() if not value]))
    if not texts:
        _report_unused(sources, set(), "There is no text that it could support.", losses)
        return []
    if not supports:
        return [(len(texts) - 1, source) for source in sources if source]
    answer, used = _ByteOffsets(texts), set[int]()
    cited = [cited for support in supports for cited in _decode_support(support, sources, answer, used)]
    for support in supports:
        _report_detail(support, support.where, losses)
    _report_unused(sources, used, "This source supports nothing in the text.", losses)
    return cited


def encode_grounding(texts: Iterable[tuple[str, Sequence[Citation]]], losses: Losses) -> Wire:
    """`groundingMetadata` of a candidate; nothing where no text has citations."""
    chunks: dict[tuple[str, str], int] = {}
    supports: list[Wire] = []
    base = 0
    for text, citations in texts:
        for citation in citations:
            if not citation.url:  # its decoder reported it
                continue
            if citation.cited:
                report_citation_detail(losses, citation.where, "Gemini has no field for the quoted words.")
            chunk = chunks.setdefault((citation.url, citation.title), len(chunks))
            supports.append({"segment": _segment(text, citation, base), "groundingChunkIndices": [chunk]})
        base += _size(text)
    if not chunks:
        return {}
    listed = [{"web": {"uri": url, "title": title or url}} for url, title in chunks]
    return {"groundingMetadata": {"groundingChunks": listed, "groundingSupports": supports}}


class _ByteOffsets:
    """Converts byte offsets of the whole answer to characters of one of its texts."""

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
    """None for a source without a URL: other protocols cannot cite it."""
    key = next((key for key in _SOURCES if chunk.rest.get(key) is not None), None)
    source = inner(chunk, key) if key else None
    url = source and (source.text("uri") or source.text("sourceUri"))
    if not source or not url:
        losses.dropped(chunk.where, "This source has no URL.", "citation")
        return None
    found = Citation(url, source.text("title"), source.text("text"), where=chunk.where)
    domain = source.rest.get("domain")
    if domain == found.title or f"//{domain}/" in f"{url}/":
        source.rest.pop("domain", None)  # it repeats what is carried
    for fields in (source, chunk):
        _report_detail(fields, chunk.where, losses)
    return found


def _report_detail(fields: Fields, where: str, losses: Losses) -> None:
    if unknown := [key for key, value in fields.rest.items() if value]:
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(unknown)}.")


def _report_unused(sources: list[Citation | None], used: set[int], why: str, losses: Losses) -> None:
    for i, source in enumerate(sources):
        if source and i not in used:
            losses.dropped(source.where, why, "citation")


def _decode_support(
    support: Fields, sources: list[Citation | None], answer: _ByteOffsets, used: set[int]
) -> list[tuple[int, Citation]]:
    """The citations of one support; the numbers of their sources are added to `used`."""
    segment = inner(support, "segment")
    start, end = (segment.integer("startIndex") or 0, segment.integer("endIndex") or 0) if segment else (0, 0)
    number, first, last = answer.find(start, end)
    cited: list[tuple[int, Citation]] = []
    for index in support.list("groundingChunkIndices") or ():
        if type(index) is not int or not 0 <= index < len(sources):
            problem = "expected numbers of groundingChunks"
            raise WireError(PROTOCOL_NAME, support.path("groundingChunkIndices"), problem)
        used.add(index)
        if source := sources[index]:
            cited.append(
                (number, Citation(source.url, source.title, source.cited, first, last, where=support.where))
            )
    return cited


def _segment(text: str, citation: Citation, base: int) -> Wire:
    """A citation without start and end supports the whole text."""
    start, end = (citation.start, citation.end) if 0 <= citation.start <= citation.end else (0, len(text))
    first = base + _size(text[:start])
    return {"startIndex": first, "endIndex": first + _size(text[start:end]), "text": text[start:end]}


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
