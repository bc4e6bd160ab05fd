"""What goes on the wire before the body: the address, the head, and what is refused there."""

from __future__ import annotations

import pytest

from dragoman.core.errors import ConfigError
from dragoman.http.client import Client, Timeouts
from dragoman.http.client.address import Address, address_of
from dragoman.http.client.client import destination
from http_client.conftest import Run
from http_client.servers import answering, listening

ADDRESSES = {
    "https://api.example.com/v1/x?a=b": (
        Address("api.example.com", 443, True),
        "/v1/x?a=b",
        "api.example.com",
    ),
    "http://localhost:8080": (Address("localhost", 8080, False), "/", "localhost:8080"),
    "http://[::1]:9/v1": (Address("::1", 9, False), "/v1", "[::1]:9"),
    "https://API.example.com:443/v1": (Address("api.example.com", 443, True), "/v1", "api.example.com"),
}
NOT_ADDRESSES = {
    "ftp://x/": "not an http or https URL",
    "http://": "not an http or https URL",
    "http://x y/": "no spaces",
    "http://x/\r\nevil: 1": "no spaces",
    "http://bücher.example/": "only ASCII",
    "http://x:99999/": "not a URL",
    "http://x:port/": "not a URL",
    "http://user:secret@x/": "no credentials into a URL",
}
HEADERS = {
    "a line break in a value": {"authorization": "Bearer s3cret\r\nevil: 1"},
    "a line feed in a value": {"authorization": "Bearer s3cret\nevil: 1"},
    "a carriage return alone": {"authorization": "Bearer s3cret\revil: 1"},
    "a line break in a name": {"x\r\nevil": "s3cret"},
    "a zero": {"authorization": "s3cret\0"},
    "a euro sign": {"authorization": "s3cret €"},
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address(url: str) -> None:
    address, path = address_of(url)
    assert (address, path, address.authority) == ADDRESSES[url]


@pytest.mark.parametrize("url", NOT_ADDRESSES)
def test_not_an_address(url: str) -> None:
    with pytest.raises(ConfigError, match=NOT_ADDRESSES[url]) as caught:
        address_of(url)
    assert "secret" not in str(caught.value)


def test_a_head() -> None:
    items = (("x-key", "é"), ("b", "c"))
    head = b"POST /v1?x HTTP/1.1\r\nhost: h:81\r\nx-key: \xe9\r\nb: c\r\naccept-encoding: identity\r\n"
    address = Address("h", 81, False)
    assert destination(lambda address: None, "POST", "http://h:81/v1?x", items) == (address, None, head)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_would_break_the_head_is_refused_before_sending(name: str, run: Run) -> None:
    async def work() -> None:
        async with listening(answering()) as seen:
            with pytest.raises(ConfigError, match="header") as caught:
                await Client(environ={}).send("POST", seen.url, HEADERS[name], b"", Timeouts())
            assert "s3cret" not in str(caught.value)
            assert seen.opened == 0

    run(work())
