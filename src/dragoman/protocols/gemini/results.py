"""`functionResponse` <-> tool results.

A response is an object in which Gemini gives meaning to two keys: `output` alone is the result and
`error` alone the failure; any other object is the result as a whole (G60).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, FileId, Foreign, Media, Plain, Text, ToolResult, Wire
from dragoman.protocols.gemini.media import decode_file, decode_inline, encode_media
from dragoman.protocols.gemini.objects import inner, is_native, opened, printed
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

_SPECIAL = frozenset({"output", "error"})
_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})


def decode_result(fields: Fields, losses: Losses) -> ToolResult:
    """The response is kept as it came: JSON says more than text."""
    answer = inner(fields, "functionResponse")
    if answer is None:
        raise WireError(PROTOCOL_NAME, fields.path("functionResponse"), "expected an object, got nothing")
    id, name, response = answer.text("id"), answer.text("name"), answer.object("response")
    parts = answer.list("parts") if answer.rest.get("parts") != [] else None
    texts, failed = decode_answer(response, f"{answer.where}.response")
    media = [_decode_media(p, f"{answer.where}.parts[{i}]", losses) for i, p in enumerate(parts or ())]
    kept = answer.extras(losses, quiet=frozenset({"parts"}))[PROTOCOL_NAME]
    if response is not None:
        kept["response"] = response
    extras = fields.extras(losses)
    extras[PROTOCOL_NAME]["functionResponse"] = kept
    return ToolResult(id, name, (*texts, *media), failed, where=fields.where, extras=extras)


def encode_result(result: ToolResult, name: str, nested: bool, losses: Losses) -> list[Wire]:
    """The part that says `result`, and after it the media that cannot stand inside it.

    `nested`: whether the model takes media inside a result at all.
    """
    extras = own(result.extras, PROTOCOL_NAME)
    kept: Wire = extras.get("functionResponse", {})
    result = replace(result, content=tuple(_sayable(result, losses)))
    media = [item for item in result.content if not isinstance(item, Text)]
    inside = [item for item in media if nested and _fits(item)]
    beside = [item for item in media if not (nested and _fits(item))]
    answer: Wire = {"id": result.call_id} if result.call_id else {}
    if name:
        answer["name"] = name
    answer |= kept
    if not _still_says(kept.get("response"), result):
        answer["response"] = _encode_content(result, bool(inside), losses)
    if inside:
        answer["parts"] = [_encode_media(item, losses, inside=True) for item in inside]
    return [{**extras, "functionResponse": answer}, *(_beside(item, losses) for item in beside)]


def decode_answer(response: Wire | None, where: str) -> tuple[tuple[Text, ...], bool]:
    """What a response says, and whether it says that the call failed.

    An error keeps its JSON, because not every protocol has another way to say that it is one.
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
    """JSON goes as JSON, but an object with `output` or `error` among its keys would be misread as it is."""
    value = _json(text)
    if failed:
        return value if is_object(value) and "error" in value else {"error": text}
    if is_object(value) and (value.keys().isdisjoint(_SPECIAL) or _is_output(value)):
        return value
    return {"output": text if value is None else value}


def _is_output(value: Wire) -> bool:
    return len(value) == 1 and isinstance(value.get("output"), str)


def _still_says(response: Any, result: ToolResult) -> bool:
    """Whether the response as it came still is what `result` says, after all transforms."""
    if response is None:
        return not result.content and is_native(result)
    texts = tuple(item for item in result.content if isinstance(item, Text))
    return decode_answer(response, result.where) == (texts, result.failed)


def _encode_content(result: ToolResult, inside: bool, losses: Losses) -> Wire:
    texts = [item.text for item in result.content if isinstance(item, Text)]
    if len(texts) > 1:
        losses.changed(result.where, "the texts of a result are joined")
    types = [item.media_type or item.kind for item in result.content if isinstance(item, Media)]
    if types and not texts and not inside:
        note = f"Binary content of type {', '.join(types)} was processed."
        losses.invented(result.where, f"a result needs a text: {note}")
        return encode_answer(note, result.failed)
    return encode_answer("".join(texts), result.failed)


def _decode_media(part: Any, where: str, losses: Losses) -> Media | Foreign:
    fields = opened(part, where)
    if "inlineData" in fields.rest:
        return decode_inline(fields, losses)
    if "fileData" in fields.rest:
        return decode_file(fields, losses)
    losses.dropped(where, f"only {PROTOCOL_NAME} understands it")
    return Foreign(PROTOCOL_NAME, fields.rest, where=where)


def _sayable(result: ToolResult, losses: Losses) -> Iterator[Text | Media | Foreign]:
    """What is in `result`; a file that only another provider can open is told in words."""
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
    """Bytes of a few types; URLs are documented nowhere but beside."""
    if isinstance(item, Foreign) or is_native(item):
        return True
    return isinstance(item.source, Base64 | Plain) and (item.media_type or "text/plain") in _INSIDE


def _encode_media(item: Media | Foreign, losses: Losses, inside: bool = False) -> Wire:
    return item.body if isinstance(item, Foreign) else encode_media(item, losses, inside)


def _beside(item: Media | Foreign, losses: Losses) -> Wire:
    losses.changed(item.where, "it cannot stand inside a result of this model: it stands beside it")
    return _encode_media(item, losses)


def _json(text: str) -> Any:
    """The object or array that `text` spells, or None: plain text and single values stay text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = jsontext.decode(text)
    except ValueError:
        return None
    return value if is_object(value) or is_array(value) else None
