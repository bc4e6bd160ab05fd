"""Content blocks <-> parts: one mapping for requests and replies.

A cachePoint is a block of its own here. It is the mark of the part before it, and a result's point stands
behind the result, never in its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own, rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses, report_citation_detail, report_citations
from dragoman.core.model import (
    AnyPart,
    Citation,
    Extras,
    Foreign,
    Media,
    MediaKind,
    Reasoning,
    Refusal,
    State,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.bedrock_converse.media import decode_media, encode_media
from dragoman.protocols.bedrock_converse.wire import (
    NO_EXTRAS,
    PROTOCOL_NAME,
    as_it_came,
    is_native,
    lifetime,
    printed,
)
from dragoman.transforms.arguments import as_object

_NO_OUTPUT = "(no output)"
_JSON = "json"  # key of the extras: a result that came as JSON

Decode = Callable[[Fields, Wire, Losses], AnyPart | None]  # None: only Bedrock understands it


class CachePoints:
    """The points of one request, in its order. A point of an hour behind one of five minutes is refused, so
    it becomes one of five minutes (docs.aws.amazon.com/bedrock, prompt caching)."""

    def __init__(self, taken: bool, losses: Losses, short: bool = False) -> None:
        self._taken, self._losses = taken, losses
        self.short = short  # one of five minutes was written

    def after(self, part: AnyPart) -> list[Wire]:
        """The point that `part` asks for, or none."""
        cache, where = part.cache, part.where
        if isinstance(part, ToolResult) and not cache and part.content:
            cache, where = part.content[-1].cache, part.content[-1].where
        if not cache:
            return []
        if not self._taken:
            self._losses.dropped(f"{where}.cache", "The model has no prompt cache.", "cache.breakpoint")
            return []
        if cache == "1h" and self.short:
            why = "A cache mark of an hour cannot follow one of five minutes. It got five minutes."
            self._losses.changed(f"{where}.cache", why, "cache.breakpoint")
            cache = "5m"
        self.short = self.short or cache != "1h"
        return [{"cachePoint": {"type": "default"} | ({"ttl": "1h"} if cache == "1h" else {})}]


def decode_content(content: Any, where: str, losses: Losses) -> tuple[AnyPart, ...]:
    if not is_array(content):
        raise WireError(PROTOCOL_NAME, where, f"expected an array of blocks, got {describe(content)}")
    parts: list[AnyPart] = []
    for i, block in enumerate(content):
        if is_object(block) and "cachePoint" in block and parts and not parts[-1].cache:
            parts[-1] = replace(parts[-1], cache=lifetime(block))
            continue
        part, before = decode_block(block, f"{where}[{i}]", losses), parts[-1] if parts else None
        if isinstance(before, Text) and isinstance(part, Text) and part.citations and not part.text:
            # Nova tells the sources of a text in a block behind it
            parts[-1] = replace(before, citations=(*before.citations, *part.citations))
        else:
            parts.append(part)
    return tuple(parts)


def encode_content(parts: Iterable[AnyPart], points: CachePoints, losses: Losses) -> list[Wire]:
    blocks: list[Wire] = []
    for part in parts:
        encoded = encode_part(part, losses)
        blocks += encoded
        if encoded or blocks:
            blocks += points.after(part)
    return blocks


def decode_block(block: Any, where: str, losses: Losses) -> AnyPart:
    if not is_object(block):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(block)}")
    kind = next((key for key in block if key in _KINDS), "")
    fields = Fields(block, where, PROTOCOL_NAME)
    decode = _KINDS.get(kind)
    part = decode(fields, block, losses) if decode else None
    if part is None:
        kind = kind or next(iter(block), "{}")
        losses.dropped(where, f"Only {PROTOCOL_NAME} understands a block {kind}.", "part.unknown")
        return Foreign(PROTOCOL_NAME, block, where=where)
    fields.extras(losses)
    return part


def _extras(block: Wire) -> Extras:
    """The block goes back with all that it had (wire.py)."""
    return {PROTOCOL_NAME: {"block": block}}


def _decode_text(fields: Fields, block: Wire, losses: Losses) -> Text:
    text = fields.need("text", str)
    return Text(text, where=fields.where, extras=_extras(block) if fields.rest else NO_EXTRAS)


def _decode_media(kind: MediaKind) -> Decode:
    def decode(fields: Fields, block: Wire, losses: Losses) -> Media | None:
        return decode_media(fields.need_fields(kind), kind, block, losses)

    return decode


def encode_part(part: AnyPart, losses: Losses) -> list[Wire]:
    """The blocks that say `part`: one, or none where Bedrock cannot say it."""
    match part:
        case Text():
            return _encode_text(part, losses)
        case ToolCall():
            call = {"toolUseId": part.id, "name": part.name, "input": as_object(part, losses)}
            return [as_it_came(part, {"toolUse": call})]
        case ToolResult():
            return [as_it_came(part, {"toolResult": _encode_result(part, losses)})]
        case Reasoning():
            return _encode_reasoning(part, losses)
        case Media():
            return [encode_media(part, losses)]
        case Refusal():
            losses.changed(part.where, "Bedrock has no refusals. It was sent as text.", "message.refusal")
            return [{"text": part.text}] if part.text.strip() else []
        case Foreign():
            return [part.body] if part.origin == PROTOCOL_NAME else []


def _encode_text(part: Text, losses: Losses) -> list[Wire]:
    """Blank text is refused ("The text field in the ContentBlock object … is blank", OpenHands#5339)."""
    if native := own(part.extras, PROTOCOL_NAME).get(_JSON):
        return [native]
    if "citationsContent" in (came := own(part.extras, PROTOCOL_NAME).get("block", {})):
        return [came]
    if not part.text.strip() and not is_native(part):
        if part.text:
            losses.dropped(part.where, "Bedrock refuses blank text.", "text.blank")
        return []
    if part.citations:
        report_citations(losses, part, "Bedrock takes back only citations that it made.")
    return [as_it_came(part, {"text": part.text})]


def _decode_call(outer: Fields, block: Wire, losses: Losses) -> ToolCall | None:
    fields = outer.need_fields("toolUse")
    if fields.rest.get("type") == "server_tool_use":
        return None  # Bedrock ran it itself
    skip_kind(fields)
    id, name, given = fields.need("toolUseId", str), fields.need("name", str), fields.any("input")
    arguments = "" if given is None else printed(given, fields.path("input"))
    fields.extras(losses)
    return ToolCall(id, name, arguments, where=outer.where, extras=_extras(block))


def skip_kind(call: Fields) -> None:
    """Since 2026 a call that the client runs may say so: `type` is `tool_use`."""
    if call.rest.get("type") == "tool_use":
        del call.rest["type"]


def _decode_result(outer: Fields, block: Wire, losses: Losses) -> ToolResult | None:
    fields = outer.need_fields("toolResult")
    if fields.rest.get("type"):
        return None  # Bedrock ran the call itself
    content, where = fields.list("content") or [], fields.path("content")
    items = [_decode_item(item, f"{where}[{i}]", losses) for i, item in enumerate(content)]
    id, failed = fields.need("toolUseId", str), fields.take("status", str) == "error"
    fields.extras(losses)
    return ToolResult(id, content=tuple(items), failed=failed, where=outer.where, extras=_extras(block))


def _decode_item(item: Any, where: str, losses: Losses) -> Text | Media | Foreign:
    if is_object(item) and "json" in item:
        return Text(printed(item["json"], where), where=where, extras={PROTOCOL_NAME: {_JSON: item}})
    part = decode_block(item, where, losses)
    return part if isinstance(part, Text | Media | Foreign) else Foreign(PROTOCOL_NAME, item, where=where)


def _encode_result(result: ToolResult, losses: Losses) -> Wire:
    """A result without content is no result (the field is required), and blank text is refused here too."""
    items = _encode_items(result.content, losses)
    if not items and not is_native(result):
        losses.invented(
            result.where, f"Bedrock needs text in each result. {_NO_OUTPUT!r} was sent.", "result.text"
        )
        items = [{"text": _NO_OUTPUT}]
    wire: Wire = {"toolUseId": result.call_id, "content": items}
    return wire | ({"status": "error"} if result.failed else {})


def _encode_items(content: Sequence[Text | Media | Foreign], losses: Losses) -> list[Wire]:
    items: list[Wire] = []
    for part in content:
        if isinstance(part, Media) and part.kind == "audio":
            losses.dropped(part.where, "Bedrock takes no audio in a result.", "media.audio")
            items.append({"text": "[audio left out]"})
        else:
            items += encode_part(part, losses)
    return items


def _decode_reasoning(outer: Fields, block: Wire, losses: Losses) -> Reasoning:
    """Claude's thinking is signed; what other models thought is not."""
    fields = outer.need_fields("reasoningContent")
    if (data := fields.take("redactedContent", str)) is not None:
        text, state = "", unseal_state(data, PROTOCOL_NAME)
    else:
        inner = fields.need_fields("reasoningText")
        text, signature = inner.text("text"), inner.nonempty("signature")
        state = unseal_state(signature, PROTOCOL_NAME) if signature else None
        inner.extras(losses)
    fields.extras(losses)
    ours = state is None or state.origin == PROTOCOL_NAME
    extras = _extras(block) if ours else None
    return Reasoning(text, data is not None, state=state, where=outer.where, extras=extras)


def _encode_reasoning(part: Reasoning, losses: Losses) -> list[Wire]:
    if not (is_native(part) if part.state is None else part.state.origin == PROTOCOL_NAME):
        losses.dropped(part.where, "Bedrock takes back only reasoning that it signed.", "reasoning.history")
        return []
    return [as_it_came(part, {"reasoningContent": encode_reasoning(part)})]


def encode_reasoning(part: Reasoning) -> Wire:
    data = seal_state(part.state, PROTOCOL_NAME) if part.state else ""
    if part.hidden:
        return {"redactedContent": data}
    return {"reasoningText": {"text": part.text, **({"signature": data} if data else {})}}


def state_of(data: str) -> State:
    return unseal_state(data, PROTOCOL_NAME)


def _decode_cited(outer: Fields, block: Wire, losses: Losses) -> Text:
    fields = outer.need_fields("citationsContent")
    text = _joined(fields.any("content"), fields.path("content"), losses)
    given, where = fields.list("citations") or [], fields.path("citations")
    found = [decode_citation(each, f"{where}[{i}]", losses) for i, each in enumerate(given)]
    fields.extras(losses)
    return Text(text, tuple(found), where=outer.where, extras=_extras(block))


def decode_citation(citation: Any, where: str, losses: Losses) -> Citation:
    """One that points into a document has no URL; only its text means something elsewhere."""
    fields = Fields(citation, where, PROTOCOL_NAME)
    wire = {PROTOCOL_NAME: fields.rest.copy()}
    location = fields.rest.get("location")
    web = location.get("web") if is_object(location) else None
    url = str(web.get("url") or "") if is_object(web) else fields.text("source")
    cited = _joined(fields.rest.get("sourceContent"), fields.path("sourceContent"), losses)
    title = fields.text("title")
    if not url.startswith("http"):
        losses.dropped(where, "This citation points into a document. Other protocols have none.", "citation")
        url = ""
    elif more := _unsaid(fields.rest, url):
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(more)}.")
    return Citation(url, title, cited, where=where, extras=wire)


def _joined(content: Any, where: str, losses: Losses) -> str:
    """The text of blocks that hold nothing else."""
    pieces = [Fields(item, where, PROTOCOL_NAME) for item in rows(content)]
    text = "".join([piece.text("text") for piece in pieces])
    for piece in pieces:
        piece.extras(losses)
    return text


def _unsaid(citation: Wire, url: str) -> list[str]:
    """What a citation of the web says beside its address, title and words; a domain repeats the address."""
    more = [key for key in citation if key not in ("location", "sourceContent")]
    location: Any = citation.get("location")
    for kind, place in location.items() if is_object(location) else ():
        said = place.items() if is_object(place) else ()
        more += [key for key, value in said if key != "url" and not (key == "domain" and str(value) in url)]
        more += [] if kind == "web" else [kind]
    return more


def encode_citation(citation: Citation) -> Wire:
    if native := own(citation.extras, PROTOCOL_NAME):
        return native
    wire: Wire = {"title": citation.title, "sourceContent": [{"text": citation.cited}]}
    return wire | ({"location": {"web": {"url": citation.url}}} if citation.url else {})


_KINDS: dict[str, Decode] = {
    "text": _decode_text,
    "toolUse": _decode_call,
    "toolResult": _decode_result,
    "reasoningContent": _decode_reasoning,
    "citationsContent": _decode_cited,
    "image": _decode_media("image"),
    "document": _decode_media("document"),
    "video": _decode_media("video"),
    "audio": _decode_media("audio"),
}
