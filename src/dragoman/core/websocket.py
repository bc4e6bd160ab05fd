"""How a protocol is spoken over WebSocket: each message is a request, each event of a stream a message."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.model import Failure, Wire


class SocketRequest(Struct, frozen=True):
    """A client's message that asks for a response.

    `body` is the request as POST would take it. Responses of one `lane` come one after the other, those of
    different lanes side by side. `generate`: False stores the input and answers without asking the model.
    """

    body: Wire
    lane: str = ""
    generate: bool = True


class SocketCodec(Struct, frozen=True, kw_only=True):
    """Reads and writes the messages of one protocol, and knows the limits of a connection."""

    decode: Callable[[Wire], SocketRequest | Wire | Failure | None]  # Wire: an answer; None: nothing to do
    lane_of: Callable[[Wire], str]  # of a message that is refused
    encode_error: Callable[[int, Wire, dict[str, str], str], Wire]  # (status, error body, headers, lane)
    with_lane: Callable[[bytes, str], bytes]  # an event that belongs to a lane
    lanes: int  # with a name
    too_many_lanes: Failure
    in_flight: int  # responses at once
    seconds: float  # that a connection may last
    expired: Failure
