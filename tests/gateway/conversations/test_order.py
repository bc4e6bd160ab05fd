"""A stream whose end waits for the store keeps the order of its events, wherever its upstream ends."""

from __future__ import annotations

import re

import pytest

from dragoman.core import jsontext
from dragoman.protocols import names
from gateway.plain import send
from gateway.stands import gateway

CONFIG = '[store]\nurl = "memory:"\n' + "".join(
    f'[providers.{name}]\nprotocol = "{name}"\nbase_url = "demo:"\n' for name in names()
)


@pytest.mark.parametrize("upstream", names())
def test_nothing_overtakes(upstream: str) -> None:
    request = {"model": f"{upstream}:m", "input": "Hello there", "stream": True, "store": True}
    with gateway(CONFIG) as stand:
        got = send(stand.url, "POST", "/v1/responses", jsontext.encode(request))
    numbers = [int(number) for number in re.findall(rb'"sequence_number":(\d+)', got.body)]
    assert len(numbers) > 5
    assert numbers == list(range(len(numbers)))
