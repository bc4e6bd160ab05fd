"""Secrets out of whatever is shown: bodies, headers and URLs, of wires and of recordings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from dragoman.core import jsontext

HIDDEN = "***"
SHORTEST = 6  # a shorter "secret" is a word, and hiding it would garble everything
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|session|credential|signature", re.IGNORECASE)
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{200,}")  # images, signatures, encrypted reasoning
# Ends of the names of JSON members that hold a secret: of MCP servers, and in arguments of calls
_SECRET_ENDS = (
    *(b"authorization", b"api_key", b"api-key", b"apikey", b"access_key", b"accesskey", b"private_key"),
    *(b"token", b"password", b"passwd", b"secret", b"bearer", b"cookie", b"credential", b"credentials"),
)
_HEADERS = b"headers"  # of an MCP server, under whatever names
_URLS = (b"url", b"uri")
# JSON may stand in a string (arguments of a call), in which quotes are escaped, and that again in a string. A
# value that is cut off ends with the data
_VALUE = re.compile(rb'(?:\\{0,7})"\s*:\s*(\\{0,7})"(.*?)(?:(?<!\\)\1"|\Z)', re.DOTALL)
_OBJECT = re.compile(rb'(\\{0,7})"\s*:\s*[\[{]')
_MOST_TOKENS = 1000  # of an object of headers
_USER_INFO = re.compile(rb"[^/\s\"'\\?#@<>]{1,256}(?=@)")
_QUERY_VALUE = re.compile(rb"[?&][^=&#]*=([^&#]+)")
_BEARER_VALUE = re.compile(rb"\s+([A-Za-z0-9._~+/=-]{8,})")
# Parameters of our own routes and of upstreams that hold no secret
_PLAIN_PARAMETERS = frozenset(
    {"alt", "api-version", "beta", "stream", "limit", "after", "before", "after_id", "before_id", "order"}
    | {"purpose", "include", "starting_after", "pagesize", "pagetoken", "model"}
)
_HIDDEN = re.compile(r'"\*+(?=")')
_PARAMETER = re.compile(r"([?&])([^=&#]*)=([^&#]*)")


class Mask:
    """Knows the secrets of a configuration and of one exchange, and takes them out of whole bodies.

    Secrets become asterisks of the same length, so that offsets into a stream stay right. Plain searches for
    the few words that name a secret, instead of one expression over the whole body: 20 times as fast.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {each for each in secrets if len(each) >= SHORTEST}
        self._texts = sorted(known, key=len, reverse=True)
        self._spellings = [form.encode() for secret in self._texts for form in _spellings(secret)]

    def text(self, text: str) -> str:
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text

    def url(self, url: str) -> str:
        hidden = _PARAMETER.sub(_without_value, url)
        return self.text(re.sub(r"(?<=://)[^/?#@]+(?=@)", HIDDEN, hidden))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in without_secrets(headers).items()}

    def data(self, data: bytes) -> bytes:
        for secret in self._spellings:
            if secret in data:
                data = data.replace(secret, b"*" * len(secret))
        return mask_secrets(data)


def mask_secrets(data: bytes) -> bytes:
    """JSON, whole or a piece of it, with asterisks for whatever stands in the place of a secret: members that
    are named like one, all headers, user and query of URLs, and what follows the word Bearer."""
    masked = None
    for start, end in _secret_values(data):
        masked = masked or bytearray(data)
        masked[start:end] = b"*" * (end - start)
    return data if masked is None else bytes(masked)


def _secret_values(data: bytes) -> Iterable[tuple[int, int]]:
    lowered = data.lower()
    for word in _SECRET_ENDS:
        for at in _ends(lowered, word):
            if found := _VALUE.match(data, at):
                yield found.span(2)
    for word in _URLS:
        for at in _ends(lowered, word):
            if found := _VALUE.match(data, at):
                yield from (query.span(1) for query in _QUERY_VALUE.finditer(data, *found.span(2)))
    for at in _ends(lowered, _HEADERS):
        yield from _strings_of(data, at)
    for word, value in ((b"bearer", _BEARER_VALUE), (b"://", _USER_INFO)):
        for at in _ends(lowered, word):
            if found := value.match(data, at):
                yield found.span(found.re.groups)


def _ends(data: bytes, word: bytes) -> Iterable[int]:
    """Where each occurrence of `word` ends."""
    at = data.find(word)
    while at >= 0:
        at += len(word)
        yield at
        at = data.find(word, at)


def _strings_of(data: bytes, at: int) -> Iterable[tuple[int, int]]:
    """The strings in the object or array that begins at `at`, without the names of its members."""
    if not (found := _OBJECT.match(data, at)):
        return
    tokens, depth = _tokens(found[1]), 1
    for count, token in enumerate(tokens.finditer(data, found.end())):
        if token.group().strip() in (b"{", b"["):
            depth += 1
        elif token.group() in (b"}", b"]"):
            depth -= 1
        elif token[1] is not None and not token[2]:
            yield token.span(1)
        if not depth or count == _MOST_TOKENS:
            return


@cache
def _tokens(escape: bytes) -> re.Pattern[bytes]:
    quote = re.escape(escape) + b'"'
    return re.compile(rb"[{}\[\]]|%b(.*?)(?:(?<!\\)%b(\s*:)?|\Z)" % (quote, quote), re.DOTALL)


def _spellings(secret: str) -> set[str]:
    """A secret as it may stand in JSON: as it is, and escaped."""
    quoted = jsontext.dumps(secret)[1:-1]
    return {secret, quoted, quoted.replace("/", "\\/")}


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if SECRET_NAME.search(name) else value for name, value in headers.items()}


def without_credentials(text: str) -> str:
    """JSON text without the secrets in it, as those of MCP servers in a request."""
    return _HIDDEN.sub(f'"{HIDDEN}', mask_secrets(text.encode("utf-8", "replace")).decode("utf-8", "replace"))


def _without_value(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={value if name.lower() in _PLAIN_PARAMETERS else HIDDEN}"


def without_blobs(text: str) -> str:
    """Long runs of base64 by their beginning and their length."""
    return _OPAQUE.sub(lambda found: f"{found[0][:24]}…({len(found[0])} characters)", text)
