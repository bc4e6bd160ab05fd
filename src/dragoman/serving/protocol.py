"""What a protocol folder exports, under the one name PROTOCOL."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.codec import Codec, Framing
from dragoman.serving.server import ProtocolServer


class Protocol(Struct, frozen=True, kw_only=True):
    """Everything the rest of the tree may know about a protocol.

    `codec` translates its wire to the neutral model and back, `framing` its streams to frames and back.
    `server` describes a server of the protocol as its clients see it.
    """

    codec: Codec
    framing: Framing
    server: ProtocolServer
