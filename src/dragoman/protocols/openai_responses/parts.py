"""Content parts <-> parts: what messages and tool outputs hold.

A text that came as a plain string has no extras of ours and goes back as a string; one that came
as a part keeps the rest of it, its `type` included, so the same text may be input or output.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Literal

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Plain,
    Refusal,
    Text,
    Url,
    Wire,
    media_kind,
)
from dragoman.protocols.openai_responses.wire import IMAGE_TYPES, PROTOCOL_NAME, QUIET_PART, native

ContentPart = Text | Refusal | Media | Foreign
TextType = Literal["input_text", "output_text"]


def decode_content(content: Any, where: str, losses: Losses) -> tuple[ContentPart, ...]:
    """A string or an array of parts."""
    if type(content) is str:
        return (Text(content, where=where),)
    if type(content) is not list:
        raise WireError(
            PROTOCOL_NAME, where, f"expected a string or an array of parts, got {describe(content)}"
        )
    return tuple([decode_part(part, f"{where}[{i}]", losses) for i, part in enumerate(content)])  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON


def encode_content(parts: Iterable[AnyPart], text_type: TextType, losses: Losses) -> str | list[Wire]:
    parts = tuple(parts)
    if len(parts) == 1 and type(parts[0]) is Text and not native(parts[0]):
        return parts[0].text
    return [wire for part in parts for wire in encode_part(part, text_type, losses)]


def decode_part(part: Any, where: str, losses: Losses) -> ContentPart:
    fields = Fields(part, where, PROTOCOL_NAME)
    match kind := fields.rest.get("type"):
        case "output_text" | "input_text":
            return _decode_text(fields, losses)
        case "refusal":
            return Refusal(
                fields.nonempty("refusal"), where=where, extras=fields.extras(losses, quiet=QUIET_PART)
            )
        case "input_image":
            return _decode_image(fields, losses)
        case "input_file":
            return _decode_file(fields, losses)
        case "input_audio":
            return _decode_audio(fields, losses)
        case str():
            losses.dropped(where, f"a part of type {kind} is only understood by {PROTOCOL_NAME}")
            return Foreign(PROTOCOL_NAME, part, where=where)
        case _:
            raise fields.wrong("type", "str", kind)


def encode_part(part: AnyPart, text_type: TextType, losses: Losses) -> tuple[Wire, ...]:
    """The content parts that say `part`: one, or none where a message cannot say it."""
    rest = own(part.extras, PROTOCOL_NAME)
    match part:
        case Text():
            return _encode_text(part, text_type, rest)
        case Refusal():
            if text_type == "input_text" and not rest:
                return ({"type": text_type, "text": part.text},)
            return ({"type": "refusal", "refusal": part.text, **rest},)
        case Media():
            return _encode_media(part, text_type, rest, losses)
        case Foreign():
            return (part.body,) if part.origin == PROTOCOL_NAME else ()
        case _:
            losses.dropped(part.where, f"a message of {PROTOCOL_NAME} cannot hold it")
            return ()


def _decode_text(fields: Fields, losses: Losses) -> Text:
    text = fields.need("text", str)
    if fields.rest.get("logprobs"):
        losses.dropped(fields.path("logprobs"), f"only {PROTOCOL_NAME} understands it")
    notes, citations = fields.list("annotations"), tuple[Citation, ...]()
    if notes is not None:
        where = fields.path("annotations")
        citations = tuple([decode_citation(note, f"{where}[{i}]", losses) for i, note in enumerate(notes)])
        fields.rest["annotations"] = []  # it has some, or none, but it says so
    return Text(text, citations, where=fields.where, extras=fields.extras(losses, quiet=QUIET_PART))


def _encode_text(text: Text, text_type: TextType, rest: Wire) -> tuple[Wire, ...]:
    if not rest and not text.text:
        return ()
    if not rest and text_type == "output_text":
        rest = {"annotations": [], "logprobs": []}
    wire = {"type": text_type, **rest, "text": text.text}
    if text.citations or rest.get("annotations") == []:
        wire["annotations"] = encode_citations(text)
    return (wire,)


def decode_citation(annotation: Any, where: str, losses: Losses) -> Citation:
    """Web pages become neutral; what points into files keeps its form in the extras."""
    fields = Fields(annotation, where, PROTOCOL_NAME)
    whole = {PROTOCOL_NAME: fields.rest.copy()}
    if fields.rest.get("type") != "url_citation":
        losses.dropped(where, f"only {PROTOCOL_NAME} understands it")
        return Citation("", where=where, extras=whole)
    start, end = fields.integer("start_index"), fields.integer("end_index")
    return Citation(
        fields.need("url", str),
        fields.text("title"),
        start=-1 if start is None else start,
        end=-1 if end is None else end,
        where=where,
        extras=whole,
    )


def encode_citations(text: Text) -> list[Wire]:
    return [
        encode_citation(citation, len(text.text))
        for citation in text.citations
        if citation.url or native(citation)
    ]


def encode_citation(citation: Citation, length: int) -> Wire:
    """A citation that names no place in the text stands for the whole of it."""
    placed = citation.start >= 0 and citation.end >= 0
    return own(citation.extras, PROTOCOL_NAME) or {
        "type": "url_citation",
        "start_index": citation.start if placed else 0,
        "end_index": citation.end if placed else length,
        "title": citation.title,
        "url": citation.url,
    }


def _decode_image(fields: Fields, losses: Losses) -> Media:
    detail = fields.nonempty("detail")
    if url := fields.nonempty("image_url"):
        media_type, source = decode_url(url, fields.rest, "image_url")
    elif file_id := fields.nonempty("file_id"):
        media_type, source = "", FileId(file_id, PROTOCOL_NAME)
    else:
        raise WireError(PROTOCOL_NAME, fields.where, "expected image_url or file_id, got neither")
    extras = fields.extras(losses, quiet=QUIET_PART)
    return Media("image", media_type, source, detail=detail, where=fields.where, extras=extras)


def _decode_file(fields: Fields, losses: Losses) -> Media:
    name = fields.nonempty("filename")
    if data := fields.nonempty("file_data"):
        media_type, source = decode_url(data, fields.rest, "file_data")
        if not data.startswith("data:"):  # bare base64, as some clients send it
            media_type, source, fields.rest["file_data"] = _type_by_name(name), Base64(data), data
    elif url := fields.nonempty("file_url"):
        media_type, source = "", Url(url)
    elif file_id := fields.nonempty("file_id"):
        media_type, source = "", FileId(file_id, PROTOCOL_NAME)
    else:
        raise WireError(PROTOCOL_NAME, fields.where, "expected file_data, file_url or file_id, got none")
    extras = fields.extras(losses, quiet=QUIET_PART)
    return Media(media_kind(media_type), media_type, source, name, where=fields.where, extras=extras)


def _decode_audio(fields: Fields, losses: Losses) -> Media:
    audio = fields.rest.get("input_audio")
    match audio:
        case {"data": str(data), "format": str(format)}:
            extras = fields.extras(losses, quiet=QUIET_PART | {"input_audio"})
            return Media("audio", f"audio/{format}", Base64(data), where=fields.where, extras=extras)
        case _:
            raise fields.wrong("input_audio", "an object with data and format", audio)


def _encode_media(media: Media, text_type: TextType, rest: Wire, losses: Losses) -> tuple[Wire, ...]:
    if rest.get("type") == "input_audio":
        return (rest,)
    if rest.get("type") == "input_file" or media.kind == "document":
        wire = _encode_file(media, rest)
    elif media.kind == "image":
        wire = _encode_image(media, rest)
    else:
        wire = None
    if wire is not None and text_type == "input_text":
        return (wire,)
    losses.dropped(
        media.where,
        f"{PROTOCOL_NAME} takes no {media.kind} of this form ({media.media_type or 'unknown type'}) here",
    )
    notice = Text(f"[{media.kind} of type {media.media_type or 'unknown'} left out]")
    return _encode_text(notice, text_type, {})


def _encode_image(media: Media, rest: Wire) -> Wire | None:
    detail = {"detail": media.detail or "auto"} if media.detail or not rest else {}
    match media.source:
        case Base64(data) if rest or media.media_type in IMAGE_TYPES:
            wire = {"image_url": f"data:{media.media_type};base64,{data}"}
        case Url(url):
            wire = {"image_url": url}
        case FileId(id, origin) if origin == PROTOCOL_NAME:
            wire = {"file_id": id}
        case _:
            return None
    return {"type": "input_image", **wire, **detail, **rest}


def _encode_file(media: Media, rest: Wire) -> Wire | None:
    name = {"filename": media.name} if media.name else {}
    match media.source:
        case Base64(data):
            wire = {"file_data": f"data:{media.media_type};base64,{data}"}
        case Plain(text):
            data = base64.b64encode(text.encode("utf-8", "replace")).decode()
            wire = {"file_data": f"data:text/plain;base64,{data}"}
        case Url(url):
            return {"type": "input_file", "file_url": url, **name, **rest}
        case FileId(id, origin) if origin == PROTOCOL_NAME:
            return {"type": "input_file", "file_id": id, **name, **rest}
        case _:
            return None
    if not rest and not name:  # a file without a name is refused
        name = {"filename": f"document{_SUFFIX.get(media.media_type, '.txt')}"}
    return {"type": "input_file", **wire, **name, **rest}


def decode_url(url: str, rest: Wire, key: str) -> tuple[str, Base64 | Url]:
    """Data URLs hold base64; one that is spelled in another way is also kept in `rest` as it was."""
    if not url.startswith("data:"):
        return "", Url(url)
    header, comma, data = url.partition(",")
    media_type, *parameters = header[5:].split(";")
    if not comma or parameters[-1:] != ["base64"]:
        return "", Url(url)
    if len(parameters) > 1:
        rest[key] = url
    return media_type, Base64(data)


_SUFFIX = {
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/html": ".html",
    "application/json": ".json",
}
_TYPES = {suffix: media_type for media_type, suffix in _SUFFIX.items()}


def _type_by_name(name: str) -> str:
    return next((kind for suffix, kind in _TYPES.items() if name.lower().endswith(suffix)), "")
