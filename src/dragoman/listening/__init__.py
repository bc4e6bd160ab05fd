"""HTTP toward clients: a small server on httptools that hands each request to one function.

An application gets an `Incoming` and an `Answer`. There is no framework between them and the socket: what a
gateway does for each request and each piece of a stream is counted in microseconds.
"""

from dragoman.listening.answer import Answer, Headers
from dragoman.listening.incoming import ClientGone, Incoming, TooLarge, TooSlow
from dragoman.listening.patience import Patience
from dragoman.listening.server import Application, HttpServer, run

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
