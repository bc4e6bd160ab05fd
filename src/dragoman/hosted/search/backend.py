"""What a search backend is: a query in, sources out, and a failure in the words of hosted tools."""

from __future__ import annotations

import re
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.hosted import FoundSource, HostedError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.core.transport import Timeouts, Transport, TransportError

_TIMEOUTS = Timeouts(connect=5, first_byte=30, idle=10)  # the loop ends a call earlier, if its limit says so
_ADDRESS = re.compile(r"https?://[^\s\\]+", re.IGNORECASE)
_LARGEST = 4 * 1024 * 1024


class SearchQuery(Struct, frozen=True):
    """`allowed` and `blocked` are domains, with a path where the client says one ("example.com/blog")."""

    text: str
    count: int
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    country: str = ""  # two letters


class SearchBackend(Protocol):
    async def search(self, query: SearchQuery) -> list[FoundSource]:
        """In the order of the backend. It raises nothing but SearchFailed."""
        ...


class SearchFailed(DragomanError):
    def __init__(self, error: HostedError, problem: str) -> None:
        super().__init__(problem)
        self.error: HostedError = error

    def __reduce__(self) -> tuple[type[SearchFailed], tuple[HostedError, str]]:
        return SearchFailed, (self.error, str(self))


def with_sites(query: SearchQuery) -> str:
    """The query for an engine that knows `site:`, but no wildcards: what they leave out is left out later."""
    allowed = " OR ".join(f"site:{_bare(domain).partition('*')[0]}" for domain in query.allowed)
    blocked = " ".join(f"-site:{_bare(domain)}" for domain in query.blocked if "*" not in _bare(domain))
    return " ".join(part for part in (query.text, f"({allowed})" if allowed else "", blocked) if part)


def _bare(domain: str) -> str:
    """Some clients write a scheme, or `*.` for what is below: both say the same without."""
    return (domain.partition("://")[2] or domain).removeprefix("*.")


def is_address(url: str) -> bool:
    """Whether it is one of the web that all programs read alike: browsers take a backslash for a slash."""
    try:
        return bool(_ADDRESS.fullmatch(url) and urlsplit(url).hostname)
    except ValueError:
        return False


def is_within(url: str, domain: str) -> bool:
    """Whether `url` is at the domain or below it. Its path may have a wildcard: "example.com/*/news"."""
    parts, (host, _, path) = urlsplit(url), _bare(domain).partition("/")
    name, host = (parts.hostname or "").rstrip("."), host.lower()
    below, (begin, _, end) = parts.path.lstrip("/"), path.partition("*")
    is_below = below.startswith(begin) and end in below[len(begin) :]
    return is_below and (name == host or name.endswith(f".{host}"))


def is_wanted(url: str, allowed: tuple[str, ...], blocked: tuple[str, ...]) -> bool:
    """Where domains are named, nothing passes of which nobody knows where it is from."""
    if not allowed and not blocked:
        return True
    if not is_address(url) or any(is_within(url, domain) for domain in blocked):
        return False
    return not allowed or any(is_within(url, domain) for domain in allowed)


async def fetch_json(
    transport: Transport, url: str, headers: dict[str, str], parameters: dict[str, Any], *, post: bool = False
) -> Wire:
    """One request with the parameters in its query, or in a JSON body."""
    method, body = ("POST", jsontext.encode(parameters)) if post else ("GET", b"")
    if not post:
        url = f"{url}?{urlencode({key: value for key, value in parameters.items() if value})}"
    sent = {"accept": "application/json", **({"content-type": "application/json"} if post else {}), **headers}
    try:
        reply = await transport.send(method, url, sent, body, _TIMEOUTS)
        try:
            text = await reply.read(_LARGEST)
        finally:
            reply.close()
    except TransportError as error:
        raise SearchFailed("unavailable", f"the search backend cannot be reached: {error}") from None
    if reply.status == 429:
        raise SearchFailed("too_many_requests", "the search backend limits how often it is asked")
    if reply.status >= 400:
        raise SearchFailed("unavailable", f"the search backend answered {reply.status}")
    try:
        value = jsontext.decode(text)
    except ValueError:
        value = None
    if not is_object(value):
        raise SearchFailed("unavailable", "the search backend answered something that is not JSON")
    return value


def read_sources(results: Any, *, text: str, age: str) -> list[FoundSource]:
    """The rows with an address. `text` and `age` are the names of their fields."""
    rows = [row for row in results if is_object(row)] if is_array(results) else []
    return [
        FoundSource(row["url"], _text(row, "title"), _text(row, text), _text(row, age))
        for row in rows
        if isinstance(row.get("url"), str) and row["url"]
    ]


def _text(row: Wire, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""
