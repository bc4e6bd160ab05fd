"""Message batches: the requests come in the body, the results are JSON lines in any order.

The vendor's counts stand still until the whole batch has ended, and so do these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.jobs import (
    BatchCodec,
    BatchLine,
    BatchRequest,
    BatchState,
    LineOutcome,
    PageQuery,
    encode_losses,
    page_limit,
)

_MOST_LINES, _LARGEST_PAGE = 100_000, 1000
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_STATUS = {"completed": "succeeded", "failed": "errored", "cancelled": "canceled", "expired": "expired"}


def _wrong(where: str, problem: str) -> WireError:
    return WireError(PROTOCOL_NAME, where, problem)


def _read_lines(body: Wire, content: bytes) -> tuple[list[BatchLine], list[Wire]]:
    requests = body.get("requests")
    if not is_array(requests) or not requests:
        raise _wrong("requests", f"expected an array of requests, got {describe(requests)}")
    if len(requests) > _MOST_LINES:
        raise _wrong("requests", f"at most {_MOST_LINES} requests, got {len(requests)}")
    seen: set[str] = set()
    return [_read_line(request, f"requests.{i}", seen) for i, request in enumerate(requests)], []


def _read_line(request: Any, where: str, seen: set[str]) -> BatchLine:
    request = request if is_object(request) else {}
    custom_id, params = request.get("custom_id"), request.get("params")
    if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
        raise _wrong(
            f"{where}.custom_id", f"expected 1 to 64 letters, digits, _ or -, got {describe(custom_id)}"
        )
    if custom_id in seen:
        raise _wrong(f"{where}.custom_id", f"{custom_id!r} is not unique")
    seen.add(custom_id)
    if not is_object(params):
        raise _wrong(f"{where}.params", f"expected an object, got {describe(params)}")
    if params.get("stream"):
        raise _wrong(f"{where}.params.stream", "a batch has no streams")
    return BatchLine(custom_id, "/v1/messages", jsontext.encode(params))


def _encode_batch(batch: BatchState) -> Wire:
    ended, under_way = batch.ended is not None, "canceling" if batch.cancelled else "in_progress"
    counts = {name: batch.counts.get(status, 0) if ended else 0 for status, name in _STATUS.items()}
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else under_way,
        "request_counts": {"processing": 0 if ended else batch.total, **counts},
        "created_at": _time(batch.created),
        "expires_at": _time(batch.deadline),
        "ended_at": _time(batch.ended),
        "cancel_initiated_at": _time(batch.cancelled),
        "archived_at": None,
        "results_url": f"{batch.url}/v1/messages/batches/{batch.id}/results" if ended else None,
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode_result(line: LineOutcome) -> Wire:
    result: Wire = {"type": _STATUS[line.status]}
    if line.status == "completed":
        result["message"] = line.body
    elif line.status == "failed":
        result["error"] = {"request_id": line.request_id or None, **(line.body or {})}
    return {"custom_id": line.custom_id, "result": result, **encode_losses(line.losses)}


def encode_page(data: Sequence[Wire], has_more: bool) -> Wire:
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": list(data), "has_more": has_more, "first_id": first, "last_id": last}


def decode_page(query: Mapping[str, str]) -> PageQuery:
    limit = page_limit(query, 20, _LARGEST_PAGE, PROTOCOL_NAME)
    return PageQuery(limit, query.get("after_id", ""), query.get("before_id", ""))


BATCHES = BatchCodec(
    id_prefix="msgbatch_",
    decode_create=lambda body: BatchRequest({}),
    read_lines=_read_lines,
    encode_batch=_encode_batch,
    encode_created=lambda batch: batch,
    encode_page=encode_page,
    encode_result=_encode_result,
    encode_deleted=lambda id: {"id": id, "type": "message_batch_deleted"},
    decode_page=decode_page,
    unknown=lambda id: Failure("not_found", f"no message batch {id!r} is stored here", 404),
)
