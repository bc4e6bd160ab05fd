"""HTTP toward upstreams: one method to send a request, and the reply as it arrives."""

from dragoman.transport.client import Client
from dragoman.transport.messages import (
    ConnectFailed,
    Reply,
    ReplyBroken,
    TimedOut,
    Timeouts,
    Transport,
    TransportError,
)

__all__ = [
    "Client",
    "ConnectFailed",
    "Reply",
    "ReplyBroken",
    "TimedOut",
    "Timeouts",
    "Transport",
    "TransportError",
]
