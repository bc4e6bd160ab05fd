"""Requests <-> neutral requests.

System text keeps its place among the messages; web search is a setting beside the tools.
"""

from __future__ import annotations

from dragoman.core.fields import Fields, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.openai_chat.messages import (
    DecodeChatMessages,
    EncodeMessages,
    encode_texts,
    with_cache_control,
)
from dragoman.protocols.openai_chat.settings import decode_settings, encode_settings
from dragoman.protocols.openai_chat.tools import decode_choice, decode_tools, encode_choice, encode_tools
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the messages. Settings are read, and also kept in the extras: they go back unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    fields.rest.pop("messages", None)
    request = Request(
        fields.nonempty("model"),
        (),
        (),
        decode_tools(fields, losses),
        decode_choice(fields, losses) if "tool_choice" in body or "function_call" in body else None,
        fields.take("parallel_tool_calls", bool),
        stream=fields.flag("stream"),
        extras={PROTOCOL_NAME: fields.rest.copy()},
        settings=decode_settings(fields, losses),
    )
    if is_object(usage := fields.rest.get("usage")) and usage.keys() <= {"include"}:
        del fields.rest["usage"]  # OpenRouter's word for include_usage: a reply always counts its tokens
    fields.extras(losses, quiet=QUIET_REQUEST)
    return request


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    thinks = request.settings.effort != "none" and request.settings.budget != 0
    return (EncodeMessages(profile, thinks),)


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    native = is_native(request)
    body: Wire = {"model": request.model} if request.model or not (native or profile.transcript) else {}
    front: list[AnyPart] = [*request.system, *messages.facts]
    content = encode_texts(front, profile, losses) if front else ""
    body["messages"] = messages.entries
    if content:
        first: Wire = {"role": "system", "content": content}
        if profile.cache_breakpoints == "cache_control":
            first = with_cache_control(first)
        body["messages"] = [first, *messages.entries]
    messages.report(losses)
    body |= _encode_head(request, losses, profile)
    return own(request.extras, PROTOCOL_NAME) | body if native else body


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Everything but the model and the messages."""
    tools = encode_tools(request, profile, losses)
    chosen = request.tool_choice or request.parallel is not None
    body = tools | (encode_choice(request, tools, profile, losses) if chosen else {})
    if request.stream:
        body["stream"] = True
    if is_native(request):
        return body
    if request.stream and not profile.transcript:
        body["stream_options"] = {"include_usage": True}
    return body | encode_settings(request, "tools" in tools, profile, losses)


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="messages",
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeChatMessages(),
    encode_messages=encode_messages,
    encode_around=encode_around,
)
