"""So many requests a minute, as a bucket that holds a minute's worth and fills up evenly.

One number says how full it is: the moment at which it will be full again (GCRA). That is also all that
several processes have to share.
"""

from __future__ import annotations

from msgspec import Struct

MINUTE = 60.0
_HAIR = 1e-6  # seconds; sums of fractions are not exact


class RateLimitState(Struct, frozen=True):
    """`wait`: seconds until a request may come, 0 where this one may. `reset`: until the bucket is full."""

    wait: float
    remaining: int
    reset: float


def take(full_at: float, now: float, per_minute: int) -> tuple[float, RateLimitState]:
    """One request at `now`: when the bucket is full again, and what that means for this request."""
    each = MINUTE / per_minute
    after = max(full_at, now) + each
    wait = after - now - MINUTE
    if wait > _HAIR:
        return full_at, RateLimitState(wait, 0, full_at - now)
    return after, rate_of(after - now, per_minute)


def rate_of(reset: float, per_minute: int) -> RateLimitState:
    """What is left, of a bucket that is full in `reset` seconds."""
    return RateLimitState(0.0, int((MINUTE - reset + _HAIR) * per_minute / MINUTE), reset)
