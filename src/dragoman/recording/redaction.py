"""Secrets out of whatever is shown: bodies, headers and URLs, of wires and of recordings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from dragoman.core import jsontext

HIDDEN = "***"
SHORTEST = 6  # a shorter "secret" is a word, and hiding it would garble everything
SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|session|credential|signature", re.IGNORECASE)
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{200,}")  # images, signatures, encrypted reasoning
# Ends of the names of JSON members that hold a secret: of MCP servers, and in arguments of calls
_SECRET_ENDS = (
    *(b"authorization", b"connection_string", b"connectionstring", b"token", b"password", b"passwd", b"pwd"),
    *(b"passphrase", b"secret", b"bearer", b"cookie", b"credential", b"credentials"),
)
_KEY = b"key"
_KEYS = tuple(
    kind + between + _KEY
    for kind in (
        b"api",
        b"access",
        b"account",
        b"private",
        b"secret",
        b"signing",
        b"encryption",
        b"subscription",
    )
    for between in (b"", b"_", b"-")
)
_HEADERS = b"headers"  # of an MCP server, under whatever names
_URLS = (b"url", b"uri", b"endpoint")
_VALUE = re.compile(rb'(\\{0,7})"\s*:\s*\1"')
_OBJECT = re.compile(rb'(\\{0,7})"\s*:\s*[\[{]')
_LIST = re.compile(rb's?(\\{0,7})"\s*:\s*\[')
_TOKEN = re.compile(rb'([{}\[\]])|(\\{0,7})"')
_QUOTE, _QUOTE_MARK, _BACKSLASH = re.compile(rb'["\n]'), ord('"'), ord("\\")
_IS_NAME = re.compile(rb"\s*:")
_MOST_HEADERS, _MOST_LISTED = 1000, 50  # tokens of such an object, and of a list
_USER_INFO = re.compile(rb"[^/\s\"'\\?#<>]{1,256}(?=@)")
_QUERY_VALUE = re.compile(rb"[?&;#][^=&;#]*=([^&;#]+)")
_TEXT_VALUE = re.compile(
    rb"=([^&\s\"'\\#<>]{6,512})|\s?:\s*(?:basic\s+)?([^\s\"'\\<>]{6,512})", re.IGNORECASE
)
_NAME = re.compile(rb"(--|[?&]|\\[nrt]|)([\w-]+)\Z")
_BEARER_VALUE = re.compile(rb"\s+([A-Za-z0-9._~+/=-]{8,})")
# Keys that say what they are, wherever they stand
_KEY_STARTS = (
    *(b"sk-", b"ghp_", b"gho_", b"ghs_", b"ghu_", b"github_pat_", b"glpat-", b"xoxb-", b"xoxp-", b"aiza"),
)
_KEY_REST = re.compile(rb"(?=[\w-]{0,64}\d)[\w-]{16,256}")
_PRIVATE_KEY = re.compile(rb"((?:(?!-----)(?:[\w+/=:,. -]|\\+[nr]|[\r\n])){20,8000})")
# A string in a line of a stream, and what tells lines of one call or text from those of another
_STRING = rb'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*)"'
_PIECE = re.compile(rb'index"\s*:\s*(\d+)|"(\w+)"\s*:\s*' + _STRING + rb"|\n|\Z", re.IGNORECASE)
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
        return mask_secrets(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def url(self, url: str) -> str:
        hidden = _PARAMETER.sub(_without_value, url)
        return self.text(re.sub(r"(?<=://)[^/?#@]+(?=@)", HIDDEN, hidden))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self.text(value) for name, value in without_secrets(headers).items()}

    def data(self, data: bytes) -> bytes:
        return mask_secrets(data, self._spellings)


def mask_secrets(data: bytes, known: Sequence[bytes] = ()) -> bytes:
    """JSON or a stream, whole or a piece of it, with asterisks for what is `known` and for whatever stands in
    the place of a secret: members that are named like one, all headers, user and query of URLs, what follows
    the word Bearer, and keys that say what they are. In a stream, also what is cut into many frames."""
    masked = None
    for start, end in (*_secrets(data, known), *_secrets_in_pieces(data, known)):
        masked = masked or bytearray(data)
        masked[start:end] = b"*" * (end - start)
    return data if masked is None else bytes(masked)


def _secrets(data: bytes, known: Sequence[bytes]) -> Iterable[tuple[int, int]]:
    for secret in known:
        yield from ((end - len(secret), end) for end in _ends(data, secret))
    yield from _secret_values(data)


def _secrets_in_pieces(data: bytes, known: Sequence[bytes]) -> Iterable[tuple[int, int]]:
    """A stream says one text, or the arguments of one call, by members of the same name in many lines."""
    if data.lstrip()[:1] in (b"{", b""):
        return
    texts: dict[tuple[bytes, ...], list[tuple[int, bytes]]] = {}
    line: list[tuple[bytes, int, bytes]] = []
    indexes: list[bytes] = []
    for found in _PIECE.finditer(data):
        index, name, piece = found.groups()
        if index:
            indexes.append(index)
        elif name:
            line.append((name, found.start(3), piece))
        else:
            for name, at, piece in line:
                texts.setdefault((name, *indexes), []).append((at, piece))
            line, indexes = [], []
    for pieces in texts.values():
        if len(pieces) > 1:
            yield from _secrets_of_pieces(pieces, known)


def _secrets_of_pieces(pieces: list[tuple[int, bytes]], known: Sequence[bytes]) -> Iterable[tuple[int, int]]:
    """Each piece with its place in the stream."""
    ends = list(accumulate(len(piece) for _, piece in pieces))
    for start, end in _secrets(b"".join([piece for _, piece in pieces]), known):
        for number in range(bisect_right(ends, start), len(pieces)):
            place, piece = pieces[number]
            begin = ends[number] - len(piece)
            if begin >= end:
                break
            yield place + max(start - begin, 0), place + min(end - begin, len(piece))


def _secret_values(data: bytes) -> Iterable[tuple[int, int]]:
    lowered = data.lower()
    for at in _name_ends(lowered):
        if found := _VALUE.match(data, at):
            yield _string(data, found)
        elif found := _LIST.match(data, at):
            yield from _strings(data, found, _MOST_LISTED)
        elif found := _TEXT_VALUE.match(data, at):
            yield from _find_named(data, at, found)
    for word in _URLS:
        for at in _ends(lowered, word):
            if found := _VALUE.match(data, at):
                yield from (query.span(1) for query in _QUERY_VALUE.finditer(data, *_string(data, found)))
    yield from _header_values(data, lowered)
    for word, value in _FOLLOWED:
        for at in _ends(lowered, word):
            if found := value.match(data, at):
                yield found.span(found.re.groups)
    yield from _bare_keys(data, lowered)


def _header_values(data: bytes, lowered: bytes) -> Iterable[tuple[int, int]]:
    scanned = 0
    for at in _ends(lowered, _HEADERS):
        if found := _VALUE.match(data, at):
            yield _string(data, found)
        elif at >= scanned and (found := _OBJECT.match(data, at)):
            for start, scanned in _strings(data, found, _MOST_HEADERS):
                yield start, scanned


def _bare_keys(data: bytes, lowered: bytes) -> Iterable[tuple[int, int]]:
    """Keys without a name, known by how they begin."""
    for word in _KEY_STARTS:
        for at in _ends(lowered, word):
            begins = not data[at - len(word) - 1 : at - len(word)].isalnum()
            if begins and (found := _KEY_REST.match(data, at)):
                yield found.span()


_FOLLOWED = (
    (b"bearer", _BEARER_VALUE),
    (b"://", _USER_INFO),
    (b":\\/\\/", _USER_INFO),  # as PHP writes it
    (b"private key-----", _PRIVATE_KEY),
)


def _find_named(data: bytes, at: int, value: re.Match[bytes]) -> Iterable[tuple[int, int]]:
    """The value behind a name in a text: a parameter of a URL or of a command, a line of .env, a header. In
    programs, `token = …` and `token: …` are no secrets."""
    name = _NAME.search(data, max(at - 64, 0), at)
    if name is None:
        return
    if value[2]:
        is_secret = b"-" in name[2] or name[2].lower() == b"authorization"
    else:
        is_secret = name[1] in (b"?", b"&", b"--") or name[2].isupper()
    if is_secret:
        yield value.span(value.lastindex or 0)


def _name_ends(lowered: bytes) -> Iterable[int]:
    """Where each name of a secret ends."""
    for word in _SECRET_ENDS:
        yield from _ends(lowered, word)
    for at in _ends(lowered, _KEY):
        if lowered.endswith(_KEYS, max(at - 16, 0), at):
            yield at


def _ends(data: bytes, word: bytes) -> Iterable[int]:
    """Where each occurrence of `word` ends."""
    at = data.find(word)
    while at >= 0:
        at += len(word)
        yield at
        at = data.find(word, at)


def _string(data: bytes, opened: re.Match[bytes]) -> tuple[int, int]:
    """Begin and end of the string whose quote ends `opened`."""
    return opened.end(), _string_end(data, opened.end(), len(opened[1]))[0]


def _string_end(data: bytes, start: int, escapes: int) -> tuple[int, int]:
    """Where a string ends, and what comes after its quote: 0 where it is cut off.

    JSON may stand in a string (the arguments of a call), in which quotes are escaped, and that again in a
    string: `escapes` are the backslashes before its first quote. A string that is cut off ends with the one
    around it, with the line, or with the data."""
    for found in _QUOTE.finditer(data, start):
        at = before = found.start()
        if data[at] != _QUOTE_MARK:
            return at, 0
        while before > start and data[before - 1] == _BACKSLASH:
            before -= 1
        outer, left = 0, at - before
        while outer < escapes and left % 2:
            outer, left = outer * 2 + 1, left // 2
        if left % 2 == 0:
            return at - outer, at + 1 if outer == escapes else 0
    return len(data), 0


def _strings(data: bytes, opened: re.Match[bytes], most: int) -> Iterable[tuple[int, int]]:
    """The strings in the object or array whose bracket ends `opened`, without the names of its members."""
    depth, at, escapes = 1, opened.end(), len(opened[1])
    for _ in range(most):
        token = _TOKEN.search(data, at)
        if token is None or not depth:
            break
        if token[1]:
            depth, at = depth + (1 if token[1] in b"{[" else -1), token.end()
            continue
        if len(token[2]) < escapes:
            break  # the string around it ends
        at = token.end()
        end, after = _string_end(data, at, len(token[2]))
        if not (after and _IS_NAME.match(data, after)):
            yield at, end
        if not after:
            return
        at = after
    yield at, at  # up to here


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
