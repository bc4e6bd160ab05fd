"""Requests <-> neutral requests.

`instructions` stand beside the conversation, further system text inside it. Settings are read and also kept
in the extras, so that they go back unchanged.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, field_of, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import Compaction, Request, Settings, Text, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.openai_responses.compaction import is_trigger
from dragoman.protocols.openai_responses.hosted import declares_search
from dragoman.protocols.openai_responses.messages import DecodeItems, EncodeItems, InputText, repeats
from dragoman.protocols.openai_responses.settings import decode_settings, encode_settings
from dragoman.protocols.openai_responses.tools import (
    decode_choice,
    decode_loaded,
    decode_tools,
    encode_choice,
    encode_tools,
    hoists,
)
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native

_DEFAULTS = {"truncation": "disabled", "background": False}
_EARLIER = "It stands for earlier turns, which are not in this request."


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the input; an absent or empty one stays in the extras, to go back as it came."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if body.get("input") or body.get("input") == "":
        del fields.rest["input"]
    model, choice = fields.nonempty("model"), decode_choice(fields, losses)
    instructions = fields.nonempty("instructions")
    declared = fields.list("tools") if fields.rest.get("tools") != [] else None
    return Request(
        model,
        (),
        (Text(instructions, where="instructions"),) if instructions else (),
        decode_tools(declared or [], losses, "tools"),
        choice,
        stream=fields.flag("stream"),
        extras={PROTOCOL_NAME: fields.rest.copy()},
        parallel=fields.take("parallel_tool_calls", bool),
        settings=_settings(fields, losses),
        compaction=_compaction(body.get("input")),
    )


def load(head: Request, items: list[tuple[int, Any]], losses: Losses) -> Request:
    tools = decode_loaded(items, head.tools, losses)
    return head if tools is head.tools else replace(head, tools=tools)


def decode_messages(head: Request, whole: bool) -> Fold:
    return DecodeItems(declares_search(head.tools, Losses()), whole)


def decode_holding(head: Request) -> Fold:
    return decode_messages(head, True)


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    return (EncodeItems(not is_native(request) and not request.system, bool(request.tools)),)


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    ours, facts = is_native(request), messages.facts
    body: Wire = {"model": request.model} if request.model or not (ours or profile.transcript) else {}
    if system := (facts.instructions,) if facts.instructions else request.system:
        body["instructions"] = _encode_instructions(system, ours, losses)
    if not facts.is_empty or not ours:
        body["input"] = messages.entries if facts.string is None else facts.string
    messages.report(losses)
    if request.compaction and is_native(request.compaction):
        body["input"] = [*body.get("input", ()), own(request.compaction.extras, PROTOCOL_NAME)]
    body |= _encode_head(request, losses, profile)
    if ours:
        extras = own(request.extras, PROTOCOL_NAME)
        if (
            request.parallel is None and extras.get("parallel_tool_calls") is not None
        ):  # a dialect removed the tools
            extras = {key: value for key, value in extras.items() if key != "parallel_tool_calls"}
        return extras | body
    return body


def _encode_instructions(system: tuple[Text, ...], ours: bool, losses: Losses) -> str:
    for part in system:
        if part.cache and not ours:
            why = "Instructions are one text, which is cached together with the conversation."
            losses.dropped(f"{part.where}.cache", why, "cache.breakpoint")
    return "\n\n".join(part.text for part in system if part.text)


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Everything but the model, the instructions and the input."""
    body: Wire = {}
    tools = encode_tools(request.tools, losses)
    if tools:
        body["tools"] = tools
    body |= encode_choice(request, tools, losses)
    if request.stream:
        body["stream"] = True
    return body if is_native(request) else body | encode_settings(request, bool(tools), profile, losses)


def _input(body: Wire, field: str, protocol: str) -> list[Any]:
    items = field_of(body, field, protocol)
    if items is None:
        return []
    if isinstance(items, str):
        return [InputText(items)]
    if not is_array(items):
        raise WireError(protocol, field, f"expected a string or an array, got {describe(items)}")
    return items[:-1] if _compaction(items) else items


def _compaction(items: Any) -> Compaction | None:
    """Of a request whose last item demands it."""
    if not is_array(items) or not items or not is_trigger(items[-1]):
        return None
    return Compaction(extras={PROTOCOL_NAME: items[-1]})


def _settings(fields: Fields, losses: Losses) -> Settings:
    settings = decode_settings(fields, losses)
    for key in ("previous_response_id", "conversation"):
        if fields.any(key) is not None:
            losses.dropped(key, _EARLIER, "store")
    if fields.any("prompt") is not None:
        losses.dropped(
            "prompt", "Only its own server stores this template, so its text was not sent.", "prompt"
        )
    quiet = QUIET_REQUEST
    for key, value in _DEFAULTS.items():
        if key in fields.rest and fields.rest[key] == value:
            quiet |= {key}
    fields.extras(losses, quiet=quiet)
    return settings


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="input",
    read=_input,
    decode_head=decode_head,
    decode_messages=decode_messages,
    decode_holding=decode_holding,
    hoists=hoists,
    repeats=repeats,
    load=load,
    head_first=True,
    encode_messages=encode_messages,
    encode_around=encode_around,
)
