"""The result of an MCP call <-> the outcome of a tool. Texts are joined; images stay images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dragoman.client.values import ToolOutcome
from dragoman.core import jsontext
from dragoman.core.model import Base64, Media, Plain, Url, media_kind
from dragoman.toolkit.limits import Limits, bounded

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


def outcome_of(result: CallToolResult) -> ToolOutcome:
    texts: list[str] = []
    shown: list[Media] = []
    for block in result.content:
        match _read(block):
            case Media() as media:
                shown.append(media)
            case text:
                texts.append(text)
    if result.structured_content is not None and not _says(texts, result.structured_content):
        texts.append(jsontext.dumps(result.structured_content))
    return ToolOutcome("\n".join(texts), tuple(shown), result.is_error)


def bounded_outcome(outcome: ToolOutcome, limits: Limits) -> ToolOutcome:
    """Long text keeps its beginning and end; media that are too large become a note."""
    text, shown = outcome.text, list[Media]()
    for media in outcome.media:
        if isinstance(media.source, Base64) and len(media.source.data) * 3 // 4 > limits.file:
            text = f"{text}\n[{media.kind} left out: larger than {limits.file} bytes]".lstrip("\n")
        else:
            shown.append(media)
    return ToolOutcome(bounded(text, limits.output), tuple(shown), outcome.failed)


def result_of(outcome: ToolOutcome) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    texts = [TextContent(text=outcome.text)] if outcome.text or not outcome.media else []
    return CallToolResult(content=[*texts, *_blocks(outcome.media)], is_error=outcome.failed)


def _read(block: ContentBlock) -> str | Media:
    from mcp.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return Media("image", block.mime_type, Base64(block.data))
        case AudioContent():
            return Media("audio", block.mime_type, Base64(block.data))
        case ResourceLink():
            return f"[{block.title or block.name}]({block.uri})"
        case EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: Any) -> str | Media:
    if hasattr(resource, "text"):
        return resource.text
    kind = resource.mime_type or "application/octet-stream"
    return Media(media_kind(kind), kind, Base64(resource.blob), str(resource.uri).rpartition("/")[2])


def _says(texts: list[str], structured: Any) -> bool:
    """Whether the texts say it already, as they should: in JSON, or as SDKs wrap a bare value."""
    if jsontext.is_object(structured) and list(structured) == ["result"] and texts:
        return True
    return any(_parsed(text) == structured for text in texts)


def _parsed(text: str) -> Any:
    try:
        return jsontext.decode(text)
    except ValueError:
        return None


def _blocks(shown: tuple[Media, ...]) -> Iterator[ContentBlock]:
    from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, TextContent

    for number, media in enumerate(shown, 1):
        match media.source:
            case Base64(data) if media.kind == "image":
                yield ImageContent(data=data, mime_type=media.media_type)
            case Base64(data) if media.kind == "audio":
                yield AudioContent(data=data, mime_type=media.media_type)
            case Base64(data):
                uri = f"attachment:///{media.name or number}"
                blob = BlobResourceContents(uri=uri, mime_type=media.media_type, blob=data)
                yield EmbeddedResource(resource=blob)
            case Plain(text) | Url(text):
                yield TextContent(text=text)
            case _:
                yield TextContent(text=f"a {media.kind} that only its provider can open")
