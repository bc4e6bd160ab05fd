"""A proxy before a gateway whose clients must send more than a base URL: another path, model or headers.

Suites send what the vendors' clients send. With it they can speak to TensorZero and Portkey too.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Adapted:
    """`paths`: beginnings and what stands for them. `model`: before the name. `headers`: added."""

    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def path(self, asked: str) -> str:
        for begin, other in self.paths.items():
            if asked.startswith(begin):
                return other + asked.removeprefix(begin)
        return asked

    def body(self, data: bytes) -> bytes:
        if not self.model or not data.startswith(b"{"):
            return data
        wire = json.loads(data)
        return json.dumps({**wire, "model": self.model + wire["model"]} if "model" in wire else wire).encode()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """A server on loopback; its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def adapted(url: str, how: Adapted) -> Generator[str]:
    """A URL at which `url` is served as `how` says."""

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = how.body(self.rfile.read(int(self.headers.get("content-length") or 0)))
            connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
            kept = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
            connection.request(self.command, how.path(self.path), data, {**kept, **how.headers})
            reply = connection.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in DROPPED:
                    self.send_header(name, value)
            self.end_headers()
            while piece := reply.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
            connection.close()

        do_GET = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Proxy) as address:
        yield address


DROPPED = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding"}
