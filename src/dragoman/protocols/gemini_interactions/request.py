"""Requests <-> neutral requests.

The system text stands beside the conversation, most settings in `generation_config`. Settings are read and
also kept in the extras, so that they go back unchanged.
"""

from __future__ import annotations

from dragoman.core.fields import Fields, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Text, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.gemini_interactions.messages import DecodeInput, EncodeInput, read_input
from dragoman.protocols.gemini_interactions.settings import decode_settings, encode_settings
from dragoman.protocols.gemini_interactions.tools import (
    decode_choice,
    decode_tools,
    encode_choice,
    encode_tools,
)
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native

_EARLIER = "It stands for earlier turns, which are not in this request."
_QUIET = QUIET_REQUEST | {"system_instruction", "tools"}


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the input; an absent one or null stays in the extras, to go back as it came."""
    fields = Fields(body, "", PROTOCOL_NAME)
    if body.get("input") is not None and body["input"] != []:
        del fields.rest["input"]
    model, system = fields.nonempty("model").removeprefix("models/"), fields.nonempty("system_instruction")
    tools = fields.list("tools") if fields.rest.get("tools") != [] else None
    stream, extras = fields.flag("stream"), fields.rest.copy()
    config = fields.fields("generation_config") or Fields({}, "generation_config", PROTOCOL_NAME)
    choice = decode_choice(config, losses)
    if "generation_config" in extras:
        extras["generation_config"] = config.rest.copy()
    settings = decode_settings(fields, config, losses)
    if fields.any("previous_interaction_id") is not None:
        losses.dropped("previous_interaction_id", _EARLIER, "store")
    defaults = {key for key in ("background",) if fields.rest.get(key) is False}
    fields.extras(losses, quiet=_QUIET | defaults)
    return Request(
        model,
        (),
        (Text(system, where="system_instruction"),) if system else (),
        decode_tools(tools or [], losses),
        choice,
        settings=settings,
        stream=stream,
        extras={PROTOCOL_NAME: extras},
    )


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    return (EncodeInput(is_native(request) or profile.transcript, profile.signed_calls),)


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    ours, extras, facts = is_native(request), own(request.extras, PROTOCOL_NAME), messages.facts
    body: Wire = {"model": request.model} if request.model or not (ours or profile.transcript) else {}
    if not facts.is_empty or not ours:
        body["input"] = messages.entries if facts.lone is None else facts.lone
    messages.report(losses)
    system = [part.text for part in (*request.system, *facts.system) if part.text]
    if system:
        body["system_instruction"] = "\n\n".join(system)
    tools = encode_tools(request.tools, losses, profile)
    if tools:
        body["tools"] = tools
    choice = encode_choice(request, tools, losses)
    if request.stream:
        body["stream"] = True
    if ours:
        return _as_it_came(extras, body, choice)
    config, beside = encode_settings(request, profile, losses)
    config |= choice
    return {**body, **({"generation_config": config} if config else {}), **beside}


def _as_it_came(extras: Wire, body: Wire, choice: Wire) -> Wire:
    """`body`, with the settings that the client wrote."""
    config: Wire = {**(extras.get("generation_config") or {}), **choice}
    kept = {"generation_config": config} if config or "generation_config" in extras else {}
    return {**extras, **body, **kept}


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="input",
    read=read_input,
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeInput(whole),
    decode_holding=lambda head: DecodeInput(),
    encode_messages=encode_messages,
    encode_around=encode_around,
)
