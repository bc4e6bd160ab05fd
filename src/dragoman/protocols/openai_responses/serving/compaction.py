"""The three ways to ask for compaction, and what stays beside a summary.

POST /responses/compact                     the answer is the next input: the user's messages, one item
`compaction_trigger`, the last input item   the only output item is a compaction
`context_management`, with a threshold      a compaction item comes first in the output, then the reply
"""

from __future__ import annotations

import hashlib
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Compaction, Wire
from dragoman.protocols.openai_responses.compaction import ITEMS, is_trigger, summary_of
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.conversations import CompactionCodec

_STAYING = frozenset({"user", "developer", "system"})  # roles of messages that compaction does not remove
_CHARACTERS = 4  # in a token


def decode(request: Wire) -> Compaction | None:
    items: Any = request.get("input")
    if is_array(items) and items and is_trigger(items[-1]):
        return Compaction()
    return Compaction(_threshold(managed)) if (managed := request.get("context_management")) else None


def _threshold(managed: Any) -> int:
    """The gateway's `context_management`: an array of objects, of which one type is known."""
    if not is_array(managed):
        raise WireError(PROTOCOL_NAME, "context_management", "expected an array")
    for i, edit in enumerate(managed):
        threshold = edit.get("compact_threshold") if is_object(edit) else None
        if not is_object(edit) or edit.get("type") != "compaction" or type(threshold) is not int:
            problem = 'expected {"type": "compaction", "compact_threshold": a number of tokens}'
            raise WireError(PROTOCOL_NAME, f"context_management[{i}]", problem)
        if threshold < 1:
            where = f"context_management[{i}].compact_threshold"
            raise WireError(PROTOCOL_NAME, where, f"expected a positive number, got {threshold}")
    return min(edit["compact_threshold"] for edit in managed)


def staying(items: list[Any], tokens: int = 0) -> list[Wire]:
    """The messages that stay beside a summary of all `items`: those of the user and of the developer.

    Of the user's, the newest with at most so many `tokens`; 0: all. OpenAI keeps them too, and Codex keeps
    64,000 tokens of them (codex-rs/core/src/compact.rs).
    """
    messages = [item for item in rows(items) if _role(item) in _STAYING]
    left = tokens * _CHARACTERS if tokens else -1
    staying_messages: list[Wire] = []
    for message in reversed(messages):
        if _role(message) == "user" and left >= 0:
            left -= len(jsontext.encode(message))
            if left < 0:
                left = 0
                continue
        staying_messages.append(message)
    return staying_messages[::-1]


def after_compaction(items: list[Any], tokens: int = 0) -> list[Any]:
    """`items` from the newest compaction on, behind the messages that stay; all where there is none."""
    places = [i for i, item in enumerate(items) if is_object(item) and str(item.get("type")) in ITEMS]
    return [*staying(items[: places[-1]], tokens), *items[places[-1] :]] if places else items


def since_summary(request: Wire, tokens: int) -> Wire:
    """Only a summary of ours can stand for what was before it: nobody else reads that of another server."""
    items: Any = request.get("input")
    if not is_array(items):
        return request
    newest = next(
        (item for item in reversed(items) if is_object(item) and str(item.get("type")) in ITEMS), None
    )
    if newest is None or not summary_of(newest):
        return request
    return {**request, "input": after_compaction(items, tokens)}


def _role(item: Wire) -> str:
    return item.get("role") or "" if item.get("type", "message") == "message" else ""


def input_items(request: Wire) -> list[Any]:
    input = request.get("input")
    if isinstance(input, str):
        return [{"type": "message", "role": "user", "content": input}]
    return input if is_array(input) else []


def encode_reply(request: Wire, reply: Wire) -> Wire:
    """The answer of /responses/compact: the next input of the client."""
    messages = [
        _list_message(item, i)
        for i, item in enumerate(staying(input_items(request)))
        if item["role"] == "user"
    ]
    return {
        "id": reply["id"],
        "object": "response.compaction",
        "created_at": reply["created_at"],
        "output": [*messages, *_compactions(reply)],
        "usage": reply["usage"],
    }


def _compactions(reply: Wire) -> list[Wire]:
    return [item for item in rows(reply.get("output")) if str(item.get("type")) in ITEMS]


def _list_message(message: Wire, place: int) -> Wire:
    content = message.get("content")
    content = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    id = message.get("id") or f"msg_{hashlib.sha256(jsontext.encode([place, content])).hexdigest()[:32]}"
    return {"id": id, "type": "message", "status": "completed", "role": "user", "content": content}


COMPACTION = CompactionCodec(
    fields=frozenset({"input", "context_management"}),
    decode=decode,
    without=lambda request: {key: request[key] for key in request if key != "context_management"},
    part_of=lambda reply: next(iter(_compactions(reply)), None),
    compacted=lambda request, part, tokens: {
        **request,
        "input": [*staying(input_items(request), tokens), part],
    },
    since_summary=since_summary,
    marker=b"compaction",
    counts_summary=True,
    encode_reply=encode_reply,
)
