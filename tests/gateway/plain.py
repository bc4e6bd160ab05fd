"""Requests without an SDK: exact bytes out, exact bytes back, in any protocol."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import UpstreamError
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Response, Text
from dragoman.framing import sse
from dragoman.protocols import codec
from gateway.stands import CLIENT_KEY, MODELS
from spoken import asking


@dataclass(frozen=True)
class Got:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return jsontext.decode(self.body)

    def failure(self, client: str) -> Failure:
        """The error as a client of this protocol reads it."""
        if self.headers["content-type"] == "application/json":
            found = codec(client).decode_error(self.json, self.status)
            assert found, self.body
            return found
        try:
            response = self.response(client)
        except UpstreamError as error:
            return error.failure
        raise AssertionError(f"no failure but {response}")

    def response(self, client: str) -> Response:
        """The stream as a client of this protocol reads it, checked against its grammar."""
        protocol_codec = codec(client)
        framing, grammar, decoder = (
            sse.Decoder(),
            protocol_codec.grammar(),
            protocol_codec.stream_decoder(Losses()),
        )
        frames = [*framing.feed(self.body), *framing.close()]
        checked = [passed for frame in frames for passed in grammar.feed(frame)]
        events = [event for frame in checked for event in decoder.feed(frame)]
        return fold([*events, *decoder.close()])

    def text(self, client: str) -> str:
        if self.headers["content-type"] == "application/json":
            response = codec(client).decode_response(self.json, Losses())
        else:
            response = self.response(client)
        return "".join(part.text for part in response.parts if isinstance(part, Text))


def model_of(upstream: str) -> str:
    return f"{upstream}:{MODELS[upstream]}"


def ask(url: str, client: str, text: str, model: str, stream: bool = False) -> Got:
    path, body = asking(client, text, model, stream)
    return send(url, "POST", path, jsontext.encode(body))


def send(
    url: str,
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    key: str = CLIENT_KEY,
) -> Got:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    options = {
        "content-type": "application/json",
        **({"authorization": f"Bearer {key}"} if key else {}),
        **(headers or {}),
    }
    try:
        connection.request(method, path, body, options)
        response = connection.getresponse()
        read = response.read()
        return Got(response.status, {name.lower(): value for name, value in response.getheaders()}, read)
    finally:
        connection.close()


def opened(url: str, path: str, body: bytes, extra: str = "") -> socket.socket:
    """A request that was sent; what happens then is up to the test."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {CLIENT_KEY}\r\n{extra}"
    connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return connection
