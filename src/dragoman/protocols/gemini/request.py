"""Requests <-> neutral requests.

The model stands in the URL, system text beside the conversation, and most settings in `generationConfig`.
"""

from __future__ import annotations

from dragoman.core.fields import Fields, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.gemini.messages import (
    DecodeContents,
    EncodeContents,
    PlaceSystem,
    decode_system,
    read_contents,
)
from dragoman.protocols.gemini.parts import encode_part
from dragoman.protocols.gemini.settings import config_as_body, decode_settings, encode_settings
from dragoman.protocols.gemini.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, camel, is_native, opened

_REMAINDERS = frozenset({"toolConfig", "systemInstruction"})  # the extras hold only what was not decoded


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the contents. Settings are read, and also kept in the extras: they go back unchanged."""
    fields = _opened_body(body)
    fields.rest.pop("contents", None)
    model = fields.text("model").removeprefix("models/")
    system = decode_system(fields, losses)
    tools, choice = decode_tools(fields, losses), decode_choice(fields, losses)
    extras = {PROTOCOL_NAME: fields.rest.copy()}
    settings = decode_settings(fields, losses)
    fields.extras(losses, quiet=_REMAINDERS)
    return Request(model, (), system, tools, choice, settings=settings, extras=extras)


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    native = is_native(request)
    nested = native or profile.media_in_results
    return PlaceSystem(), EncodeContents(native, nested, profile.signed_calls, profile.prefill)


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    native = is_native(request)
    extras = own(request.extras, PROTOCOL_NAME)
    body: Wire = {"contents": messages.entries}
    messages.report(losses)
    if parts := [wire for part in (*request.system, *messages.facts) for wire in encode_part(part, losses)]:
        body["systemInstruction"] = {"parts": parts, **(extras.get("systemInstruction") or {})}
    body |= _encode_head(request, losses, profile)
    if not native:
        return body
    return body | {key: value for key, value in extras.items() if key not in _REMAINDERS or key not in body}


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Everything but the contents and the system text, which Chat has among its messages."""
    body: Wire = {}
    if tools := encode_tools(request.tools, losses, profile):
        body["tools"] = tools
    body |= encode_choice(request, tools, losses)
    return body if is_native(request) else body | encode_settings(request, profile, losses)


def _opened_body(body: Wire) -> Fields:
    """`config` is how users of the JavaScript SDK write what stands in several places of a body."""
    fields = opened(body, "")
    if not is_object(fields.rest.get("config")):
        return fields
    top_level, generation, rest = config_as_body(fields.rest.pop("config"))
    fields.rest = top_level | fields.rest
    if generation:
        beside = fields.rest.get("generationConfig")
        fields.rest["generationConfig"] = generation | (camel(beside) if is_object(beside) else {})
    if rest:
        fields.rest["config"] = rest
    return fields


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="contents",
    read=read_contents,
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeContents(whole),
    encode_messages=encode_messages,
    encode_around=encode_around,
)
