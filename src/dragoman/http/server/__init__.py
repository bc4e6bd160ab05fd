"""HTTP toward clients: a small server on httptools that hands each request to one function.

An application gets an `Incoming` and an `Answer`. There is no framework between them and the socket: what a
gateway does for each request and each piece of a stream is counted in microseconds.
"""

from dragoman.http.server.request import ClientGone, Incoming, TooLarge, TooSlow
from dragoman.http.server.response import Answer, Headers
from dragoman.http.server.server import Application, HttpServer, run
from dragoman.http.server.timeouts import Patience

__all__ = [
    "Answer",
    "Application",
    "ClientGone",
    "Headers",
    "HttpServer",
    "Incoming",
    "Patience",
    "TooLarge",
    "TooSlow",
    "run",
]
