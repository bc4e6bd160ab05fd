"""Content parts, citations and reasoning <-> neutral parts.

A text that came as a plain string has no extras and goes back as a string; one that came as a part keeps the
rest of it, `type` included, so the same text may be input or output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.losses import Losses, report_citation_detail
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Text,
    Wire,
)
from dragoman.core.seal import unseal_state
from dragoman.protocols.openai import encode_lifetime, lifetime
from dragoman.protocols.openai_responses.media import decode_audio, decode_file, decode_image, encode_media
from dragoman.protocols.openai_responses.wire import (
    PROTOCOL_NAME,
    QUIET_ITEM,
    QUIET_PART,
    is_native,
)

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
    if len(parts) == 1 and type(parts[0]) is Text and not (is_native(parts[0]) or parts[0].cache):
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
            return _marked(decode_image(fields, losses), part)
        case "input_file":
            return _marked(decode_file(fields, losses), part)
        case "input_audio":
            return decode_audio(fields, losses)
        case str():
            losses.dropped(where, f"Only {PROTOCOL_NAME} understands a part of type {kind}.", "part.unknown")
            return Foreign(PROTOCOL_NAME, part, where=where)
        case _:
            raise fields.wrong("type", "str", kind)


def encode_part(part: AnyPart, text_type: TextType, losses: Losses) -> tuple[Wire, ...]:
    """The content parts for `part`: one, or none where a message cannot hold it."""
    rest = own(part.extras, PROTOCOL_NAME)
    match part:
        case Text():
            return _encode_text(part, text_type, rest, losses)
        case Refusal():
            if text_type == "input_text" and not rest:
                return ({"type": text_type, "text": part.text},)
            return ({"type": "refusal", "refusal": part.text, **rest},)
        case Media():
            return _encode_media(part, text_type, rest, losses)
        case Foreign():
            return (part.body,) if part.origin == PROTOCOL_NAME else ()
        case _:
            losses.dropped(part.where, f"A message of {PROTOCOL_NAME} cannot hold it.", "part.place")
            return ()


def _encode_media(media: Media, text_type: TextType, rest: Wire, losses: Losses) -> tuple[Wire, ...]:
    wire = encode_media(media, rest)
    if wire is not None and media.cache and not is_native(media):
        wire |= encode_lifetime(media.cache)
    if wire is not None and (text_type == "input_text" or wire["type"] == "input_audio"):
        return (wire,)
    kind = media.media_type or "unknown type"
    why = f"{PROTOCOL_NAME} takes no {media.kind} of this form ({kind}) here."
    losses.dropped(media.where, why, f"media.{media.kind}")
    notice = Text(f"[{media.kind} of type {media.media_type or 'unknown'} left out]")
    return _encode_text(notice, text_type, {}, losses)


def _marked(media: Media, part: Wire) -> Media:
    return replace(media, cache=cache) if (cache := lifetime(part.get("prompt_cache_breakpoint"))) else media


def _decode_text(fields: Fields, losses: Losses) -> Text:
    text = fields.need("text", str)
    if fields.rest.get("logprobs"):
        losses.dropped(fields.path("logprobs"), f"Only {PROTOCOL_NAME} has this field.", "response.logprobs")
    notes, citations = fields.list("annotations"), tuple[Citation, ...]()
    if notes is not None:
        where = fields.path("annotations")
        citations = tuple([decode_citation(note, f"{where}[{i}]", losses) for i, note in enumerate(notes)])
        fields.rest["annotations"] = []  # the field was there, so it goes back
    cache = lifetime(fields.rest.get("prompt_cache_breakpoint"))
    extras = fields.extras(losses, quiet=QUIET_PART)
    return Text(text, citations, where=fields.where, extras=extras, cache=cache)


def _encode_text(text: Text, text_type: TextType, rest: Wire, losses: Losses) -> tuple[Wire, ...]:
    if not rest and not text.text and not text.citations:
        return ()
    if not rest and text_type == "output_text":
        rest = {"annotations": [], "logprobs": []}
    wire = {"type": text_type, **rest, "text": text.text}
    if text.cache and not is_native(text) and text_type == "input_text":
        wire |= encode_lifetime(text.cache)
    if text.citations or rest.get("annotations") == []:
        wire["annotations"] = encode_citations(text, losses)
    return (wire,)


def decode_citation(annotation: Any, where: str, losses: Losses) -> Citation:
    """Decode `url_citation`; citations of files are kept whole in the extras."""
    fields = Fields(annotation, where, PROTOCOL_NAME)
    whole = {PROTOCOL_NAME: fields.rest.copy()}
    if fields.rest.get("type") != "url_citation":
        losses.dropped(where, f"Only {PROTOCOL_NAME} has this citation.", "citation")
        return Citation("", where=where, extras=whole)
    start, end = fields.integer("start_index"), fields.integer("end_index")
    found = Citation(
        fields.need("url", str),
        fields.text("title"),
        start=-1 if start is None else start,
        end=-1 if end is None else end,
        where=where,
        extras=whole,
    )
    if unknown := [key for key, value in fields.rest.items() if value is not None and key != "type"]:
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(unknown)}.")
    return found


def encode_citations(text: Text, losses: Losses) -> list[Wire]:
    for citation in text.citations:
        if citation.url and citation.cited and not is_native(citation):
            report_citation_detail(losses, citation.where, "Responses has no field for the quoted words.")
    return [
        encode_citation(citation, len(text.text))
        for citation in text.citations
        if citation.url or is_native(citation)
    ]


def encode_citation(citation: Citation, length: int) -> Wire:
    """A citation without a range covers the whole text."""
    placed = citation.start >= 0 and citation.end >= 0
    return own(citation.extras, PROTOCOL_NAME) or {
        "type": "url_citation",
        "start_index": citation.start if placed else 0,
        "end_index": citation.end if placed else length,
        "title": citation.title,
        "url": citation.url,
    }


def decode_reasoning(fields: Fields, losses: Losses) -> Reasoning:
    """A summary of one plain text is taken; any other also stays in the extras, to go back as it came."""
    text = "\n\n".join([*_texts(fields, "summary", losses), *_texts(fields, "content", losses)])
    if text and "content" not in fields.rest and fields.rest.get("summary") == encode_summary(text):
        del fields.rest["summary"]
    id = fields.rest.get("id")
    encrypted = fields.nonempty("encrypted_content")
    state = unseal_state(encrypted, PROTOCOL_NAME, id if isinstance(id, str) else "") if encrypted else None
    return Reasoning(
        text,
        hidden=state is not None and not text,
        state=state,
        where=fields.where,
        extras=fields.extras(losses, quiet=QUIET_ITEM),
    )


def encode_reasoning(part: Reasoning, id: str, encrypted: str) -> Wire:
    rest = own(part.extras, PROTOCOL_NAME)
    wire: Wire = {"type": "reasoning", "id": id} if id else {"type": "reasoning"}
    if not rest or (part.text and "content" not in rest):
        wire["summary"] = encode_summary(part.text)
    if encrypted:
        wire["encrypted_content"] = encrypted
    return {**wire, **rest}


def encode_summary(text: str) -> list[Wire]:
    return [{"type": "summary_text", "text": text}] if text else []


def _texts(fields: Fields, key: str, losses: Losses) -> list[str]:
    """The texts of an array, which is read and also stays in the extras."""
    entries: list[Any] = fields.rest.get(key) or []
    if type(entries) is not list:
        raise fields.wrong(key, "list", entries)
    inner = [Fields(entry, f"{fields.path(key)}[{i}]", PROTOCOL_NAME) for i, entry in enumerate(entries)]
    texts = [entry.text("text") for entry in inner]
    for entry in inner:
        entry.extras(losses, quiet=QUIET_PART)
    return [text for text in texts if text]
