"""Content parts, citations and reasoning of messages <-> neutral parts.

A text that came as a string has no extras and goes back as a string; one that came as a part goes back as a
part. A part that the neutral form cannot repeat exactly is kept whole in its extras (`type` included), and
the extras win.

Reasoning has no field in OpenAI's own API. Servers send it as `reasoning_content` (DeepSeek, vLLM) or
`reasoning` (OpenRouter, Groq); OpenRouter signs it in `reasoning_details`, which must come back unchanged.
Clients get the text in the first field and sealed state in the last: a client that echoes unknown fields
returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses, report_citation_detail
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    State,
    Text,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.openai import encode_lifetime, lifetime
from dragoman.protocols.openai_chat.media import (
    decode_audio,
    decode_file,
    decode_image,
    decode_linked,
    encode_media,
)
from dragoman.protocols.openai_chat.wire import (
    MARKS,
    NO_EXTRAS,
    PROTOCOL_NAME,
    SEALED,
    is_native,
    leftovers,
    text_part,
)


def decode_content(fields: Fields, losses: Losses) -> list[AnyPart]:
    """A string or an array of parts; an empty one stays in the extras, as null does."""
    content = fields.rest.get("content")
    if content is None or content == "" or content == []:
        return []
    del fields.rest["content"]
    where = fields.path("content")
    if type(content) is str:
        return [Text(content, where=where)]
    if not is_array(content):
        raise WireError(
            PROTOCOL_NAME, where, f"expected a string or an array of parts, got {describe(content)}"
        )
    return [decode_part(part, f"{where}[{i}]", losses) for i, part in enumerate(content)]


def decode_part(part: Any, where: str, losses: Losses) -> AnyPart:
    """Fast path: most parts are a text and nothing else."""
    text = part.get("text") if is_object(part) and len(part) == 2 and part.get("type") == "text" else None
    if type(text) is str:
        return Text(text, where=where, extras=NO_EXTRAS)
    return _decode_other(part, where, losses)


def _decode_other(part: Any, where: str, losses: Losses) -> AnyPart:
    fields = Fields(part, where, PROTOCOL_NAME)
    match kind := fields.need("type", str):
        case "text":
            return _decode_marked_text(fields, losses)
        case "refusal":
            return Refusal(fields.need("refusal", str), where=where, extras=leftovers(fields, losses))
        case "image_url":
            return _marked(decode_image(fields, part, losses), part)
        case "input_audio":
            return _marked(decode_audio(fields, part, losses), part)
        case "file":
            return _marked(decode_file(fields, part, losses), part)
        case "thinking":
            text = thought_text(part, where, losses)
            return Reasoning(text, where=where, extras={PROTOCOL_NAME: part})
        case "video_url" | "document_url":
            return _marked(decode_linked(kind, part, where, losses), part)
        case _:
            losses.dropped(where, f"Only {PROTOCOL_NAME} understands a part of type {kind}.", "part.unknown")
            return Foreign(PROTOCOL_NAME, part, where=where)


def _decode_marked_text(fields: Fields, losses: Losses) -> Text:
    text = fields.need("text", str)
    return Text(text, where=fields.where, extras=leftovers(fields, losses, MARKS), cache=mark_of(fields.rest))


def _marked(media: Media, part: Wire) -> Media:
    return replace(media, cache=cache) if (cache := mark_of(part)) else media


def mark_of(part: Wire) -> str:
    """OpenAI's `prompt_cache_breakpoint`; OpenRouter and LiteLLM take Anthropic's `cache_control`."""
    return lifetime(part.get("prompt_cache_breakpoint") or part.get("cache_control"))


def encode_part(part: AnyPart, losses: Losses) -> Wire:
    extras = own(part.extras, PROTOCOL_NAME)
    if "type" in extras:
        return extras
    match part:
        case Text():
            wire = {"type": "text", "text": part.text, **extras}
            return wire | encode_lifetime(part.cache) if part.cache and not is_native(part) else wire
        case Refusal():
            return {"type": "refusal", "refusal": part.text, **extras}
        case Media():
            wire = encode_media(part, losses)
            return wire | encode_lifetime(part.cache) if part.cache and not is_native(part) else wire
        case Foreign() if part.origin == PROTOCOL_NAME:
            return part.body
        case _:
            losses.dropped(
                part.where, f"Chat has no place for this {type(part).__name__} here.", "part.place"
            )
            return text_part(f"[{type(part).__name__.lower()} left out]")


def is_nothing(part: AnyPart) -> bool:
    """Empty texts, and parts of other protocols, which their decoder reported."""
    match part:
        case Text():
            return not part.text and not is_native(part)
        case Foreign():
            return part.origin != PROTOCOL_NAME
        case _:
            return False


_THINKING = frozenset({"type", "thinking", "closed"})
_THOUGHT = frozenset({"type", "text"})


def thought_text(part: Wire, where: str, losses: Losses) -> str:
    """Mistral's reasoning models send `thinking` as an array of text parts."""
    thinking = part.get("thinking")
    _report_unknown(part, _THINKING, where, losses)
    if is_array(thinking):
        items = [item for item in thinking if is_object(item)]
        for number, item in enumerate(items):
            _report_unknown(item, _THOUGHT, f"{where}.thinking[{number}]", losses)
        texts = [item.get("text") for item in items]
        return "".join([text for text in texts if type(text) is str])
    return thinking if type(thinking) is str else ""


def _report_unknown(wire: Wire, known: frozenset[str], where: str, losses: Losses) -> None:
    for key in wire.keys() - known:
        losses.dropped(f"{where}.{key}", f"Only {PROTOCOL_NAME} has this field.", "field.unknown")


def decode_citation(annotation: Any, where: str, losses: Losses) -> Citation:
    """Decode `url_citation`; any other annotation is kept whole in the extras."""
    fields = Fields(annotation, where, PROTOCOL_NAME)
    if not is_object(fields.rest.get("url_citation")):
        return Citation("", where=where, extras=fields.extras(losses))
    inner = Fields(fields.any("url_citation"), f"{where}.url_citation", PROTOCOL_NAME)
    start, end = inner.integer("start_index"), inner.integer("end_index")
    found = Citation(
        inner.need("url", str),
        inner.nonempty("title"),
        inner.nonempty("content"),
        -1 if start is None else start,
        -1 if end is None else end,
        where=where,
        extras={
            PROTOCOL_NAME: {
                **leftovers(fields, losses, _QUIET_CITATION)[PROTOCOL_NAME],
                "url_citation": inner.rest,
            }
        },
    )
    if unknown := [key for key, value in inner.rest.items() if value]:
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(unknown)}.")
    return found


_QUIET_CITATION = frozenset({"type", "index"})


def encode_citation(citation: Citation, offset: int, length: int) -> Wire:
    """`offset` and `length` locate the cited text in the content; without a range, all of it is cited."""
    extras = own(citation.extras, PROTOCOL_NAME)
    if not citation.url:
        return extras
    inner: Wire = {"url": citation.url}
    if citation.title or not extras:
        inner["title"] = citation.title
    if citation.cited:
        inner["content"] = citation.cited
    if citation.start >= 0:
        inner |= {"start_index": offset + citation.start, "end_index": offset + citation.end}
    elif not extras:
        inner |= {"start_index": offset, "end_index": offset + length}
    return {"type": "url_citation", **extras, "url_citation": inner | extras.get("url_citation", {})}


def encode_annotations(texts: Sequence[Text]) -> list[Wire]:
    annotations: list[Wire] = []
    offset = 0
    for text in texts:
        length = len(text.text)
        annotations += [encode_citation(citation, offset, length) for citation in text.citations]
        offset += length
    return [annotation for annotation in annotations if annotation]


def decode_images(images: Any, where: str, losses: Losses) -> list[AnyPart]:
    """`message.images`, OpenRouter's field for images in a reply."""
    if not is_array(images):
        return []
    return [decode_part(image, f"{where}[{i}]", losses) for i, image in enumerate(images)]


UNKNOWN_REASONING = "[reasoning unavailable]"
_TEXTS = ("reasoning_content", "reasoning", "reasoning_text")  # the last is GitHub Copilot's


def reasoning_text(value: Any, where: str, losses: Losses) -> Any:
    """Envoy AI Gateway sends Claude's reasoning as an object, with its signature."""
    if not is_object(value) or not _is_signed_text(value):
        return value
    if value.get("signature"):
        losses.dropped(f"{where}.signature", f"Only {PROTOCOL_NAME} has this field.", "reasoning.signature")
    return value.get("text") or ""


def decode_reasoning(fields: Fields, losses: Losses) -> list[Reasoning]:
    """The reasoning of a reply as one part, with the fields that it came in as extras."""
    found = {key: fields.any(key) for key in _TEXTS if _has_text(fields.rest.get(key))}
    details = fields.rest.get("reasoning_details")
    if is_array(details) and details:
        found["reasoning_details"] = fields.any("reasoning_details")
    if not found:
        return []
    texts = [reasoning_text(found[key], fields.path(key), losses) for key in _TEXTS if key in found]
    text = next(iter(texts), "") or details_text(details)
    state = State(PROTOCOL_NAME, jsontext.dumps(details)) if "reasoning_details" in found else None
    where = fields.path(next(iter(found)))
    return [Reasoning(text, not text, state=state, where=where, extras={PROTOCOL_NAME: found})]


def decode_echoed(fields: Fields, losses: Losses) -> tuple[list[Reasoning], list[Reasoning]]:
    """The reasoning of a message in the history, as (before the text, after it), with our seals opened."""
    details = fields.rest.get("reasoning_details")
    sealed = [entry for entry in details if _is_sealed(entry)] if is_array(details) else []
    if not sealed:
        return decode_reasoning(fields, losses), []
    where = fields.path("reasoning_details")
    for key in (*_TEXTS, "reasoning_details"):  # the sealed entries hold the text too
        fields.any(key)
    before = [_unsealed(entry, where) for entry in sealed if "after" not in entry]
    return before, [_unsealed(entry, where) for entry in sealed if "after" in entry]


def encode_past_reasoning(parts: Sequence[AnyPart], profile: ModelProfile, losses: Losses) -> Wire:
    """The fields that return reasoning to an upstream: what it signed, and text where it accepts text."""
    wire: Wire = {}
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Reasoning) or "type" in (extras := own(part.extras, PROTOCOL_NAME)):
            continue
        if is_native(part):
            wire |= extras
        elif details := _own_details(part.state):
            wire["reasoning_details"] = [*wire.get("reasoning_details", ()), *details]
        elif part.text and profile.reasoning_history != "refused":
            texts.append(part.text)
        else:
            losses.dropped(
                part.where or "reasoning",
                "This upstream does not take earlier reasoning.",
                "reasoning.history",
            )
    return {"reasoning_content": "\n\n".join(texts), **wire} if texts else wire


def encode_reasoning(parts: Sequence[AnyPart]) -> Wire:
    """The fields that show reasoning to a client and let it echo the state."""
    wire: Wire = {}
    reasoning = [part for part in parts if isinstance(part, Reasoning)]
    if any(is_native(part) for part in reasoning):
        for part in reasoning:
            extras = own(part.extras, PROTOCOL_NAME)
            wire |= extras if "type" not in extras else {}
        return wire
    if text := "".join([part.text for part in reasoning]):
        wire["reasoning_content"] = text
    if not any(part.state for part in reasoning):
        return wire
    details: list[Wire] = []
    after = False
    for part in parts:
        after |= isinstance(part, Text)
        if isinstance(part, Reasoning):
            details += encode_details(part, len(details), after)
    return {**wire, "reasoning_details": details}


def encode_details(part: Reasoning, index: int, after: bool) -> list[Wire]:
    """The `reasoning_details` entries of one part; `after`: it came after the text."""
    if details := _own_details(part.state):
        return details
    kind, slot = ("reasoning.encrypted", "data") if part.hidden else ("reasoning.text", "signature")
    entry: Wire = {"type": kind, "format": SEALED, "index": index}
    if part.text:
        entry["text"] = part.text
    if part.state:
        entry[slot] = seal_state(part.state, "")
    return [{**entry, "after": "content"} if after else entry]


def details_text(details: Any) -> str:
    """The readable text of the entries."""
    entries: Iterable[Any] = details if is_array(details) else ()
    texts = [entry.get("text") or entry.get("summary") for entry in entries if is_object(entry)]
    return "".join([text for text in texts if type(text) is str])


def _own_details(state: State | None) -> list[Wire]:
    """The entries inside state that a Chat server issued."""
    if state is None or state.origin != PROTOCOL_NAME:
        return []
    try:
        details = jsontext.decode(state.data)
    except ValueError:
        return []
    return details if is_array(details) else []


def _unsealed(entry: Wire, where: str) -> Reasoning:
    text, sealed = entry.get("text"), entry.get("signature") or entry.get("data")
    return Reasoning(
        text if type(text) is str else "",
        entry.get("type") == "reasoning.encrypted",
        state=unseal_state(sealed, PROTOCOL_NAME) if type(sealed) is str else None,
        where=where,
    )


def _is_sealed(entry: Any) -> bool:
    return is_object(entry) and entry.get("format") == SEALED


def _has_text(value: Any) -> bool:
    return (type(value) is str and value != "") or (is_object(value) and _is_signed_text(value))


def _is_signed_text(value: Wire) -> bool:
    return "signature" in value or type(value.get("text")) is str
