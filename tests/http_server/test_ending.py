"""How a server ends: nothing new, what is under way may finish, and not for ever."""

from __future__ import annotations

import threading

from dragoman.gateway.config import Config
from dragoman.gateway.process.serve import bind, url
from dragoman.http.server import HttpServer, run
from http_server.clients import Echo, Raw
from http_server.test_connection import post
from waiting import NEVER, wait_until


class Started:
    def __init__(self, grace: float) -> None:
        config = Config(port=0)
        listener = bind(config)
        self.app = Echo()
        self.url = url(config, listener)
        self.server = HttpServer(self.app, grace)
        self.thread = threading.Thread(target=run, args=(self.server, listener), daemon=True)
        self.thread.start()
        wait_until(lambda: self.server.started)

    def ended(self) -> bool:
        self.thread.join(60)
        return not self.thread.is_alive()


def test_idle_connections_do_not_keep_it() -> None:
    started = Started(grace=60)
    raw = Raw(started.url)
    raw.say(post("/a"))
    raw.hear()
    started.server.end_soon()
    assert raw.rest() == b""
    assert started.ended()
    assert started.app.events == ["start", "/a", "stop"]


def test_what_is_under_way_ends_well() -> None:
    started = Started(grace=60)
    raw = Raw(started.url)
    raw.say(post("/slow"))
    wait_until(lambda: started.app.under_way == 1)
    started.server.end_soon()
    status, headers, _ = raw.hear()
    assert (status, headers["connection"], raw.rest()) == (200, "close", b"")
    assert started.ended()


def test_the_grace_has_an_end() -> None:
    started = Started(grace=0.2)
    raw = Raw(started.url)
    raw.say(post("/wait"))
    wait_until(lambda: started.app.under_way == 1)
    started.server.end_soon()
    assert started.ended()
    assert (raw.rest(), started.app.cancelled) == (b"", 1)


def test_a_second_word_does_not_wait() -> None:
    started = Started(grace=NEVER)
    raw = Raw(started.url)
    raw.say(post("/wait"))
    wait_until(lambda: started.app.under_way == 1)
    started.server.end_soon()
    started.server.end_soon()
    assert started.ended()


def test_a_lame_duck_serves_as_before() -> None:
    """And ends at a second request to end, or when its time is over."""
    started = Started(grace=60)
    server = started.server
    server.loop.call_soon_threadsafe(server.end_later, NEVER)
    wait_until(lambda: server.lame)
    raw = Raw(started.url)
    raw.say(post("/a"))
    status, headers, _ = raw.hear()
    assert (status, "connection" in headers, server.stopping) == (200, False, False)
    server.loop.call_soon_threadsafe(server.end_later, NEVER)
    assert raw.rest() == b""
    assert started.ended()


def test_a_lame_duck_ends_by_itself() -> None:
    started = Started(grace=60)
    started.server.loop.call_soon_threadsafe(started.server.end_later, 0.01)
    assert started.ended()
