"""The gateway with a certificate of its own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config
from dragoman.gateway.config.start import server_tls
from gateway.running import serving
from http_client.servers import CERTIFICATE, trusting
from http_server.clients import Echo, Raw
from http_server.test_connection import post


def test_requests_over_tls() -> None:
    tls = server_tls(Config(tls_cert=str(CERTIFICATE), tls_key=str(CERTIFICATE)))
    with serving(Echo(), tls=tls) as url:
        raw = Raw(url)
        raw.socket = trusting().wrap_socket(raw.socket, server_hostname="127.0.0.1")
        for path in ("/a", "/b"):
            raw.say(post(path, b"hello"))
            assert raw.hear_json()["path"] == path
        raw.say(post("/deaf", b"x" * 500_000)[:-1])  # refused before its body has arrived
        assert raw.hear()[0] == 401
        raw.socket.close()


def test_a_certificate_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tls_cert and tls_key cannot be used: no such file"):
        server_tls(Config(tls_cert=str(tmp_path / "none.pem"), tls_key="none.pem"))
    assert server_tls(Config()) is None


def test_plain_http_is_no_tls() -> None:
    tls = server_tls(Config(tls_cert=str(CERTIFICATE), tls_key=str(CERTIFICATE)))
    assert isinstance(tls, ssl.SSLContext)
    with serving(Echo(), tls=tls) as url:
        raw = Raw(url)
        raw.say(post("/a"))
        assert not raw.rest().startswith(b"HTTP")
        raw.socket.close()
