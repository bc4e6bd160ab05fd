"""Responses over WebSocket: `response.create` messages, answered by the events of a stream.

The limits and the texts of errors are OpenAI's (developers.openai.com, guide to WebSocket mode). Sources of
the quirks: `stream: true` is sent by Codex although the guide forbids it, older Codex builds acknowledge by
`response.processed` (openai/codex#22809); both are ignored.
"""

from __future__ import annotations

import re

from dragoman.core import jsontext
from dragoman.core.model import Failure, Wire
from dragoman.protocols.openai_responses.errors import CONNECTION_LIMIT, INVALID_LANE, LANE_LIMIT
from dragoman.serving.server import SocketCodec, SocketRequest

_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_LANES, _IN_FLIGHT, _MINUTES = 32, 16, 60
# Fields of the transport, not of the request
_TRANSPORT = frozenset({"type", "stream_id", "generate", "stream", "stream_options", "background"})
_BAD_LANE = Failure(
    "bad_request",
    "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain "
    "letters, numbers, underscores, hyphens, and periods.",
    400,
    INVALID_LANE,
)
_NO_STEERING = {
    "type": "invalid_request_error",
    "code": "steering_not_supported",
    "message": "This model does not support steering.",
}


def decode(message: Wire) -> SocketRequest | Wire | Failure | None:
    match message.get("type"):
        case "response.create":
            return _decode_create(message)
        case "response.steer":
            steer = {key: message[key] for key in ("previous_response_id", "input") if key in message}
            return {
                "type": "response.steer.failed",
                "sequence_number": 0,
                "error": _NO_STEERING,
                "steer": steer,
            }
        case "response.processed":
            return None
        case kind:
            return Failure("bad_request", f"type: expected response.create, got {kind!r}", 400)


def _decode_create(message: Wire) -> SocketRequest | Failure:
    lane, generate = message.get("stream_id"), message.get("generate", True)
    if "stream_id" in message and not (isinstance(lane, str) and _LANE.fullmatch(lane)):
        return _BAD_LANE
    if type(generate) is not bool:
        return Failure("bad_request", "generate: expected true or false", 400)
    body = {key: value for key, value in message.items() if key not in _TRANSPORT}
    options = message.get("prompt_cache_options")
    if jsontext.is_object(options) and options.get("prewarm") is True:
        generate = False
    return SocketRequest({**body, "stream": True}, lane or "", generate)


def lane_of(message: Wire) -> str:
    lane = message.get("stream_id")
    return lane if isinstance(lane, str) and _LANE.fullmatch(lane) else ""


def encode_error(status: int, body: Wire, headers: dict[str, str], lane: str) -> Wire:
    """Codex treats it like an HTTP error with this status, and reads `headers` beside it."""
    error = body.get("error")
    error = dict(error) if jsontext.is_object(error) else {"message": str(error or body)}
    error["code"] = error.get("code") or error.get("type") or "server_error"  # a string, never null
    error.setdefault("type", "server_error")
    event: Wire = {"type": "error", "status": status, "error": error}
    if headers:
        event["headers"] = headers
    return {**event, "stream_id": lane} if lane else event


def with_lane(event: bytes, lane: str) -> bytes:
    """`event` is a JSON object with fields."""
    return b'{"stream_id":%b,%b' % (jsontext.encode(lane), event.lstrip()[1:])


WEBSOCKET = SocketCodec(
    decode=decode,
    lane_of=lane_of,
    encode_error=encode_error,
    with_lane=with_lane,
    lanes=_LANES,
    too_many_lanes=Failure(
        "bad_request",
        f"This WebSocket connection has reached its maximum number of distinct stream IDs ({_LANES}). "
        "Reuse an existing stream_id or open a new WebSocket connection.",
        400,
        LANE_LIMIT,
    ),
    in_flight=_IN_FLIGHT,
    seconds=_MINUTES * 60.0,
    expired=Failure(
        "bad_request",
        f"Responses websocket connection limit reached ({_MINUTES} minutes). "
        "Create a new websocket connection to continue.",
        400,
        CONNECTION_LIMIT,
    ),
)
