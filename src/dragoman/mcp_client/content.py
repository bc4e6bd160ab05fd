"""The result of an MCP call in neutral words: texts, images and other media."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.core import jsontext
from dragoman.core.model import Base64, Media, media_kind

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


def split_content(result: CallToolResult) -> tuple[list[str], list[Media]]:
    """Texts and media, each in order. Structured content is a text unless a text says the same."""
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
    return texts, shown


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
    return any(jsontext.is_complete(text) and jsontext.decode(text) == structured for text in texts)
