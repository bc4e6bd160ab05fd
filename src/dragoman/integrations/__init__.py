"""dragoman inside other programs: an httpx transport for the vendors' SDKs, ASGI and WSGI middleware."""

from dragoman.integrations.asgi import AsgiMiddleware
from dragoman.integrations.httpx import HttpxTransport, async_http_client, http_client
from dragoman.integrations.translator import Translator
from dragoman.integrations.wsgi import WsgiMiddleware

__all__ = [
    "AsgiMiddleware",
    "HttpxTransport",
    "Translator",
    "WsgiMiddleware",
    "async_http_client",
    "http_client",
]
