"""Budgets count every exchange, in tokens and in dollars, and are exact near the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors

from cli.gateways import serving
from dragoman.core import jsontext
from dragoman.core.model import Usage
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.budgets import Budgets
from dragoman.gateway.config.keys import Allowance
from dragoman.gateway.conversations.store import StoreError
from gateway.canned import Answer, Canned, chat, chunks, provider
from gateway.conversations.databases import PostgresDatabase
from gateway.plain import model_of, send
from gateway.running import running
from gateway.stands import UPSTREAMS, configuration, gateway
from waiting import StillClock

KEY = "alice-key"
ALICE = f'[keys.alice]\nkey = "{KEY}"\n'
USAGE = {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60}


class OnRequest(Canned):
    """A Chat server that counts the tokens of a stream only when it is asked to."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        asked = len(self.requests)
        self.answers = [_Late(self, asked)]
        await super().__call__(scope, receive, send)


class _Late(Answer):
    def __init__(self, server: OnRequest, number: int) -> None:
        super().__init__(200, content_type="text/event-stream")
        self._server, self._number = server, number

    async def send(self, send: Any) -> None:
        wire = self._server.requests[self._number].json
        events = chunks("hello", " world")
        if (wire.get("stream_options") or {}).get("include_usage"):
            counted = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            event = b"data: %b\n\n" % jsontext.encode({**counted, "choices": [], "usage": USAGE})
            events.insert(-1, event)
        self.pieces = tuple(events)
        await super().send(send)


def chat_sdk(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def stream(url: str, **more: Any) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    return list(chat_sdk(url).chat.completions.create(model="up:m", messages=messages, stream=True, **more))


def test_a_streamed_chat_counts_though_the_client_does_not_ask():
    behind = OnRequest()
    with running(behind) as up, gateway(provider("up", up) + ALICE + "tokens_per_day = 100\n") as stand:
        first = stream(stand.url)
        second = stream(stand.url, stream_options={"include_usage": True})
        with pytest.raises(openai.RateLimitError, match="budget of 100 tokens a day"):
            stream(stand.url)
        records = stand.finished()
    assert [chunk.usage for chunk in first if chunk.usage] == []
    assert all(chunk.choices for chunk in first)
    assert [chunk.usage.total_tokens for chunk in second if chunk.usage] == [60]
    assert [(line.get("input"), line.get("output")) for line in records[:2]] == [(40, 20), (40, 20)]
    assert [request.json["stream_options"] for request in behind.requests] == [{"include_usage": True}] * 2


def test_without_a_budget_nothing_is_asked_for():
    behind = OnRequest()
    with running(behind) as up, gateway(provider("up", up) + ALICE) as stand:
        stream(stand.url)
    assert "stream_options" not in behind.requests[0].json


def test_where_the_server_does_not_count_an_estimate_is_marked():
    behind = Canned(Answer(200, *chunks("hello", " world"), content_type="text/event-stream"))
    profile = "[providers.up.profiles.m]\nstream_usage = false\n"
    text = provider("up", "URL") + profile + ALICE + "tokens_per_day = 5\n"
    with running(behind) as up, gateway(text.replace("URL", up)) as stand:
        stream(stand.url)
        assert stand.last()["estimated"] is True
        with pytest.raises(openai.RateLimitError):
            stream(stand.url)
    assert "stream_options" not in behind.requests[0].json


class FailingStore:
    """Counts, or refuses while `away`; a count that it holds back ends when it is released."""

    def __init__(self) -> None:
        self.away, self.counts = False, dict[tuple[str, int], int]()

    async def add_tokens(self, caller: str, day: int, tokens: int) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise StoreError("away")
        self.counts[caller, day] = self.counts.get((caller, day), 0) + tokens

    async def tokens(self, caller: str, day: int) -> int:
        if self.away:
            raise StoreError("away")
        return self.counts.get((caller, day), 0)


async def counted_while_away(clock: StillClock) -> tuple[FailingStore, Budgets, Caller]:
    store = FailingStore()
    budgets = Budgets(store, lambda error: None, clock)
    caller = Caller("alice", "alice", Allowance(tokens_per_day=1000))
    await budgets.add(caller, "m", Usage(1, 2), None)
    store.away = True
    await asyncio.gather(*[budgets.add(caller, "m", Usage(10, 0), None) for _ in range(3)])
    assert [reading.used for reading in await budgets.read(caller)] == [33]
    store.away = False
    return store, budgets, caller


def test_what_was_used_while_the_store_was_away_is_written_when_it_is_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dragoman.gateway.admission.budgets._AGAIN", 0.0)

    async def run() -> None:
        clock = StillClock()
        store, budgets, caller = await counted_while_away(clock)
        clock.now += 24 * 3600  # it belongs to the day on which it was used
        while sum(store.counts.values()) < 33:
            await asyncio.sleep(0)
        await budgets.add(caller, "m", Usage(5, 0), None)
        assert [*store.counts.values()] == [33, 5]
        await budgets.close()
        assert [*store.counts.values()] == [33, 5]

    asyncio.run(run())


def test_what_the_store_does_not_know_is_written_at_the_end():
    async def run() -> None:
        store, budgets, _ = await counted_while_away(StillClock())
        await budgets.close()
        assert [*store.counts.values()] == [33]

    asyncio.run(run())


def ask_chat(url: str, model: str, streamed: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    got = chat_sdk(url).chat.completions.create(model=model, messages=messages, stream=streamed)
    list(got) if streamed else None


def ask_responses(url: str, model: str, streamed: bool) -> None:
    got = chat_sdk(url).responses.create(model=model, input="hi", store=False, stream=streamed)
    list(got) if streamed else None


def ask_anthropic(url: str, model: str, streamed: bool) -> None:
    client = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    got = client.messages.create(model=model, max_tokens=99, messages=messages, stream=streamed)
    list(got) if streamed else None


def ask_gemini(url: str, model: str, streamed: bool) -> None:
    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    if streamed:
        list(client.models.generate_content_stream(model=model, contents="hi"))
    else:
        client.models.generate_content(model=model, contents="hi")


ASK: dict[str, Callable[[str, str, bool], None]] = {
    "openai-chat": ask_chat,
    "openai-responses": ask_responses,
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ASK)
def test_every_sdk_over_every_upstream_is_counted(behind: tuple[Any, str], client: str, streamed: bool):
    text = configuration(behind[1]) + ALICE + "tokens_per_day = 1_000_000\n"
    with gateway(text) as stand:
        for number, upstream in enumerate(UPSTREAMS, 1):
            ASK[client](stand.url, model_of(upstream), streamed)
            line = stand.finished()[-1]
            assert len(stand.records) == number
            assert line["input"] > 0
            assert line["output"] > 0
            assert key(stand.url)["models"] == ["*"]
            used = key(stand.url)["budgets"][0]["used"]
            assert used == sum(each["input"] + each["output"] for each in stand.records)


def key(url: str) -> Any:
    return send(url, "GET", "/v1/key", key=KEY).json


CHAT = jsontext.encode({"model": "up:m", "messages": [{"role": "user", "content": "hi"}]})
PRICED = """
[providers.up.profiles."m*"]
price = { input = 1000.0, output = 5000.0 }
"""


def ask(url: str, model: str = "up:m") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return send(url, "POST", "/v1/chat/completions", jsontext.encode(body), key=KEY).status


def test_money_by_day_month_and_model():
    """A reply costs 7 × $0.001 + 3 × $0.005 = $0.022."""
    behind = Canned(Answer(200, chat("hello")))
    budgets = 'usd_per_day = 0.05\nusd_per_month = 1\nbudgets = { "up:m-big" = { usd_per_day = 0.01 } }\n'
    with running(behind) as up, gateway(provider("up", up) + PRICED + ALICE + budgets) as stand:
        assert ask(stand.url, "up:m-big") == 200
        assert ask(stand.url, "up:m-big") == 429
        first = key(stand.url)
        assert [ask(stand.url) for _ in range(3)] == [200, 200, 429]
        refused = stand.finished()[-1]
    assert refused["shed"] == "budget"
    assert [
        (each["unit"], each["period"], each.get("models"), each["used"]) for each in first["budgets"]
    ] == [
        ("usd", "day", None, 0.022),
        ("usd", "month", None, 0.022),
        ("usd", "day", "up:m-big", 0.022),
    ]
    assert first["name"] == "alice"


def test_what_is_left_is_in_the_headers():
    behind = Canned(Answer(200, chat("hello")))
    text = ALICE + "tokens_per_day = 25\nusd_per_month = 1\n"
    with running(behind) as up, gateway(provider("up", up) + PRICED + text) as stand:
        body = jsontext.encode({"model": "up:m", "messages": [{"role": "user", "content": "hi"}]})
        got = [send(stand.url, "POST", "/v1/chat/completions", body, key=KEY).headers for _ in range(2)]
    assert [headers["x-dragoman-budget-tokens-day-remaining"] for headers in got] == ["25", "15"]
    assert [headers["x-dragoman-budget-usd-month-remaining"] for headers in got] == ["1.000000", "0.978000"]


def test_a_model_without_a_price_is_not_for_keys_with_a_budget_in_dollars():
    behind = Canned(Answer(200, chat("hello")))
    rows = '[models]\nfree = { to = "up:f", price = { input = 0, output = 0 } }\nboth = ["up:x", "dear:m"]\n'
    with ExitStack() as stack:
        url = stack.enter_context(running(behind))
        text = provider("up", url) + provider("dear", url) + PRICED.replace(".up.", ".dear.")
        stand = stack.enter_context(gateway(text + rows + ALICE + "usd_per_day = 1\n"))
        refused = send(stand.url, "POST", "/v1/chat/completions", CHAT, key=KEY)
        assert (refused.status, refused.json["error"]["message"].split(",")[0]) == (
            403,
            "The price of 'up:m' is not known",
        )
        assert ask(stand.url, "free") == 200
        assert ask(stand.url, "demo:x") == 200
        assert ask(stand.url, "both") == 200
        assert stand.last()["provider"] == "dear"
        assert key(stand.url)["budgets"][0]["used"] == 0.022
    with running(behind) as url, gateway(provider("up", url) + ALICE + "tokens_per_day = 99\n") as stand:
        assert ask(stand.url) == 200


def test_cached_tokens_without_a_price_of_their_own_count_as_input():
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    body = jsontext.decode(chat("hello")) | {"usage": usage}
    behind = Canned(Answer(200, jsontext.encode(body)))
    with running(behind) as up, gateway(provider("up", up) + PRICED + ALICE + "usd_per_day = 1\n") as stand:
        assert ask(stand.url) == 200
        assert key(stand.url)["budgets"][0]["used"] == 0.022


def test_the_key_of_nobody_tells_nothing():
    with gateway(ALICE) as stand:
        assert send(stand.url, "GET", "/v1/key", key="wrong").status == 401


class AtOnce(Canned):
    """`most`: how many requests it had at a time."""

    under_way = most = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.under_way -= 1


def ten_tokens(streamed: bool) -> Answer:
    if not streamed:
        return Answer(200, chat("hello"))
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    counted = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    events = chunks("hello")
    events.insert(-1, b"data: %b\n\n" % jsontext.encode({**counted, "usage": usage}))
    return Answer(200, *events, content_type="text/event-stream")


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_two_workers_of_two_replicas_spend_no_more_than_what_was_under_way(
    postgres: str, tmp_path: Path, streamed: bool
):
    """Real processes, and eight callers at a time of four SDKs. The budget is that of 20 exchanges."""
    database, behind, callers = PostgresDatabase.made(postgres), AtOnce(ten_tokens(streamed)), 8
    with ExitStack() as stack:
        stack.callback(database.drop)
        up = stack.enter_context(running(behind))
        text = provider("up", up) + f'[store]\nurl = "{database.url}"\n' + ALICE + "tokens_per_day = 200\n"
        urls: list[str] = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "dragoman.toml").write_text(text)
            urls.append(stack.enter_context(serving(tmp_path / name, "--workers", "2"))[0])
        sdks = [*ASK.values()]

        def call(number: int) -> bool:
            try:
                sdks[number % 4](urls[number // 4 % 2], "up:m", streamed)
            except (openai.RateLimitError, anthropic.RateLimitError, genai_errors.ClientError):
                return False
            return True

        with ThreadPoolExecutor(callers) as pool:
            answered = sum(pool.map(call, range(64)))
        used = [key(url)["budgets"][0]["used"] for url in urls]
    assert behind.most <= callers
    assert 20 <= answered == len(behind.requests) < 20 + callers
    assert used == [10 * answered] * 2


def test_replicas_on_postgresql_never_exceed_a_budget_by_more_than_what_was_under_way(postgres: str):
    """Four gateways, one after the other: the fifth reply of ten tokens is over a budget of 41."""
    database = PostgresDatabase.made(postgres)
    behind = Canned(Answer(200, chat("hello")))
    store = f'[store]\nurl = "{database.url}"\n'
    try:
        with ExitStack() as stack:
            up = stack.enter_context(running(behind))
            text = provider("up", up) + store + ALICE + "tokens_per_day = 41\n"
            stands = [stack.enter_context(gateway(text)) for _ in range(4)]
            statuses = [ask(stands[number % 4].url) for number in range(12)]
    finally:
        database.drop()
    assert statuses == [200] * 5 + [429] * 7
