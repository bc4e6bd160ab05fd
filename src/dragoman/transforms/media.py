"""Media that every upstream can read: honest types, and text instead of binaries where that is asked."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Base64, Foreign, Media, Message, Text, ToolResult

# How base64 begins for the types that providers check by their first bytes
_MAGIC = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
)


def sniff(data: str) -> str:
    """The media type that the first bytes of base64 `data` show, or nothing."""
    return next((kind for begin, kind in _MAGIC if data.startswith(begin)), "")


def settle_media(message: Message, summarise: bool, losses: Losses) -> Message:
    """`message` with true media types, and its tool results without binaries where `summarise` says so."""
    if not any(type(part) is Media or (type(part) is ToolResult and part.content) for part in message.parts):
        return message
    return replace(message, parts=tuple([_settle_part(part, summarise, losses) for part in message.parts]))


def _settle_part(part: AnyPart, summarise: bool, losses: Losses) -> AnyPart:
    match part:
        case Media():
            return true_type(part, losses)
        case ToolResult() if any(type(item) is Media for item in part.content):
            return replace(
                part, content=tuple([_settle_item(item, summarise, losses) for item in part.content])
            )
        case _:
            return part


def _settle_item(item: Text | Media | Foreign, summarise: bool, losses: Losses) -> Text | Media | Foreign:
    if not isinstance(item, Media):
        return item
    if not summarise:
        return true_type(item, losses)
    losses.changed(item.where, "a binary result is summarised as text")
    return Text(f"Binary content of type {item.media_type or 'application/octet-stream'} was processed.")


def true_type(media: Media, losses: Losses) -> Media:
    """Clients guess types by file name, and say image/jpg; the bytes know better."""
    if not isinstance(media.source, Base64):
        return media
    seen = sniff(media.source.data) or ("image/jpeg" if media.media_type == "image/jpg" else media.media_type)
    if seen == media.media_type:
        return media
    losses.changed(media.where, f"the bytes are {seen}, not {media.media_type or 'untyped'}")
    return replace(media, media_type=seen, kind="document" if seen == "application/pdf" else "image")
