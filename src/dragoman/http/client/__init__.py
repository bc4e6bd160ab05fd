"""HTTP toward upstreams: one method to send a request, and the reply as it arrives."""

from dragoman.core.transport import (
    ConnectFailed,
    CredentialFailed,
    Reply,
    ReplyBroken,
    TimedOut,
    Timeouts,
    Transport,
    TransportError,
)
from dragoman.http.client.client import Client, IdleConnections

__all__ = [
    "Client",
    "ConnectFailed",
    "CredentialFailed",
    "IdleConnections",
    "Reply",
    "ReplyBroken",
    "TimedOut",
    "Timeouts",
    "Transport",
    "TransportError",
]
