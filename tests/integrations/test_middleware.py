"""ASGI and WSGI middleware: a model answers, or the app behind in its own protocol."""

import asyncio
import io
import json
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest

from dragoman import ConfigError, protocols
from dragoman.demo import DemoApp
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from dragoman.integrations import AsgiMiddleware, WsgiMiddleware

SAID = "You said: Good morning"
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": (
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "Good morning"}]},
    ),
    "openai-responses": ("/v1/responses", {"model": "m", "input": "Good morning"}),
    "anthropic": (
        "/v1/messages",
        {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Good morning"}]},
    ),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "Good morning"}]}]}),
}
REPLIES = {
    "openai-chat": "choices",
    "openai-responses": "output",
    "anthropic": "content",
    "gemini": "candidates",
}


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
    assert REPLIES[client] in reply.json()
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


def over_wsgi(app: Any, method: str, path: str, body: Any = None) -> tuple[int, str]:
    data, heads = json.dumps(body).encode(), []
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(data)),
        "wsgi.input": io.BytesIO(data),
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
    assert REPLIES[client] in json.loads(text)
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
