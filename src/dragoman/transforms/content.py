"""Content that the upstream can read: media under their true types, text for what it cannot take."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import EachRun, Fold, FoldRun
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Foreign,
    Media,
    Message,
    Reasoning,
    Text,
    ToolResult,
    media_kind,
)
from dragoman.transforms.pairing import MessageFacts, facts_of

Content = Text | Media | Foreign

# How base64 begins for the types that providers check by their first bytes
_MAGIC = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("JVBERi0", "application/pdf"),
)


# RIFF is a container: bytes 8 to 12 name what it holds
_RIFF = "UklGR"
_RIFF_FORMS = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}


def sniff(data: str) -> str:
    """The media type that the first bytes of base64 `data` show, or nothing."""
    if data.startswith(_RIFF) and len(data) >= 16:
        try:
            return _RIFF_FORMS.get(b64decode(data[:16], validate=True)[8:12], "")
        except ValueError:
            return ""
    return next((kind for begin, kind in _MAGIC if data.startswith(begin)), "")


def settle_part(part: AnyPart, own: str, summarise: bool, losses: Losses) -> AnyPart | None:
    """`part` as protocol `own` can read it; None where no text can stand for it."""
    match part:
        case Media():
            return true_type(part, losses)
        case Foreign():
            return _native(part, own)
        case ToolResult():
            return settle_result(part, own, summarise, losses)
        case _:
            return part


def settle_result(result: ToolResult, own: str, summarise: bool, losses: Losses) -> ToolResult:
    """With `summarise` it says in words that there was a binary, unless a text of the result already does."""
    if all(type(item) is Text for item in result.content):
        return result
    said = {item.text for item in result.content if type(item) is Text} if summarise else None
    items = [_settle_item(item, own, said, losses) for item in result.content]
    return replace(result, content=tuple([item for item in items if item is not None]))


def _settle_item(item: Content, own: str, said: set[str] | None, losses: Losses) -> Content | None:
    match item:
        case Foreign():
            return _native(item, own)
        case Media() if said is not None:
            losses.changed(item.where, _SUMMARISED, "media.summary")
            summary = item.in_words
            return None if summary in said else Text(summary)
        case Media():
            return true_type(item, losses)
        case Text():
            return item


class JoinPieces(Fold, frozen=True):
    """The pieces of one streamed text, or thought, are one part of one message again."""

    limits: ProtocolLimits

    def begin(self, state: tuple[MessageFacts, bool] | None = None) -> FoldRun:
        return _PieceJoiner(self.limits, *(state or (None, False)))


class _PieceJoiner(FoldRun):
    """`open` is a turn of the assistant that may go on; it `was_joined` of several messages."""

    limits: ProtocolLimits
    open: MessageFacts | None
    was_joined: bool

    def state(self) -> tuple[MessageFacts | None, bool]:
        return self.open, self.was_joined

    def feed(self, items: Sequence[MessageFacts], /) -> list[MessageFacts]:
        out: list[MessageFacts] = []
        for facts in items:
            message, last = facts.message, self.open.message if self.open else None
            if message.role != "assistant":
                out += self.close()
                out.append(facts)
            elif last and not (_has_extras(last) or _has_extras(message)):
                both = replace(last, parts=last.parts + message.parts)
                passed = (*self.open.passed, *facts.passed) if self.open else facts.passed
                self.open, self.was_joined = MessageFacts(both, passed=passed), True
            else:
                out += self.close()
                self.open = facts
        return out

    def close(self) -> Sequence[MessageFacts]:
        facts, was_joined = self.open, self.was_joined
        self.open, self.was_joined = None, False
        if facts is None:
            return ()
        message = _joined(facts.message)
        if message is facts.message and not was_joined:
            return (facts,)
        return (facts_of(message, self.limits, passed=facts.passed),)


def _joined(message: Message) -> Message:
    parts: list[AnyPart] = []
    for part in message.parts:
        last = parts[-1] if parts else None
        if type(part) is type(last) and _is_piece(part) and _is_piece(last):
            part = replace(last, text=last.text + part.text)
            parts.pop()
        parts.append(part)
    return message if len(parts) == len(message.parts) else replace(message, parts=tuple(parts))


def _is_piece(part: AnyPart | None) -> TypeGuard[Text | Reasoning]:
    """A part that carries nothing but text."""
    match part:
        case Text(citations=()) | Reasoning(hidden=False):
            return part.state is None and not _has_extras(part)
        case _:
            return False


def _has_extras(value: AnyPart | Message) -> bool:
    """Whether it has fields that only its own protocol understands; empty extras name the protocol alone."""
    return any((value.extras or {}).values())


class WithoutSummarised(Fold, frozen=True):
    def begin(self, state: Any = None) -> FoldRun:
        return EachRun(without_summarised)


def without_summarised(message: Message, losses: Losses) -> Message:
    """`message` without the binaries that stand beside a result, where the result already sums them up.

    Clients of Gemini put the bytes of a result beside it.
    """
    items = [item for part in message.parts if type(part) is ToolResult for item in part.content]
    texts = {item.text for item in items if type(item) is Text}
    summarised = [part for part in message.parts if type(part) is Media and part.in_words in texts]
    for part in summarised:
        losses.changed(part.where, _SUMMARISED, "media.summary")
    rest = [part for part in message.parts if not any(part is media for media in summarised)]
    return replace(message, parts=tuple(rest)) if summarised else message


class WithoutImages(Fold, frozen=True):
    def begin(self, state: Any = None) -> FoldRun:
        return EachRun(without_images)


def without_images(message: Message, losses: Losses) -> Message:
    """`message` for a model that takes text only: a note in place of each image, in results too.

    A text-only server answers 400 to an image (G76: CLIProxyAPI 13435c93).
    """
    if not any(type(part) is Media or type(part) is ToolResult for part in message.parts):
        return message
    return replace(message, parts=tuple([_without_image(part, losses) for part in message.parts]))


def _without_image(part: AnyPart, losses: Losses) -> AnyPart:
    match part:
        case Media(kind="image"):
            losses.changed(part.where, "The model takes no images. A note was sent instead.", "media.image")
            kind = part.media_type or "of unknown type"
            return Text(f"[An image ({kind}) was left out: the model reads text only.]")
        case ToolResult() if any(type(item) is Media for item in part.content):
            content = tuple([_without_image(item, losses) for item in part.content])
            return replace(part, content=content)
        case _:
            return part


_SUMMARISED = 'images="summary" is set, so a text was sent instead of the binary result.'


def _native(part: Foreign, own: str) -> Foreign | Text | None:
    """A part that only its origin understands; others get its text, where it has any."""
    if part.origin == own:
        return part
    return Text(part.text, where=part.where) if part.text else None


def true_type(media: Media, losses: Losses) -> Media:
    """Clients guess types by file name, and write image/jpg; the first bytes decide (G73: new-api
    eeccb214)."""
    if not isinstance(media.source, Base64):
        return media
    seen = sniff(media.source.data) or ("image/jpeg" if media.media_type == "image/jpg" else media.media_type)
    if seen == media.media_type:
        return media
    losses.changed(
        media.where,
        f"The media type was {media.media_type or 'missing'}. The bytes are {seen}.",
        "media.type",
    )
    return replace(media, media_type=seen, kind=media_kind(seen))
