"""Runs the gateway on uvicorn: one process or several on one port, and an end that lets streams finish.

The socket is bound here, before anything else is started: a port in use is an error in one line, and several
workers share one queue of connections.
"""

from __future__ import annotations

import signal
import socket
from functools import partial
from typing import Any

import uvicorn

from dragoman.core.errors import ConfigError
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.workers import Workers

_BACKLOG = 2048


def options(config: Config) -> dict[str, Any]:
    """What uvicorn is told: the fast parts, no access log of its own, and time for streams to end."""
    return {
        "host": config.host,
        "port": config.port,
        "loop": "auto",  # uvloop where it is installed
        "http": "httptools",
        "ws": "none",
        "lifespan": "on",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "backlog": _BACKLOG,
        "timeout_graceful_shutdown": config.grace,
    }


def bind(config: Config) -> socket.socket:
    """A socket that already listens: who connects from now on waits until a worker takes it."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise ConfigError(f"cannot listen on {config.host}:{config.port}: {_reason(error)}") from None
    return listener


def url(config: Config, listener: socket.socket) -> str:
    """Where a client on this machine finds the gateway."""
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{anywhere.get(config.host, host)}:{listener.getsockname()[1]}"


def run(config: Config, listener: socket.socket, workers: int = 1) -> None:
    """Serve until SIGTERM or SIGINT; then take nothing new and let what is under way end."""
    if workers == 1:
        serve(config, listener)
    else:
        Workers(partial(serve, config, listener), workers, config.grace).run()


def serve(config: Config, listener: socket.socket) -> None:
    """In this process."""
    server = uvicorn.Server(uvicorn.Config(Gateway(config), **options(config)))

    def end(number: int, frame: object) -> None:
        """Before uvicorn listens to signals, and after it: it raises the one that ended it once more."""
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    server.run(sockets=[listener])


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
