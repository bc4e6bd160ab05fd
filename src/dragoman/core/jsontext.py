"""The only place where JSON is parsed and printed.

Numbers keep their lexeme: `1.10`, `1e5` and `1e400` come back as they were written, because a
tool's arguments must reach the tool as the model wrote them.
"""

from __future__ import annotations

import json
import re
from codecs import utf_8_decode
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from secrets import token_hex
from typing import Any, Generic, NoReturn, TypeGuard, TypeVar

import msgspec


class Number(float):
    """A float that remembers how it was spelled."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _read_float(text: str) -> float:
    value = float(text)
    return value if repr(value) == text else Number(text)


def _print_number(value: Any) -> msgspec.Raw:
    if isinstance(value, Number):
        return msgspec.Raw(value.text.encode())
    raise TypeError(f"{type(value).__name__} is not JSON")


class TooDeep(ValueError):
    """Text that nests deeper than the interpreter goes from here."""


TOO_DEEP = (TooDeep, RecursionError)  # what was read nests too deeply for what is to be made of it
MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError)
_decoder = msgspec.json.Decoder(float_hook=_read_float)
# The entries of an object or an array as text; they raise one of MALFORMED
split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
split_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encoder = msgspec.json.Encoder(enc_hook=_print_number)
# Commas; texts have them too, but a million are more than any context window takes
MOST_VALUES = 1_000_000
# Stands for what is cut out of a body before the rest is read. A client cannot know it
CUT = f"cut-{token_hex(16)}"
CUT_TEXT = f'"{CUT}"'.encode()


T = TypeVar("T")


def typed_reader(shape: type[T]) -> Callable[[bytes], T | None]:
    """Reads JSON of this shape, with the numbers of `decode`; None for any other, which is for `decode`."""
    decode_typed = msgspec.json.Decoder(shape, float_hook=_read_float).decode

    def read(text: bytes) -> T | None:
        try:
            value = decode_typed(text)
        except MALFORMED:
            return None
        return value if _is_sound(text) else None

    return read


def decode(text: bytes | str) -> Any:
    """Parse; raises ValueError (never anything else) with a reason a person can read."""
    try:
        return _decoder.decode(text)
    except MALFORMED as error:
        return _decode_hard(text, error)


def encode(value: Any) -> bytes:
    """Print compactly: raw UTF-8, insertion order, numbers as they were spelled."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(value))


class PrintedFields(msgspec.Struct, eq=False, gc=False):
    """Fields of bodies that are much alike: by name a value and its text, which is not kept where it has more
    than `longest` bytes."""

    longest: int = 0
    known: dict[str, tuple[Any, bytes]] = {}


def encode_spliced(body: dict[str, Any], field: str, printed: PrintedFields) -> bytes:
    """Like `encode`, for a body with entries in `field` that are text already.

    They are copied once; the encoder's own buffer would grow with them several times. Of the other fields
    only those are printed whose values are not in `printed`, which keeps them for the next body.
    """
    pieces: list[Any] = []
    known = printed.known
    for name, value in body.items():
        if name == field:
            pieces.append(_field_start(name))
            pieces += _print_entries(value)
        elif (before := known.get(name)) and (
            before[0] is value or (type(value) is str and before[0] == value)
        ):
            pieces.append(before[1])
        else:
            text = _field_start(name) + encode(value)
            if len(text) <= printed.longest:
                known[name] = value, text
            pieces.append(text)
    pieces[0] = b"{" + pieces[0][1:]
    pieces.append(b"}")
    return b"".join(pieces)


def _print_entries(value: Any) -> list[Any]:
    if not is_array(value) or msgspec.Raw not in map(type, value):
        return [encode(value)]
    pieces: list[Any] = [b"["]
    for entry in value:
        pieces += entry if type(entry) is msgspec.Raw else encode(entry), b","
    pieces[-1] = b"]"
    return pieces


@lru_cache(256)
def _field_start(name: str) -> bytes:
    return b",%b:" % encode(name)


def dumps(value: Any) -> str:
    return encode(value).decode()


def spaced(value: Any) -> str:
    """Like `dumps`, with a space after each comma and colon, as chat templates print it."""
    return msgspec.json.format(encode(value), indent=0).decode()


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def decode_object(text: bytes | str) -> dict[str, Any] | None:
    """The object that `text` spells, or None where it spells something else or is broken."""
    try:
        value = decode(text)
    except ValueError:
        return None
    return value if is_object(value) else None


def replaced(body: bytes, field: str, old: object, new: str, once: bool = False) -> bytes | None:
    """`body` with another text in that field, all other bytes untouched; None where this takes a parser.

    `old` is the text that the object has there; `once`: it has the field only once (see `Glance`). Where the
    first place with its name is not plainly the field, it is changed, and the object is read again.
    """
    if type(old) is not str:
        return None
    name, spellings, pattern = _change(field, old, new)
    at = body.find(name)
    if at > 0 and ((once and _is_shallow(body, at)) or _is_only(body, name, at, once)):
        made = _replaced_at(body, at, spellings)
        if made is not None:
            return made
    found = pattern.search(body)
    if found is None:
        return None
    text = encode(new)
    made = b"%b%b%b" % (body[: found.start(1)], text, body[found.end(1) :])
    try:
        return made if split_object(made).get(field) == msgspec.Raw(text) else None
    except MALFORMED:
        return None


def replaced_early(body: bytes, field: str, old: object, new: str) -> bytes | None:
    """`replaced`, for one of many bodies that begin alike and have the field once; None where it does not
    stand at their beginning."""
    beginning = _replaced_beginning(body[:_EARLY], field, old, new) if type(old) is str else None
    return beginning + body[_EARLY:] if beginning else None


@lru_cache(256)
def _replaced_beginning(beginning: bytes, field: str, old: str, new: str) -> bytes | None:
    name, spellings, _ = _change(field, old, new)
    at = beginning.find(name)
    return _replaced_at(beginning, at, spellings) if at > 0 and _is_shallow(beginning, at) else None


def _replaced_at(body: bytes, at: int, spellings: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """None where the field at this place is spelled otherwise; it is the first of its name."""
    for spelled, replacement in spellings:
        if body.startswith(spelled, at):
            return body.replace(spelled, replacement, 1)
    return None


def _is_shallow(body: bytes, at: int) -> bool:
    """Whether a quote at this place of an object can only begin one of its own names or texts: no other
    object or array begins before it, and the quote itself is not part of a text."""
    return body.find(b"{", 1, at) < 0 and body.find(b"[", 1, at) < 0 and body[at - 1] != _BACKSLASH


def _is_only(body: bytes, name: bytes, at: int, once: bool) -> bool:
    """Whether an object has this name nowhere else, in whatever spelling. Where `body` was not read as `once`
    demands, half a surrogate pair may be in it, which `decode` would mend."""
    escape = b"\\u00" if once else b"\\u"
    return body.find(name, at + 1) < 0 and body.find(escape) < 0 and body[0] == _BRACE


_BRACE, _BACKSLASH = b"{\\"


@lru_cache(256)
def _change(
    field: str, old: str, new: str
) -> tuple[bytes, tuple[tuple[bytes, bytes], ...], re.Pattern[bytes]]:
    """The quoted name; the field as clients spell it, with and without a space, and what it becomes; and what
    finds its value however it is spaced."""
    name, before, after = b'"%b"' % field.encode(), encode(old), encode(new)
    spellings = tuple((name + colon + before, name + colon + after) for colon in (b":", b": "))
    return name, spellings, re.compile(rb"%b\s*:\s*(%b)" % (re.escape(name), re.escape(before)))


_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,256})"')
_EARLY = 80  # bytes, in which most clients name the model


def guess_model(body: bytes) -> str:
    """The text of the first `model`, at any depth, without reading the body; empty where there is none."""
    return _guess_early(body[:_EARLY]) or _guess(body)


def _guess(body: bytes) -> str:
    found = _MODEL.match(body, body.find(b'"model"'))  # from -1: the last byte, which does not match
    return found[1].decode("utf-8", "replace") if found else ""


_guess_early = lru_cache(256)(_guess)  # an agent's requests all begin alike


Once = object  # the type of a field that may be replaced in the text: it must not stand there twice


class Glance(Generic[T]):
    """Reads of a body only what a TypedDict or a Struct names.

    The rest must be JSON too, but nothing is built of it. An object with two fields of one name of type
    `Once` is not read.
    """

    __slots__ = ("_decode",)

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.json.Decoder(kind, float_hook=_read_float, dec_hook=_count_field).decode

    def read(self, body: bytes) -> T | None:
        """None where `body` is not plainly such an object: then it is for `decode` to judge."""
        before = next(_fields_read)
        try:
            seen = self._decode(body)
        except MALFORMED:
            return None
        if next(_fields_read) - before > 2:
            return None
        return seen if _is_sound(body) else None


_fields_read = count()  # other threads only make it larger


def _count_field(kind: type, value: Any) -> Any:
    """msgspec calls it for each field whose type it does not know, such as `Once`."""
    next(_fields_read)
    return value


_WHITE = b" \t\r\n"
_LONGEST_INTEGER = 4300  # digits: no more are read
_LONG_INTEGER = re.compile(rb"[0-9]{8}")  # in every 512th byte, where one has _LONGEST_INTEGER digits
_PIECE = 16384  # bytes; text decoded in such pieces takes a third of the time, for lack of large buffers


def _is_sound(body: bytes) -> bool:
    """Checks what is not checked where text is skipped: how long a number is, and whether all is UTF-8."""
    size = len(body)
    if size > _LONGEST_INTEGER and _LONG_INTEGER.search(body[::512]):
        return False
    if body.isascii():
        return True
    try:
        if size <= _PIECE:
            body.decode()
            return True
        view, at = memoryview(body), 0
        while at < size:
            used = utf_8_decode(view[at : at + _PIECE], "strict", False)[1]  # up to the last whole character
            if not used:
                return False
            at += used
    except UnicodeDecodeError:
        return False
    return True


def is_array_text(text: bytes) -> bool:
    try:
        split_array(text)
    except MALFORMED:
        return False
    return _is_sound(text)


@lru_cache(64)
def _quoted(field: str) -> bytes:
    return b'"%b"' % field.encode()


def find_array(data: bytes, field: str) -> int:
    """Where the array in `field` begins; -1 where that takes a parser."""
    name = _quoted(field)
    at = data.find(name)
    while at >= 0:
        at += len(name)
        opening = array_behind(data, at)
        if opening >= 0:
            return opening
        at = data.find(name, at)
    return -1


def array_behind(data: bytes, at: int) -> int:
    """Where an array begins that stands behind the name of its field; -1 where none does."""
    if data.startswith((b":[", b": ["), at):
        return data.index(b"[", at)
    opening = data.find(b"[", at, at + 16)
    return opening if data[at:opening].strip(_WHITE) == b":" else -1


def is_complete(text: str) -> bool:
    """Whether `text` is one whole JSON value."""
    try:
        _decoder.decode(text)
    except MALFORMED as error:
        try:
            _decode_hard(text, error)
        except ValueError:
            return False
    return True


_BRACKETS_AND_STRINGS = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*("?)', re.DOTALL)


def breaks_off(text: str) -> bool:
    """Whether JSON text, whatever else is wrong with it, ends inside its string, object or array."""
    text = text.lstrip()
    found = _BRACKETS_AND_STRINGS.match(text)
    if found and found[0][0] == '"':
        return not found[1]
    return end_of_value(text) == 0


def end_of_value(text: str) -> int:
    """Behind the bracket that closes the object or array at the beginning of `text`; 0: none does."""
    depth = 0
    for found in _BRACKETS_AND_STRINGS.finditer(text):
        if found[0] in ("{", "["):
            depth += 1
        elif found[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return found.end()
    return 0


_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _decode_hard(text: bytes | str, error: Exception) -> Any:
    """Some servers cut an escaped surrogate pair in two; the half becomes U+FFFD, the rest survives."""
    if isinstance(error, RecursionError):
        raise TooDeep("invalid JSON: nested too deeply")
    if isinstance(error, UnicodeError):
        _refuse("not valid UTF-8")
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if not _ESCAPED_SURROGATE.search(raw):
        _refuse(str(error))
    try:  # as text: of bytes it would guess the encoding, and take surrogates in UTF-8
        return _without_surrogates(json.loads(raw.decode(), parse_constant=_refuse, parse_float=_read_float))
    except (ValueError, RecursionError) as again:
        _refuse(str(again))


def _without_surrogates(value: Any) -> Any:
    """A body that came as objects may hold half a surrogate pair too, and it becomes U+FFFD likewise."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if is_object(value):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if is_array(value):
        return [_without_surrogates(item) for item in value]
    return value


def _refuse(reason: str) -> NoReturn:
    raise ValueError(f"invalid JSON: {reason}")
