"""Addresses at which nobody answers."""

import socket

_kept: list[socket.socket] = []


def closed_port() -> str:
    """An address where nobody listens, and never will: the port stays taken as long as the process runs."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    _kept.append(taken)
    return f"127.0.0.1:{taken.getsockname()[1]}"
