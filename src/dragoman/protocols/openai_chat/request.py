"""Requests <-> neutral requests.

System text keeps its place among the messages; web search is a setting beside the tools.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fields import Fields, own
from dragoman.core.history import decode_head, decode_turns, encode_head, known_head, turns_of
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.openai_chat.messages import decode_message, encode_messages
from dragoman.protocols.openai_chat.settings import decode_settings, encode_settings
from dragoman.protocols.openai_chat.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are read, and also kept in the extras: they go back to Chat unchanged."""
    wires = turns_of(body, "messages", PROTOCOL_NAME)
    messages, past = decode_turns(wires, "messages", decode_message, losses)
    request = decode_head(body, head := known_head(wires), _decode_head, losses)
    return replace(request, messages=messages, past=past, head=head)


def _decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the messages."""
    fields = Fields(body, "", PROTOCOL_NAME)
    del fields.rest["messages"]
    request = Request(
        fields.nonempty("model"),
        (),
        (),
        decode_tools(fields, losses),
        decode_choice(fields, losses),
        fields.take("parallel_tool_calls", bool),
        stream=fields.flag("stream"),
        extras={PROTOCOL_NAME: fields.rest.copy()},
        settings=decode_settings(fields, losses),
    )
    fields.extras(losses, quiet=QUIET_REQUEST)
    return request


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    native = is_native(request)
    body: Wire = {"model": request.model} if request.model or not native else {}
    body["messages"] = encode_messages(request, profile, losses)
    body |= encode_head(request, losses, profile, _encode_head)
    return own(request.extras, PROTOCOL_NAME) | body if native else body


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Everything but the model and the messages."""
    tools = encode_tools(request, profile, losses)
    body = tools | encode_choice(request, tools, profile, losses)
    if request.stream:
        body["stream"] = True
    if is_native(request):
        return body
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    return body | encode_settings(request, "tools" in tools, profile, losses)
