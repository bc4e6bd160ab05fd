"""Upstreams that keep the conversation: only what is new is sent.

Such a server names a conversation (`chat_id`) and each of its replies; the next request names the
reply that it follows (`parent_id`) and holds the messages since. A session is a value: what the
upstream has seen is known by a fingerprint, so an edited history starts a new conversation.
"""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from dragoman.core import jsontext
from dragoman.core.model import Message, Request


class Session(Struct, frozen=True):
    """`seen`: how many messages of the history the upstream has; `print`: a fingerprint of them."""

    chat_id: str
    parent_id: str | None = None
    seen: int = 0
    print: str = ""


def continue_session(request: Request, session: Session | None, chat_id: str = "") -> tuple[Request, Session]:
    """The request with only the new messages, and the session to send it with.

    Without a session, or where the history is not the one it knows, a conversation begins: everything
    is sent, under the new `chat_id` (which the caller makes up) and without a parent.
    """
    known = session.seen if session and _continues(request, session) else 0
    if session and known:
        sent = replace(request, system=(), messages=_new(request.messages[known:]))
    else:
        session, sent = Session(chat_id), request
    count = len(request.messages)
    return sent, replace(session, seen=count, print=_fingerprint(request, count))


def replied(session: Session, id: str) -> Session:
    """The session after the upstream's reply of this name."""
    return replace(session, parent_id=id)


def _continues(request: Request, session: Session) -> bool:
    new = _new(request.messages[session.seen :])
    return (
        bool(new) and session.parent_id is not None and _fingerprint(request, session.seen) == session.print
    )


def _new(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What follows the reply that the upstream itself gave."""
    return messages[1:] if messages and messages[0].role == "assistant" else messages


def _fingerprint(request: Request, count: int) -> str:
    """Of the system text and the first messages."""
    told = [[message.role, [_told(part) for part in message.parts]] for message in request.messages[:count]]
    system = [part.text for part in request.system]
    return hashlib.sha256(jsontext.encode([system, told])).hexdigest()


def _told(part: Struct) -> dict[str, Any]:
    """What a part says; where it stood and what only its protocol understands do not count."""
    return {key: value for key, value in asdict(part).items() if key not in ("where", "extras")}
