"""AWS event stream messages: bytes <-> frames, as Bedrock's streams send them.

A message is binary: lengths, a CRC of both, headers, a payload, a CRC of everything before. `AWS_EVENTS` has
one message for each event, named in a header (ConverseStream). `AWS_CHUNKS` carries the events of another
protocol in messages of type `chunk`, each as base64 inside a JSON object (InvokeModelWithResponseStream).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import crc32
from struct import error as struct_error
from struct import pack, unpack_from

from dragoman.core import jsontext
from dragoman.core.codec import Frame, Framing
from dragoman.core.errors import WireError

_LARGEST = 16 * 1024 * 1024  # bytes of one message
_STRING = 7  # the only type of header value that these services use
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # bytes of the types with a fixed size
_LENGTHS = {6: "!H", 7: "!H"}  # of the types that say their length
_EXCEPTION = "Exception"  # every exception of AWS's service models ends so, and no event does


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
    """Bytes in any pieces -> a frame for each message: the type of its event or exception, and its payload.

    An error without a payload has its text in a header; its frame is `error`, `{"code": …, "message": …}`.
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
            frames.append(self._frame(_headers(whole[12 : 12 + size]), whole[12 + size : -4]))
        return frames

    def close(self) -> tuple[()]:
        """A message that was cut yields nothing; whoever reads the frames misses their end."""
        return ()

    def _frame(self, headers: dict[str, str], payload: bytes) -> Frame:
        match headers.get(":message-type"):
            case "exception":
                return Frame(headers.get(":exception-type", _EXCEPTION), payload)
            case "error":
                code, text = headers.get(":error-code", ""), headers.get(":error-message", "")
                return Frame("error", jsontext.encode({"code": code, "message": text}))
            case _:
                return Frame(headers.get(":event-type", ""), payload)


class ChunkDecoder(Decoder):
    """The same, with the event in the place of the chunk that carries it."""

    def _frame(self, headers: dict[str, str], payload: bytes) -> Frame:
        frame = super()._frame(headers, payload)
        value = jsontext.decode_object(payload.decode("utf-8", "replace")) if frame.event == "chunk" else None
        data = value.get("bytes") if value else None
        if not isinstance(data, str):
            return frame
        try:
            return Frame("", b64decode(data, validate=True))
        except ValueError as error:
            raise WireError("aws-events", "bytes", f"expected base64: {error}") from None


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
            (length,) = unpack_from(_LENGTHS[kind], block, at)
            headers[name] = block[at + 2 : at + 2 + length].decode("utf-8", "replace")
            at += 2 + length
    except (IndexError, KeyError, ValueError, struct_error) as error:
        raise WireError("aws-events", "", f"malformed headers: {error}") from None
    return headers


class Encoder:
    """Frames -> a message each, named after its event."""

    def feed(self, frame: Frame, /) -> tuple[bytes]:
        kind = "exception" if frame.event.endswith(_EXCEPTION) else "event"
        headers = {f":{kind}-type": frame.event, **_JSON, ":message-type": kind}
        return (message(headers, _printed(frame)),)

    def close(self) -> tuple[()]:
        return ()


class ChunkEncoder:
    """Frames -> messages of type `chunk`."""

    def feed(self, frame: Frame, /) -> tuple[bytes]:
        payload = jsontext.encode({"bytes": b64encode(_printed(frame)).decode()})
        return (message(_CHUNK, payload),)

    def close(self) -> tuple[()]:
        return ()


def _printed(frame: Frame) -> bytes:
    return frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data)


_JSON = {":content-type": "application/json"}
_CHUNK = {":event-type": "chunk", **_JSON, ":message-type": "event"}
_CONTENT_TYPE = "application/vnd.amazon.eventstream"

AWS_EVENTS = Framing(Decoder, Encoder, content_type=_CONTENT_TYPE)
AWS_CHUNKS = Framing(
    ChunkDecoder,
    ChunkEncoder,
    content_type=_CONTENT_TYPE,
    keep_alive=ChunkEncoder().feed(Frame("ping", {"type": "ping"}))[0],
)
