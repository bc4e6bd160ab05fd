"""`python -m bench.gateway.hosted`: what a hosted call costs that the gateway runs, beside its backend.

A request with a search takes two rounds with the model and one with the backend. Two requests without it and
one to the backend are taken off; the rest is the gateway's. All servers run in this process.
"""

import argparse
import contextlib
import json
import threading
import time
from collections.abc import Generator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway

FOUND = {"results": [{"url": "https://e.org/p", "title": "Paris", "content": "18 degrees"}]}
CALL = {"name": "web_search", "arguments": '{"query": "paris weather"}'}
ASKED: dict[str, Any] = {
    "model": "up:m",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "Weather?"}],
}
SEARCH = [{"type": "web_search_20250305", "name": "web_search"}]


class Servers(BaseHTTPRequestHandler):
    """The model, which searches once, and a backend that speaks the API of SearXNG."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(FOUND)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        searches = bool(asked.get("tools")) and asked["messages"][-1]["role"] == "user"
        called = [{"id": "c", "type": "function", "function": CALL}] if searches else None
        message = {"role": "assistant", "content": "It is 18 degrees.", "tool_calls": called}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if searches else "stop"}
        reply = {"id": "r", "object": "chat.completion", "created": 1, "model": "m"}
        self._answer({**reply, "choices": [choice]})

    def _answer(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@contextlib.contextmanager
def serving() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Servers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def median(url: str, method: str, path: str, body: Any, key: str, count: int) -> float:
    """Milliseconds of a request, over one connection."""
    connection = HTTPConnection(urlsplit(url).netloc)
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    data = json.dumps(body) if body else None
    taken: list[float] = []
    for _ in range(count + 20):  # the first ones warm up
        began = time.perf_counter()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        assert answer.read(), answer.status
        assert answer.status == 200
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken[20:])[count // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    count = parser.parse_args().count
    with serving() as url:
        provider = f'[providers.up]\nprotocol = "openai-chat"\nbase_url = "{url}/v1"\napi_key = "k"\n'
        table = f'[hosted.web_search]\nbackend = "searxng"\nurl = "{url}"\n'
        with private_gateway(load(provider + table, {}), AccessLog(lambda line: None)) as gateway:
            plain = median(gateway.url, "POST", "/v1/messages", ASKED, gateway.key, count)
            body = {**ASKED, "tools": SEARCH}
            searched = median(gateway.url, "POST", "/v1/messages", body, gateway.key, count)
        backend = median(url, "GET", "/search?q=x", None, "", count)
    print(f"without a search {plain:.2f} ms, with one {searched:.2f} ms, the backend alone {backend:.2f} ms")
    print(f"a hosted call costs {searched - 2 * plain - backend:.2f} ms beside two rounds and the backend")


if __name__ == "__main__":
    main()
