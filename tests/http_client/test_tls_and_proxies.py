"""Trust, and the way through proxies that the environment names."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode

import pytest

from dragoman.core.errors import ConfigError
from dragoman.http.client import Client, ConnectFailed, Timeouts
from dragoman.http.client.address import Address, Proxy, proxy_for
from http_client.conftest import Run
from http_client.servers import answering, listening, read_request, server_tls, trusting

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
SOON = Timeouts(30, 30, 30)


async def ask(client: Client, url: str) -> bytes:
    reply = await client.send("POST", url, {}, b"{}", SOON)
    return await reply.read(100)


def test_a_trusted_certificate(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER), server_tls()) as seen:
            client = Client(tls=trusting(), environ={})
            for _ in range(3):
                assert await ask(client, f"https://127.0.0.1:{seen.port}/v1") == b"ok"
            assert (seen.opened, client.connections) == (1, 1)
            await client.close()
            await seen.closed.wait()

    run(work())


@pytest.mark.parametrize(
    "host, context, problem",
    [
        ("127.0.0.1", ssl.create_default_context(), "not trusted .*self.signed"),
        ("localhost", None, "not trusted .*mismatch"),
    ],
    ids=["nobody vouches for it", "another name"],
)
def test_a_certificate_that_is_not_trusted(
    host: str, context: ssl.SSLContext | None, problem: str, run: Run
) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER), server_tls()) as seen:
            client = Client(tls=context or trusting(), environ={})
            with pytest.raises(ConnectFailed, match=problem):
                await ask(client, f"https://{host}:{seen.port}/v1")
            assert (client.connections, seen.requests) == (0, [])

    run(work())


API = Address("api.example.com", 443, True)
PLAIN = Address("box.lan", 8000, False)
ROUTES = {
    "none": ({}, API, None),
    "https": ({"HTTPS_PROXY": "http://p:3128"}, API, Proxy("p", 3128)),
    "the variable for the other scheme": ({"HTTP_PROXY": "http://p:3128"}, API, None),
    "http": ({"http_proxy": "p:3128"}, PLAIN, Proxy("p", 3128)),
    "lower case first": ({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:2"}, API, Proxy("a", 1)),
    "for all": ({"ALL_PROXY": "http://p"}, API, Proxy("p", 80)),
    "credentials": (
        {"HTTPS_PROXY": "http://me:p%40ss@p:1"},
        API,
        Proxy("p", 1, "Basic " + b64encode(b"me:p@ss").decode()),
    ),
    "loopback never": ({"ALL_PROXY": "http://p"}, Address("127.0.0.1", 1, False), None),
    "loopback by name never": ({"ALL_PROXY": "socks5://p"}, Address("localhost", 1, True), None),
    "loopback of IPv6 never": ({"ALL_PROXY": "http://p"}, Address("::1", 1, False), None),
    "excepted": ({"HTTPS_PROXY": "http://p", "NO_PROXY": "x.org, api.example.com"}, API, None),
    "excepted by domain": ({"HTTPS_PROXY": "http://p", "no_proxy": ".example.com"}, API, None),
    "excepted by bare domain": ({"HTTPS_PROXY": "http://p", "NO_PROXY": "example.com"}, API, None),
    "not by half a name": ({"HTTPS_PROXY": "http://p", "NO_PROXY": "ample.com"}, API, Proxy("p", 80)),
    "excepted with port": ({"HTTP_PROXY": "http://p", "NO_PROXY": "box.lan:8000"}, PLAIN, None),
    "another port": ({"HTTP_PROXY": "http://p", "NO_PROXY": "box.lan:9"}, PLAIN, Proxy("p", 80)),
    "everything excepted": ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, API, None),
    "a network": ({"HTTP_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, Address("10.1.2.3", 80, False), None),
}
REFUSED = {
    "socks": {"ALL_PROXY": "socks5://me:secret@p:1080"},
    "an https proxy": {"https_proxy": "https://me:secret@p"},
    "a port of nonsense": {"HTTPS_PROXY": "http://me:secret@p:xx"},
}


@pytest.mark.parametrize("name", ROUTES)
def test_which_proxy(name: str) -> None:
    environ, address, expected = ROUTES[name]
    assert proxy_for(address, environ) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_a_proxy_that_is_not_supported_is_named(name: str) -> None:
    (variable,) = REFUSED[name]
    with pytest.raises(ConfigError, match=f"^{variable}: ") as caught:
        proxy_for(API, REFUSED[name])
    assert "secret" not in str(caught.value)


async def tunnelling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
    """A proxy that connects every tunnel to the same port."""
    await read_request(reader, writer)
    there, back = await asyncio.open_connection("127.0.0.1", target)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    await asyncio.gather(copy(reader, back), copy(there, writer))


def test_a_tunnel_through_a_proxy(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER), server_tls()) as upstream:

            async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await tunnelling(reader, writer, upstream.port)

            async with listening(script) as proxy:
                environ = {"HTTPS_PROXY": f"http://me:pw@127.0.0.1:{proxy.port}"}
                client = Client(tls=trusting(), environ=environ)
                for _ in range(2):
                    assert await ask(client, "https://upstream.test/v1") == b"ok"
                (connect,) = proxy.requests
                assert connect.startswith(b"CONNECT upstream.test:443 HTTP/1.1\r\n")
                assert b"proxy-authorization: Basic " in connect
                assert len(upstream.requests) == 2
                assert all(b"proxy-authorization" not in head for head in upstream.requests)
                await client.close()
                assert client.connections == 0
                await upstream.closed.wait()
                await proxy.closed.wait()

    run(work())


def test_a_plain_request_goes_to_the_proxy_whole(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER)) as proxy:
            client = Client(environ={"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}"})
            assert await ask(client, "http://box.lan:8000/v1?x=1") == b"ok"
            (head,) = proxy.requests
            assert head.startswith(b"POST http://box.lan:8000/v1?x=1 HTTP/1.1\r\nhost: box.lan:8000\r\n")
            await client.close()

    run(work())


@pytest.mark.parametrize(
    "answer, problem",
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "status 407"),
        (b"", "closed the connection"),
        (b"nonsense\r\n\r\n", "status 0"),
    ],
)
def test_a_proxy_that_refuses(answer: bytes, problem: str, run: Run) -> None:
    async def work() -> None:
        async with listening(answering(answer, then="close")) as proxy:
            client = Client(environ={"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"})
            with pytest.raises(ConnectFailed, match=problem):
                await ask(client, "https://upstream.test/v1")
            assert client.connections == 0

    run(work())
