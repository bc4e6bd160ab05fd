"""The listening socket from one process to the next, so that a restart refuses no connection.

systemd holds the socket and passes it to each process that it starts (socket activation). Without systemd,
the gateway starts its own successor on SIGUSR2, with the same command line:

    serving   --SIGUSR2----------------------------> starting   the successor inherits the socket
    starting  --the successor serves----------------> ending     as on SIGTERM: requests under way end
    starting  --the successor ended, or is too late-> serving    the log says so

Both processes accept connections from one queue, so none is lost between them, as it would be if each had a
socket of its own on the same port (SO_REUSEPORT: the queue of a socket that closes is reset).
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable

_SOCKET = "DRAGOMAN_LISTEN_FD"
_READY = "DRAGOMAN_READY_FD"
_SYSTEMD_FIRST = 3  # sd_listen_fds(3): passed descriptors begin here
LONGEST_START = 60.0  # seconds


def inherit_socket() -> socket.socket | None:
    """The socket that systemd or a predecessor passed to this process. Its variables are removed, so that no
    program that this process starts takes them for its own."""
    number = os.environ.pop(_SOCKET, "")
    passed = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not number and passed == (str(os.getpid()), "1"):
        number = str(_SYSTEMD_FIRST)
    if not number:
        return None
    listener = socket.socket(fileno=int(number))
    listener.set_inheritable(False)
    return listener


def report_ready() -> None:
    """Let the predecessor end, where there is one."""
    if number := os.environ.pop(_READY, ""):
        os.write(int(number), b"!")
        os.close(int(number))


class Successor:
    """The process that takes over. Its pipe, `fileno`, becomes readable when it serves or has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._pipe, ready = os.pipe()
        passed = {_SOCKET: str(listener.fileno()), _READY: str(ready)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, **passed},
                pass_fds=(listener.fileno(), ready),
            )
        finally:
            os.close(ready)
        self.pid = self._process.pid

    def fileno(self) -> int:
        return self._pipe

    def serves(self) -> bool:
        """Call it once, when the pipe is readable or after `LONGEST_START`."""
        os.set_blocking(self._pipe, False)
        try:
            ready = os.read(self._pipe, 1) == b"!"
        except BlockingIOError:
            ready = False
        os.close(self._pipe)
        if not ready:
            self._process.kill()
            self._process.wait()
        return ready


class Handover:
    """In a process with an event loop. `end` begins its graceful shutdown; `note` writes to the log."""

    def __init__(
        self, listener: socket.socket, end: Callable[[], object], note: Callable[[str], object]
    ) -> None:
        self._listener, self._end, self._note = listener, end, note
        self._successor: Successor | None = None

    def begin(self) -> None:
        if self._successor:
            return
        loop = asyncio.get_running_loop()
        self._successor = successor = start_successor(self._listener, self._note)
        if successor:
            loop.add_reader(successor, self._finish, successor)
            loop.call_later(LONGEST_START, self._finish, successor)

    def _finish(self, successor: Successor) -> None:
        if self._successor is not successor:
            return
        asyncio.get_running_loop().remove_reader(successor)
        self._successor = None
        if took_over(successor, self._note):
            self._end()


def start_successor(listener: socket.socket, note: Callable[[str], object]) -> Successor | None:
    try:
        return Successor(listener)
    except OSError as error:
        note(f"no successor could be started: {error}")
        return None


def took_over(successor: Successor, note: Callable[[str], object]) -> bool:
    if successor.serves():
        note(f"process {successor.pid} has taken over; this one ends with its last request")
        return True
    note("the successor did not start; this process goes on")
    return False
