"""AWS event stream messages: bytes <-> frames, as `invoke-with-response-stream` of Bedrock sends them.

A message is binary: lengths, a CRC of both, headers, a payload, a CRC of everything before. Claude's events
travel in messages of type `chunk`, each as base64 inside a JSON object. Only clients are answered with it
(`gateway/request.py`): no upstream protocol names it yet.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import crc32
from struct import pack, unpack_from

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_object
from dragoman.core.protocol import Framing

_LARGEST = 16 * 1024 * 1024  # bytes of one message
_STRING = 7  # the only type of header value that these services use
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # bytes of the types with a fixed size


def message(headers: dict[str, str], payload: bytes) -> bytes:
    """One message; every header is a string."""
    block = b"".join(
        pack("!B", len(name)) + name.encode() + pack("!BH", _STRING, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = pack("!II", 16 + len(block) + len(payload), len(block))
    body = prelude + pack("!I", crc32(prelude)) + block + payload
    return body + pack("!I", crc32(body))


class Decoder:
    """Bytes in any pieces -> a frame for each message: its event type, and the event or the payload.

    An exception becomes an `error` event of the Messages API.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, item: bytes, /) -> list[Frame]:
        held = self._held
        held += item
        frames: list[Frame] = []
        while len(held) >= 12:
            total, size, crc = unpack_from("!III", held)
            if crc != crc32(held[:8]) or not 16 + size <= total <= _LARGEST:
                raise WireError("aws-events", "", "expected an event stream message")
            if len(held) < total:
                break
            whole = bytes(held[:total])
            del held[:total]
            if unpack_from("!I", whole, total - 4)[0] != crc32(whole[:-4]):
                raise WireError("aws-events", "", "the checksum of a message is wrong")
            frames.append(_frame(_headers(whole[12 : 12 + size]), whole[12 + size : -4]))
        return frames

    def close(self) -> tuple[()]:
        """A message that was cut yields nothing; whoever reads the frames misses their end."""
        return ()


def _headers(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            length = block[at]
            name, kind = block[at + 1 : at + 1 + length].decode(), block[at + 1 + length]
            at += 2 + length
            if kind in _SIZES:
                at += _SIZES[kind]
                continue
            (length,) = unpack_from("!H", block, at)
            headers[name] = block[at + 2 : at + 2 + length].decode("utf-8", "replace")
            at += 2 + length
    except (IndexError, ValueError, OSError) as error:
        raise WireError("aws-events", "", f"malformed headers: {error}") from None
    return headers


def _frame(headers: dict[str, str], payload: bytes) -> Frame:
    name = headers.get(":event-type", "")
    value = jsontext.decode_object(payload.decode("utf-8", "replace"))
    if headers.get(":message-type") in ("exception", "error"):
        kind = headers.get(":exception-type") or headers.get(":error-code", "")
        text = (value or {}).get("message") or headers.get(":error-message", "")
        return Frame("error", {"type": "error", "error": {"type": kind, "message": text}})
    data = value.get("bytes") if value and name == "chunk" else None
    if not isinstance(data, str):
        return Frame(name, payload)
    try:
        event = jsontext.decode(b64decode(data))
    except ValueError as error:
        raise WireError("aws-events", "bytes", f"expected JSON in base64: {error}") from None
    return Frame(str(event.get("type", "")) if is_object(event) else "", event)


class Encoder:
    """Frames -> messages of type `chunk`."""

    def feed(self, frame: Frame, /) -> tuple[bytes]:
        data = frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data)
        payload = jsontext.encode({"bytes": b64encode(data).decode()})
        return (message(_CHUNK, payload),)

    def close(self) -> tuple[()]:
        return ()


_CHUNK = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
AWS_EVENTS = Framing(
    Decoder,
    Encoder,
    content_type="application/vnd.amazon.eventstream",
    keep_alive=Encoder().feed(Frame("ping", {"type": "ping"}))[0],
)
