"""Runs the gateway on uvicorn: workers, start-up message, graceful end."""

from __future__ import annotations

from typing import Any

import uvicorn

from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config


def options(config: Config) -> dict[str, Any]:
    """What uvicorn is told: the fast parts, no access log of its own, and time for streams to end."""
    return {
        "host": config.host,
        "port": config.port,
        "loop": "uvloop",
        "http": "httptools",
        "ws": "none",
        "lifespan": "on",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "timeout_graceful_shutdown": 30,
        "h11_max_incomplete_event_size": 64 * 1024,
    }


def run(config: Config) -> None:
    uvicorn.run(Gateway(config), **options(config))
