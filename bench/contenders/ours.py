"""dragoman: an Exchange goes from bytes to bytes by itself; making one is part of a request's price."""

from bench.contenders.base import Contender, Pair, TranslateRequest, TranslateStream


def prepare_request(pair: Pair) -> TranslateRequest:
    from dragoman import Exchange

    return lambda body: Exchange(*pair).request_bytes(body, model="some-model")


def prepare_stream(pair: Pair, body: bytes) -> TranslateStream:
    from dragoman import Exchange

    exchange = Exchange(*pair)
    exchange.request(body, model="some-model")
    stream = exchange.stream()
    return lambda frames: b"".join([*map(stream.feed, frames), stream.close()])


DRAGOMAN = Contender("dragoman", "dragoman", prepare_request, prepare_stream)
