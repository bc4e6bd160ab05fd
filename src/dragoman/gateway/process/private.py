"""A gateway for one program: on a free port of this machine, behind a key that nobody else knows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import DragomanError
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import HttpServer, run


class PrivateGateway(Struct, frozen=True):
    url: str
    key: str


@contextmanager
def private_gateway(config: Config, journal: AccessLog) -> Generator[PrivateGateway]:
    """Open as long as the block runs. What it keeps, it keeps in memory: nothing is left behind."""
    config = replace(config, host="127.0.0.1", port=0, keys=(secrets.token_urlsafe(24),), grace=1)
    config = replace(config, store_url="memory:")
    listener = bind(config)
    server = HttpServer(Gateway(config, journal), config.grace)
    thread = Thread(target=run, args=(server, listener), name="gateway", daemon=True)
    door = PrivateGateway(url(config, listener), config.keys[0])
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise DragomanError("the private gateway did not start")
            time.sleep(0.01)
        yield door
    finally:
        server.end_soon()
        thread.join(5)
