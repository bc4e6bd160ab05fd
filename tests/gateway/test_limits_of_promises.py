"""Limits of docs/reference/promises.md that no other test holds."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dragoman.core import jsontext
from dragoman.core.model import Failure
from dragoman.fetch.download import download
from dragoman.fetch.guard import AddressGuard
from dragoman.gateway.config import load
from dragoman.gateway.upstreams.affinity import Affinity
from dragoman.gateway.upstreams.pools import Pools
from dragoman.gateway.upstreams.routing import UnknownModel, route
from dragoman.hosted.executor import CallLimits
from dragoman.hosted.loop import HostedTools
from gateway.canned import Canned, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import gateway
from gateway.test_hosted import ASKED, SEARCHED, TOOL, Search, calls, says


def test_a_model_whose_name_is_too_long_is_unknown():
    config = load("", {})
    assert route(config, "demo:" + 995 * "x")
    with pytest.raises(UnknownModel, match="1001 characters"):
        route(config, "demo:" + 996 * "x")


def test_a_rest_has_a_longest_time():
    said: list[str] = []
    pools = Pools(Affinity(), said.append)
    pool = '[providers.up]\nprotocol = "anthropic"\nbase_url = "http://127.0.0.1:9"\napi_keys = ["a", "b"]\n'
    one, _ = route(load(pool, {}), "up:m")
    for _ in range(12):
        pools.note_failure(one, Failure("billing", "", 402))
    assert said[-1] == "up/key-1 is paused for 3600 s: billing"


def ask(upstream: Canned, search: Search, limits: CallLimits) -> Got:
    path, body = ASKED["anthropic"]
    with (
        running(upstream) as url,
        gateway(provider("one", url), hosted=HostedTools([search], limits)) as stand,
    ):
        return send(stand.url, "POST", path, jsontext.encode({**body, **TOOL["anthropic"]}))


def test_hosted_calls_at_a_time_are_bounded():
    search = Search(0.01)
    ask(Canned(calls(*[SEARCHED] * 6), says("Mild.")), search, CallLimits(calls_at_once=2))
    assert (len(search.queries), search.most_at_once) == (6, 2)


def test_hosted_calls_of_a_request_have_a_time_in_all():
    search, upstream = Search(60), Canned(calls(SEARCHED), says("Mild."))
    got = ask(upstream, search, CallLimits(seconds_in_all=0))
    assert got.json["stop_reason"] == "pause_turn"
    assert (search.queries, len(upstream.requests)) == ([], 1)


class LongPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1000)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_page_is_read_up_to_its_limit():
    server = ThreadingHTTPServer(("127.0.0.1", 0), LongPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host = f"127.0.0.1:{server.server_port}"
        page = download(f"http://{host}/", AddressGuard(frozenset({host})), seconds=60, most=100)
    finally:
        server.shutdown()
        server.server_close()
    assert (len(page.body), page.cut) == (100, True)
