"""Lists of items as a server gives them back: each with an id, messages in their long form, in pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.jobs import page_limit
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

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


def spelled_out(item: Wire, name: str) -> Wire:
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


def with_random_id(item: Wire, random: bytes) -> Wire:
    """`item` for a list in which nothing else tells it from an equal one."""
    if isinstance(item.get("id"), str) and item["id"]:
        return spelled_out(item, "")
    return spelled_out(item, hashlib.sha256(random + jsontext.encode(item)).hexdigest()[:32])


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
