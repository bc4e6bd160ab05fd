"""What a process sets up before it serves."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from dragoman.gateway.config import Config
from dragoman.gateway.process.serve import bind

linux = pytest.mark.skipif(sys.platform != "linux", reason="settings of Linux and glibc")


@linux
def test_the_kernel_takes_little_of_a_response_that_is_not_read() -> None:
    listener = bind(Config(port=0))
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(listener.getsockname())
    accepted, _ = listener.accept()
    accepted.setblocking(False)
    taken = 0
    with listener, client, accepted, suppress(BlockingIOError):
        while True:
            taken += accepted.send(b"x" * 8192)
    assert taken < 512 * 1024  # it takes megabytes without the limit


@linux
def test_freed_memory_is_returned_to_the_system() -> None:
    program = """
import os
from dragoman.gateway.process.serve import return_freed_memory
return_freed_memory()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
for size in (4, 8, 12, 16, 20) * 3:
    blocks = [b"x" * (size << 20) for _ in range(4)]
    del blocks
print(resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8 << 20
