"""Requests <-> neutral requests.

The model stands in the URL, system text beside the conversation, and most settings in `generationConfig`.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fields import Fields, field_of, own
from dragoman.core.history import decode_head, encode_head, known_head
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.gemini.messages import decode_contents, decode_system, encode_contents, split_system
from dragoman.protocols.gemini.parts import encode_part
from dragoman.protocols.gemini.settings import config_as_body, decode_settings, encode_settings
from dragoman.protocols.gemini.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, camel, is_native, opened

_REMAINDERS = frozenset({"toolConfig", "systemInstruction"})  # the extras hold only what was not decoded


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are decoded, and also kept in the extras: they go back to Gemini unchanged."""
    contents = field_of(body, "contents", PROTOCOL_NAME)
    messages, past = decode_contents(contents, losses)
    request = decode_head(body, head := known_head(contents), _decode_head, losses)
    return replace(request, messages=messages, past=past, head=head)


def _decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the contents."""
    fields = _opened_body(body)
    del fields.rest["contents"]
    model = fields.text("model").removeprefix("models/")
    system = decode_system(fields, losses)
    tools, choice = decode_tools(fields, losses), decode_choice(fields, losses)
    extras = {PROTOCOL_NAME: fields.rest.copy()}
    settings = decode_settings(fields, losses)
    fields.extras(losses, quiet=_REMAINDERS)
    return Request(model, (), system, tools, choice, settings=settings, extras=extras)


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    native = is_native(request)
    extras = own(request.extras, PROTOCOL_NAME)
    system, messages = split_system(request, losses)
    body: Wire = {"contents": encode_contents(messages, request, native, profile, losses)}
    if parts := [wire for part in system for wire in encode_part(part, losses)]:
        body["systemInstruction"] = {"parts": parts, **(extras.get("systemInstruction") or {})}
    body |= encode_head(request, losses, profile, _encode_head)
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
