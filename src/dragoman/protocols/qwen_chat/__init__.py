"""`qwen-chat`: Chat from a server that keeps the conversation.

A request names the conversation (`chat_id`) and the reply that it goes on from (`parent_id`, null at the
beginning), and holds only what is new. A reply says its name as `response_id`, as a `parent_id` for the next
request, or as Chat's own `id`: beside its choices, or ahead of them in `response.created`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from uuid import uuid4

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Session
from dragoman.core.events import Event, ResponseEnd
from dragoman.core.fields import own
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request, Response, Wire
from dragoman.core.protocol import Protocol
from dragoman.framing.sse import SSE
from dragoman.protocols import openai_chat as chat

SLOT = "qwen-chat"
_CREATED = "response.created"
_OWN = ("chat_id", "parent_id", "response_id", "message_id")
_NAMING = re.compile(rb'"(?:id|%b)"' % b"|".join(name.encode() for name in (*_OWN, _CREATED)))
_FORGOTTEN = re.compile(r"\b(?:chat|chat_id|parent_id)\b.*\bnot (?:exist|found)", re.IGNORECASE | re.DOTALL)


def begin() -> Wire:
    return {"chat_id": str(uuid4()), "parent_id": None}


def follow(sent: Wire, heard: Wire) -> Wire | None:
    """A reply that only repeats the `parent_id` it was asked with has not named itself by it."""
    again = heard.get("parent_id") == sent.get("parent_id")
    parent = heard.get("response_id") or (None if again else heard.get("parent_id")) or heard.get("id")
    return {"chat_id": heard.get("chat_id") or sent.get("chat_id"), "parent_id": parent} if parent else None


def encode_request(request: Request, losses: Losses) -> Wire:
    return own(request.extras, SLOT) | chat.encode_request(request, losses)


def decode_response(body: Wire, losses: Losses) -> Response:
    rest, heard = _apart(_opened(body))
    response = chat.decode_response(rest, losses)
    return replace(response, extras={**(response.extras or {}), SLOT: heard})


class StreamDecoder(chat.StreamDecoder):
    """Chat's events; the last one tells what the stream said about the conversation."""

    def __init__(self, losses: Losses) -> None:
        super().__init__(losses)
        self._heard: Wire = {}

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if _NAMING.search(frame.data):
            frame = self._listened(frame)
        return [self._told(event) for event in super().feed(frame)]

    def close(self) -> Iterable[Event]:
        return [self._told(event) for event in super().close()]

    def _listened(self, frame: Frame) -> Frame:
        body = jsontext.decode_object(frame.data.decode("utf-8", "replace"))
        if body is None:  # Chat's decoder says what is wrong with it
            return frame
        rest, heard = _apart(body)
        self._heard |= heard
        return Frame(frame.event, jsontext.encode(rest))

    def _told(self, event: Event) -> Event:
        if type(event) is not ResponseEnd:
            return event
        return replace(event, extras={**(event.extras or {}), SLOT: self._heard})


def decode_error(body: Wire, status: int) -> Failure | None:
    """Some servers say with a failure of their own, and in words, that a conversation is not there."""
    failed = body.get("success") is False and not body.get("error")
    failure = chat.decode_error({"error": _opened(body)} if failed else body, status)
    if failure and failure.kind == "server" and _FORGOTTEN.search(failure.message):
        return replace(failure, kind="not_found")
    return failure


def _opened(body: Wire) -> Wire:
    """Some servers wrap what they say: `{"success": …, "data": {…}}`."""
    data = body.get("data")
    return data if is_object(data) and "choices" not in body else body


def _apart(body: Wire) -> tuple[Wire, Wire]:
    """Chat's part of a reply, and what it says about the conversation."""
    created = body.get(_CREATED)
    names = {**(created if is_object(created) else {}), **body}
    heard = {name: value for name in ("id", *_OWN) if isinstance(value := names.get(name), str) and value}
    return {name: value for name, value in body.items() if name not in (*_OWN, _CREATED)}, heard


CODEC = replace(
    chat.CODEC,
    encode_request=encode_request,
    decode_response=decode_response,
    stream_decoder=StreamDecoder,
    decode_error=decode_error,
    session=Session(slot=SLOT, dialect="roo-xml", begin=begin, follow=follow),
)

# Its server looks like Chat's; no client speaks it to us.
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=chat.PROTOCOL.server, client_facing=False)
