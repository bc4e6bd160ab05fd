"""Content blocks <-> parts, and the citations of a text: one mapping for requests and responses.

A lone text from another protocol is written as a plain string, as clients do; a text that came as a block
goes back as a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal, seal_state, unseal, unseal_state
from dragoman.protocols.anthropic.computer import NAME as COMPUTER
from dragoman.protocols.anthropic.computer import decode_action, encode_action
from dragoman.protocols.anthropic.hosted import decode_foreign
from dragoman.protocols.anthropic.media import decode_media, encode_media
from dragoman.protocols.anthropic.wire import (
    DIRECT,
    NO_EXTRAS,
    PROTOCOL_NAME,
    QUIET_DIRECT_CALL,
    QUIET_MARK,
    QUIET_RESULT,
    QUIET_THINKING,
    UNCITED,
    is_native,
    lifetime,
    printed,
)
from dragoman.transforms.arguments import as_object

_MADE_HERE = seal("citation")  # in place of the encrypted index of a citation that another model made
_QUIET_TEXT = frozenset({"citations", "cache_control"})
_DIRECT = DIRECT[PROTOCOL_NAME]["caller"]


def decode_content(content: Any, where: str, losses: Losses, history: bool = False) -> tuple[AnyPart, ...]:
    """A string or an array of blocks. `history`: a block that others do not know becomes text."""
    if type(content) is str:
        return (Text(content, where=where),)
    if not is_array(content):
        raise WireError(
            PROTOCOL_NAME, where, f"expected a string or an array of blocks, got {describe(content)}"
        )
    return tuple([decode_block(block, f"{where}[{i}]", losses, history) for i, block in enumerate(content)])


def encode_content(parts: Sequence[AnyPart], losses: Losses) -> str | list[Wire]:
    if (
        len(parts) == 1
        and type(text := parts[0]) is Text
        and not is_native(text)
        and not (text.citations or text.cache)
    ):
        return text.text
    return [block for part in parts for block in encode_part(part, losses)]


def decode_block(block: Any, where: str, losses: Losses, history: bool = False) -> AnyPart:
    if not is_object(block):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(block)}")
    match block.get("type"):
        case "text":
            return _decode_text(block, where, losses)
        case "tool_use":
            return _decode_tool_use(block, where, losses, history)
        case "tool_result":
            return _decode_tool_result(block, where, losses)
        case "thinking":
            return _decode_thinking(Fields(block, where, PROTOCOL_NAME), losses)
        case "redacted_thinking":
            return _decode_redacted(Fields(block, where, PROTOCOL_NAME), losses)
        case "image" | "document" as kind:
            return decode_media(block, kind, where, losses, history)
        case str():
            return decode_foreign(block, where, losses, history)
        case other:
            raise WireError(PROTOCOL_NAME, f"{where}.type", f"expected a string, got {describe(other)}")


def encode_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The blocks that say `part`: one, or none where Anthropic cannot say it."""
    match part:
        case Text():
            return _encode_text(part, losses)
        case ToolCall():
            return (_encode_tool_use(part, losses),)
        case ToolResult():
            return (_encode_tool_result(part, losses),)
        case Reasoning():
            return encode_reasoning(part)
        case Media():
            return (_marked(encode_media(part, losses), part) if part.cache else encode_media(part, losses),)
        case Refusal():
            return ({"type": "text", "text": part.text},) if part.text else ()
        case Foreign():
            return (part.body,) if part.origin == PROTOCOL_NAME else ()


def _decode_text(block: Wire, where: str, losses: Losses) -> Text:
    if (
        len(block) == 2 and type(text := block.get("text")) is str
    ):  # the usual block, without the cost of Fields
        return Text(text, where=where, extras=NO_EXTRAS)
    if len(block) == 3 and block.get("citations", "") is None and type(text := block.get("text")) is str:
        return Text(text, where=where, extras=UNCITED)
    fields = _fields(block, where)
    text = fields.need("text", str)
    citations = fields.list("citations") if fields.rest.get("citations") else None
    cited = [decode_citation(c, f"{where}.citations[{i}]", losses) for i, c in enumerate(citations or ())]
    cache, extras = lifetime(block), fields.extras(losses, quiet=_QUIET_TEXT)
    return Text(text, tuple(cited), where=where, extras=extras, cache=cache)


def _encode_text(part: Text, losses: Losses) -> tuple[Wire, ...]:
    """Anthropic refuses empty text blocks (G51: autogen#6063); one that came empty goes back so, and one of a
    reply may have sources."""
    if not part.text and not part.citations and not is_native(part):
        return ()
    block: Wire = {"type": "text", "text": part.text, **own(part.extras, PROTOCOL_NAME)}
    if part.cache:
        block = _marked(block, part)
    if part.citations:
        block["citations"] = [encode_citation(citation) for citation in part.citations]
        report_ranges(part.citations, len(part.text), losses)
    return (block,)


def _marked(block: Wire, part: AnyPart) -> Wire:
    """`block` with the cache breakpoint of `part`; one of Anthropic's stands in its extras."""
    if is_native(part):
        return block
    return {**block, "cache_control": {"type": "ephemeral"} | ({"ttl": "1h"} if part.cache == "1h" else {})}


def decode_citation(citation: Any, where: str, losses: Losses) -> Citation:
    """A citation that points into a document has no URL; only its text means something elsewhere."""
    fields = Fields(citation, where, PROTOCOL_NAME)
    wire = {PROTOCOL_NAME: fields.rest.copy()}
    cited = fields.text("cited_text")
    match fields.text("type"):
        case "web_search_result_location":
            url, title = fields.text("url"), fields.text("title")
            ours = unseal(fields.text("encrypted_index")) is not None
            found = Citation(url, title, cited, where=where, extras=None if ours else wire)
        case "search_result_location":
            found = Citation(fields.text("source"), fields.text("title"), cited, where=where, extras=wire)
        case kind:
            why = f"A citation of type {kind or 'nothing'} points into a document. Other protocols have none."
            losses.dropped(where, why, "citation")
            return Citation("", fields.text("document_title"), cited, where=where, extras=wire)
    if unknown := [key for key, value in fields.rest.items() if value is not None]:
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(unknown)}.")
    return found


def encode_citation(citation: Citation) -> Wire:
    """Anthropic's own citation goes back as it came: its index is encrypted."""
    return own(citation.extras, PROTOCOL_NAME) or {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.cited,
        "encrypted_index": _MADE_HERE,
    }


def report_ranges(citations: Iterable[Citation], length: int, losses: Losses) -> None:
    """Anthropic's citation supports its whole block, here a text of so many characters."""
    for citation in citations:
        if citation.start >= 0 and (citation.start, citation.end) != (0, length) and not is_native(citation):
            report_citation_detail(losses, citation.where, "Anthropic has no field for ranges.")


def _decode_tool_use(block: Wire, where: str, losses: Losses, history: bool) -> ToolCall:
    id, name, given = block.get("id"), block.get("name"), block.get("input")
    if len(block) == 4 and type(id) is str and type(name) is str and given is not None:
        return ToolCall(id, name, decode_input(given, where), where=where, extras=NO_EXTRAS)
    if len(block) == 5 and block.get("caller") == _DIRECT and type(id) is str and type(name) is str:
        return ToolCall(id, name, decode_input(given, where), where=where, extras=DIRECT)
    fields = _fields(block, where)
    id, name = fields.need("id", str), fields.need("name", str)
    given = fields.any("input")
    is_action = history and fields.rest.get("toolset_name") == COMPUTER
    arguments = decode_action(name, given) if is_action else decode_input(given, where)
    direct = is_object(caller := fields.rest.get("caller")) and caller.get("type") == "direct"
    extras = fields.extras(losses, quiet=QUIET_DIRECT_CALL if direct else QUIET_MARK)
    cache = lifetime(block)
    if is_action:
        return ToolCall(id, COMPUTER, arguments, "computer", where=where, extras=extras, cache=cache)
    return ToolCall(id, name, arguments, where=where, extras=extras, cache=cache)


def _encode_tool_use(call: ToolCall, losses: Losses) -> Wire:
    if call.kind == "computer":
        return encode_action(call)
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": as_object(call, losses)}
    if call.cache:
        block = _marked(block, call)
    return block | extras if (extras := own(call.extras, PROTOCOL_NAME)) else block


def decode_input(value: Any, where: str) -> str:
    """Arguments as JSON text; some clients send them as a string already."""
    if is_object(value) and "_raw_arguments" not in value:
        return printed(value, f"{where}.input")
    match value:
        case None:
            return ""
        case str():
            return value
        case {"_raw_arguments": str(raw)} if len(value) == 1 and jsontext.decode_object(raw) is None:
            return raw
        case _:
            return printed(value, f"{where}.input")


def _decode_tool_result(block: Wire, where: str, losses: Losses) -> ToolResult:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if len(block) == 3 and type(call_id) is str and type(content) is str:
        text = Text(content, where=f"{where}.content")
        return ToolResult(call_id, content=(text,), where=where, extras=NO_EXTRAS)
    fields = _fields(block, where)
    call_id = fields.need("tool_use_id", str)
    content = fields.any("content") if fields.rest.get("content") != [] else None
    parts = () if content is None else decode_content(content, f"{where}.content", losses, history=True)
    return ToolResult(
        call_id,
        content=tuple([_as_content(part, content, i, losses) for i, part in enumerate(parts)]),
        failed=fields.flag("is_error"),
        where=where,
        extras=fields.extras(losses, quiet=QUIET_RESULT),
        cache=lifetime(block),
    )


def _as_content(part: AnyPart, content: Any, index: int, losses: Losses) -> Text | Media | Foreign:
    if isinstance(part, Text | Media | Foreign):
        return part
    return decode_foreign(content[index], part.where, losses, history=True)


def _encode_tool_result(result: ToolResult, losses: Losses) -> Wire:
    block: Wire = {"type": "tool_result", "tool_use_id": result.call_id}
    if result.content:
        block["content"] = encode_content(result.content, losses)
    if extras := own(result.extras, PROTOCOL_NAME):
        block |= extras
    if result.failed:
        block["is_error"] = True
    return block


def _decode_thinking(fields: Fields, losses: Losses) -> Reasoning:
    del fields.rest["type"]
    text, signature = fields.text("thinking"), fields.nonempty("signature")
    state = unseal_state(signature, PROTOCOL_NAME) if signature else None
    extras = fields.extras(losses, quiet=QUIET_THINKING)
    ours = state is None or state.origin == PROTOCOL_NAME
    return Reasoning(text, state=state, where=fields.where, extras=extras if ours else None)


def _decode_redacted(fields: Fields, losses: Losses) -> Reasoning:
    del fields.rest["type"]
    state = unseal_state(fields.need("data", str), PROTOCOL_NAME)
    extras = fields.extras(losses)
    ours = state.origin == PROTOCOL_NAME
    return Reasoning(hidden=True, state=state, where=fields.where, extras=extras if ours else None)


def encode_reasoning(part: Reasoning) -> tuple[Wire, ...]:
    extras = own(part.extras, PROTOCOL_NAME)
    data = seal_state(part.state, PROTOCOL_NAME) if part.state else ""
    if part.hidden:
        return ({"type": "redacted_thinking", "data": data, **extras},) if data else ()
    if not part.text and not data and not is_native(part):
        return ()
    block: Wire = {"type": "thinking", "thinking": part.text, **extras}
    if data or not is_native(part):
        block["signature"] = data
    return (block,)


def _fields(block: Wire, where: str) -> Fields:
    fields = Fields(block, where, PROTOCOL_NAME)
    del fields.rest["type"]
    return fields
