"""What is turned away and why, what waits, and that whatever was taken is given back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.model import Usage
from dragoman.gateway.admission import Caller, LoadShed
from dragoman.gateway.admission.budgets import Budgets
from dragoman.gateway.config.keys import Allowance
from gateway.plain import Got, ask, asking, opened, send
from gateway.stands import CLIENT_KEY, PROTOCOLS, Stand, gateway
from waiting import wait_until

OTHER_KEY = "other-key-55aa"
ALICE = f'[keys.alice]\nkey = "{CLIENT_KEY}"\n'
BOB = f'[keys.bob]\nkey = "{OTHER_KEY}"\n'
SMALL = '[providers.small]\nprotocol = "openai-chat"\nbase_url = "demo:"\nmax_concurrency = 1\n'
WIDE = '[providers.wide]\nprotocol = "anthropic"\nbase_url = "demo:"\n'
HANG = "hello [[fault: hang]]"
BUSY = {"anthropic": 529}
each_client = pytest.mark.parametrize("client", PROTOCOLS)


def request(text: str, model: str = "small:m", stream: bool = False) -> tuple[str, bytes]:
    path, body = asking("openai-chat", text, model, stream)
    return path, jsontext.encode(body)


def hanging(stand: Stand, model: str = "small:m", stream: bool = False) -> socket.socket:
    """A request whose answer does not come; it ends when the socket is closed."""
    before = stand.gateway.admission.semaphore.held
    connection = opened(stand.url, *request(HANG, model, stream))
    wait_until(lambda: stand.gateway.admission.semaphore.held > before)
    return connection


def held(stand: Stand) -> dict[str, int]:
    """Everything that exchanges hold at the moment."""
    limits = stand.gateway.admission
    callers = [limits.callers.find(key) for key in (CLIENT_KEY, OTHER_KEY)]
    counted = {
        "arrived": limits.arrived,
        "inside": limits.semaphore.held,
        "waiting": limits.waiting,
        "slots": limits.slots.held,
        "keys": sum({id(caller): caller.inside for caller in callers if caller}.values()),
    }
    return {name: number for name, number in counted.items() if number}


def freed(stand: Stand) -> None:
    wait_until(lambda: not held(stand))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


# Keys: how often, how many at a time


@each_client
def test_a_key_asks_too_often(client: str) -> None:
    with gateway(f"{ALICE}requests_per_minute = 2\n{BOB}") as stand:
        for left in (1, 0):
            got = ask(stand.url, client, "hello", "demo:m")
            assert got.text(client) == "You said: hello"
            assert quota(got, client) in (None, (2, left))
        got = ask(stand.url, client, "hello", "demo:m")
        assert (got.status, got.failure(client).kind) == (429, "rate_limit")
        assert "at most 2 requests a minute for the key 'alice'" in got.failure(client).message
        assert quota(got, client) in (None, (2, 0))
        assert 20 <= int(got.headers["retry-after"]) <= 30
        line = stand.last()
        assert (line["key"], line["shed"], line["status"], line.get("tries")) == ("alice", "rate", 429, None)
        path, body = asking(client, "hello", "demo:m")
        assert send(stand.url, "POST", path, jsontext.encode(body), key=OTHER_KEY).status == 200
        freed(stand)


def quota(got: Got, client: str) -> tuple[int, int] | None:
    """What the headers say of it; Gemini has none."""
    if client.startswith("gemini"):
        assert not [name for name in got.headers if "ratelimit" in name]
        return None
    if client == "anthropic":
        assert got.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        names = ("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining")
    else:
        assert 0 < float(got.headers["x-ratelimit-reset-requests"].removesuffix("s")) <= 60
        names = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests")
    limit, remaining = (int(got.headers[name]) for name in names)
    return limit, remaining


def test_a_rate_is_about_answers_not_about_counts_and_lists() -> None:
    with gateway(f"{ALICE}requests_per_minute = 1\n") as stand:
        _, body = asking("anthropic", "hello", "demo:m")
        counts = "/v1/messages/count_tokens"
        for _ in range(3):
            assert send(stand.url, "POST", counts, jsontext.encode(body)).status == 200
            assert send(stand.url, "GET", "/v1/models").status == 200
        assert ask(stand.url, "anthropic", "hello", "demo:m").status == 200
        assert ask(stand.url, "anthropic", "hello", "demo:m").status == 429


@each_client
def test_a_key_has_too_many_under_way(client: str) -> None:
    with gateway(f"{ALICE}concurrency = 1\n{BOB}{WIDE}") as stand:
        with hanging(stand, "wide:m"):
            got = ask(stand.url, client, "hello", "wide:m", stream=True)
            assert (got.status, got.failure(client).kind) == (429, "rate_limit")
            assert "at most 1 requests at a time for the key 'alice'" in got.failure(client).message
            assert 1 <= int(got.headers["retry-after"]) <= 2
            assert stand.last_record()["shed"] == "concurrency"
            path, body = asking(client, "hello", "wide:m")
            assert send(stand.url, "POST", path, jsontext.encode(body), key=OTHER_KEY).status == 200
        freed(stand)
        assert ask(stand.url, client, "hello", "wide:m").status == 200


def test_limits_for_everyone_without_keys() -> None:
    """All who come are one nameless caller."""
    with gateway("[limits]\nrequests_per_minute = 1\n") as stand:
        assert ask(stand.url, "anthropic", "hello", "demo").status == 200
        got = ask(stand.url, "anthropic", "hello", "demo")
        assert (got.status, got.failure("anthropic").kind) == (429, "rate_limit")
        assert "at most 1 requests a minute here" in got.failure("anthropic").message
        assert "key" not in stand.last()


# The gateway: so many at a time, a queue, and then no more


@each_client
def test_a_full_gateway_turns_away_before_it_reads(client: str) -> None:
    """The head of a request is enough: its body never comes."""
    with gateway(f"{ALICE}{WIDE}[limits]\nin_flight = 1\nqueue = 0\n") as stand:
        with hanging(stand, "wide:m"), opened(stand.url, asking(client, "", "m")[0], b"", LARGE) as headed:
            received = headed.recv(65536)
            assert received.startswith(b"HTTP/1.1 %d " % BUSY.get(client, 503))
            assert b"\r\nretry-after: " in received
            line = stand.last_record()
            assert (line["shed"], line["key"], line["client"]) == ("gateway", "alice", client)
            assert "the gateway is busy: 1 requests are running" in line["error"]
        freed(stand)
        assert ask(stand.url, client, "hello", "wide:m").text(client) == "You said: hello"


LARGE = "content-length: 5000000\r\nx-"  # the one that `opened` adds becomes another header


def test_a_queue_before_a_full_gateway(pool: ThreadPoolExecutor) -> None:
    with gateway(f"{ALICE}{WIDE}[limits]\nin_flight = 1\nqueue = 1\n") as stand:
        with hanging(stand, "wide:m"):
            waits = pool.submit(ask, stand.url, "openai-chat", "hello", "wide:m")
            wait_until(lambda: stand.gateway.admission.waiting == 1)
            assert b"dragoman_waiting 1.0" in send(stand.url, "GET", "/metrics").body
            assert ask(stand.url, "openai-chat", "hello", "wide:m").status == 503
            ready = send(stand.url, "GET", "/readyz")
            assert (ready.status, ready.json["saturated"]) == (200, True)
        assert waits.result().text("openai-chat") == "You said: hello"
        freed(stand)
        assert stand.last()["waited_ms"] > 0
        assert send(stand.url, "GET", "/readyz").json["saturated"] is False


def test_a_client_that_leaves_the_queue_is_forgotten() -> None:
    with gateway(f"{ALICE}{WIDE}[limits]\nin_flight = 1\nqueue = 1\n") as stand:
        with hanging(stand, "wide:m"):
            with opened(stand.url, *request("hello", "wide:m")):
                wait_until(lambda: stand.gateway.admission.waiting == 1)
            wait_until(lambda: stand.gateway.admission.waiting == 0)
            wait_until(lambda: stand.records)
            assert (stand.records[-1]["status"], "shed" in stand.records[-1]) == ("gone", False)
        freed(stand)


def test_nobody_waits_forever() -> None:
    with gateway(f"{ALICE}{WIDE}[limits]\nin_flight = 1\nqueue = 1\nqueue_seconds = 0.05\n") as stand:
        with hanging(stand, "wide:m"):
            assert ask(stand.url, "openai-chat", "hello", "wide:m").status == 503
            assert stand.last_record()["shed"] == "gateway"
        freed(stand)


def test_a_greedy_key_does_not_fill_the_queue_alone(pool: ThreadPoolExecutor) -> None:
    with gateway(f"{ALICE}{BOB}{WIDE}[limits]\nin_flight = 1\nqueue = 2\n") as stand:
        with hanging(stand, "wide:m"):
            greedy: list[Future[Got]] = []
            for number in (1, 2):
                greedy.append(pool.submit(ask, stand.url, "openai-chat", "hello", "wide:m"))
                wait_until(lambda number=number: stand.gateway.admission.waiting == number)
            modest = pool.submit(send, stand.url, "POST", *request("hi", "wide:m"), key=OTHER_KEY)
            wait_until(lambda: any(each.done() for each in greedy))
        assert sorted(each.result().status for each in greedy) == [200, 503]
        assert modest.result().status == 200
        freed(stand)


def test_without_a_limit_nothing_is_turned_away() -> None:
    with gateway("[limits]\nin_flight = 0\nqueue = 0\n") as stand:
        assert ask(stand.url, "openai-chat", "hello", "demo").status == 200
        assert not stand.gateway.admission.full
        freed(stand)


# Providers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@each_client
def test_a_full_provider(client: str, stream: bool) -> None:
    with gateway(f"{ALICE}{SMALL}queue = 0\n{WIDE}") as stand:
        with hanging(stand):
            wait_until(lambda: stand.gateway.admission.slots.held == 1)
            got = ask(stand.url, client, "hello", "small:m", stream)
            assert (got.status, got.failure(client).kind) == (BUSY.get(client, 503), "overloaded")
            assert "the provider small is busy: 1 requests are running" in got.failure(client).message
            assert "retry-after" in got.headers
            line = stand.last_record()
            assert (line["shed"], line["provider"], line.get("tries")) == ("provider", "small", None)
            assert ask(stand.url, client, "hello", "wide:m", stream).status == 200
        freed(stand)
        assert ask(stand.url, client, "hello", "small:m", stream).text(client) == "You said: hello"


def test_a_line_before_a_provider(pool: ThreadPoolExecutor) -> None:
    with gateway(f"{ALICE}{SMALL}queue = 1\nqueue_seconds = 20\n") as stand:
        with hanging(stand):
            waits = pool.submit(ask, stand.url, "anthropic", "hello", "small:m")
            wait_until(lambda: stand.gateway.admission.slots.waiting == 1)
            assert ask(stand.url, "gemini", "hello", "small:m").status == 503
        assert waits.result().text("anthropic") == "You said: hello"
        freed(stand)
        with hanging(stand):
            with opened(stand.url, *request("hello")):  # and one that leaves
                wait_until(lambda: stand.gateway.admission.slots.waiting == 1)
            wait_until(lambda: stand.gateway.admission.slots.waiting == 0)
        freed(stand)


def test_waiting_for_a_provider_ends() -> None:
    with gateway(f"{ALICE}{SMALL}queue = 1\nqueue_seconds = 0.05\n") as stand:
        with hanging(stand):
            assert ask(stand.url, "openai-chat", "hello", "small:m").status == 503
        freed(stand)


def test_a_full_provider_is_passed_over(pool: ThreadPoolExecutor) -> None:
    """The next of the list answers; only where there is none that has room, the queue is used."""
    other = SMALL.replace("small", "other")
    models = '[models]\nany = ["small:a", "wide:b"]\ntight = ["small:a", "other:b"]\n'
    with gateway(f"{ALICE}{SMALL}queue = 0\n{other}queue = 1\n{WIDE}{models}") as stand:
        assert ask(stand.url, "openai-chat", "hello", "any").status == 200
        freed(stand)
        with hanging(stand), hanging(stand, "other:m"):
            wait_until(lambda: stand.gateway.admission.slots.held == 2)
            assert ask(stand.url, "openai-chat", "hello", "any").status == 200
            wait_until(lambda: len(stand.records) == 2)
            attempts = [(line["provider"], line["tries"], line.get("shed")) for line in stand.records]
            assert attempts == [("small", 1, None), ("wide", 1, None)]
            waits = pool.submit(ask, stand.url, "openai-chat", "hello", "tight")
            wait_until(lambda: stand.gateway.admission.slots.waiting == 1)  # of `other`: `small` has none
        assert waits.result().status == 200
        freed(stand)


def test_a_full_provider_is_not_asked_to_count() -> None:
    """An estimate disturbs nobody."""
    small = SMALL.replace("openai-chat", "anthropic")
    body = jsontext.encode(asking("anthropic", "hello", "small:m")[1])
    with gateway(f"{ALICE}{small}") as stand:
        with hanging(stand):
            wait_until(lambda: stand.gateway.admission.slots.held == 1)
            got = send(stand.url, "POST", "/v1/messages/count_tokens", body)
            assert (got.status, got.headers.get("x-dragoman-estimate")) == (200, "true")
        freed(stand)
        got = send(stand.url, "POST", "/v1/messages/count_tokens", body)
        assert (got.status, got.headers.get("x-dragoman-estimate")) == (200, None)


def test_a_slot_is_free_between_two_tries(pool: ThreadPoolExecutor) -> None:
    """Whoever waits to try again holds nothing that another could use."""
    with gateway(f"{ALICE}{SMALL}") as stand:
        answers = [
            pool.submit(ask, stand.url, "gemini", f"hi [[fault: 500 x1 {n}]]", "small:m") for n in "ab"
        ]
        assert [got.result().status for got in answers] == [200, 200]
        freed(stand)


# Whatever happens, everything is given back

ENDS = {
    "well": ("hello", 200),
    "with a status": ("[[fault: 400]]", 400),
    "after tries": ("[[fault: 500]]", 500),
    "with nonsense": ("[[fault: garbage]]", 500),
    "with a cut": ("[[fault: cut]]", None),
    "with a failure": ("[[fault: fail]]", None),
}
EVERYTHING = f"{ALICE}requests_per_minute = 1000\nconcurrency = 5\n{SMALL}[limits]\nin_flight = 9\n"


@pytest.fixture(scope="module")
def limited() -> Iterator[Stand]:
    with gateway(EVERYTHING) as stand:
        yield stand


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("text, status", ENDS.values(), ids=ENDS)
def test_given_back_however_it_ends(limited: Stand, text: str, status: int | None, stream: bool) -> None:
    got = ask(limited.url, "anthropic", text, "small:m", stream)
    assert status in (None, got.status)
    freed(limited)


@pytest.mark.parametrize("fault", ["hang", "stall", "slow"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_given_back_when_the_client_leaves(limited: Stand, fault: str, stream: bool) -> None:
    with opened(limited.url, *request(f"{'word ' * 50} [[fault: {fault}]]", stream=stream)):
        wait_until(lambda: held(limited) == {"arrived": 1, "inside": 1, "slots": 1, "keys": 1})
    freed(limited)


def test_given_back_when_a_client_leaves_in_mid_request(limited: Stand) -> None:
    with opened(limited.url, "/v1/messages", b"{", LARGE):
        wait_until(lambda: held(limited) == {"arrived": 1, "keys": 1})
    freed(limited)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"model": "nobody:x"}', b'{"model": "small:m", "messages": 5}']
)
def test_given_back_when_a_request_is_wrong(limited: Stand, body: bytes) -> None:
    assert send(limited.url, "POST", "/v1/chat/completions", body).status in (400, 404)
    freed(limited)


@pytest.mark.parametrize("where", ["_authenticate", "attempts._slots"])
def test_given_back_when_the_gateway_crashes(
    limited: Stand, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    *path, name = where.split(".")
    monkeypatch.setattr(getattr(limited.gateway, path[0]) if path else limited.gateway, name, None)
    assert ask(limited.url, "openai-chat", "hello", "small:m").status == 500
    assert limited.last()["status"] == 500
    freed(limited)


def test_given_back_when_a_handler_is_cancelled(limited: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server that shuts down does."""
    attempts, handlers = limited.gateway.attempts, list[asyncio.Task[Any]]()
    run = attempts.run

    async def noted(*arguments: Any) -> None:
        handlers.extend(filter(None, [asyncio.current_task()]))
        await run(*arguments)

    monkeypatch.setattr(attempts, "run", noted)
    with hanging(limited):
        wait_until(lambda: held(limited).get("slots"))
        handlers[0].get_loop().call_soon_threadsafe(handlers[0].cancel)
        freed(limited)


def test_given_back_when_counting_fails(limited: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited.gateway.admission, "counters", None)
    assert ask(limited.url, "openai-chat", "hello", "small:m").status == 500
    freed(limited)


# What is logged


def test_names_are_logged_and_keys_are_not() -> None:
    with gateway(f'[server]\nkeys = "{OTHER_KEY}"\n{ALICE}requests_per_minute = 1\n') as stand:
        ask(stand.url, "anthropic", "hello", "demo:m")
        ask(stand.url, "anthropic", "hello", "demo:m")
        path, body = asking("anthropic", "hello", "demo:m")
        send(stand.url, "POST", path, jsontext.encode(body), key=OTHER_KEY)
        stand.last()
        page = send(stand.url, "GET", "/metrics").body.decode()
        assert 'dragoman_shed_total{key="alice",reason="rate"} 1.0' in page
        assert 'dragoman_key_requests_total{key="alice",model="",status="429"} 1.0' in page
        assert 'dragoman_key_requests_total{key="key-1",model="m",status="200"} 1.0' in page
        everything: Any = page + "".join(stand.lines)
        assert CLIENT_KEY not in everything
        assert OTHER_KEY not in everything


def test_a_key_expires_and_has_its_models() -> None:
    keys = """
[keys.old]
key = "old-key-1"
expires = 2020-01-31
[keys.new]
key = "new-key-2"
expires = 2999-12-31T23:59:59Z
models = ["demo:small-*", "exact"]
"""
    with gateway(keys) as stand:
        path, body = asking("openai-chat", "hello", "demo:small-1")
        data = jsontext.encode(body)
        assert send(stand.url, "POST", path, data, key="old-key-1").status == 401
        assert send(stand.url, "POST", path, data, key="new-key-2").status == 200
        refused = send(stand.url, "POST", path, data.replace(b"small-1", b"large-1"), key="new-key-2")
        assert (refused.status, b"may not use the model 'demo:large-1'" in refused.body) == (403, True)


def test_a_key_sees_the_models_that_it_may_use() -> None:
    text = """
[server]
keys = ["any-key-1"]
[keys.few]
key = "few-key-2"
models = ["fast*", "demo:a"]
[models]
fast = "demo:a"
slow = "demo:b"
"""
    with gateway(text) as stand:
        listed = {
            key: [model["id"] for model in send(stand.url, "GET", "/v1/models", key=key).json["data"]]
            for key in ("any-key-1", "few-key-2")
        }
        assert listed == {"any-key-1": ["fast", "slow"], "few-key-2": ["fast"]}
        for name, status in (("fast", 200), ("slow", 404), ("demo:a", 200)):
            assert send(stand.url, "GET", f"/v1/models/{name}", key="few-key-2").status == status


def test_an_address_with_many_wrong_keys_has_to_wait() -> None:
    with gateway('[server]\nkeys = ["right-key-1"]\nfailed_keys_per_minute = 3\n') as stand:
        path, body = request("hello", "demo:m")
        keys = ("a", "right-key-1", "b", "c")
        statuses = [send(stand.url, "POST", path, body, key=key).status for key in keys]
        assert statuses == [401, 200, 401, 401]
        refused = send(stand.url, "POST", path, body, key="right-key-1")
        assert (refused.status, 0 < int(refused.headers["retry-after"]) <= 60) == (429, True)
        assert b"too many wrong keys" in refused.body
        assert send(stand.url, "GET", "/healthz").status == 200


def test_a_budget_of_tokens_is_shared_by_replicas_and_ends_with_the_day(tmp_path: Path) -> None:
    text = f'[store]\nurl = "sqlite:///{tmp_path}/store.db"\n{ALICE}tokens_per_day = 1\n'
    with gateway(text) as first, gateway(text) as second:
        assert ask(first.url, "openai-chat", "hello", "demo:m").status == 200
        for stand in (second, first):
            assert ask(stand.url, "openai-chat", "hello", "demo:m").status == 429
        refused = ask(second.url, "anthropic", "hello", "demo:m")
        assert refused.status == 429
        assert b"Key 'alice' has used its budget of 1 tokens a day" in refused.body
        assert second.last()["shed"] == "budget"


def test_tomorrow_is_another_day() -> None:
    class Tokens:
        counts: ClassVar[dict[tuple[str, int], int]] = {}

        async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
            self.counts[caller, day] = self.counts.get((caller, day), 0) + tokens

        async def tokens(self, caller: str, day: int) -> int:
            return self.counts.get((caller, day), 0)

    now = 86_400.0 * 20_000 + 86_000
    caller = Caller("a", "id", Allowance(tokens_per_day=100))

    async def work() -> None:
        nonlocal now
        budgets = Budgets(Tokens(), print, lambda: now)
        await budgets.check(caller)
        await budgets.add(caller, "m", Usage(60, 50), None)
        with pytest.raises(LoadShed) as caught:
            await budgets.check(caller)
        assert caught.value.failure.retry_after == 400
        now += 400
        await budgets.check(caller)

    asyncio.run(work())


def test_wrong_keys_are_not_forgotten_at_a_reload() -> None:
    with gateway('[server]\nkeys = ["right-key-1"]\nfailed_keys_per_minute = 2\n') as stand:
        statuses = [send(stand.url, "GET", "/v1/models", key=key).status for key in ("a", "b")]
        stand.gateway.configure(replace(stand.gateway.config, reload=True))
        statuses.append(send(stand.url, "GET", "/v1/models", key="right-key-1").status)
        assert statuses == [401, 401, 429]
