"""Runs the gateway: one process or several on one port, and an end that lets streams finish.

The socket is bound here, before anything else is started: a port in use is an error in one line, and several
workers share one queue of connections.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
from functools import partial

from msgspec.structs import replace

from dragoman.core.errors import ConfigError
from dragoman.gateway.admission.host_counters import counting_file
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.process.open_files import raise_limit
from dragoman.gateway.process.workers import Workers
from dragoman.http.server import HttpServer
from dragoman.http.server import run as run_server

_BACKLOG = 2048
_COLLECTS = (20_000, 20, 20)  # exchanges leave few cycles behind, and each look for them takes time


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
    if workers > 1 and sys.platform == "win32":
        raise ConfigError("Windows cannot share a listening socket between workers: use one")
    raise_limit()  # workers inherit it
    if workers == 1:
        serve(config, listener)
    else:
        with counting_file(len(config.keys), workers) as file:
            config = replace(config, workers=workers, counting_file=file)
            Workers(partial(serve, config, listener), workers, config.grace).run()


def serve(config: Config, listener: socket.socket) -> None:
    """In this process. What is there at the start stays: the collector need not look at it again."""
    gateway = Gateway(config)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTS)
    run_server(HttpServer(gateway, config.grace), listener, signal.SIGTERM, signal.SIGINT)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
