"""Content blocks <-> parts: one mapping for requests and responses.

A lone text without extras of ours is written as a plain string, as clients do; a text that came
as a block goes back as a block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Plain,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.anthropic.wire import IMAGE_TYPES, PROTOCOL


def decode_content(content: Any, where: str, losses: Losses) -> tuple[AnyPart, ...]:
    """A string or an array of blocks."""
    if type(content) is str:
        return (Text(content, where=where),)
    if not is_array(content):
        raise WireError(PROTOCOL, where, f"expected a string or an array of blocks, got {describe(content)}")
    return tuple([decode_block(block, f"{where}[{i}]", losses) for i, block in enumerate(content)])


def encode_content(parts: Iterable[AnyPart], losses: Losses) -> str | list[Wire]:
    parts = tuple(parts)
    if len(parts) == 1 and type(parts[0]) is Text and PROTOCOL not in (parts[0].extras or ()):
        return parts[0].text
    return [block for part in parts for block in encode_part(part, losses)]


def decode_block(block: Any, where: str, losses: Losses) -> AnyPart:
    fields = Fields(block, where, PROTOCOL)
    match kind := fields.need("type", str):
        case "text":
            return _decode_text(fields, losses)
        case "tool_use":
            return _decode_tool_use(fields, losses)
        case "tool_result":
            return _decode_tool_result(fields, losses)
        case "thinking":
            text = fields.text("thinking")
            signature = fields.text("signature")
            state = unseal_state(signature, PROTOCOL) if signature else None
            return Reasoning(text, state=state, where=where, extras=fields.extras(losses))
        case "redacted_thinking":
            state = unseal_state(fields.need("data", str), PROTOCOL)
            return Reasoning(hidden=True, state=state, where=where, extras=fields.extras(losses))
        case "image":
            return _decode_media(fields, "image", losses)
        case "document":
            return _decode_media(fields, "document", losses)
        case _:
            losses.dropped(where, f"a block of type {kind} is only understood by {PROTOCOL}")
            return Foreign(PROTOCOL, block, where=where)


def encode_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The blocks that say `part`: one, or none where Anthropic cannot say it."""
    extras = own(part.extras, PROTOCOL)
    match part:
        case Text():
            if not part.text:  # "text content blocks must be non-empty"
                return ()
            citations = {"citations": [encode_citation(c) for c in part.citations]} if part.citations else {}
            return ({"type": "text", "text": part.text, **citations, **extras},)
        case ToolCall():
            return (
                {"type": "tool_use", "id": part.id, "name": part.name, "input": encode_input(part), **extras},
            )
        case ToolResult():
            return (_encode_tool_result(part, extras, losses),)
        case Reasoning():
            return _encode_reasoning(part, extras)
        case Media():
            return _encode_media(part, extras, losses)
        case Refusal():
            return ({"type": "text", "text": part.text},) if part.text else ()
        case Foreign():
            return (part.body,) if part.origin == PROTOCOL else ()


def _decode_text(fields: Fields, losses: Losses) -> Text:
    text = fields.need("text", str)
    citations = fields.list("citations") or ()
    return Text(
        text,
        tuple(
            [decode_citation(c, f"{fields.where}.citations[{i}]", losses) for i, c in enumerate(citations)]
        ),
        where=fields.where,
        extras=fields.extras(losses),
    )


def decode_citation(citation: Any, where: str, losses: Losses) -> Citation:
    """Web results become neutral; what points into documents keeps its form in the extras."""
    fields = Fields(citation, where, PROTOCOL)
    if fields.rest.get("type") == "web_search_result_location":
        return Citation(
            fields.text("url"),
            fields.text("title"),
            fields.text("cited_text"),
            where=where,
            extras={PROTOCOL: fields.rest},
        )
    return Citation("", where=where, extras=fields.extras(losses))


def encode_citation(citation: Citation) -> Wire:
    if not citation.url:
        return own(citation.extras, PROTOCOL)
    named = {"url": citation.url, "title": citation.title, "cited_text": citation.cited}
    return {
        "type": "web_search_result_location",
        "encrypted_index": "",
        **named,
        **own(citation.extras, PROTOCOL),
    }


def _decode_tool_use(fields: Fields, losses: Losses) -> ToolCall:
    id, name = fields.need("id", str), fields.need("name", str)
    arguments = fields.any("input")
    return ToolCall(
        id,
        name,
        "" if arguments is None else jsontext.dumps(arguments),
        where=fields.where,
        extras=fields.extras(losses, quiet=_QUIET_CALL),
    )


_QUIET_CALL = frozenset({"caller"})


def encode_input(call: ToolCall) -> Any:
    """Anthropic takes objects only; what is none travels inside one, so that nothing is lost."""
    if not call.arguments.strip():
        return {}
    value = jsontext.decode_object(call.arguments)
    return {"_raw_arguments": call.arguments} if value is None else value


def _decode_tool_result(fields: Fields, losses: Losses) -> ToolResult:
    call_id = fields.need("tool_use_id", str)
    content = fields.any("content") if fields.rest.get("content") != [] else None
    parts = () if content is None else decode_content(content, f"{fields.where}.content", losses)
    kept = tuple(part for part in parts if isinstance(part, Text | Media | Foreign))
    return ToolResult(
        call_id,
        content=kept,
        failed=fields.take("is_error", bool) or False,
        where=fields.where,
        extras=fields.extras(losses),
    )


def _encode_tool_result(result: ToolResult, extras: Wire, losses: Losses) -> Wire:
    block: Wire = {"type": "tool_result", "tool_use_id": result.call_id}
    if result.content:
        block["content"] = encode_content(result.content, losses)
    if result.failed:
        block["is_error"] = True
    return {**block, **extras}


def _encode_reasoning(part: Reasoning, extras: Wire) -> tuple[Wire, ...]:
    data = seal_state(part.state, PROTOCOL) if part.state else ""
    if part.hidden:
        return ({"type": "redacted_thinking", "data": data, **extras},) if data else ()
    return ({"type": "thinking", "thinking": part.text, "signature": data, **extras},)


def _decode_media(fields: Fields, kind: Any, losses: Losses) -> Media | Foreign:
    source = fields.fields("source")
    if source is None:
        raise WireError(PROTOCOL, fields.path("source"), "expected an object, got nothing")
    name = fields.text("title") if kind == "document" else ""
    match source.need("type", str):
        case "base64":
            media_type, data = source.need("media_type", str), Base64(source.need("data", str))
        case "url":
            media_type, data = "application/pdf" if kind == "document" else "", Url(source.need("url", str))
        case "file":
            media_type, data = "", FileId(source.need("file_id", str), PROTOCOL)
        case "text":
            media_type, data = source.text("media_type") or "text/plain", Plain(source.need("data", str))
        case other:
            losses.dropped(fields.where, f"a source of type {other} is only understood by {PROTOCOL}")
            return Foreign(
                PROTOCOL,
                {"type": kind, "source": {"type": other, **source.rest}, **fields.rest},
                where=fields.where,
            )
    return Media(kind, media_type, data, name, where=fields.where, extras=fields.extras(losses))


def _encode_media(media: Media, extras: Wire, losses: Losses) -> tuple[Wire, ...]:
    title = {"title": media.name} if media.name and media.kind == "document" else {}
    match media.kind, media.source:
        case "image", Base64(data) if media.media_type in IMAGE_TYPES:
            source: Wire = {"type": "base64", "media_type": media.media_type, "data": data}
        case "document", Base64(data) if media.media_type == "application/pdf":
            source = {"type": "base64", "media_type": media.media_type, "data": data}
        case (("image" | "document"), Url(url)):
            source = {"type": "url", "url": url}
        case (("image" | "document"), FileId(id, origin)) if origin == PROTOCOL:
            source = {"type": "file", "file_id": id}
        case "document", Plain(text):
            source = {"type": "text", "media_type": "text/plain", "data": text}
        case _:
            losses.dropped(
                media.where,
                f"Anthropic takes no {media.kind} of this form ({media.media_type or 'unknown type'})",
            )
            return (
                {"type": "text", "text": f"[{media.kind} of type {media.media_type or 'unknown'} left out]"},
            )
    return ({"type": media.kind, "source": source, **title, **extras},)
