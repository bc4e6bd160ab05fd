"""The head of a request, printed. What a configuration or a client put into it cannot end a line."""

from __future__ import annotations

from functools import lru_cache

from dragoman.core.errors import ConfigError
from dragoman.http.client.address import Address

_ENDS = ("\r", "\n", "\0")


def request_head(
    method: str, path: str, address: Address, headers: dict[str, str], length: int, extra: str = ""
) -> bytes:
    """`extra` is whole lines that stand as they are."""
    said = _printed(method, path, address, tuple(headers.items()), extra)
    return b"%bcontent-length: %d\r\n\r\n" % (said, length)


@lru_cache(maxsize=256)
def _printed(
    method: str, path: str, address: Address, items: tuple[tuple[str, str], ...], extra: str
) -> bytes:
    """All but the length, which is all that changes from one request to the next."""
    headers = dict(items)
    said = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if said.count("\n") != len(headers) or said.count("\r") != len(headers) or "\0" in said:
        raise _illegal(headers)
    encoding = "" if "accept-encoding" in headers else "accept-encoding: identity\r\n"
    text = f"{method} {path} HTTP/1.1\r\nhost: {address.authority}\r\n{said}{extra}{encoding}"
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise _illegal(headers) from None


def _illegal(headers: dict[str, str]) -> ConfigError:
    """Names the header and keeps its value, which may be a key, to itself."""
    for name, value in headers.items():
        if any(end in name or end in value for end in _ENDS):
            return ConfigError(f"the header {name!r} has a line break or a zero in it")
        if not _is_latin(name + value):
            return ConfigError(f"the header {name!r} has characters that HTTP cannot carry")
    return ConfigError("a header cannot be sent as it is")


def _is_latin(text: str) -> bool:
    return all(ord(letter) < 256 for letter in text)
