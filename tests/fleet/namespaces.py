"""Machines that a test makes itself: network namespaces on one bridge, on Linux and as root.

A thread is in one network namespace at a time, and what it opens or starts belongs to it. So a process is put
on a machine by starting it `inside` of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

EDGE = "edge"  # where the balancer, the clients and the model are
_CLONE_NEWNET = 0x40000000


class NotAllowed(Exception):
    """Why there are no namespaces here."""


class Machines:
    """`addresses`: of each machine by its name, in 10.77.0.0/24."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.addresses = addresses
        self._prefix = f"dragoman-{os.getpid()}-"

    def make(self) -> None:
        if sys.platform != "linux" or not shutil.which("ip"):
            raise NotAllowed("network namespaces need Linux and the program ip (iproute2)")
        for name in self.addresses:
            _ip("netns", "add", self._prefix + name)
        edge = self._prefix + EDGE
        _ip("-n", edge, "link", "add", "br0", "type", "bridge")
        for number, (name, address) in enumerate(self.addresses.items()):
            device = "br0"
            if name != EDGE:
                device, port = "eth0", f"port{number}"
                peer = ("peer", "name", device, "netns", self._prefix + name)
                _ip("-n", edge, "link", "add", port, "type", "veth", *peer)
                _ip("-n", edge, "link", "set", port, "master", "br0", "up")
            _ip("-n", self._prefix + name, "address", "add", f"{address}/24", "dev", device)
            for each in ("lo", device):
                _ip("-n", self._prefix + name, "link", "set", each, "up")

    def remove(self) -> None:
        for name in self.addresses:
            with suppress(NotAllowed):
                _ip("netns", "delete", self._prefix + name)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(Path("/run/netns") / (self._prefix + name))
            yield
        finally:
            _set_namespace(before)
            os.close(before)


def _enter(path: Path) -> None:
    namespace = os.open(path, os.O_RDONLY)
    try:
        _set_namespace(namespace)
    finally:
        os.close(namespace)


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):  # os.setns is of Python 3.12
        raise NotAllowed(f"setns: {os.strerror(ctypes.get_errno())}")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAllowed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
