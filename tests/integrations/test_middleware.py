"""ASGI and WSGI middleware: a model answers, or the app behind in its own protocol."""

import asyncio
import gzip
import io
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman import ConfigError, protocols
from dragoman.demo import DemoApp
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from dragoman.integrations import AsgiMiddleware, WsgiMiddleware
from gateway.running import running
from spoken import asking, echoed
from waiting import LONG, wait_until

SAID = "You said: Good morning"
REQUESTS = {client: asking(client, "Good morning") for client in protocols()}


async def hello(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def failing(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("broken app")


def over_asgi(app: Any, method: str, path: str, body: Any = None) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
            return await client.request(method, path, json=body)

    return asyncio.run(ask())


@pytest.mark.parametrize("client", protocols())
@pytest.mark.parametrize("protocol", protocols())
def test_an_asgi_app_serves_every_protocol(protocol: str, client: str):
    path, body = REQUESTS[client]
    reply = over_asgi(AsgiMiddleware(DemoApp(), protocol=protocol), "POST", path, body)
    assert reply.status_code == 200
    assert echoed(client, reply.json())
    assert SAID in reply.text


@pytest.mark.parametrize("client", protocols())
def test_a_model_answers_over_asgi(client: str):
    path, body = REQUESTS[client]
    app = AsgiMiddleware(hello, "demo:any")
    assert SAID in over_asgi(app, "POST", path, body).text
    assert over_asgi(app, "GET", "/elsewhere").text == "hello"


def test_streams_over_asgi():
    path, body = REQUESTS["anthropic"]
    reply = over_asgi(AsgiMiddleware(DemoApp(), protocol="gemini"), "POST", path, {**body, "stream": True})
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.text.rstrip().endswith('{"type":"message_stop"}')


def test_an_app_that_fails_is_an_error_of_the_clients_protocol():
    path, body = REQUESTS["anthropic"]
    reply = over_asgi(AsgiMiddleware(failing, protocol="openai-chat"), "POST", path, body)
    assert (reply.status_code, reply.json()["type"]) == (500, "error")
    assert "broken app" in reply.text


def test_alone_it_is_an_app():
    async def lifespan() -> list[str]:
        waiting, sent = ["lifespan.startup", "lifespan.shutdown"], []

        async def receive() -> dict[str, Any]:
            return {"type": waiting.pop(0)}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await AsgiMiddleware(None, "demo:any")({"type": "lifespan"}, receive, send)
        return sent

    assert asyncio.run(lifespan()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert over_asgi(AsgiMiddleware(None, "demo:any"), "GET", "/elsewhere").status_code == 404


@pytest.mark.parametrize("middleware", [AsgiMiddleware, WsgiMiddleware])
def test_a_protocol_needs_an_app(middleware: Any):
    with pytest.raises(ConfigError):
        middleware(None, protocol="gemini")


def demo(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The scripted model as a WSGI app."""
    headers = {
        name[5:].lower().replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    query = dict(pair.split("=") for pair in environ.get("QUERY_STRING", "").split("&") if pair)
    scripted = answer(environ["REQUEST_METHOD"], environ["PATH_INFO"], query, headers, body, Memory())
    start_response(f"{scripted.status} OK", [("Content-Type", scripted.content_type)])
    return iter(scripted.pieces)


def over_wsgi(
    app: Any, method: str, path: str, body: Any = None, more: dict[str, str] | None = None
) -> tuple[int, str]:
    data, heads = json.dumps(body).encode(), []
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(data)),
        "wsgi.input": io.BytesIO(data),
        **(more or {}),
    }
    pieces = app(environ, lambda status, headers, exc_info=None: heads.append(status))
    text = b"".join(pieces).decode()
    if hasattr(pieces, "close"):
        pieces.close()
    return int(heads[0].split()[0]), text


@pytest.mark.parametrize("client", protocols())
@pytest.mark.parametrize("protocol", protocols())
def test_a_wsgi_app_serves_every_protocol(protocol: str, client: str):
    path, body = REQUESTS[client]
    status, text = over_wsgi(WsgiMiddleware(demo, protocol=protocol), "POST", path, body)
    assert status == 200
    assert echoed(client, json.loads(text))
    assert SAID in text


def test_a_model_answers_over_wsgi():
    path, body = REQUESTS["openai-chat"]
    app = WsgiMiddleware(demo, "demo:any")
    status, text = over_wsgi(app, "POST", path, {**body, "stream": True})
    assert status == 200
    assert text.rstrip().endswith("data: [DONE]")
    assert over_wsgi(app, "GET", "/elsewhere")[0] == 404


def test_a_wsgi_app_that_fails():
    def broken(environ: Any, start_response: Any) -> Iterable[bytes]:
        raise RuntimeError("broken app")

    path, body = REQUESTS["gemini"]
    status, text = over_wsgi(WsgiMiddleware(broken, protocol="anthropic"), "POST", path, body)
    assert (status, "broken app" in text) == (500, True)


# What a server sees: statuses, clients that leave, addresses and keys, large bodies


@pytest.mark.parametrize("status", [429, 503, 520, 529])
@pytest.mark.parametrize("client", [name for name in protocols() if name != "openai-chat"])
def test_any_status_is_answered_over_wsgi(client: str, status: int):
    def overloaded(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} X", [("content-type", "application/json")])
        return [b'{"error": {"message": "not now", "type": "overloaded_error"}}']

    path, body = REQUESTS[client]
    got, text = over_wsgi(WsgiMiddleware(overloaded, protocol="openai-chat"), "POST", path, body)
    assert (got >= 429, "not now" in text) == (True, True)


class Endless:
    """A Chat server that talks until it is stopped."""

    def __init__(self) -> None:
        self.ended = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        await receive()
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        choice = {"index": 0, "delta": {"role": "assistant", "content": "on and "}, "finish_reason": None}
        chunk = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        try:
            while True:
                data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
                await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.sleep(0.01)
        except BaseException as error:
            self.ended = type(error).__name__
            raise


def test_a_client_that_leaves_uvicorn_ends_the_stream():
    app = Endless()
    path, body = REQUESTS["anthropic"]
    data = json.dumps({**body, "stream": True}).encode()
    with running(AsgiMiddleware(app, protocol="openai-chat")) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as leaving:
            head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
            leaving.sendall(head.encode() + data)
            heard = b""
            while b"content_block_delta" not in heard:
                heard += leaving.recv(65536)
        wait_until(lambda: app.ended)
    assert app.ended == "CancelledError"


KEYS = {
    "openai-responses": {"authorization": "Bearer its-own"},
    "anthropic": {"x-api-key": "its-own"},
    "gemini": {"x-goog-api-key": "its-own"},
}


@pytest.mark.parametrize("client", KEYS)
def test_the_app_sees_the_clients_address_and_key(client: str):
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await DemoApp()(scope, receive, send)

    async def ask() -> int:
        transport = httpx2.ASGITransport(
            AsgiMiddleware(app, protocol="openai-chat"), client=("192.0.2.7", 99)
        )
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as http:
            headers = {**KEYS[client], "cookie": "a=b", "anthropic-version": "2023-06-01"}
            path, body = REQUESTS[client]
            return (await http.post(path, json=body, headers=headers)).status_code

    assert asyncio.run(ask()) == 200
    headers = {name.decode(): value.decode() for name, value in seen[0]["headers"]}
    assert seen[0]["client"] == ("192.0.2.7", 99)
    assert (headers["authorization"], headers["cookie"]) == ("Bearer its-own", "a=b")
    assert "anthropic-version" not in headers


def test_a_wsgi_app_sees_the_clients_address_and_key():
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ)
        return demo(environ, start_response)

    path, body = REQUESTS["anthropic"]
    outer = {"REMOTE_ADDR": "192.0.2.7", "HTTP_X_API_KEY": "its-own"}
    assert over_wsgi(WsgiMiddleware(app, protocol="openai-chat"), "POST", path, body, outer)[0] == 200
    assert (seen[0]["REMOTE_ADDR"], seen[0]["HTTP_AUTHORIZATION"]) == ("192.0.2.7", "Bearer its-own")


@pytest.mark.parametrize("packed", [True, False])
def test_a_large_body_is_refused(packed: bool):
    path, body = REQUESTS["anthropic"]
    large = json.dumps({**body, "system": "x" * 10_000}).encode()
    data, encoding = (gzip.compress(large), "gzip") if packed else (large, "identity")

    async def ask() -> httpx2.Response:
        app = AsgiMiddleware(DemoApp(), protocol="gemini", max_body=5_000)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as http:
            return await http.post(path, content=data, headers={"content-encoding": encoding})

    reply = asyncio.run(ask())
    assert (reply.status_code, reply.json()["error"]["type"]) == (413, "request_too_large")


GUNICORN = """
from dragoman.integrations import WsgiMiddleware
app = WsgiMiddleware(None, "demo:any")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="gunicorn is for Unix")
def test_gunicorn_serves_it(tmp_path: Path):
    pytest.importorskip("gunicorn")
    (tmp_path / "served.py").write_text(GUNICORN)
    log = tmp_path / "log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:0", "--threads", "2", "served:app"]
        server = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=out)
    try:
        wait_until(lambda: "Listening at" in log.read_text() or server.poll() is not None)
        found = re.search(r"Listening at: (http://\S+)", log.read_text())
        assert found, log.read_text()
        path, body = REQUESTS["anthropic"]
        for prompt, status in (("Good morning", 200), ("[[fault: 529]]", 529)):
            asked = {**body, "messages": [{"role": "user", "content": prompt}]}
            reply = httpx2.post(found[1] + path, json=asked, timeout=LONG, trust_env=False)
            assert reply.status_code == status, (reply.text, log.read_text())
        with httpx2.stream("POST", found[1] + path, json={**body, "stream": True}, timeout=LONG) as stream:
            assert "message_stop" in b"".join(stream.iter_bytes()).decode()
    finally:
        server.terminate()
        server.wait(LONG)
