"""How much a client may ask of a connection before it is turned away."""

from __future__ import annotations

from msgspec import Struct


class ServerTimeouts(Struct, frozen=True, kw_only=True):
    """Seconds and bytes. Whoever sends a request a byte at a time, or never reads its answer, is let go."""

    idle: float = 120.0  # between two requests, and before the first
    head: float = 20.0  # for a head, from its first byte on
    body: float = 60.0  # for a body, and one more second for each `slowest` bytes of it
    slowest: int = 2048
    unread: float = 300.0  # without a byte of an answer being taken
    lingers: float = 3.0  # for what a client still sends after it was refused
    largest_head: int = 64 * 1024
