"""Tool calls of assistant messages, and the tool messages that answer them <-> neutral parts.

Arguments are JSON text; servers that send the object itself (G65: sglang#12456) get it back from the
extras. A result is a message of its own that holds text only and has no flag for failure.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.fields import Fields, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Extras, Foreign, Media, State, Text, ToolCall, ToolResult, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.seal import seal_state, unseal_state
from dragoman.protocols.openai import lifetime
from dragoman.protocols.openai_chat.media import encode_media
from dragoman.protocols.openai_chat.parts import decode_content, encode_part
from dragoman.protocols.openai_chat.wire import (
    PROTOCOL_NAME,
    QUIET_CALL,
    QUIET_MESSAGE,
    is_native,
    leftovers,
    text_part,
)

_FUNCTION: Extras = {PROTOCOL_NAME: {"type": "function"}}  # shared, nobody writes into it
_BEGINS_WITH_ERROR = re.compile(r"""[\s\[{"'(]*error""", re.IGNORECASE)


def decode_calls(fields: Fields, losses: Losses, echoed: bool) -> list[ToolCall]:
    """`tool_calls`, or the deprecated `function_call`. `echoed`: the message is part of a history."""
    origin = "gemini" if echoed else PROTOCOL_NAME
    calls = fields.list("tool_calls") if fields.rest.get("tool_calls") != [] else None
    where = fields.path("tool_calls")
    found = [_decode_call(call, f"{where}[{i}]", origin, losses) for i, call in enumerate(calls or ())]
    legacy = fields.rest.get("function_call")
    if is_object(legacy) and legacy.get("name"):
        found.append(_decode_legacy(fields, losses))
    return found


def encode_calls(calls: list[ToolCall], echoed: bool = False) -> Wire:
    """`echoed`: part of a history, where an upstream gets back only the state that it issued."""
    if not calls:
        return {}
    if len(calls) == 1 and "function_call" in own(calls[0].extras, PROTOCOL_NAME):
        return encode_legacy(calls[0])
    return {"tool_calls": [encode_call(call, echoed) for call in calls]}


def _decode_call(call: Any, where: str, origin: str, losses: Losses) -> ToolCall:
    """Fast path: most calls have an id, a type, a name and arguments, and nothing else."""
    inner = call.get("function") if is_object(call) and len(call) == 3 else None
    if is_object(inner) and len(inner) == 2:
        id, name, text = call.get("id"), inner.get("name"), inner.get("arguments")
        if (
            id
            and name
            and text
            and type(id) is type(name) is type(text) is str
            and call.get("type") == "function"
        ):
            return ToolCall(id, name, text, where=where, extras=_FUNCTION)
    return _decode_other(call, where, origin, losses)


def _decode_other(call: Any, where: str, origin: str, losses: Losses) -> ToolCall:
    fields = Fields(call, where, PROTOCOL_NAME)
    kind = "custom" if fields.rest.get("type") == "custom" else "function"
    inner = fields.need_fields(kind)
    name = inner.nonempty("name")
    text = inner.nonempty("input") if kind == "custom" else decode_arguments(inner)
    rest = leftovers(inner, losses, QUIET_CALL)[PROTOCOL_NAME]
    id, state = fields.nonempty("id"), decode_call_state(fields.rest.get("extra_content"), origin)
    extras = leftovers(fields, losses, QUIET_CALL)
    if rest:
        extras[PROTOCOL_NAME][kind] = rest
    cache = lifetime(fields.rest.get("cache_control"))
    return ToolCall(id, name, text, kind, state=state, cache=cache, where=where, extras=extras)


def encode_call(call: ToolCall, echoed: bool) -> Wire:
    kind, key = ("custom", "input") if call.kind == "custom" else ("function", "arguments")
    extras = own(call.extras, PROTOCOL_NAME)
    native = is_native(call) and _fits(extras, kind)
    inner: Wire = {"name": call.name}
    if call.arguments or not native:
        inner[key] = encode_arguments(call)
    if native:
        id = {"id": call.id} if call.id else {}
        return {**id, **extras, **id, kind: inner | extras.get(kind, {})}
    wire: Wire = {"id": call.id, "type": kind, kind: inner}
    if call.state and (not echoed or call.state.origin == PROTOCOL_NAME):
        wire |= encode_call_state(call.state)
    return wire


def _fits(extras: Wire, kind: str) -> bool:
    """Whether the extras still match the call: a transform may have changed its kind."""
    return "function_call" not in extras and (extras.get("type") == "custom") == (kind == "custom")


def _decode_legacy(fields: Fields, losses: Losses) -> ToolCall:
    inner = fields.need_fields("function_call")
    name, text = inner.need("name", str), decode_arguments(inner)
    rest = leftovers(inner, losses, QUIET_CALL)[PROTOCOL_NAME]
    return ToolCall("", name, text, where=inner.where, extras={PROTOCOL_NAME: {"function_call": rest}})


def encode_legacy(call: ToolCall) -> Wire:
    rest = own(call.extras, PROTOCOL_NAME).get("function_call")
    text = {} if rest is not None and not call.arguments else {"arguments": encode_arguments(call)}
    return {"function_call": {"name": call.name, **text, **(rest or {})}}


def decode_arguments(inner: Fields) -> str:
    """JSON text; an object or array is printed, and also stays in the extras."""
    value = inner.rest.get("arguments")
    return jsontext.dumps(value) if is_object(value) or is_array(value) else inner.nonempty("arguments")


def encode_arguments(call: ToolCall) -> str:
    """A call without arguments is sent as `{}`: peers parse the string (G64: bifrost#3880)."""
    return call.arguments or ("{}" if call.kind != "custom" and call.complete else "")


def decode_call_state(extra: Any, origin: str) -> State | None:
    """The thought signature that Gemini's Chat endpoint adds to calls (G97).

    `origin` is its issuer: the server that sent it, or Gemini where a client echoes it.
    """
    for vendor in ("google", "vertex"):
        slot = extra.get(vendor) if is_object(extra) else None
        if is_object(slot) and type(signature := slot.get("thought_signature")) is str and signature:
            return unseal_state(signature, origin)
    return None


def encode_call_state(state: State) -> Wire:
    """Signatures of Gemini, also those from its Chat endpoint, as they are; any other state sealed."""
    signature = state.data if state.origin == PROTOCOL_NAME else seal_state(state, "gemini")
    return {"extra_content": {"google": {"thought_signature": signature}}}


def decode_result(fields: Fields, role: str, losses: Losses) -> ToolResult:
    """A message of role tool or function. `name` is read and also stays in the extras."""
    call_id = fields.text("tool_call_id") if role == "tool" else ""
    name = fields.rest.get("name") or ""
    if type(name) is not str:
        raise fields.wrong("name", "str", name)
    content = [_result_part(part) for part in decode_content(fields, losses)]
    extras = leftovers(fields, losses, _QUIET_RESULT)
    if role == "function":
        extras[PROTOCOL_NAME]["role"] = role
    cache = lifetime(fields.rest.get("cache_control"))
    return ToolResult(call_id, name, tuple(content), cache=cache, where=fields.where, extras=extras)


_QUIET_RESULT = QUIET_MESSAGE | {"name"}


def encode_result(result: ToolResult, profile: ModelProfile, losses: Losses) -> tuple[Wire, list[Wire]]:
    """The tool message, and the media parts for a user message after the results (G69: llama.cpp#22536)."""
    only = result.content[0] if len(result.content) == 1 else None
    if isinstance(only, Text) and not (result.failed or is_native(result) or is_native(only) or only.cache):
        return {"role": "tool", "tool_call_id": result.call_id, "content": only.text}, []
    return _encode_other(result, profile, losses)


def _encode_other(result: ToolResult, profile: ModelProfile, losses: Losses) -> tuple[Wire, list[Wire]]:
    extras = own(result.extras, PROTOCOL_NAME)
    texts, shown = _split_content(result, losses)
    if result.failed:
        texts = _with_error_prefix(texts)
        losses.changed(
            result.where, "Chat has no field for the failure of a tool. The text says it.", "result.error"
        )
    if shown and not texts:
        kinds = " and ".join(dict.fromkeys([_KINDS.get(part["type"], "file") for part in shown]))
        texts = [text_part(f"[{kinds}: see the next message]")]
    if shown:
        label = f"From the result of {result.name or 'the tool'} (call {result.call_id}):"
        shown.insert(0, text_part(label))
    wire: Wire = {"role": "tool", **extras}
    if wire["role"] == "tool" and (result.call_id or not is_native(result)):
        wire["tool_call_id"] = result.call_id
    if "name" in extras and result.name:
        wire["name"] = result.name
    if texts or not is_native(result):
        wire["content"] = _result_content(result, texts, profile)
    return wire, shown


_KINDS = {"image_url": "image", "input_audio": "audio"}


def _result_part(part: AnyPart) -> Text | Media | Foreign:
    if isinstance(part, Text | Media | Foreign):
        return part
    return Foreign(PROTOCOL_NAME, own(part.extras, PROTOCOL_NAME))


def _split_content(result: ToolResult, losses: Losses) -> tuple[list[Wire], list[Wire]]:
    """Parts for the tool message, and parts that must follow it. Media that came from Chat stays inside."""
    texts: list[Wire] = []
    shown: list[Wire] = []
    for part in result.content:
        if isinstance(part, Foreign) and part.origin != PROTOCOL_NAME:
            continue
        if not isinstance(part, Media) or is_native(part):
            texts.append(encode_part(part, losses))
            continue
        wire = encode_media(part, losses)
        if wire["type"] == "text":
            texts.append(wire)
        else:
            why = f"Chat takes no {part.kind} in a tool result. It follows in a message."
            losses.changed(part.where, why, "result.media")
            shown.append(wire)
    return texts, shown


def _result_content(result: ToolResult, texts: list[Wire], profile: ModelProfile) -> str | list[Wire]:
    """A string; an array where the texts came as parts or are several."""
    if not texts:
        return ""
    native = any(is_native(part) or part.cache for part in result.content)
    if len(texts) == 1 and not native:
        return texts[0]["text"]
    if native or profile.text_parts:
        return texts
    return "\n\n".join([text["text"] for text in texts])


def _with_error_prefix(texts: list[Wire]) -> list[Wire]:
    if not texts:
        return [text_part("Error: the tool call failed")]
    first = texts[0]
    if first.get("type") != "text" or _BEGINS_WITH_ERROR.match(first["text"]):
        return texts
    return [{**first, "text": f"Error: {first['text']}"}, *texts[1:]]


def with_completeness(call: ToolCall, cut: bool) -> ToolCall:
    """`cut`: the reply was truncated, so a call whose arguments are not whole JSON was cut too (G28)."""
    broken = cut and (call.kind == "custom" or not jsontext.is_complete(call.arguments))
    return replace(call, complete=False) if broken else call
