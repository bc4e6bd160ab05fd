"""Responses that run in the background: their states, and the log of events by which a stream is resumed.

    response.created (queued), response.queued, response.in_progress, then the events of the run

`sequence_number` is the cursor, so each event keeps its number. A cancelled response has no event of its own
in OpenAI's SDKs: its stream ends with response.incomplete, whose response says `cancelled`.
"""

from __future__ import annotations

from dragoman.core.fold import decode_whole
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.protocols.openai_responses.request import CONVERSATION
from dragoman.protocols.openai_responses.response import frame_response
from dragoman.protocols.openai_responses.wire import CODES, PROTOCOL_NAME
from dragoman.serving.jobs import BackgroundCodec, read_cursor

_BEFORE = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _encode_queued(request: Wire, id: str, created: int) -> Wire:
    """Reads the whole request, so that what is wrong with it is an error now and not later."""
    decoded = decode_whole(CONVERSATION, request, Losses())
    reply = frame_response(id, str(request.get("model") or ""), created, decoded)
    previous = request.get("previous_response_id")
    store = request.get("store") is not False
    return {**reply, "status": "queued", "background": True, "store": store, "previous_response_id": previous}


def _with_status(reply: Wire, status: str, failure: Failure | None = None) -> Wire:
    error = failure and {"code": CODES.encode(failure.kind) or "server_error", "message": failure.message}
    return {**reply, "status": status, "background": True, "error": error}


def _event(step: str, number: int, reply: Wire) -> Wire:
    return {"type": f"response.{step}", "sequence_number": number, "response": reply}


def _last_event(reply: Wire, number: int) -> Wire:
    status = reply.get("status")
    return _event(status if status in ("completed", "failed") else "incomplete", number, reply)


def _renumber(event: Wire, number: int) -> Wire | None:
    if event.get("type") in _BEFORE:
        return None
    numbered = {**event, "sequence_number": number}
    if is_object(reply := event.get("response")):
        numbered["response"] = {**reply, "background": True}
    return numbered


def _reply_of(event: Wire) -> Wire | None:
    reply = event.get("response")
    return reply if event.get("type") in _ENDS and is_object(reply) else None


BACKGROUND = BackgroundCodec(
    label=lambda reply: {**reply, "background": True},
    encode_queued=_encode_queued,
    with_status=_with_status,
    first_events=lambda reply: [_event("created", 0, reply), _event("queued", 1, reply)],
    restart_event=lambda reply, number: _event("in_progress", number, reply),
    last_event=_last_event,
    renumber=_renumber,
    reply_of=_reply_of,
    run_body=lambda request: {key: value for key, value in request.items() if key != "background"},
    starting_after=lambda query: read_cursor(query, "starting_after", PROTOCOL_NAME),
    not_background=Failure(
        "bad_request", "Only responses created with background=true can be cancelled.", 400
    ),
    not_streamed=Failure(
        "bad_request", "Only responses created with stream=true can be streamed again.", 400
    ),
)
