"""What clients get wrong, or bring along: bodies, sizes, encodings, models, keys."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors
from google.genai._gaos.lib import compat_errors
from msgspec import structs

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from dragoman.gateway.upstreams import attempts
from dragoman.protocols import codec
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.plain import ask, asking, model_of, opened, send
from gateway.running import running
from gateway.sdks import SDKS
from gateway.stands import (
    CLIENT_KEY,
    HASTY,
    MODELS,
    PROTOCOLS,
    UPSTREAM_KEY,
    Stand,
    configuration,
    gateway,
    wait_until,
)
from waiting import LONG

each_client = pytest.mark.parametrize("client", PROTOCOLS)
PATHS = {client: asking(client, "", "m")[0] for client in PROTOCOLS}


@pytest.fixture(scope="module")
def small(behind: tuple[DemoApp, str]) -> Iterator[Stand]:
    """A gateway that takes no more than a megabyte."""
    text = configuration(behind[1]).replace("[server]\n", "[server]\nmax_body_mb = 1\n")
    with gateway(text) as stand:
        yield stand


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of it": b'{"model": "x", "mess',
    "an array": b"[1, 2]",
    "a string": b'"x"',
    "not UTF-8": b'{"model": "\xff\xfe"}',
    "nested too deeply": b'{"a":' * 100_000,
    "no messages": b'{"model": "M"}',
    "messages of the wrong kind": b'{"model":"M","max_tokens":1,"messages":7,"input":7,"contents":7}',
    "messages of nonsense": b'{"model":"M","max_tokens":1,"messages":[[]],"input":[[]],"contents":[[]]}',
    "a zero byte": b'{"model": "M", "messages": "\x00"}',
}


@pytest.mark.parametrize("upstream", ["anthropic", "gemini"])
@pytest.mark.parametrize("name", GARBAGE)
@each_client
def test_garbage_is_a_bad_request(stand: Stand, client: str, name: str, upstream: str) -> None:
    model = model_of(upstream)
    path = asking(client, "", model)[0]
    body = GARBAGE[name].replace(b'"M"', f'"{model}"'.encode())
    got = send(stand.url, "POST", path, body)
    if client == "openai-responses" and name == "no messages":
        assert got.status in (200, 400)  # there a request may be empty; Gemini refuses one without contents
        return
    failure = got.failure(client)
    if failure.kind == "not_found":  # it names no model that could be asked
        assert b'"M"' not in GARBAGE[name]
    else:
        assert (got.status, failure.kind) == (400, "bad_request"), failure
    assert stand.last()["status"] == got.status


@each_client
def test_a_body_beyond_the_limit(small: Stand, client: str) -> None:
    model = model_of("anthropic")
    path, body = asking(client, "x" * 1_100_000, model)
    got = send(small.url, "POST", path, jsontext.encode(body))
    assert got.status == 413
    assert "1048576 bytes" in got.failure(client).message
    fits = ask(small.url, client, "x" * 1_000_000, model)
    assert fits.status == 200


def test_a_body_beyond_the_limit_that_does_not_say_so(small: Stand) -> None:
    """Chunked: nobody knows how much will come."""
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LONG) as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(20):
            connection.sendall(piece)
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "nonsense"])
def test_the_content_type_is_not_looked_at(stand: Stand, kind: str) -> None:
    path, body = asking("anthropic", "hi", model_of("gemini"))
    got = send(stand.url, "POST", path, jsontext.encode(body), {"content-type": kind})
    assert got.text("anthropic") == "You said: hi"


def test_a_packed_body(small: Stand) -> None:
    path, body = asking("anthropic", "hi", model_of("gemini"))
    packed = gzip.compress(jsontext.encode(body))
    assert (
        send(small.url, "POST", path, packed, {"content-encoding": "gzip"}).text("anthropic")
        == "You said: hi"
    )
    for headers, wrong, status in (
        ({"content-encoding": "gzip"}, b"not packed", 400),
        ({"content-encoding": "gzip"}, packed[:-9], 400),
        ({"content-encoding": "zstd"}, packed, 400),
        ({"content-encoding": "gzip"}, gzip.compress(b" " * 2_000_000), 413),
    ):
        got = send(small.url, "POST", path, wrong, headers)
        assert got.status == status, got.body
        assert got.failure("anthropic")


def test_a_client_that_leaves_in_its_own_request(stand: Stand) -> None:
    with opened(stand.url, "/v1/messages", b"", "x-more: 1\r\ntransfer-encoding: chunked\r\n") as connection:
        connection.sendall(b"5\r\nhello\r\n")
    host, port = stand.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LONG) as connection:
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {CLIENT_KEY}\r\ncontent-length: 99\r\n\r\n"
        )
        connection.sendall(head.encode() + b"{")
        wait_until(lambda: stand.gateway.access_log.metrics.in_flight > 0)
    assert stand.last()["status"] == "gone"


# Models


@each_client
def test_an_unknown_model(behind: tuple[DemoApp, str], client: str) -> None:
    text = configuration(behind[1]) + '\n[models]\nfast = "anthropic:x"\n"claude-*" = "gemini:y"\n'
    with gateway(text) as stand:
        got = ask(stand.url, client, "hi", "nonsense")
        assert (got.status, got.failure(client).kind) == (404, "not_found")
        assert "nonsense" in got.failure(client).message
        assert "fast" in got.failure(client).message
        assert ask(stand.url, client, "hi", "fast").text(client) == "You said: hi"
        assert ask(stand.url, client, "hi", "claude-opus-9").text(client) == "You said: hi"
        assert [line.get("provider", "") for line in stand.finished()[1:]] == ["anthropic", "gemini"]


# Keys

PLACES = {
    "a bearer": {"authorization": "Bearer KEY"},
    "a bearer in small letters": {"authorization": "bearer KEY"},
    "x-api-key": {"x-api-key": "KEY"},
    "x-goog-api-key": {"x-goog-api-key": "KEY"},
    "api-key": {"api-key": "KEY"},
    "the URL": {},
}


@pytest.mark.parametrize("place", PLACES)
@each_client
def test_a_key_in_every_place(stand: Stand, client: str, place: str) -> None:
    path, body = asking(client, "hi", model_of("anthropic"))

    def status(key: str) -> int:
        headers = {name: value.replace("KEY", key) for name, value in PLACES[place].items()}
        there = path if headers else f"{path}?key={key}"
        return send(stand.url, "POST", there, jsontext.encode(body), headers, key="").status

    assert [status(CLIENT_KEY), status(CLIENT_KEY[:-1]), status(CLIENT_KEY + "x"), status("caf%C3%A9")] == [
        200,
        401,
        401,
        401,
    ]


WRONG_KEY: dict[str, type[Exception]] = {
    "openai-chat": openai.AuthenticationError,
    "openai-responses": openai.AuthenticationError,
    "anthropic": anthropic.AuthenticationError,
    "gemini": errors.ClientError,
    "gemini-interactions": compat_errors.AuthenticationError,
}


@pytest.mark.parametrize("client", SDKS)
def test_a_wrong_key_is_the_sdks_own_error(stand: Stand, client: str) -> None:
    sdk = SDKS[client](stand.url, "wrong-key-1234")
    with pytest.raises(WRONG_KEY[client], match="needs a valid key"):
        sdk.whole(sdk.request(model_of("anthropic"), sdk.user("hi")))
    assert not [line for line in stand.lines if "wrong-key-1234" in line]


@each_client
def test_a_key_is_needed_for_everything_but_probes(stand: Stand, client: str) -> None:
    for method, path in (
        ("POST", PATHS[client]),
        ("GET", "/v1/models"),
        ("GET", "/v1beta/models"),
        ("GET", "/metrics"),
    ):
        assert send(stand.url, method, path, b"{}", key="").status == 401, path
    assert send(stand.url, "GET", "/healthz", key="").status == 200


LURES: dict[str, tuple[dict[str, str], int]] = {
    "no browser": ({}, 200),
    "a name of this machine": ({"host": "LocalHost:8787"}, 200),
    "an address of it": ({"host": "[::1]:8787"}, 200),
    "another name of it": ({"host": "host.docker.internal:8787"}, 200),
    "a container's name": ({"host": "gateway:8787"}, 200),
    "a public name that leads here": ({"host": "evil.example:8787"}, 403),
    "a public name with a dot at its end": ({"host": "evil.example."}, 403),
    "a public address": ({"host": "8.8.8.8:8787"}, 403),
    "a page from elsewhere": ({"origin": "https://evil.example"}, 403),
    "a page of this machine": ({"origin": "http://localhost:3000"}, 200),
    "an editor's own window": ({"origin": "vscode-webview://0abc"}, 200),
}


@pytest.fixture(scope="module")
def keyless(behind: tuple[DemoApp, str]) -> Iterator[Stand]:
    with gateway(configuration(behind[1])) as stand:
        yield stand


@pytest.mark.parametrize("name", LURES)
@each_client
def test_without_keys_no_web_page_is_answered(keyless: Stand, client: str, name: str) -> None:
    headers, status = LURES[name]
    path, body = asking(client, "hi", model_of("gemini"))
    got = send(keyless.url, "POST", path, jsontext.encode(body), headers, key="")
    metrics = send(keyless.url, "GET", "/metrics", headers=headers, key="")
    assert (got.status, metrics.status == 200) == (status, status == 200)
    if status == 403:
        assert got.failure(client).kind == "forbidden"
        assert keyless.last()["error"].startswith("Without keys")


def test_with_a_key_it_does_not_matter_who_carries_it(behind: tuple[DemoApp, str]) -> None:
    path, body = asking("anthropic", "hi", model_of("gemini"))
    with gateway(configuration(behind[1], f'"{CLIENT_KEY}"')) as stand:
        for headers in ({"host": "gateway.example"}, {"origin": "https://app.example"}):
            assert send(stand.url, "POST", path, jsontext.encode(body), headers).status == 200


def test_a_clients_key_never_goes_on() -> None:
    upstream = Canned(Answer(200, chat("well")))
    with running(upstream) as url:
        text = (
            f'[server]\nkeys = ["{CLIENT_KEY}"]\n'
            + provider("one", url)
            + provider("none", url, api_key='""')
        )
        text += provider("through", url, passthrough="true")
        with gateway(text) as stand:
            for place in PLACES.values():
                headers = {name: value.replace("KEY", CLIENT_KEY) for name, value in place.items()}
                path, body = asking("anthropic", "hi", "one:m")
                send(stand.url, "POST", f"{path}?key={CLIENT_KEY}", jsontext.encode(body), headers, key="")
            path, body = asking("openai-chat", "hi", "none:m")
            send(stand.url, "POST", f"{path}?key={CLIENT_KEY}", jsontext.encode(body))
            path, body = asking("openai-chat", "hi", "through:m")
            send(stand.url, "POST", path, jsontext.encode(body))
    *others, without, through = upstream.requests
    assert len(others) == len(PLACES)
    for request in (*others, without):
        assert CLIENT_KEY not in str(request.headers) + request.path + request.body.decode()
    assert {request.headers["authorization"] for request in others} == {"Bearer key-of-one"}
    assert "authorization" not in without.headers
    assert through.headers["authorization"] == f"Bearer {CLIENT_KEY}"


def test_a_key_that_would_break_the_head_goes_nowhere() -> None:
    upstream = Canned(Answer(200, chat("well")))
    with running(upstream) as url, gateway(provider("one", url, passthrough="true")) as stand:
        path, body = asking("openai-chat", "hi", "one:m")
        got = send(stand.url, "POST", f"{path}?key=a%0d%0aevil:1", jsontext.encode(body), key="")
        assert (got.status, upstream.requests) == (500, [])
        assert "evil" not in got.body.decode()


def test_headers_that_belong_to_a_forwarded_body_go_with_it() -> None:
    upstream = Canned(Answer(400, b"{}"))
    with running(upstream) as url, gateway(provider("one", url, "anthropic") + provider("two", url)) as stand:
        path, body = asking("anthropic", "hi", "one:m")
        headers = {"anthropic-beta": "b1,b2", "anthropic-version": "2026-10-21", "x-other": "no"}
        for model in ("one:m", "two:m"):
            send(stand.url, "POST", path, jsontext.encode({**body, "model": model}), headers)
    same, other = upstream.requests
    assert (same.headers["anthropic-beta"], same.headers["anthropic-version"]) == ("b1,b2", "2026-10-21")
    assert "x-other" not in same.headers
    assert not [name for name in other.headers if name.startswith("anthropic")]
    assert same.headers["user-agent"].startswith("dragoman/")


def test_headers_of_one_request_do_not_go_with_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "_MOST_VARIANTS", 2)
    upstream = Canned(Answer(400, b"{}"))
    betas = ["b1", "b2", None, "", "b1", "b3"]
    with running(upstream) as url, gateway(provider("one", url, "anthropic")) as stand:
        path, body = asking("anthropic", "hi", "one:m")
        for beta in betas:
            headers = {} if beta is None else {"anthropic-beta": beta}
            send(stand.url, "POST", path, jsontext.encode(body), headers)
    assert [request.headers.get("anthropic-beta") for request in upstream.requests] == betas


def test_a_signature_is_made_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    chat_codec = codec("openai-chat")
    http = structs.replace(
        chat_codec.http, authenticate=lambda key, given: {"x-signed": str(len(given.body))}, signs=True
    )
    monkeypatch.setattr(attempts, "upstream", lambda name: structs.replace(chat_codec, http=http))
    upstream = Canned(Answer(400, b"{}"))
    with running(upstream) as url, gateway(provider("one", url)) as stand:
        for text in ("hi", "hi again"):
            path, body = asking("openai-chat", text, "one:m")
            send(stand.url, "POST", path, jsontext.encode(body))
    sizes = [str(len(request.body)) for request in upstream.requests]
    assert [request.headers["x-signed"] for request in upstream.requests] == sizes
    assert len(set(sizes)) == 2


# Forwarding


@each_client
def test_the_same_protocol_passes_as_it_is(client: str) -> None:
    """Unknown fields, order and spelling survive in both directions; only the model changes."""
    path, body = asking(client, "hi", "one:their-name")
    raw = jsontext.encode({"unknown": {"b": 1.10, "a": [1e5]}, **body, "also": None})
    raw = (
        raw.replace(b'"one:their-name"', b'"one:their-name"')
        .replace(b"1.1,", b"1.10,")
        .replace(b"100000.0", b"1e5")
    )
    reply = codec(client).encode_response
    assert reply
    whole = (
        b'{ "made_up": 1.50, "id" : "x" , "object":"response", "status":"completed", "type":"message", '
        b'"choices":[{}], "output":[], "content":[], "candidates":[{}], "usage":null }'
    )
    upstream = Canned(Answer(200, whole))
    with running(upstream) as url, gateway(provider("one", url, client)) as stand:
        got = send(stand.url, "POST", path, raw)
    request = upstream.requests[0]
    expected = raw if client == "gemini" else raw.replace(b"one:their-name", b"their-name")
    assert request.body == expected
    assert (got.status, got.body) == (200, whole)


def test_an_error_of_the_same_protocol_passes_as_it_is() -> None:
    """Its code, its details and its status are what the SDK looks at."""
    expected = {
        "type": "error",
        "error": {"type": "x_error", "message": "no", "details": {"error_code": "x", "n": 1.50}},
    }
    with (
        running(Canned(Answer(418, jsontext.encode(expected)))) as url,
        gateway(
            provider("one", url, "anthropic") + provider("two", url, "anthropic", dialect='"hermes"')
        ) as stand,
    ):
        for model in ("one:m", "two:m"):
            got = ask(stand.url, "anthropic", "hi", model)
            assert (got.status, got.json) == (418, expected)
        assert ask(stand.url, "openai-chat", "hi", "one:m").status == 400


# Secrets


def test_no_secret_is_ever_shown(behind: tuple[DemoApp, str], capfd: pytest.CaptureFixture[str]) -> None:
    """Not in answers, not in errors, not in the log, not even in the wires of --verbose."""
    shown: list[bytes] = []
    echo = f'{{"error":{{"message":"bad key {UPSTREAM_KEY} for {CLIENT_KEY}"}}}}'.encode()
    with running(Canned(Answer(401, echo))) as url:
        text = configuration(behind[1], f'"{CLIENT_KEY}"')
        text += provider(
            "echo", url, api_key=f'"{UPSTREAM_KEY}"', headers='{ x-secret = "header-secret-55" }'
        )
        with gateway(text, HASTY, verbose=True) as stand:
            for client in PROTOCOLS:
                for upstream in (*MODELS, "echo", "nonsense"):
                    for stream in (False, True):
                        for fault in ("", "[[fault: 401]]", "[[fault: cut]]"):
                            model = f"{upstream}:{MODELS.get(upstream, 'm')}"
                            got = ask(stand.url, client, f"hi {fault}", model, stream)
                            shown += [got.body, str(got.headers).encode()]
                path, body = asking(client, "hi", model_of("gemini"))
                for headers in PLACES.values():
                    fields = {name: value.replace("KEY", CLIENT_KEY) for name, value in headers.items()}
                    got = send(
                        stand.url, "POST", f"{path}?key={CLIENT_KEY}", jsontext.encode(body), fields, key=""
                    )
                    shown.append(got.body)
            shown.append(send(stand.url, "GET", "/metrics").body)
            lines = "\n".join(stand.lines)
    captured = capfd.readouterr()
    everything = b"\n".join(shown).decode() + lines + captured.out + captured.err
    assert "bad key *** for ***" in everything
    assert "upstream request" in lines
    for secret in (CLIENT_KEY, UPSTREAM_KEY, "header-secret-55"):
        assert secret not in everything


def test_both_wires_are_logged(behind: tuple[DemoApp, str]) -> None:
    with gateway(configuration(behind[1]), HASTY, verbose=True) as stand:
        ask(stand.url, "anthropic", "hi there", model_of("gemini"), stream=True)
        stand.finished()
        records: list[dict[str, Any]] = [jsontext.decode(line) for line in stand.lines]
    wires = [line for line in records if "wire" in line]
    assert {line["id"] for line in wires} == {stand.records[0]["id"]}
    kinds = list(dict.fromkeys(line["wire"] for line in wires))
    assert kinds == [
        "client request",
        "upstream request",
        "upstream response",
        "upstream body",
        "client response",
    ]
    by_kind = {kind: [line for line in wires if line["wire"] == kind] for kind in kinds}
    assert '"messages"' in by_kind["client request"][0]["body"]
    assert '"contents"' in by_kind["upstream request"][0]["body"]
    assert by_kind["upstream request"][0]["headers"]["x-goog-api-key"] == "***"
    assert any("message_stop" in line.get("body", "") for line in by_kind["client response"])


def test_a_key_that_nobody_configured_is_no_less_secret(behind: tuple[DemoApp, str]) -> None:
    with gateway(configuration(behind[1]), HASTY, verbose=True) as stand:
        for headers in ({"authorization": "Bearer nobodys-key-42"}, {"x-goog-api-key": "nobodys-key-42"}):
            path, body = asking("gemini", "hi", model_of("openai-chat"))
            send(
                stand.url,
                "POST",
                path,
                jsontext.encode(body),
                {**headers, "cookie": "nobodys-key-42"},
                key="",
            )
        assert "nobodys-key-42" not in "".join(stand.lines)
        assert '"wire":"client request"' in "".join(stand.lines)


def test_a_passed_on_key_that_an_upstream_quotes_is_not_logged() -> None:
    upstream = Canned(Answer(401, error("Incorrect API key: their-own-key-42")))
    with (
        running(upstream) as url,
        gateway(provider("one", url, passthrough="true"), verbose=True) as stand,
    ):
        path, body = asking("openai-chat", "hi", "one:m")
        send(stand.url, "POST", path, jsontext.encode(body), key="their-own-key-42")
        stand.finished()
        log = "".join(stand.lines)
        assert "Incorrect API key: ***" in log
        assert "their-own-key-42" not in log


def test_a_key_that_an_upstream_quotes_in_mid_stream_is_not_logged() -> None:
    broken = b"data: %b\n\n" % error("no such key: key-of-one")
    upstream = Canned(Answer(200, *chunks("well")[:2], broken, content_type="text/event-stream"))
    with running(upstream) as url, gateway(provider("one", url)) as stand:
        for client in PROTOCOLS:
            ask(stand.url, client, "hi", "m", stream=True)
            assert stand.last()["error"] == "no such key: ***"


def test_long_blobs_are_shortened(behind: tuple[DemoApp, str]) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 1000}}
    body = {
        "model": model_of("openai-chat"),
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [image]}],
    }
    with gateway(configuration(behind[1]), HASTY, verbose=True) as stand:
        send(stand.url, "POST", "/v1/messages", jsontext.encode(body))
        assert max(map(len, stand.lines)) < 2000
        assert "(4000 characters)" in "".join(stand.lines)


def test_an_unpacked_body_counts_in_the_memory() -> None:
    """A few kB of gzip are as much as what they unpack to."""
    wire = {"model": "demo", "messages": [{"role": "user", "content": "x" * 10**6}]}
    body = gzip.compress(jsontext.encode(wire))
    with gateway("[server]\nmemory_mb = 2\n") as stand:
        got = send(stand.url, "POST", "/v1/chat/completions", body, {"content-encoding": "gzip"})
    assert (got.status, "memory" in got.json["error"]["message"]) == (503, True)
