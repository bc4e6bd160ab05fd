"""Whole replies and errors: Chat's, with the names of the conversation and of the reply.

A reply names itself as `response_id`, as a `parent_id` for the next request, or as Chat's own `id`: beside
its choices, or in a `response.created` object before them.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Response, Wire
from dragoman.protocols import openai_chat as chat

SLOT = "qwen-chat"  # the key of the handle in extras
CREATED = "response.created"
_UNKNOWN_CHAT = re.compile(
    r"\b(?:chat|chat_id|parent_id)\b.*\bnot (?:exist|found)", re.IGNORECASE | re.DOTALL
)
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


def decode_error(body: Wire, status: int) -> Failure | None:
    """An unknown conversation is `not_found`, so that the gateway sends the whole conversation again."""
    failed = body.get("success") is False and not body.get("error")
    failure = chat.decode_error({"error": unwrapped(body)} if failed else unwrapped(body), status)
    if failure and failure.kind == "server" and _UNKNOWN_CHAT.search(failure.message):
        return replace(failure, kind="not_found")
    return failure
