"""An HTTP/1.1 server on httptools that calls one function per request.

The application gets a `ServerRequest` and a `ResponseWriter`, with no framework in between: the cost of a
request and of a streamed piece is counted in microseconds.
"""

from dragoman.http.server.request import ClientGone, ServerRequest, TooLarge, TooSlow
from dragoman.http.server.response import Headers, ResponseWriter
from dragoman.http.server.server import Application, HttpServer, run
from dragoman.http.server.timeouts import ServerTimeouts

__all__ = [
    "Application",
    "ClientGone",
    "Headers",
    "HttpServer",
    "ResponseWriter",
    "ServerRequest",
    "ServerTimeouts",
    "TooLarge",
    "TooSlow",
    "run",
]
