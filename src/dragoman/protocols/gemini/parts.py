"""Parts of a content <-> parts: one mapping for requests and responses.

A part has one data field and metadata beside it: `thought` makes a text a thought, and any part may carry a
signature. A function response is an object in which Gemini gives meaning to two keys: `output` alone is the
result and `error` alone the failure; any other object is the result as a whole (G60).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    ExecutedCall,
    FileId,
    Foreign,
    Media,
    Plain,
    Reasoning,
    Refusal,
    State,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.gemini.hosted import decode_foreign
from dragoman.protocols.gemini.media import decode_file, decode_inline, encode_media
from dragoman.protocols.gemini.partial_arguments import PartialArguments
from dragoman.protocols.gemini.wire import (
    NO_EXTRAS,
    PROTOCOL_NAME,
    QUIET_PART,
    inner,
    is_native,
    opened,
    printed,
)
from dragoman.transforms.arguments import as_object

_SPECIAL = frozenset({"output", "error"})
_PIECES = frozenset({"partialArgs", "willContinue"})  # read, and kept for Gemini
_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})


def decode_parts(parts: Any, where: str, losses: Losses, history: bool = False) -> tuple[AnyPart, ...]:
    """An array of parts; some clients send one part, or a string. `history`: of a request."""
    if is_object(parts) or isinstance(parts, str):
        parts = [parts]
    if not is_array(parts):
        raise WireError(PROTOCOL_NAME, where, f"expected an array of parts, got {describe(parts)}")
    decoded = [decode_part(part, f"{where}[{i}]", losses, history) for i, part in enumerate(parts)]
    kinds = [*map(type, decoded)]
    return tuple(
        executed(decoded, parts, history, losses) if ToolCall in kinds and ToolResult in kinds else decoded
    )


def executed(decoded: list[AnyPart], wires: Sequence[Any], history: bool, losses: Losses) -> list[AnyPart]:
    """Calls that are answered in the same content: Gemini ran them, as it runs the tools of MCP servers."""
    found = list(decoded)
    for i, result in enumerate(decoded):
        call = _answered(result, found[:i]) if isinstance(result, ToolResult) else None
        if call is None or not isinstance(result, ToolResult):
            continue
        output = "".join([item.text for item in result.content if isinstance(item, Text)])
        for item in result.content:
            if not isinstance(item, Text):
                losses.dropped(
                    item.where or result.where,
                    "Gemini ran this call, and its output can be text only.",
                    "result.media",
                )
        text = f"[{call.name}: {call.arguments or '{}'}]\n{output}\n"
        ran = ExecutedCall(
            call.id, "both", name=call.name, arguments=call.arguments, text=output, failed=result.failed
        )
        place = next(j for j, part in enumerate(found) if part is call)
        found[place] = Foreign(PROTOCOL_NAME, wires[place], state=call.state, where=call.where)
        found[i] = Foreign(PROTOCOL_NAME, wires[i], text, ran, state=result.state, where=result.where)
        if history:
            losses.changed(result.where, "Gemini ran this call. It was sent as text.", "part.unknown")
    return found


def _answered(result: ToolResult, before: list[AnyPart]) -> ToolCall | None:
    for part in before:
        if isinstance(part, ToolCall) and (
            part.id == result.call_id if result.call_id else part.name == result.name
        ):
            return part
    return None


def decode_part(part: Any, where: str, losses: Losses, history: bool = False) -> AnyPart:
    if isinstance(part, str):
        return Text(part, where=where)
    if is_object(part) and len(part) == 1 and type(text := part.get("text")) is str:
        return Text(text, where=where, extras=NO_EXTRAS)  # the usual part
    fields = opened(part, where)
    state, rest = _decode_state(fields), fields.rest
    if rest.get("text") is not None:
        return _decode_text(fields, state, losses)
    if rest.get("functionCall") is not None:
        return _decode_call(fields, state, losses)
    if rest.get("functionResponse") is not None:
        return _with(decode_result(fields, losses), state)
    if rest.get("inlineData") is not None:
        return _with(decode_inline(fields, losses), state)
    if rest.get("fileData") is not None:
        return _with(decode_file(fields, losses), state)
    return decode_foreign(fields, state, history, losses)


def encode_part(part: AnyPart, losses: Losses) -> tuple[Wire, ...]:
    """One part, or none where it is empty or Gemini has no form for it."""
    if type(part) is Text and part.text and not part.state and not own(part.extras, PROTOCOL_NAME):
        return ({"text": part.text},)
    extras = own(part.extras, PROTOCOL_NAME)
    if not is_native(part) and not part.state and isinstance(part, Text | Reasoning) and not part.text:
        return ()
    match part:
        case Text() | Refusal():
            wire: Wire = {"text": part.text, **extras}
        case Reasoning():
            wire = {"text": part.text, "thought": True, **extras}
        case ToolCall():
            wire = _encode_call(part, extras, losses)
        case Media():
            wire = encode_media(part, losses)
        case ToolResult():
            wire, *_ = encode_result(part, part.name, True, losses)
        case Foreign():
            if part.origin != PROTOCOL_NAME:
                return ()
            wire = part.body
    return (signed(wire, part.state),)


def signed(wire: Wire, state: State | None) -> Wire:
    return wire if state is None else {**wire, "thoughtSignature": seal_state(state, PROTOCOL_NAME)}


def _decode_state(fields: Fields) -> State | None:
    signature = fields.nonempty("thoughtSignature")
    return unseal_state(signature, PROTOCOL_NAME) if signature else None


def _decode_text(fields: Fields, state: State | None, losses: Losses) -> Text | Reasoning:
    text, thought = fields.need("text", str), fields.flag("thought")
    extras = fields.extras(losses, quiet=QUIET_PART)
    if thought:
        return Reasoning(text, not text and state is not None, state=state, where=fields.where, extras=extras)
    return Text(text, state=state, where=fields.where, extras=extras)


def _decode_call(fields: Fields, state: State | None, losses: Losses) -> ToolCall:
    """Unknown fields stay in the extras, those of `functionCall` under that key."""
    call = inner(fields, "functionCall")
    if call is None:
        raise WireError(PROTOCOL_NAME, fields.path("functionCall"), "expected an object, got nothing")
    id, name, arguments = call.text("id"), call.need("name", str), decode_arguments(call)
    rest = call.extras(losses, quiet=_PIECES)[PROTOCOL_NAME]
    extras = fields.extras(losses, quiet=QUIET_PART)
    if rest:
        extras[PROTOCOL_NAME]["functionCall"] = rest
    text, complete = "" if arguments is None else printed(arguments, call.path("args")), True
    if not arguments and (pieces := rest.get("partialArgs")):
        partial = PartialArguments()
        partial.add(pieces, call.path("partialArgs"))
        text, complete = partial.text(), partial.complete
    return ToolCall(id, name, text, complete=complete, state=state, where=fields.where, extras=extras)


def decode_arguments(call: Fields) -> Wire | list[Any] | None:
    """An object, or the empty array that PHP writes for an empty one."""
    return call.any("args") if call.rest.get("args") == [] else call.object("args")


def _encode_call(call: ToolCall, extras: Wire, losses: Losses) -> Wire:
    wire: Wire = {"id": call.id} if call.id else {}
    wire["name"] = call.name
    if "partialArgs" not in extras.get("functionCall", ()) and (call.arguments or not is_native(call)):
        wire["args"] = as_object(call, losses)
    return {**extras, "functionCall": wire | extras.get("functionCall", {})}


def _with(part: AnyPart, state: State | None) -> AnyPart:
    return part if state is None else replace(part, state=state)


# Results


def decode_result(fields: Fields, losses: Losses) -> ToolResult:
    """The response is also kept in the extras: its JSON has more structure than our text."""
    answer = inner(fields, "functionResponse")
    if answer is None:
        raise WireError(PROTOCOL_NAME, fields.path("functionResponse"), "expected an object, got nothing")
    if answer.rest.get("response") == []:  # an empty object, as PHP writes it
        answer.rest["response"] = {}
    id, name, response = answer.text("id"), answer.text("name"), answer.object("response")
    parts = answer.list("parts") if answer.rest.get("parts") != [] else None
    texts, failed = decode_answer(response, f"{answer.where}.response")
    media = [_decode_result_media(p, f"{answer.where}.parts[{i}]", losses) for i, p in enumerate(parts or ())]
    rest = answer.extras(losses, quiet=frozenset({"parts"}))[PROTOCOL_NAME]
    if response is not None:
        rest["response"] = response
    quiet = frozenset({"thought"} if fields.rest.get("thought") is False else ())
    extras = fields.extras(losses, quiet)
    extras[PROTOCOL_NAME]["functionResponse"] = rest
    return ToolResult(id, name, (*texts, *media), failed, where=fields.where, extras=extras)


def encode_result(result: ToolResult, name: str, nested: bool, losses: Losses) -> list[Wire]:
    """The part for `result`, and after it the media that cannot stand inside it.

    `nested`: whether the model takes media inside a result at all.
    """
    answer: Wire = {"id": result.call_id} if result.call_id else {}
    if name:
        answer["name"] = name
    only = result.content[0] if len(result.content) == 1 else None
    if type(only) is Text and not is_native(result):  # the usual result; what follows gives the same
        answer["response"] = encode_answer(only.text, result.failed)
        return [{"functionResponse": answer}]
    extras = own(result.extras, PROTOCOL_NAME)
    rest: Wire = extras.get("functionResponse", {})
    result = replace(result, content=tuple(_encodable(result, losses)))
    media = [item for item in result.content if not isinstance(item, Text)]
    inside = [item for item in media if nested and _fits(item)]
    beside = [item for item in media if not (nested and _fits(item))]
    answer |= rest
    if not _is_unchanged(rest.get("response"), result):
        answer["response"] = _encode_answer_of(result, bool(inside), losses)
    if inside:
        answer["parts"] = [_encode_inside(item, losses, inside=True) for item in inside]
    return [{**extras, "functionResponse": answer}, *(_beside(item, losses) for item in beside)]


def decode_answer(response: Wire | None, where: str) -> tuple[tuple[Text, ...], bool]:
    """The text of a response, and whether the call failed.

    An error keeps its JSON, because not every protocol has a flag for it.
    """
    match response:
        case None:
            return (), False
        case {"output": output} if len(response) == 1:
            text = output if isinstance(output, str) else printed(output, where)
        case {"result": str(text)} if len(response) == 1:
            pass
        case _:
            text = printed(response, where)
    return ((Text(text),) if text else ()), response.keys() == {"error"} and response["error"] is not None


def encode_answer(text: str, failed: bool) -> Wire:
    """JSON goes as JSON; an object with the keys `output` or `error` is wrapped, or it would be misread."""
    value = _json(text)
    if failed:
        return value if is_object(value) and "error" in value else {"error": text}
    if is_object(value) and (value.keys().isdisjoint(_SPECIAL) or _is_output(value)):
        return value
    return {"output": text if value is None else value}


def _is_output(value: Wire) -> bool:
    return len(value) == 1 and isinstance(value.get("output"), str)


def _is_unchanged(response: Any, result: ToolResult) -> bool:
    """Whether the original response still equals `result` after all transforms."""
    if response is None:
        return not result.content and is_native(result)
    texts = tuple(item for item in result.content if isinstance(item, Text))
    return decode_answer(response, result.where) == (texts, result.failed)


def _encode_answer_of(result: ToolResult, inside: bool, losses: Losses) -> Wire:
    texts = [item.text for item in result.content if isinstance(item, Text)]
    if len(texts) > 1:
        losses.changed(result.where, "Gemini has one text for a result. The texts were joined.", "text.join")
    types = [item.media_type or item.kind for item in result.content if isinstance(item, Media)]
    if types and not texts and not inside:
        note = f"Binary content of type {', '.join(types)} was processed."
        losses.invented(
            result.where, f"Gemini needs text in each result. This was sent: {note}", "result.text"
        )
        return encode_answer(note, result.failed)
    return encode_answer("\n\n".join(texts), result.failed)


def _decode_result_media(part: Any, where: str, losses: Losses) -> Media | Foreign:
    fields = opened(part, where)
    if "inlineData" in fields.rest:
        return decode_inline(fields, losses)
    if "fileData" in fields.rest:
        return decode_file(fields, losses)
    losses.dropped(where, f"Only {PROTOCOL_NAME} has this part.", "part.unknown")
    return Foreign(PROTOCOL_NAME, fields.rest, where=where)


def _encodable(result: ToolResult, losses: Losses) -> Iterator[Text | Media | Foreign]:
    """The content of `result`; a file that only another provider can open becomes text."""
    for item in result.content:
        if (
            isinstance(item, Media)
            and isinstance(item.source, FileId)
            and item.source.origin != PROTOCOL_NAME
        ):
            yield Text(encode_media(item, losses)["text"])
        elif not isinstance(item, Foreign) or item.origin == PROTOCOL_NAME:
            yield item


def _fits(item: Media | Foreign) -> bool:
    """Bytes of a few types; URLs are documented only outside of results."""
    if isinstance(item, Foreign) or is_native(item):
        return True
    return isinstance(item.source, Base64 | Plain) and (item.media_type or "text/plain") in _INSIDE


def _encode_inside(item: Media | Foreign, losses: Losses, inside: bool = False) -> Wire:
    return item.body if isinstance(item, Foreign) else encode_media(item, losses, inside)


def _beside(item: Media | Foreign, losses: Losses) -> Wire:
    why = "Results of this model hold no media. It was sent beside the result."
    losses.changed(item.where, why, "result.media")
    return _encode_inside(item, losses)


def _json(text: str) -> Any:
    """The object or array that `text` spells, or None: plain text and single values stay text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = jsontext.decode(text)
    except ValueError:
        return None
    return value if is_object(value) or is_array(value) else None
