"""Real servers for tests: in a thread, on a free port of loopback, gone when the test leaves."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import Application, HttpServer, ServerLimits, run
from waiting import wait_until


def running(app: Any) -> contextlib.AbstractContextManager[str]:
    """Serves a gateway, or any ASGI application; gives its address."""
    return serving(app) if isinstance(app, Gateway) else _serving_asgi(app)


@contextlib.contextmanager
def serving(application: Application, timeouts: ServerLimits | None = None, **more: Any) -> Iterator[str]:
    """On our own server."""
    config = Config(port=0)
    listener = bind(config)
    if isinstance(application, Gateway):
        more = {"memory": application.memory, **more}
    server = HttpServer(application, 1, timeouts, **more)
    thread = threading.Thread(target=run, args=(server, listener), daemon=True)
    address = url(config, listener)
    thread.start()
    try:
        wait_for(lambda: server.started, thread)
        yield address
    finally:
        server.end_soon()
        thread.join(60)
        assert not thread.is_alive(), "the server does not end"


@contextlib.contextmanager
def _serving_asgi(app: Any) -> Iterator[str]:
    options = {"lifespan": "on", "log_level": "critical", "access_log": False, "ws": "none"}
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, timeout_graceful_shutdown=1, **options)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, thread)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server does not end"


def wait_for(started: Callable[[], bool], thread: threading.Thread) -> None:
    wait_until(lambda: started() or not thread.is_alive())
    assert thread.is_alive(), "the server did not start"


logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a cut connection is an exception to uvicorn
