"""`qwen-chat`: Chat from a server that stores the conversation.

A request names the conversation (`chat_id`) and the reply that it continues (`parent_id`, null for the first
one), and holds only what is new. Everything else is Chat's.
"""

from __future__ import annotations

from uuid import uuid4

from msgspec.structs import replace

from dragoman.core.codec import SessionCodec
from dragoman.core.fields import own
from dragoman.core.fold import EncodedMessages
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.framing.sse import SSE
from dragoman.protocols import openai_chat as chat
from dragoman.protocols.qwen_chat.response import SLOT, decode_error, decode_response
from dragoman.protocols.qwen_chat.stream_decoder import StreamDecoder
from dragoman.serving.protocol import Protocol


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    body = chat.CODEC.conversation.encode_around(request, messages, losses, profile)
    return own(request.extras, SLOT) | body


def begin() -> Wire:
    """The handle of a new conversation."""
    return {"chat_id": str(uuid4()), "parent_id": None}


def follow(sent: Wire, received: Wire) -> Wire | None:
    """The handle of the next request. A reply that repeats its request's `parent_id` is not named by it."""
    repeated = received.get("parent_id") == sent.get("parent_id")
    named = None if repeated else received.get("parent_id")
    parent = received.get("response_id") or named or received.get("id")
    chat_id = received.get("chat_id") or sent.get("chat_id")
    return {"chat_id": chat_id, "parent_id": parent} if parent else None


CODEC = replace(
    chat.CODEC,
    conversation=replace(chat.CODEC.conversation, encode_around=encode_around),
    decode_response=decode_response,
    stream_decoder=StreamDecoder,
    decode_error=decode_error,
    session=SessionCodec(slot=SLOT, dialect="roo-xml", begin=begin, follow=follow),
)

# Its server looks like Chat's; no client sends us this protocol.
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=chat.PROTOCOL.server)
