"""Interactions that run in the background: their states, and the log of events by which a stream is resumed.

    interaction.created, interaction.status_update, then the events of the run

A client starts one without a stream and may ask for its events later, so all are logged. `event_id` is their
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dragoman.core.codec import Frame
from dragoman.core.fold import decode_whole
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.protocols.gemini_interactions.request import CONVERSATION
from dragoman.protocols.gemini_interactions.response import frame_interaction
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME
from dragoman.protocols.google import ERRORS
from dragoman.serving.jobs import BackgroundCodec, read_cursor


def number_events(frames: Sequence[Frame], reply: Wire, query: Mapping[str, str]) -> list[Frame]:
    """The events of a stored reply, without those that the client has."""
    after = read_cursor(query, "last_event_id", PROTOCOL_NAME)
    events = [frame for frame in frames if is_object(frame.data)]
    shown = [
        Frame(frame.event, _with_id(_with_names(frame.data, reply), number))
        for number, frame in enumerate(events)
        if number > after
    ]
    return [*shown, Frame("done", b"[DONE]")]


def _with_id(event: Wire, number: int) -> Wire:
    return {**event, "event_id": str(number)}


def _with_names(event: Wire, reply: Wire) -> Wire:
    """An event that holds the interaction repeats what the stored one says of itself."""
    if not is_object(interaction := event.get("interaction")):
        return event
    known = {key: value for key, value in reply.items() if key not in ("steps", "status")}
    ended = {"status": reply["status"]} if event.get("event_type") == "interaction.completed" else {}
    return {**event, "interaction": {**interaction, **known, **ended}}


def _encode_queued(request: Wire, id: str, created: int) -> Wire:
    """Reads the whole request, so that what is wrong with it is an error now and not later."""
    decode_whole(CONVERSATION, request, Losses())
    previous = request.get("previous_interaction_id")
    frame = frame_interaction(id, str(request.get("model") or ""), created)
    return frame | ({"previous_interaction_id": previous} if previous else {})


def _with_status(reply: Wire, status: str, failure: Failure | None = None) -> Wire:
    why = [{"code": ERRORS.encode(failure.kind), "message": failure.message}] if failure else []
    return {**reply, "status": status} | ({"errors": why} if why else {})


def _event(step: str, number: int, body: Wire) -> Wire:
    return {"event_type": f"interaction.{step}", **body, "event_id": str(number)}


def _status_update(reply: Wire, number: int) -> Wire:
    return _event("status_update", number, {"interaction_id": reply.get("id"), "status": reply.get("status")})


def _last_event(reply: Wire, number: int) -> Wire:
    shown = {key: value for key, value in reply.items() if key != "steps"}
    return _event("completed", number, {"interaction": shown})


def _renumber(event: Wire, number: int) -> Wire | None:
    if event.get("event_type") in (None, "interaction.created", "error"):
        return None
    return _with_id(event, number)


def _run_body(request: Wire) -> Wire:
    return {key: value for key, value in request.items() if key != "background"} | {"stream": True}


def _reply_of(event: Wire) -> Wire | None:
    reply = event.get("interaction")
    return reply if event.get("event_type") == "interaction.completed" and is_object(reply) else None


BACKGROUND = BackgroundCodec(
    label=lambda reply: reply,
    encode_queued=_encode_queued,
    with_status=_with_status,
    first_events=lambda reply: [_event("created", 0, {"interaction": reply}), _status_update(reply, 1)],
    restart_event=_status_update,
    last_event=_last_event,
    renumber=_renumber,
    reply_of=_reply_of,
    run_body=_run_body,
    starting_after=lambda query: read_cursor(query, "last_event_id", PROTOCOL_NAME),
    not_background=Failure("bad_request", "Only interactions with background=true can be cancelled.", 400),
    not_streamed=Failure("bad_request", "This interaction has no events that can be streamed again.", 400),
    event_field="event_type",
    logs_all=True,
)
