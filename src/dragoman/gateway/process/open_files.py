"""How many connections this process may hold: as many as the machine allows, not as many as a shell gives."""

from __future__ import annotations

from contextlib import suppress

_ENOUGH = 65_536


def raise_limit() -> None:
    """The soft limit of open files is often 1024, which a few hundred streams exhaust."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
