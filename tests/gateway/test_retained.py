"""Nothing of a request stays in memory once it was answered, without any help of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dragoman.core import jsontext
from dragoman.gateway.request import Attempt, GatewayRequest, RoutedRequest
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.plain import asking, send
from gateway.running import running
from gateway.stands import Stand, gateway
from waiting import wait_until

CASES = {
    "answered": ("anthropic", "good:m", False),
    "streamed": ("anthropic", "stream:m", True),
    "refused by the upstream": ("anthropic", "bad:m", False),
    "refused by all targets": ("openai-chat", "both", False),
    "a stream that is refused": ("openai-responses", "bad:m", True),
    "not reachable": ("gemini", "dead:m", False),
    "an unknown model": ("openai-chat", "nobody", False),
    "malformed": ("openai-chat", "malformed:m", False),
    "cut": ("anthropic", "cut:m", True),
}
EVENTS = chunks("hello", "there")


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    sse = {"content_type": "text/event-stream"}
    with (
        running(Canned(Answer(200, chat("hello")))) as good,
        running(Canned(Answer(200, *EVENTS, **sse))) as stream,
        running(Canned(Answer(400, error("no")))) as bad,
        running(Canned(Answer(200, b"{"))) as malformed,
        running(Canned(Answer(200, *EVENTS[:2], **sse))) as cut,
    ):
        named = {"good": good, "stream": stream, "bad": bad, "malformed": malformed, "cut": cut}
        rows = [provider(name, url) for name, url in (named | {"dead": "http://127.0.0.1:9"}).items()]
        with gateway("".join(rows) + '[models]\nboth = ["bad:m", "dead:m"]\n') as stand:
            yield stand


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_retained(stand: Stand, case: str) -> None:
    client, model, stream = CASES[case]
    path, body = asking(client, "hello", model, stream=stream)
    wait_until(lambda: stand.gateway.access_log.metrics.in_flight == 0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            send(stand.url, "POST", path, jsontext.encode(body))
        wait_until(lambda: not _retained())
    finally:
        gc.enable()


def _retained() -> list[object]:
    return [each for each in gc.get_objects() if type(each) in _VALUES]


_VALUES = (GatewayRequest, RoutedRequest, Attempt)
