"""Another try, another target, or the failure passed on: when, how often, and never after the first byte."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.gateway.upstreams.retry_policy import CircuitBreakers, RetryPolicy
from dragoman.pipeline import TranslatedStream
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.plain import ask
from gateway.running import running
from gateway.stands import HASTY, PROTOCOLS, Stand, gateway
from ports import closed_port
from waiting import wait_until

GOOD = Answer(200, chat("well"))
STREAM = Answer(200, *chunks("well"), content_type="text/event-stream")
BUSY = Answer(429, error("busy"), retry_after_ms="20")
PATIENT = replace(HASTY, longest_wait=5.0, longest_wait_with_fallback=0.5)


class Bench:
    """Upstreams by name, and a gateway whose model `m` leads to all of them, in order."""

    def __init__(self, pace: RetryPolicy, **upstreams: Canned | None) -> None:
        self.upstreams = upstreams
        self._stack, self._pace = ExitStack(), pace

    def __enter__(self) -> Bench:
        rows = []
        for name, app in self.upstreams.items():
            url = self._stack.enter_context(running(app)) if app else f"http://{closed_port()}"
            rows.append(provider(name, url))
        listed = ", ".join(f'"{name}:their-{name}"' for name in self.upstreams)
        text = "\n".join(rows) + f"\n[models]\nm = [{listed}]\n"
        self.stand: Stand = self._stack.enter_context(gateway(text, self._pace))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def request_count(self, name: str) -> int:
        upstream = self.upstreams[name]
        return len(upstream.requests) if upstream else 0


# what the upstream answers, in turn -> status, tries
TRIES: dict[str, tuple[tuple[Answer, ...], int, int]] = {
    "at once": ((GOOD,), 200, 1),
    "busy once": ((BUSY, GOOD), 200, 2),
    "busy twice": ((BUSY, BUSY, GOOD), 200, 3),
    "busy for good": ((BUSY,), 429, 3),
    "an error once": ((Answer(500, error("oops")), GOOD), 200, 2),
    "overloaded once": ((Answer(529, error("oops")), GOOD), 200, 2),
    "a bad gateway once": ((Answer(502, b"<html>", content_type="text/html"), GOOD), 200, 2),
    "errors for good": ((Answer(500, error("oops")),), 500, 3),
    "garbage once": ((Answer(200, b"<html>", content_type="text/html"), GOOD), 200, 2),
    "an error with status 200 once": ((Answer(200, b'{"error":{"message":"x","code":503}}'), GOOD), 200, 2),
    "a bad request": ((Answer(400, error("no")), GOOD), 400, 1),
    "a bad key": ((Answer(401, error("no")), GOOD), 401, 1),
    "no such model": ((Answer(404, error("no")), GOOD), 404, 1),
    "a redirect": ((Answer(307, location="http://elsewhere/"), GOOD), 500, 1),
    "longer than anybody waits": ((Answer(429, error("busy"), retry_after="60"), GOOD), 429, 1),
    "longer than the universe": ((Answer(429, error("busy"), retry_after="1e308"), GOOD), 429, 1),
    "for infinity": ((Answer(429, error("busy"), retry_after="inf"), GOOD), 200, 2),
    "for infinity, in milliseconds": ((Answer(503, error("busy"), retry_after_ms="1e999"), GOOD), 200, 2),
    "for no number": ((Answer(429, error("busy"), retry_after="nan"), GOOD), 200, 2),
    "until a date far away": (
        (Answer(429, error("busy"), retry_after="Wed, 21 Oct 2099 07:28:00 GMT"), GOOD),
        429,
        1,
    ),
    "a status that is none": ((Answer(999, b"odd"), Answer(600, b""), Answer(742, error("odd"))), 500, 3),
    "until a date": ((Answer(429, error("busy"), retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), GOOD), 200, 2),
}


@pytest.mark.parametrize("name", TRIES)
def test_tries(name: str) -> None:
    answers, status, tries = TRIES[name]
    with Bench(PATIENT, one=Canned(*answers)) as bench:
        got = ask(bench.stand.url, "anthropic", "hi", "m")
        assert (got.status, bench.request_count("one"), bench.stand.last()["tries"]) == (status, tries, tries)
        if status == 200:
            assert got.text("anthropic") == "well"


def test_what_the_upstream_says_about_waiting_reaches_the_client() -> None:
    with Bench(PATIENT, one=Canned(Answer(429, error("busy"), retry_after="60"))) as bench:
        got = ask(bench.stand.url, "openai-chat", "hi", "m")
        assert (got.headers["retry-after"], got.headers["retry-after-ms"]) == ("60", "60000")
        gemini = ask(bench.stand.url, "gemini", "hi", "m")
        assert gemini.json["error"]["details"][0]["retryDelay"] == "60s"
    with Bench(HASTY, one=Canned(BUSY)) as bench:
        got = ask(bench.stand.url, "openai-chat", "hi", "m")
        assert (got.headers["retry-after"], got.headers["retry-after-ms"]) == ("1", "20")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "first",
    [
        None,
        Canned(Answer(500, error("oops"))),
        Canned(Answer(401, error("no"))),
        Canned(Answer(404, error("no"))),
        Canned(Answer(400, error("maximum context length is 10 tokens"))),
        Canned(Answer(429, error("busy"), retry_after="3")),
        Canned(Answer(200, b"<html>", content_type="text/html")),
        Canned(Answer(200, b'data: {"error":{"message":"x"}}\n\n', content_type="text/event-stream")),
    ],
    ids=["down", "500", "401", "404", "too long", "429", "garbage", "an error in the stream"],
)
def test_the_next_target_answers(first: Canned | None, stream: bool) -> None:
    if first:
        first.requests.clear()
    with Bench(PATIENT, one=first, two=Canned(STREAM if stream else GOOD)) as bench:
        got = ask(bench.stand.url, "openai-chat", "hi", "m", stream)
        assert got.status == 200
        assert got.text("openai-chat") == "well"
        line = bench.stand.last()
        assert (line["provider"], line["target"], bench.request_count("two")) == ("two", "their-two", 1)
        assert sum(line["failed"].values()) == line["tries"] - 1
        assert {why.partition(": ")[0] for why in line["failed"]} == {"one"}
        counted = bench.stand.gateway.access_log.metrics.numbers.counters["dragoman_tries"]
        assert counted == {("one",): line["tries"] - 1, ("two",): 1}
        if first and "retry-after" in first.answers[0].headers:
            assert bench.request_count("one") == 1  # nobody waits three seconds while another may answer


def test_a_bad_request_goes_to_nobody_else() -> None:
    with Bench(HASTY, one=Canned(Answer(400, error("no"))), two=Canned(GOOD)) as bench:
        assert ask(bench.stand.url, "openai-chat", "hi", "m").status == 400
        assert (bench.request_count("one"), bench.request_count("two")) == (1, 0)


def test_the_only_attempt_is_not_named_among_those_before_it() -> None:
    with Bench(HASTY, one=Canned(GOOD, Answer(400, error("no")))) as bench:
        for _ in range(2):
            ask(bench.stand.url, "openai-chat", "hi", "m")
            assert "failed" not in bench.stand.last()


def test_the_last_failure_is_returned_where_no_target_answers() -> None:
    with Bench(HASTY, one=None, two=Canned(Answer(503, error("resting")))) as bench:
        got = ask(bench.stand.url, "openai-chat", "hi", "m")
        assert (got.status, got.failure("openai-chat").message) == (503, "resting")


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_nobody_else_is_asked_after_the_first_byte(client: str) -> None:
    begun = Answer(200, chunks("well")[0], chunks("well")[1], 0.05, content_type="text/event-stream")
    with Bench(HASTY, one=Canned(begun), two=Canned(STREAM)) as bench:
        got = ask(bench.stand.url, client, "hi", "m", stream=True)
        assert got.status == 200
        assert got.failure(client).kind in ("truncated", "server")
        assert (bench.request_count("one"), bench.request_count("two")) == (1, 0)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_an_event_without_end(monkeypatch: pytest.MonkeyPatch, client: str, begun: bool) -> None:
    """It is held back only so far, and not read again."""
    monkeypatch.setattr("dragoman.gateway.handlers.relay.LARGEST_EVENT", 100_000)
    endless = [b"data: " + b"x" * 60_000] + [b"y" * 60_000] * 40
    upstream = Canned(
        Answer(200, *(chunks("well")[:2] if begun else []), *endless, content_type="text/event-stream")
    )
    with Bench(HASTY, one=upstream) as bench:
        got = ask(bench.stand.url, client, "hi", "m", stream=True)
        assert got.status == (200 if begun else 500)
        assert "larger than" in got.failure(client).message
        assert bench.request_count("one") == 1


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_stream_beyond_its_limit_ends_once_on_a_busy_machine(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop comes back long after the limit: all that was due meanwhile happens at once."""
    feed, fed = TranslatedStream.feed, list[bytes]()

    def busy(self: TranslatedStream, data: bytes) -> bytes:
        fed.append(data)
        if len(fed) == 3:
            time.sleep(1.5)
        return feed(self, data)

    monkeypatch.setattr(TranslatedStream, "feed", busy)
    pieces = *chunks("well")[:2], *[0.05, chunks("x")[1]] * 600
    with running(Canned(Answer(200, *pieces, content_type="text/event-stream"))) as url:
        text = "[server]\nrequest_timeout = 1\n" + provider("one", url, dialect='"hermes"')
        with gateway(text) as stand:
            got = ask(stand.url, client, "hi", "m", stream=True)
            assert got.status == 200
            assert "longer than the gateway's limit" in got.failure(client).message


@pytest.mark.parametrize("client", ["openai-chat", "anthropic", "openai-responses", "gemini"])
@pytest.mark.parametrize("how", ["whole", "streamed", "in mid-stream"])
def test_a_request_has_a_limit_in_all(client: str, how: str) -> None:
    """Retries and the stream included: each wait alone is within its own timeout."""
    if how == "in mid-stream":
        slow = Answer(
            200,
            *chunks("well", *["done"] * 50)[:3],
            *[0.05, chunks("x")[1]] * 600,
            content_type="text/event-stream",
        )
    else:
        slow = Answer(503, 0.15, error("busy"))
    with running(Canned(slow)) as url:
        limit = 1.5 if how == "in mid-stream" else 0.4  # within which a stream has to begin
        text = f"[server]\nrequest_timeout = {limit}\n" + provider("one", url)
        with gateway(text, replace(HASTY, tries=500)) as stand:
            got = ask(stand.url, client, "hi", "m", stream=how != "whole")
            assert got.status == (200 if how == "in mid-stream" else 504)
            assert "longer than the gateway's limit" in got.failure(client).message
            assert "longer than" in stand.last()["error"]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("delay", ["9" * 400 + "s", "86400000s"])
def test_a_delay_of_gemini_without_end(delay: str) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    body = {"error": {"code": 429, "message": "busy", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    upstream = Canned(Answer(429, jsontext.encode(body)))
    with running(upstream) as url, gateway(provider("one", url, "gemini"), HASTY) as stand:
        assert ask(stand.url, "openai-chat", "hi", "one:m").status == 429
        assert stand.last()["status"] == 429


def test_a_circuit() -> None:
    clock = Clock()
    circuits = CircuitBreakers(clock, opens_after=3, stays_open=10)
    for _ in range(2):
        circuits.unreachable("p")
    assert circuits.admits("p")
    circuits.note_success("p")  # in a row, or not at all
    for _ in range(3):
        assert circuits.admits("p")
        circuits.unreachable("p")
    assert not circuits.admits("p")
    assert circuits.admits("q")
    assert circuits.opened == ("p",)
    clock.now += 9.9
    assert not circuits.admits("p")
    assert circuits.seconds_left("p") == pytest.approx(0.1)
    clock.now += 0.2
    assert [circuits.admits("p"), circuits.admits("p")] == [True, False]  # one finds out, the others wait
    circuits.unreachable("p")
    clock.now += 9.9
    assert not circuits.admits("p")
    clock.now += 0.2
    assert circuits.admits("p")
    circuits.note_success("p")
    assert [circuits.admits("p"), circuits.admits("p"), circuits.opened] == [True, True, ()]


def test_a_dead_provider_is_left_alone_and_found_again() -> None:
    pace = replace(HASTY, tries=1, opens_after=2, stays_open=0.3)
    with Bench(pace, one=None) as bench:
        bench.stand.gateway.circuit_breakers._now = lambda: 0.0  # however long the requests take
        answers = [ask(bench.stand.url, "openai-chat", "hi", "m") for _ in range(3)]
        assert [got.status for got in answers] == [503, 503, 503]
        assert ["failed repeatedly and is paused" in got.json["error"]["message"] for got in answers] == [
            False,
            False,
            True,
        ]
        assert answers[2].headers["retry-after"] == "1"
        bench.stand.last()
        assert [line.get("tries", 0) for line in bench.stand.records] == [1, 1, 0]
        bench.stand.gateway.circuit_breakers._now = lambda: 1e9  # later
        again = ask(bench.stand.url, "openai-chat", "hi", "m")
        assert "is not reachable: no connection" in again.json["error"]["message"]


def test_a_dead_provider_does_not_slow_its_replacement_down() -> None:
    with Bench(replace(HASTY, opens_after=1), one=None, two=Canned(GOOD)) as bench:
        for _ in range(3):
            assert ask(bench.stand.url, "openai-chat", "hi", "m").status == 200
        wait_until(lambda: len(bench.stand.records) == 3)
        assert [line["tries"] for line in bench.stand.records] == [2, 1, 1]


@pytest.mark.parametrize("retry_after, expected", [(None, (0.125, 0.25)), (3.0, (3.0, 3.0))])
def test_waits(retry_after: float | None, expected: tuple[float, float]) -> None:
    waits = [RetryPolicy().wait(0, retry_after) for _ in range(50)]
    assert expected[0] <= min(waits) <= max(waits) <= expected[1]
    later = [RetryPolicy().wait(2, None) for _ in range(50)]
    assert 0.5 <= min(later) <= max(later) <= 1.0


def test_an_error_that_is_not_utf_8_is_reported() -> None:
    with Bench(HASTY, one=Canned(Answer(400, error("n\xe4h").replace("ä".encode(), b"\xe4")))) as bench:
        got = ask(bench.stand.url, "openai-chat", "hello", "m")
    assert (got.status, got.json["error"]["message"]) == (400, "n\ufffdh")
