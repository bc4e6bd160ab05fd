"""Whole replies: Chat's, with the names of the conversation and of the reply.

A reply names itself as `response_id`, as a `parent_id` for the next request, or as Chat's own `id`: beside
its choices, or in a `response.created` object before them.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Response, Wire
from dragoman.protocols import openai_chat as chat

SLOT = "qwen-chat"  # the key of the handle in extras
CREATED = "response.created"
NAMES = ("chat_id", "parent_id", "response_id", "message_id")


def decode_response(body: Wire, losses: Losses) -> Response:
    rest, names = split_names(unwrapped(body))
    response = chat.decode_response(rest, losses)
    return replace(response, extras={**(response.extras or {}), SLOT: names})


def unwrapped(body: Wire) -> Wire:
    """Some servers wrap the reply: `{"success": …, "data": {…}}`."""
    data = body.get("data")
    return data if is_object(data) and "choices" not in body else body


def split_names(body: Wire) -> tuple[Wire, Wire]:
    """Chat's part of a reply, and the names that it has beside."""
    created = body.get(CREATED)
    fields = {**(created if is_object(created) else {}), **body}
    names = {name: value for name in ("id", *NAMES) if isinstance(value := fields.get(name), str) and value}
    return {name: value for name, value in body.items() if name not in (*NAMES, CREATED)}, names
