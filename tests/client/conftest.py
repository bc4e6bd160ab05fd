"""The scripted model on real HTTP: one server for all tests of the client, on a port of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from dragoman import Provider, protocols
from dragoman.client import Model
from dragoman.demo import DemoApp

KEY = "the key"
VERSIONED = ("openai-chat", "openai-responses")  # protocols whose base URL ends with a version
DIALECT = "hermes"


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the scripted model listens; it refuses requests without the key."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(DemoApp(KEY), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(5)


def provider(address: str, protocol: str, **options) -> Provider:
    base_url = f"{address}/v1" if protocol in VERSIONED else address
    name = options.pop("name", f"my-{protocol}")
    return Provider(name, **{"protocol": protocol, "base_url": base_url, "api_key": KEY, **options})


UPSTREAMS = (*protocols(), DIALECT)


def model_named(address: str, upstream: str) -> Model:
    if upstream == DIALECT:
        return provider(address, "openai-chat", name="my-dialect", dialect=DIALECT).model("demo")
    return provider(address, upstream).model("demo")


@pytest.fixture(params=UPSTREAMS)
def model(request: pytest.FixtureRequest, address: str) -> Model:
    """The scripted model over each protocol, and over a dialect."""
    return model_named(address, request.param)
