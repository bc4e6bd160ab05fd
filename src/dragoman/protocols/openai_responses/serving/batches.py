"""Batches as OpenAI's clients see them. A line of the input file names an endpoint and its body.

What is wrong with a line fails the whole batch before anything runs, with the number of the line and a code;
what fails when a line runs is a line of the error file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_object
from dragoman.core.model import Failure, Wire
from dragoman.protocols.openai_responses.serving.conversations import whole_list
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.jobs import (
    DAY,
    BatchCodec,
    BatchLine,
    BatchRequest,
    BatchState,
    LineOutcome,
    PageQuery,
    encode_losses,
    page_limit,
)

ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings")
_MOST_LINES, _MOST_ERRORS = 50_000, 100
_MOST_METADATA, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512
_SHORTEST_LIFE, _LONGEST_LIFE = 3600, 30 * DAY
_NOT_RUN = {
    "cancelled": ("batch_cancelled", "This request was not executed, because the batch was cancelled."),
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
}


def wrong(field: str, problem: str) -> WireError:
    return WireError(PROTOCOL_NAME, field, problem)


def _decode_create(body: Wire) -> BatchRequest:
    file, endpoint, window = (body.get(key) for key in ("input_file_id", "endpoint", "completion_window"))
    if not isinstance(file, str) or not file:
        raise wrong("input_file_id", f"expected the id of a file, got {describe(file)}")
    if endpoint not in ENDPOINTS:
        raise wrong("endpoint", f"expected one of {', '.join(ENDPOINTS)}, got {describe(endpoint)}")
    if window != "24h":
        raise wrong("completion_window", f"expected '24h', got {describe(window)}")
    settings = {"input_file_id": file, "endpoint": endpoint, "metadata": _metadata(body.get("metadata"))}
    life = body.get("output_expires_after")
    return BatchRequest(settings, file, decode_life(life, "output_expires_after") if is_object(life) else 0)


def _metadata(value: Any) -> Wire | None:
    if value is None:
        return None
    fits = is_object(value) and len(value) <= _MOST_METADATA
    if not fits or not all(
        len(key) <= _LONGEST_KEY and isinstance(text, str) and len(text) <= _LONGEST_VALUE
        for key, text in value.items()
    ):
        raise wrong("metadata", "expected at most 16 pairs of short strings")
    return value


def decode_life(given: Mapping[str, Any], where: str) -> float:
    seconds = given.get("seconds")
    if given.get("anchor") != "created_at":
        raise wrong(f"{where}.anchor", "expected 'created_at'")
    whole = int(seconds) if isinstance(seconds, int | str) and str(seconds).isdigit() else 0
    if not _SHORTEST_LIFE <= whole <= _LONGEST_LIFE:
        raise wrong(f"{where}.seconds", f"expected {_SHORTEST_LIFE} to {_LONGEST_LIFE:.0f}")
    return whole


def _read_lines(request: Wire, content: bytes) -> tuple[list[BatchLine], list[Wire]]:
    endpoint = str(request.get("endpoint"))
    lines: list[BatchLine] = []
    errors: list[Wire] = []
    seen: set[str] = set()
    texts = [(number, text) for number, text in enumerate(content.splitlines(), 1) if text.strip()]
    if not texts:
        return [], [_error(None, "empty_file", "The input file is empty. Please ensure it is not empty.")]
    if len(texts) > _MOST_LINES:
        problem = f"The input file has {len(texts)} requests; a batch has at most {_MOST_LINES}."
        return [], [_error(None, "too_many_requests", problem)]
    for number, text in texts:
        line = _read_line(text, number, endpoint, seen)
        if isinstance(line, BatchLine):
            lines.append(line)
        elif len(errors) < _MOST_ERRORS:
            errors.append(line)
    return lines, errors


def _read_line(text: bytes, number: int, endpoint: str, seen: set[str]) -> BatchLine | Wire:
    if text.count(b",") > jsontext.MOST_VALUES:
        problem = f"This line has more than {jsontext.MOST_VALUES} JSON values."
        return _error(number, "invalid_request", problem)
    try:
        line = jsontext.decode(text)
    except ValueError:
        return _error(number, "invalid_json_line", "This line is not parseable as valid JSON.")
    if not is_object(line):
        return _error(number, "invalid_json_line", "This line is no JSON object.")
    custom_id, url, body = line.get("custom_id"), line.get("url"), line.get("body")
    if not isinstance(custom_id, str) or not custom_id or not custom_id.isprintable():
        return _missing(number, "custom_id")
    if custom_id in seen:
        problem = f"The custom_id '{custom_id}' for this request is a duplicate of another request."
        return _error(number, "duplicate_custom_id", problem, "custom_id")
    seen.add(custom_id)
    if line.get("method") != "POST":
        return _error(number, "invalid_method", "The method of a request must be POST.", "method")
    if url != endpoint:
        problem = f"The URL provided for this request does not match the batch endpoint {endpoint}."
        return _error(number, "invalid_url", problem, "url")
    if not is_object(body):
        return _missing(number, "body")
    if not isinstance(body.get("model"), str):
        return _missing(number, "body.model")
    for field in ("stream", "background"):
        if body.get(field):
            return _error(number, "invalid_request", f"{field} is not possible in a batch.", f"body.{field}")
    return BatchLine(custom_id, endpoint, jsontext.encode(body))


def _missing(number: int, field: str) -> Wire:
    return _error(number, "missing_required_parameter", f"Missing required parameter: '{field}'.", field)


def _error(number: int | None, code: str, message: str, param: str | None = None) -> Wire:
    return {"code": code, "line": number, "message": message, "param": param}


def _encode_batch(batch: BatchState) -> Wire:
    counts, ended = batch.counts, _time(batch.ended)
    status = _status(batch)
    errors = batch.settings.get("errors")
    rest = sum(counts.get(each, 0) for each in ("failed", "cancelled", "expired"))
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.settings.get("endpoint"),
        "model": None,
        "errors": {"object": "list", "data": errors} if errors else None,
        "input_file_id": batch.settings.get("input_file_id"),
        "completion_window": "24h",
        "status": status,
        "output_file_id": output_id(batch.id, True) if ended and counts.get("completed") else None,
        "error_file_id": output_id(batch.id, False) if ended and rest else None,
        "created_at": int(batch.created),
        "in_progress_at": None if errors else int(batch.created),
        "expires_at": int(batch.deadline),
        "finalizing_at": None if errors else ended,
        "completed_at": ended if status == "completed" else None,
        "failed_at": ended if status == "failed" else None,
        "expired_at": ended if status == "expired" else None,
        "cancelling_at": _time(batch.cancelled),
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": {
            "total": batch.total,
            "completed": counts.get("completed", 0),
            "failed": counts.get("failed", 0) + counts.get("expired", 0),
        },
        "usage": None,
        "metadata": batch.settings.get("metadata"),
    }


def output_id(batch: str, answers: bool) -> str:
    """The file with the answers of a batch, or with the errors."""
    return f"file-{batch.removeprefix('batch_')}{'a' if answers else 'e'}"


def _status(batch: BatchState) -> str:
    if batch.settings.get("errors"):
        return "failed"
    if batch.ended is None:
        return "cancelling" if batch.cancelled else "in_progress"
    if batch.cancelled:
        return "cancelled"
    return "expired" if batch.counts.get("expired") else "completed"


def _time(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)


def _encode_created(batch: Wire) -> Wire:
    """The answer to its creation: the vendor validates a batch later, so that clients poll."""
    pending = dict.fromkeys(("errors", "in_progress_at", "finalizing_at", "failed_at"))
    return {**batch, "status": "validating", **pending}


def _encode_result(line: LineOutcome) -> Wire:
    response: Wire | None = None
    error: Wire | None = None
    if line.body is None:
        code, message = _NOT_RUN.get(line.status, ("server_error", "This request was not executed."))
        error = {"code": code, "message": message}
    else:
        response = {"status_code": line.http_status, "request_id": line.request_id, "body": line.body}
    result = {"id": f"batch_req_{line.id}", "custom_id": line.custom_id, "response": response, "error": error}
    return {**result, **encode_losses(line.losses)}


def decode_page(query: Mapping[str, str], most: int, default: int) -> PageQuery:
    limit, order = page_limit(query, default, most, PROTOCOL_NAME), query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise wrong("order", f"expected asc or desc, got {order!r}")
    purpose = query.get("purpose", "")
    return PageQuery(limit, query.get("after", ""), ascending=order == "asc", purpose=purpose)


def unknown(what: str, id: str) -> Failure:
    return Failure("not_found", f"No such {what}: {id!r}.", 404, "not_kept")


BATCHES = BatchCodec(
    id_prefix="batch_",
    decode_create=_decode_create,
    read_lines=_read_lines,
    encode_batch=_encode_batch,
    encode_created=_encode_created,
    encode_page=whole_list,
    encode_result=_encode_result,
    encode_deleted=lambda id: {},
    decode_page=lambda query: decode_page(query, 100, 20),
    unknown=lambda id: unknown("batch", id),
    output_id=output_id,
)
