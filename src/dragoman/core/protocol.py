"""What a protocol folder exports, under the one name PROTOCOL."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.codec import Codec
from dragoman.core.server import ProtocolServer


class Protocol(Struct, frozen=True, kw_only=True):
    """Everything the rest of the tree may know about a protocol.

    `codec` translates its wire to the neutral model and back. `server` describes a server of the protocol as
    its clients see it. `client_facing` is False for a protocol that only upstreams speak.
    """

    codec: Codec
    server: ProtocolServer
    client_facing: bool = True
