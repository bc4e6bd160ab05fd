"""The floor: the same JSON parsed and printed, nothing translated."""

from bench.contenders.base import FAST, Contender, Pair, TranslateRequest, TranslateStream
from bench.streams import frame_data


def prepare_request(pair: Pair) -> TranslateRequest:
    return lambda body: FAST.encode(FAST.decode(body))


def prepare_stream(pair: Pair, body: bytes) -> TranslateStream:
    return lambda frames: b"".join(map(reprint, frames))


def reprint(frame: bytes) -> bytes:
    data = frame_data(frame)
    return b"data: %b\n\n" % (data if data == b"[DONE]" else FAST.encode(FAST.decode(data)))


FLOOR = Contender("floor (msgspec alone)", "msgspec", prepare_request, prepare_stream)
