"""The scripted model on real HTTP: one server for all tests of the client, on a port of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from client.upstreams import KEY, UPSTREAMS, model_named
from dragoman.client import Model
from dragoman.demo import DemoApp
from waiting import NEVER, wait_until


@pytest.fixture(scope="session")
def app() -> DemoApp:
    return DemoApp(KEY)


@pytest.fixture(scope="session")
def address(app: DemoApp) -> Iterator[str]:
    """Where the scripted model listens; it refuses requests without the key."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Ends the time of a run that has `max_seconds=NEVER`."""
    clocks: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        clock = timeout(seconds)
        if seconds == NEVER:
            clocks.append(clock)
        return clock

    monkeypatch.setattr(asyncio, "timeout", noted)
    return lambda: clocks[-1].reschedule(0)


@pytest.fixture(params=UPSTREAMS)
def model(request: pytest.FixtureRequest, address: str) -> Model:
    """The scripted model over each protocol, and over a dialect."""
    return model_named(address, request.param)
