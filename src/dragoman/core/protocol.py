"""What a protocol folder exports, under the one name PROTOCOL."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.codec import Codec, Frame, Stage
from dragoman.core.server import ProtocolServer


class Framing(Struct, frozen=True):
    """How the frames of a stream become bytes and back; `dragoman.framing` has one module for each.

    `content_type` and `keep_alive` are set where a URL may demand this framing instead of its protocol's.
    """

    decoder: Callable[[], Stage[bytes, Frame]]
    encoder: Callable[[], Stage[Frame, bytes]]
    content_type: str = ""
    keep_alive: bytes = b""  # what may stand between two frames


class Protocol(Struct, frozen=True, kw_only=True):
    """Everything the rest of the tree may know about a protocol.

    `codec` translates its wire to the neutral model and back, `framing` its streams to frames and back.
    `server` describes a server of the protocol as its clients see it.
    """

    codec: Codec
    framing: Framing
    server: ProtocolServer
