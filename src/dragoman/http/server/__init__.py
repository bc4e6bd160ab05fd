"""An HTTP/1.1 server on httptools that calls one function per request.

The application gets a `ServerRequest` and a `ResponseWriter`. There is no framework in between, because a
request and each streamed chunk should cost microseconds.
"""

from dragoman.http.memory_budget import MemoryBudget, MemoryFull, MemoryShare
from dragoman.http.server.application import (
    ClientGone,
    Headers,
    ResponseWriter,
    ServerRequest,
    TooLarge,
    TooSlow,
    header_lines,
)
from dragoman.http.server.connection import ServerLimits
from dragoman.http.server.server import Application, HttpServer, run
from dragoman.http.server.websocket import WebSocket

__all__ = [
    "Application",
    "ClientGone",
    "Headers",
    "HttpServer",
    "MemoryBudget",
    "MemoryFull",
    "MemoryShare",
    "ResponseWriter",
    "ServerLimits",
    "ServerRequest",
    "TooLarge",
    "TooSlow",
    "WebSocket",
    "header_lines",
    "run",
]
