"""Which addresses may be reached: public ones, and those that the configuration names.

A name is resolved once. All its addresses are checked, and the connection uses one that was checked: a DNS
answer that changes between check and connection leads nowhere (CVE-2026-12798 and its siblings).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from dragoman.core.errors import DragomanError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # NAT64: an IPv4 address in its last 32 bits
# What `ipaddress` takes for public: site-local, documentation, the relays of 6to4, special purposes, and what
# answers inside a machine of Azure only (learn.microsoft.com, What is IP address 168.63.129.16)
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("fec0::/10", "3fff::/20", "192.88.99.0/24", "192.0.0.0/24", "100::/64", "168.63.129.16/32"),
    )
)

FetchProblem = Literal["invalid", "not_allowed", "not_accessible", "unavailable", "timeout"]


class FetchError(DragomanError):
    """An address that is not fetched, or that gave nothing; the model reads the message as the result."""

    def __init__(self, message: str, problem: FetchProblem = "unavailable") -> None:
        super().__init__(message)
        self.problem: FetchProblem = problem

    def __reduce__(self) -> tuple[type[FetchError], tuple[str, FetchProblem]]:
        return FetchError, (str(self), self.problem)


def is_public(address: Address) -> bool:
    """Whether it is globally reachable. IPv4 inside IPv6 is judged as IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TRANSLATED:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        if inner:
            return is_public(inner)
    if any(address in network for network in _NOT_PUBLIC):  # of the other version: never
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class AddressGuard(Struct, frozen=True):
    """`allowed_hosts` holds "host" or "host:port". Where it is set, only these are reached, and only these
    may have private addresses. `allowed` says which addresses the others may have."""

    allowed_hosts: frozenset[str] = frozenset()
    allowed: Callable[[Address], bool] = is_public

    def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of them checked. It blocks: call it beside the event loop."""
        named = self._names(host, port)
        if self.allowed_hosts and not named:
            raise FetchError(f"{host} is not one of the allowed hosts", "not_allowed")
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            raise FetchError(f"{host}: {error}") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in () if named else addresses:
            if not self.allowed(ipaddress.ip_address(address.partition("%")[0])):
                problem = f"{host} is a private address ({address}) and is not fetched"
                raise FetchError(problem, "not_allowed")
        return addresses

    def _names(self, host: str, port: int) -> bool:
        host = host.lower().rstrip(".")
        return host in self.allowed_hosts or f"{host}:{port}" in self.allowed_hosts
