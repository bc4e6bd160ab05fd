"""Content blocks and steps <-> parts.

A step of the model's output may hold several blocks; each is a part, and a note under STEP says which parts
were one step, so that they go back as one. Everything else is a step with one part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, groups_of, own
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
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.gemini_interactions.hosted import StepsOfServers
from dragoman.protocols.gemini_interactions.media import KINDS, decode_media, encode_media
from dragoman.protocols.gemini_interactions.wire import (
    PLAIN_TEXT,
    PROTOCOL_NAME,
    QUIET_CONTENT,
    QUIET_STEP,
    STEP,
    is_native,
    printed,
)
from dragoman.transforms.arguments import as_object

CONTENT = frozenset({"text", *KINDS})  # types of blocks that are no steps


def step_type(step: Any, where: str) -> str:
    if not is_object(step):
        raise WireError(PROTOCOL_NAME, where, f"expected an object, got {describe(step)}")
    if type(kind := step.get("type")) is not str:
        raise WireError(PROTOCOL_NAME, f"{where}.type", f"expected a string, got {describe(kind)}")
    return kind


def decode_step(
    step: Any, where: str, at: int, losses: Losses, servers: StepsOfServers
) -> tuple[AnyPart, ...]:
    """The parts of any step but `user_input`. `at` is its place among the steps."""
    kind = step_type(step, where)
    if kind == "model_output":
        return _decode_output(Fields(step, where, PROTOCOL_NAME), at, losses, servers)
    return (decode_block(step, where, losses, servers),)


def decode_content(content: Any, where: str, losses: Losses, servers: StepsOfServers) -> tuple[AnyPart, ...]:
    """An array of blocks; clients also write a text, or one block."""
    if isinstance(content, str):
        return (Text(content, where=where),)
    if is_object(content):
        return (decode_block(content, where, losses, servers),)
    if not is_array(content):
        raise WireError(PROTOCOL_NAME, where, f"expected an array of blocks, got {describe(content)}")
    return tuple([decode_block(block, f"{where}[{i}]", losses, servers) for i, block in enumerate(content)])


def decode_block(block: Any, where: str, losses: Losses, servers: StepsOfServers) -> AnyPart:
    """A block of content, or a step: vercel/ai puts function results into the content of `user_input`."""
    kind = step_type(block, where)
    if kind == "text" and len(block) == 2 and type(text := block.get("text")) is str:
        return Text(text, where=where, extras=PLAIN_TEXT)  # nearly always
    fields = Fields(block, where, PROTOCOL_NAME)
    match kind:
        case "text":
            return _decode_text(fields, losses)
        case "thought":
            return _decode_thought(fields, losses)
        case "function_call":
            return _decode_call(fields, losses)
        case "function_result" if servers.history:
            return _decode_result(fields, losses, servers)
        case _ if kind in KINDS:
            return decode_media(fields, KINDS[kind], losses)
        case _:
            return servers.decode(block, kind, where, losses)


def encode_block(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """The block or step of one part; none where it is empty, or the protocol has no form for it."""
    match part:
        case Text():
            return (_encode_text(part, losses),) if part.text or part.citations or is_native(part) else ()
        case Refusal():
            return ({"type": "text", "text": part.text},) if part.text else ()
        case Reasoning():
            return _encode_thought(part)
        case ToolCall():
            return (_encode_call(part, losses),)
        case ToolResult():
            return (_encode_result(part, losses),)
        case Media():
            return (encode_media(part, losses),)
        case Foreign():
            return (part.body,) if part.origin == PROTOCOL_NAME else ()


def encode_steps(parts: Iterable[AnyPart], losses: Losses) -> list[Wire]:
    """Steps of the model."""
    steps: list[Wire] = []
    for group in groups_of(parts, STEP):
        first = group[0]
        blocks = [wire for part in group for wire in encode_block(part, losses)]
        if step := own(first.extras, STEP).get("step"):
            steps.append({**step, "content": blocks})
        elif isinstance(first, Text | Refusal | Media):
            steps += [{"type": "model_output", "content": blocks}] if blocks else []
        else:
            steps += blocks
    return steps


def noted(part: AnyPart, at: int, step: Wire) -> AnyPart:
    """`part` of the step at that place; `step` has all its fields but the content."""
    return replace(part, extras={**(part.extras or {}), STEP: {"at": at, "step": step}})


def _decode_output(fields: Fields, at: int, losses: Losses, servers: StepsOfServers) -> tuple[AnyPart, ...]:
    """One without content is kept whole."""
    content = fields.any("content")
    if content is None or content == []:
        return (Foreign(PROTOCOL_NAME, {**fields.rest, **({} if content is None else {"content": []})}),)
    step = fields.extras(losses, quiet=QUIET_STEP)[PROTOCOL_NAME]
    parts = decode_content(content, fields.path("content"), losses, servers)
    return tuple([noted(part, at, step) for part in parts])


# Texts and their sources


def _decode_text(fields: Fields, losses: Losses) -> Text:
    text, annotations = fields.need("text", str), fields.list("annotations")
    citations = decode_annotations(annotations or [], text, fields.path("annotations"), losses)
    if annotations == []:
        fields.rest["annotations"] = []  # the field was there, so it goes back
    return Text(text, citations, where=fields.where, extras=fields.extras(losses, quiet=QUIET_CONTENT))


def _encode_text(part: Text, losses: Losses) -> Wire:
    wire: Wire = {"type": "text", "text": part.text, **own(part.extras, PROTOCOL_NAME)}
    annotations = encode_annotations(part, losses)
    return {**wire, "annotations": annotations} if annotations else wire


def decode_annotations(notes: Iterable[Any], text: str, where: str, losses: Losses) -> tuple[Citation, ...]:
    """What a text says of its sources. They count its bytes, and the neutral ones its characters."""
    data = text.encode("utf-8", "surrogatepass")
    return tuple([_decode_citation(note, data, f"{where}[{i}]", losses) for i, note in enumerate(notes)])


def encode_annotations(part: Text, losses: Losses) -> list[Wire]:
    return [_encode_citation(citation, part, losses) for citation in part.citations if _has_source(citation)]


_SOURCES = {  # type of an annotation -> the fields of its address and its title
    "url_citation": ("url", "title"),
    "place_citation": ("url", "name"),
    "file_citation": ("document_uri", "file_name"),
}
_QUIET_CITATION = frozenset({"type"})


def _decode_citation(note: Any, data: bytes, where: str, losses: Losses) -> Citation:
    fields = Fields(note, where, PROTOCOL_NAME)
    whole = {PROTOCOL_NAME: fields.rest.copy()}
    address, title = _SOURCES.get(str(fields.rest.get("type")), ("url", "title"))
    start, end, url = fields.integer("start_index"), fields.integer("end_index"), fields.text(address)
    if not url:
        losses.dropped(where, "This source has no URL.", "citation")
        return Citation("", where=where, extras=whole)
    first, last = _characters(data, start), _characters(data, end)
    found = Citation(url, fields.text(title), "", first, last, where=where, extras=whole)
    if unknown := [key for key, value in fields.rest.items() if value and key != "type"]:
        report_citation_detail(losses, where, f"Only {PROTOCOL_NAME} says {', '.join(unknown)}.")
    return found


def _encode_citation(citation: Citation, part: Text, losses: Losses) -> Wire:
    """A citation without start and end supports the whole text."""
    if ours := own(citation.extras, PROTOCOL_NAME):
        return ours
    if citation.cited:
        why = f"{PROTOCOL_NAME} has no field for the quoted words."
        report_citation_detail(losses, citation.where, why)
    start, end = citation.start, citation.end
    if not 0 <= start <= end:
        start, end = 0, len(part.text)
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title or citation.url,
        "start_index": _bytes(part.text[:start]),
        "end_index": _bytes(part.text[:end]),
    }


def _has_source(citation: Citation) -> bool:
    return bool(citation.url) or is_native(citation)


def _characters(data: bytes, offset: int | None) -> int:
    return -1 if offset is None else len(data[: max(offset, 0)].decode("utf-8", "ignore"))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


# Thoughts


def _decode_thought(fields: Fields, losses: Losses) -> Reasoning | Foreign:
    """A summary that is more than one text stays in the extras too; a step without anything is kept whole."""
    where, signature = fields.where, fields.nonempty("signature")
    summary = [] if fields.rest.get("summary") is None else fields.list("summary") or []
    texts = [summary_text(entry, f"{where}.summary[{i}]", losses) for i, entry in enumerate(summary)]
    text = "".join(texts)
    if summary and summary != [{"type": "text", "text": text}]:
        fields.rest["summary"] = summary
    if not text and not signature:
        return Foreign(PROTOCOL_NAME, fields.rest, where=where)
    return thought(text, signature, where, fields.extras(losses, quiet=QUIET_STEP)[PROTOCOL_NAME])


def thought(text: str, signature: str, where: str, rest: Wire) -> Reasoning:
    """The note says that there was state: the thought must not go back without it."""
    state = decode_state(signature)
    extras = {PROTOCOL_NAME: rest} | ({STEP: {"state": True}} if state else {})
    return Reasoning(text, not text, state=state, where=where, extras=extras)


def summary_text(entry: Any, where: str, losses: Losses) -> str:
    """The text of an entry of a summary; an image says nothing to others."""
    fields = Fields(entry, where, PROTOCOL_NAME)
    if fields.rest.get("type") == "text":
        text = fields.text("text")
        fields.extras(losses, quiet=QUIET_CONTENT)
        return text
    losses.dropped(where, f"Only {PROTOCOL_NAME} has this field of a thought.", "part.unknown")
    return ""


def decode_state(signature: str) -> State | None:
    return unseal_state(signature, PROTOCOL_NAME) if signature else None


def _encode_thought(part: Reasoning) -> tuple[Wire, ...]:
    if not (part.text or part.state or is_native(part)):
        return ()
    wire: Wire = {"type": "thought"}
    if part.state:
        wire["signature"] = seal_state(part.state, PROTOCOL_NAME)
    if part.text:
        wire["summary"] = [{"type": "text", "text": part.text}]
    return (wire | own(part.extras, PROTOCOL_NAME),)


# Calls and results


def _decode_call(fields: Fields, losses: Losses) -> ToolCall:
    id, name = fields.need("id", str), fields.need("name", str)
    state, arguments = decode_state(fields.nonempty("signature")), fields.object("arguments")
    text = "" if arguments is None else printed(arguments, fields.path("arguments"))
    extras = fields.extras(losses, quiet=QUIET_STEP)
    return ToolCall(id, name, text, state=state, where=fields.where, extras=extras)


def _encode_call(call: ToolCall, losses: Losses) -> Wire:
    wire: Wire = {"type": "function_call", "id": call.id, "name": call.name}
    if call.arguments or not is_native(call):
        wire["arguments"] = as_object(call, losses)
    wire |= own(call.extras, PROTOCOL_NAME)
    return wire if call.state is None else {**wire, "signature": seal_state(call.state, PROTOCOL_NAME)}


def _decode_result(fields: Fields, losses: Losses, servers: StepsOfServers) -> ToolResult:
    """A text, blocks, or any other JSON, which then stays in the extras too."""
    call_id, name, failed = fields.need("call_id", str), fields.text("name"), fields.flag("is_error")
    result, where = fields.any("result"), fields.path("result")
    content: tuple[AnyPart, ...] = ()
    if isinstance(result, str):
        content = (Text(result, where=where),) if result else ()
    elif is_array(result) and all(is_object(block) and str(block.get("type")) in CONTENT for block in result):
        content = decode_content(result, where, losses, servers)
    elif result is not None:
        content = (Text(printed(result, where), where=where),)
    if result is not None and not isinstance(result, str):
        fields.rest["result"] = result
    extras = fields.extras(losses, quiet=QUIET_STEP)
    return ToolResult(call_id, name, _sendable(content), failed, where=fields.where, extras=extras)


def _encode_result(result: ToolResult, losses: Losses) -> Wire:
    rest = own(result.extras, PROTOCOL_NAME)
    wire: Wire = {"type": "function_result", "call_id": result.call_id}
    if result.name:
        wire["name"] = result.name
    wire["result"] = _encode_content(result, losses)
    if result.failed:
        wire["is_error"] = True
    if "result" in rest and not _is_unchanged(rest["result"], result):
        rest = {key: value for key, value in rest.items() if key != "result"}
    return wire | rest


def _encode_content(result: ToolResult, losses: Losses) -> str | list[Wire]:
    content = result.content
    if all(type(part) is Text for part in content) and len(content) < 2:
        return "".join([part.text for part in content if isinstance(part, Text)])
    return [wire for part in content for wire in encode_block(part, losses)]


def _is_unchanged(original: Any, result: ToolResult) -> bool:
    """Whether what came still says the same as `result` after all transforms."""
    again: Wire = {"type": "function_result", "call_id": "", "result": original}
    fields = Fields(again, result.where, PROTOCOL_NAME)
    return _decode_result(fields, Losses(), StepsOfServers(True)).content == result.content


def _sendable(content: tuple[AnyPart, ...]) -> tuple[Text | Media | Foreign, ...]:
    return tuple([part for part in content if isinstance(part, Text | Media | Foreign)])
