"""A lock on a file that ends with the process, however it ends."""

from __future__ import annotations


def lock(file: int) -> bool:
    """Whether this process now holds the lock of the open file; another one may."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
