"""Error bodies: Chat's, wrapped by some servers, which report an unknown conversation in words only."""

from __future__ import annotations

import re

from msgspec.structs import replace

from dragoman.core.model import Failure, Wire
from dragoman.protocols import openai_chat as chat
from dragoman.protocols.qwen_chat.response import unwrapped

_UNKNOWN_CHAT = re.compile(
    r"\b(?:chat|chat_id|parent_id)\b.*\bnot (?:exist|found)", re.IGNORECASE | re.DOTALL
)


def decode_error(body: Wire, status: int) -> Failure | None:
    """An unknown conversation is `not_found`, so that the gateway sends the whole conversation again."""
    failed = body.get("success") is False and not body.get("error")
    failure = chat.decode_error({"error": unwrapped(body)} if failed else unwrapped(body), status)
    if failure and failure.kind == "server" and _UNKNOWN_CHAT.search(failure.message):
        return replace(failure, kind="not_found")
    return failure
