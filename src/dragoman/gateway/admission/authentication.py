"""Keys and callers: where a request carries its key, whose key it is, and what that caller may do.

A gateway without keys answers every program of its machine. Browsers run programs of strangers, so requests
that a web page may have caused are recognised here and refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from msgspec import Struct
from msgspec.structs import astuple

from dragoman.core.model import Failure
from dragoman.gateway.config import Config
from dragoman.gateway.config.keys import Allowance, default_allowance
from dragoman.http.server import MemoryBudget, MemoryShare

# Beside `authorization`, as the SDKs of Anthropic, Gemini and Azure OpenAI send it
_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::\d*)?")
_WINDOW = 60.0  # seconds
_MOST_ADDRESSES = 10_000
_NAT64 = IPv6Network("64:ff9b::/96")
_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa")  # names that are not in the public DNS


class Caller(Struct, eq=False):
    """The holder of a key. `id` is a digest, equal in every process; the counts are this process's."""

    name: str
    id: str
    allowance: Allowance
    number: int = 0  # index among the keys of the configuration
    inside: int = 0  # exchanges under way
    full_at: float = 0.0  # when its bucket of requests is full again (see counters.take)

    expires: float = 0.0  # seconds since the epoch; 0: never
    models: tuple[str, ...] = ()  # patterns of the models that it may use; empty: all
    limited: bool = False  # otherwise nothing is counted
    budgeted: bool = False  # what it uses counts against a budget
    memory: MemoryShare | None = None  # what its requests hold; None: there is no other caller

    def may_use(self, model: str) -> bool:
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)

    def __post_init__(self) -> None:
        self.limited = any(astuple(self.allowance))
        self.budgeted = self.limited and self.allowance.has_budget


class Callers:
    """Keys are found by a digest under a salt of this process, in the same time for wrong and right keys."""

    def __init__(self, config: Config, memory: MemoryBudget | None = None) -> None:
        self._salt, self._memory = os.urandom(32), memory or MemoryBudget()
        self._known: dict[bytes, Caller] = {}
        self._anyone: Caller | None = None
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the keys of `config`; one that was known before keeps its counts."""
        before, self._known = self._known, {}
        names = {named.key: named for named in config.named_keys}
        default = default_allowance(config.limits)
        for number, key in enumerate(config.keys):
            named = names.get(key)
            name, allowance = (named.name, named.allowance) if named else (f"key-{number + 1}", default)
            digest = self._digest(key)
            caller = _inherit(before.get(digest), Caller(name, _id(key), allowance, number))
            if named:
                caller.expires, caller.models = named.expires, named.models
            self._known[digest] = caller
        self._anyone = None if config.keys else _inherit(self._anyone, Caller("", "", default))
        self._divide_memory()

    def _divide_memory(self) -> None:
        callers = list(self._known.values())
        for caller in callers:
            caller.memory = (caller.memory or MemoryShare(self._memory)) if len(callers) > 1 else None
        self._memory.divide(tuple(caller.memory for caller in callers if caller.memory))

    def find(self, key: str) -> Caller | None:
        """None for an unknown or expired key. Without keys in the configuration, everyone is one caller."""
        caller = self._anyone or self._known.get(self._digest(key))
        if caller and caller.expires and caller.expires < time.time():
            return None
        return caller

    def by_id(self, id: str) -> Caller | None:
        """Whose stored request is run; None where the key was removed or has expired since."""
        if self._anyone:
            return self._anyone
        found = next((caller for caller in self._known.values() if caller.id == id), None)
        return None if found and found.expires and found.expires < time.time() else found

    def _digest(self, key: str) -> bytes:
        return blake2b(key.encode("utf-8", "surrogateescape"), key=self._salt, digest_size=16).digest()


def _inherit(old: Caller | None, new: Caller) -> Caller:
    """`old` as `new` describes it, because exchanges under way count in it; `new` where there is none."""
    if old is None:
        return new
    old.name, old.allowance, old.number, old.limited = new.name, new.allowance, new.number, new.limited
    old.expires, old.models, old.budgeted = new.expires, new.models, new.budgeted
    return old


class FailedKeys:
    """Wrong keys by client address in fixed windows of a minute; beyond `limit` the address must wait.

    The table is bounded: the address whose window began first is forgotten. IPv6 clients are counted by
    their /64, which is what one client usually has.
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.monotonic) -> None:
        self.limit, self._now = limit, now
        self._failures: dict[str, tuple[float, int]] = {}  # network -> begin of its window, wrong keys in it

    def add(self, address: str) -> None:
        network, now = _network(address), self._now()
        began, count = self._failures.get(network, (now, 0))
        if now - began >= _WINDOW:
            began, count = now, 0
            del self._failures[network]  # the new window goes to the end of the table
        self._failures[network] = (began, count + 1)
        if len(self._failures) > _MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    def refusal(self, address: str) -> Failure | None:
        """What a request of this address gets, whatever its key is; None: it is not refused."""
        began, count = self._failures.get(_network(address), (0.0, 0))
        seconds = _WINDOW - (self._now() - began)
        if count < self.limit or seconds <= 0:
            return None
        problem = "too many wrong keys from this address (server.failed_keys_per_minute)"
        return Failure("rate_limit", problem, 429, retry_after=seconds)


@lru_cache(maxsize=256)
def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or parsed.exploded[:19])


def _id(key: str) -> str:
    """For tables that several gateways share."""
    return blake2b(key.encode(), person=b"dragoman-limits", digest_size=16).hexdigest()


def client_key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The key of a request, in any of the places that the protocols use."""
    if (authorization := headers.get("authorization")) and (token := _bearer_token(authorization)):
        return token
    for name in _HEADERS:
        if key := headers.get(name):
            return key
    return query.get("key", "")


@lru_cache(maxsize=128)  # of whatever anybody sends, up to 64 kB each
def _bearer_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def owner_of(key: str, keys: tuple[str, ...]) -> str:
    """The owner of stored conversations: a hash of the client's key; empty where no key is needed."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest() if keys else ""


def is_cross_site_request(headers: Mapping[str, str]) -> bool:
    """Whether a page of another site may have caused it: by its origin, by what the browser says of it
    (Fetch Metadata), or by a public host name, which its owner can point to this machine (DNS rebinding)."""
    origin = headers.get("origin", "")
    if origin:
        if origin == "null" or not _is_own_origin(origin, headers.get("host", "")):
            return True  # null: a sandboxed frame, a data: URL
    elif headers.get("sec-fetch-site") == "cross-site":
        return True
    return not _is_private(headers.get("host", ""))


def _is_own_origin(origin: str, host: str) -> bool:
    """Whether a page of this machine, or of the gateway itself, sends the request. Pages of other machines of
    the house (http://router, a printer) are strangers too. Extensions and desktop applications
    (`vscode-webview://…`) were installed; they are no web pages."""
    scheme, _, authority = origin.lower().partition("://")
    if scheme not in ("http", "https", "ws", "wss"):
        return True
    return bool(authority) and (authority == host.lower() or _is_loopback(authority))


@lru_cache(maxsize=256)
def _is_loopback(authority: str) -> bool:
    found = _AUTHORITY.fullmatch(authority)
    host = (found["v6"] or found["name"].rstrip(".")) if found else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


@lru_cache(maxsize=256)
def _is_private(authority: str) -> bool:
    """A name without dots or of a private domain, or an address that is not routed on the internet."""
    if not authority:  # HTTP/1.0
        return True
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return False
    if found["v6"]:
        return _is_private_v6(found["v6"])
    host = found["name"].rstrip(".")
    try:
        return not IPv4Address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE)


def _is_private_v6(host: str) -> bool:
    """An address that embeds an IPv4 one is as private as that one."""
    try:
        address = IPv6Address(host)
    except ValueError:
        return False
    if address.ipv4_mapped:
        return not address.ipv4_mapped.is_global
    return not (address.is_global or address.sixtofour or address.teredo or address in _NAT64)
