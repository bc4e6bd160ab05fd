"""Conversations: lists of items that the server keeps, and that a request names instead of a response.

A list shows each item with an id, messages in their long form, and comes in pages.
Limits of metadata and of the items in one request are OpenAI's (API reference, Conversations).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.openai_responses.compaction import is_trigger
from dragoman.protocols.openai_responses.errors import ITEM_NOT_FOUND, LOCKED, NOT_FOUND
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.conversations import ConversationCodec
from dragoman.serving.jobs import page_limit
from dragoman.serving.routes import Route

_MOST_ITEMS, _MOST_PAIRS, _LONGEST_KEY, _LONGEST_VALUE = 20, 16, 64, 512
_DEFAULT_PAGE, _LARGEST_PAGE = 20, 100  # items on a page
_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
}

ROUTES = (
    Route("POST", "/v1/conversations", "conversation.create"),
    Route("GET", "/v1/conversations/{id}", "conversation.retrieve"),
    Route("POST", "/v1/conversations/{id}", "conversation.update"),
    Route("DELETE", "/v1/conversations/{id}", "conversation.delete"),
    Route("GET", "/v1/conversations/{id}/items", "conversation.items"),
    Route("POST", "/v1/conversations/{id}/items", "conversation.add"),
    Route("GET", "/v1/conversations/{id}/items/{item}", "conversation.item"),
    Route("DELETE", "/v1/conversations/{id}/items/{item}", "conversation.remove"),
)


def decode_conversation(request: Wire) -> str:
    """The id of the conversation that a request belongs to; empty: none."""
    named = request.get("conversation")
    id = named.get("id") if is_object(named) else named
    if id is None and named is None:
        return ""
    if not isinstance(id, str) or not id:
        raise WireError(PROTOCOL_NAME, "conversation", f"expected an id, got {describe(named)}")
    if request.get("previous_response_id"):
        problem = "a request has either a conversation or a previous_response_id"
        raise WireError(PROTOCOL_NAME, "conversation", problem)
    return id


def decode_metadata(body: Wire, required: bool) -> Wire:
    if required and "metadata" not in body:
        raise WireError(PROTOCOL_NAME, "metadata", "field required")
    metadata: Any = body.get("metadata")
    if metadata is None:
        return {}
    if not is_object(metadata):
        raise WireError(PROTOCOL_NAME, "metadata", f"expected an object, got {describe(metadata)}")
    if len(metadata) > _MOST_PAIRS:
        raise WireError(PROTOCOL_NAME, "metadata", f"expected at most {_MOST_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > _LONGEST_KEY or not isinstance(value, str) or len(value) > _LONGEST_VALUE:
            problem = f"expected a key of {_LONGEST_KEY} and a string of {_LONGEST_VALUE} characters at most"
            raise WireError(PROTOCOL_NAME, f"metadata.{key[:_LONGEST_KEY]}", problem)
    return metadata


def decode_items(body: Wire, required: bool) -> list[Wire]:
    items = body.get("items")
    if items is None and not required:
        return []
    if not is_array(items):
        raise WireError(PROTOCOL_NAME, "items", f"expected an array, got {describe(items)}")
    if len(items) > _MOST_ITEMS:
        raise WireError(PROTOCOL_NAME, "items", f"expected at most {_MOST_ITEMS} items, got {len(items)}")
    for i, item in enumerate(items):
        if not is_object(item) or not (item.get("type") or item.get("role")) or is_trigger(item):
            raise WireError(PROTOCOL_NAME, f"items[{i}]", "expected an item with a type or a role")
    return items


def with_ids(items: Sequence[Wire]) -> list[Wire]:
    """A random part tells an item from an equal one in the same list."""
    random = os.urandom(16)
    return [_with_id(item, random + i.to_bytes(4, "big")) for i, item in enumerate(items)]


def spell_out(item: Wire, name: str) -> Wire:
    """`item` with all that a list shows of it; `name` is that of one without an id."""
    kind = item.get("type") or "message"
    out = {"id": f"{_ID_PREFIXES.get(kind, 'item')}_{name}", **item, "type": kind}
    if kind == "message":
        content = item.get("content")
        if isinstance(content, str):
            written: Wire = {"type": "output_text", "text": content, "annotations": []}
            read = {"type": "input_text", "text": content}
            out["content"] = [written if item.get("role") == "assistant" else read]
        out.setdefault("status", "completed")
    elif kind.endswith("_output"):
        out.setdefault("status", "completed")
    return out


def _with_id(item: Wire, random: bytes) -> Wire:
    if isinstance(item.get("id"), str) and item["id"]:
        return spell_out(item, "")
    return spell_out(item, hashlib.sha256(random + jsontext.encode(item)).hexdigest()[:32])


def page(listed: Sequence[Wire], query: Mapping[str, str]) -> Wire:
    """`listed`, oldest first, as `order`, `after` and `limit` in the query ask for it."""
    ordered = list(listed) if _choice(query, "order", ("desc", "asc")) == "asc" else list(reversed(listed))
    after, limit = query.get("after"), page_limit(query, _DEFAULT_PAGE, _LARGEST_PAGE, PROTOCOL_NAME)
    ids = [item.get("id") for item in ordered]
    if after and after not in ids:
        raise WireError(PROTOCOL_NAME, "after", f"no item {after!r} is in this list")
    start = ids.index(after) + 1 if after else 0
    return whole_list(ordered[start : start + limit], start + limit < len(ordered))


def whole_list(shown: Sequence[Wire], has_more: bool = False) -> Wire:
    first, last = (shown[0].get("id"), shown[-1].get("id")) if shown else (None, None)
    return {"object": "list", "data": [*shown], "first_id": first, "last_id": last, "has_more": has_more}


def _choice(query: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str:
    """The first of `allowed` is the default."""
    value = query.get(key, allowed[0])
    if value not in allowed:
        raise WireError(PROTOCOL_NAME, key, f"expected {' or '.join(allowed)}, got {value!r}")
    return value


CONVERSATIONS = ConversationCodec(
    id_prefix="conv_",
    decode_metadata=decode_metadata,
    decode_items=decode_items,
    with_ids=with_ids,
    encode=lambda id, made, meta: {"id": id, "object": "conversation", "created_at": made, "metadata": meta},
    encode_deleted=lambda id: {"id": id, "object": "conversation.deleted", "deleted": True},
    encode_page=page,
    encode_added=whole_list,
    items_of_reply=lambda reply: rows(reply.get("output")),
    label=lambda reply, id: {**reply, "conversation": {"id": id}},
    unknown=lambda id: Failure("not_found", f"Conversation with id '{id}' not found.", 404, NOT_FOUND),
    unknown_item=lambda id: Failure("not_found", f"Item with id '{id}' not found.", 404, ITEM_NOT_FOUND),
    locked=Failure(
        "bad_request",
        "Another process is currently operating on this conversation. Please retry in a few seconds.",
        400,
        LOCKED,
    ),
)
