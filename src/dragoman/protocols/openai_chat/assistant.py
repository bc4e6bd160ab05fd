"""Assistant messages <-> parts, in a history and in a reply.

One message holds everything: reasoning, one string of text, a refusal and the calls, each in a
field of its own. So texts are joined, and what stood after a call moves before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Citation,
    Foreign,
    Media,
    Message,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.protocols.openai_chat import models
from dragoman.protocols.openai_chat.calls import decode_calls, encode_calls, encode_legacy
from dragoman.protocols.openai_chat.parts import decode_content, decode_part, encode_part
from dragoman.protocols.openai_chat.reasoning import (
    UNKNOWN,
    decode_echoed,
    decode_reasoning,
    encode_history,
    encode_reasoning,
)
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, is_native, leftovers, text_part

_ORDINARY = frozenset({"role", "content", "tool_calls"})


def decode_assistant(fields: Fields, losses: Losses, echoed: bool) -> list[AnyPart]:
    """`echoed`: the message stands in a client's history, where sealed state comes back."""
    if fields.rest.keys() <= _ORDINARY:
        return [*decode_content(fields, losses), *decode_calls(fields, losses, echoed)]
    before, after = decode_echoed(fields) if echoed else (decode_reasoning(fields), [])
    parts: list[AnyPart] = [*before, *_cited(decode_content(fields, losses), fields, losses), *after]
    if refusal := fields.nonempty("refusal"):
        parts.append(Refusal(refusal, where=fields.path("refusal")))
    if is_array(fields.rest.get("images")) and fields.rest["images"]:
        parts += decode_images(fields.any("images"), fields.path("images"), losses)
    parts += decode_calls(fields, losses, echoed)
    audio = fields.rest.get("audio")
    if is_object(audio) and any(audio.values()):
        losses.dropped(fields.path("audio"), f"only {PROTOCOL_NAME} understands spoken replies")
        parts.append(Foreign(PROTOCOL_NAME, {"audio": fields.any("audio")}, where=fields.path("audio")))
    return parts


def encode_assistant(message: Message, model: str, thinks: bool, losses: Losses) -> list[Wire]:
    """A message of the history; one that says nothing falls away. `thinks`: reasoning must be there."""
    parts, native = message.parts, is_native(message)
    wire: Wire = {"role": "assistant", **own(message.extras, PROTOCOL_NAME)}
    said = _said(parts, native or models.knows_openai_fields(model))
    if content := encode_texts(said, model, losses):
        wire["content"] = content
    calls = [part for part in parts if type(part) is ToolCall]
    if len(said) + len(calls) < len(parts):
        wire |= _unsaid(parts, said) | encode_history(parts, model, losses) | _beside(parts, native, losses)
    wire |= _sources(said, native, losses)
    if calls:
        wire |= encode_calls(calls, echoed=True)
        _report_order(parts, losses)
    if native:
        return [wire]
    return [_completed(wire, message, model, thinks, losses)] if len(wire) > 1 else []


def _unsaid(parts: Sequence[AnyPart], said: Sequence[AnyPart]) -> Wire:
    """A refusal that does not stand in the content has a field of its own."""
    refusals = [part.text for part in parts if isinstance(part, Refusal) and part not in said]
    return {"refusal": "".join(refusals)} if refusals else {}


def _completed(wire: Wire, message: Message, model: str, thinks: bool, losses: Losses) -> Wire:
    """What servers demand of a turn: content, null beside calls, and reasoning where the model thinks."""
    if "content" not in wire:
        wire["content"] = None if wire.keys() & {"tool_calls", "function_call", "refusal"} else ""
    if thinks and "reasoning_content" not in wire and models.demands_reasoning(model):
        wire["reasoning_content"] = UNKNOWN
        losses.invented(message.where or "reasoning", "this upstream wants reasoning on each of its turns")
    return wire


def encode_reply(parts: Sequence[AnyPart], rest: Wire | None, losses: Losses, legacy: bool = False) -> Wire:
    """The message of a reply. `rest`: what it had beside, where it came from Chat; `legacy`: functions."""
    wire: Wire = {"role": "assistant", "content": None, "refusal": None} if rest is None else dict(rest)
    texts = [part for part in parts if _is_content(part)]
    calls = [part for part in parts if type(part) is ToolCall]
    if any(is_native(part) or isinstance(part, Foreign) for part in texts):
        wire["content"] = [encode_part(part, losses) for part in texts]
    elif texts:
        wire["content"] = _joined(texts, losses)
    if calls:
        _report_order(parts, losses)
    if annotations := encode_annotations([part for part in texts if type(part) is Text]):
        wire["annotations"] = annotations
    if len(texts) + len(calls) < len(parts):
        wire |= _unsaid(parts, texts) | encode_reasoning(parts) | _beside(parts, True, losses)
    if calls:
        wire |= _encode_one(calls, losses) if legacy else encode_calls(calls)
    return wire


def encode_texts(parts: Sequence[AnyPart], model: str, losses: Losses) -> str | list[Wire]:
    """The content of a system or assistant message: a string, unless it came as parts or is several."""
    if len(parts) == 1 and type(parts[0]) is Text and not is_native(parts[0]):
        return parts[0].text
    if any(is_native(part) or not isinstance(part, Text | Refusal) for part in parts):
        return [encode_part(part, losses) for part in parts]
    texts = [part for part in parts if isinstance(part, Text | Refusal) and part.text]
    if len(texts) < 2:
        return texts[0].text if texts else ""
    if models.takes_text_parts(model):
        return [text_part(part.text) for part in texts]
    for part in texts[1:]:
        losses.changed(part.where, "joined to the text before it")
    return "\n\n".join([part.text for part in texts])


def decode_images(images: Any, where: str, losses: Losses) -> list[AnyPart]:
    """OpenRouter's way to give pictures in a reply."""
    if not is_array(images):
        return []
    return [decode_part(image, f"{where}[{i}]", losses) for i, image in enumerate(images)]


def decode_citation(annotation: Any, where: str, losses: Losses) -> Citation:
    """Web results become neutral; other annotations keep their form in the extras."""
    fields = Fields(annotation, where, PROTOCOL_NAME)
    if not is_object(fields.rest.get("url_citation")):
        return Citation("", where=where, extras=fields.extras(losses))
    inner = Fields(fields.any("url_citation"), f"{where}.url_citation", PROTOCOL_NAME)
    start, end = inner.integer("start_index"), inner.integer("end_index")
    return Citation(
        inner.need("url", str),
        inner.nonempty("title"),
        inner.nonempty("content"),
        -1 if start is None else start,
        -1 if end is None else end,
        where=where,
        extras={
            PROTOCOL_NAME: {**leftovers(fields, losses, _QUIET)[PROTOCOL_NAME], "url_citation": inner.rest}
        },
    )


_QUIET = frozenset({"type", "index"})


def encode_citation(citation: Citation, offset: int, length: int) -> Wire:
    """`offset` and `length` place the cited text in the whole content; it is cited as a whole unless said."""
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


def _cited(content: list[AnyPart], fields: Fields, losses: Losses) -> list[AnyPart]:
    """`content` with the annotations of the message on its first text."""
    annotations, where = fields.rest.get("annotations"), fields.path("annotations")
    first = next((i for i, part in enumerate(content) if isinstance(part, Text)), None)
    if first is None or not is_array(annotations) or not annotations:
        return content
    del fields.rest["annotations"]
    citations = [decode_citation(item, f"{where}[{i}]", losses) for i, item in enumerate(annotations)]
    text: Any = replace(content[first], citations=tuple(citations))
    return [*content[:first], text, *content[first + 1 :]]


def _is_content(part: AnyPart) -> bool:
    """What stands in `content`: texts, and the parts that came in its array."""
    if isinstance(part, Text):
        return part.text != "" or is_native(part)
    if isinstance(part, ToolCall | Media | ToolResult):
        return False
    if isinstance(part, Foreign):
        return part.origin == PROTOCOL_NAME and "type" in part.body
    return is_native(part) if isinstance(part, Refusal) else "type" in own(part.extras, PROTOCOL_NAME)


def _said(parts: Sequence[AnyPart], refusals: bool) -> list[AnyPart]:
    """The content of an assistant message in a history; `refusals`: they have a field of their own."""
    return [part for part in parts if _is_content(part) or (isinstance(part, Refusal) and not refusals)]


def _sources(said: Sequence[AnyPart], native: bool, losses: Losses) -> Wire:
    """Annotations go back where they came from; other servers take none in a history."""
    texts = [part for part in said if isinstance(part, Text) and part.citations]
    if texts and native:
        return {"annotations": encode_annotations(texts)}
    for text in texts:
        losses.dropped(f"{text.where}.citations", "Chat takes no sources in a history")
    return {}


def _report_order(parts: Sequence[AnyPart], losses: Losses) -> None:
    called = False
    for part in parts:
        called |= isinstance(part, ToolCall)
        if called and isinstance(part, Text) and part.text:
            losses.changed(part.where or "text", "Chat puts the text of a message before its calls")


def _joined(texts: Sequence[AnyPart], losses: Losses) -> str:
    for part in texts[1:]:
        losses.changed(part.where or "text", "joined to the text before it")
    return "".join([part.text for part in texts if isinstance(part, Text)])


def _beside(parts: Sequence[AnyPart], pictures: bool, losses: Losses) -> Wire:
    """Pictures and spoken replies, which stand beside the content."""
    wire: Wire = {}
    for part in parts:
        match part:
            case Media(kind="image") if pictures:
                wire.setdefault("images", []).append(encode_part(part, losses))
            case Media():
                losses.dropped(part.where or part.kind, f"Chat has no {part.kind} in an assistant message")
            case ToolResult():
                losses.dropped(part.where or "tool result", "Chat has no results in an assistant message")
            case Foreign() if part.origin == PROTOCOL_NAME and "type" not in part.body:
                wire |= part.body
            case _:
                pass
    return wire


def _encode_one(calls: Sequence[ToolCall], losses: Losses) -> Wire:
    """Clients that declare `functions` take one call at a time."""
    for call in calls[1:]:
        losses.dropped(call.where or call.name, "a client that declares functions takes one call at a time")
    return encode_legacy(calls[0])
