"""How the C library keeps memory that Python has freed."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_BLOCK = 1024 * 1024  # bytes
_RETAINED = 16 * _BLOCK


def return_freed_memory() -> None:
    """Make glibc return large blocks to the system as soon as they are freed.

    By default it raises its limit with each large block that is freed, up to 32 MiB, and keeps later blocks
    below the limit in its heap: after a few bodies of 20 MB a process stays at several times its size. To set
    the limit fixes it (mallopt(3)). Other C libraries have no such function, and no such habit.

    Smaller blocks stay in the heap, of which up to `_RETAINED` free bytes are kept: else the buffers of each
    request of 150 kB are returned and cost some 50 page faults when the next one arrives.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _BLOCK)
            mallopt(_M_TRIM_THRESHOLD, _RETAINED)
            mallopt(_M_TOP_PAD, _BLOCK)
