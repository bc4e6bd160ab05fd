"""Real servers for tests: uvicorn in a thread, on a free port of loopback, gone when the test leaves."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn


@contextlib.contextmanager
def running(app: Any, **options: Any) -> Iterator[str]:
    """Serves `app`; gives its address."""
    told = {"lifespan": "on", "log_level": "critical", "access_log": False, "ws": "none", **options}
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, timeout_graceful_shutdown=1, **told)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server takes too long"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "the server does not end"


logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a cut connection is an exception to uvicorn
