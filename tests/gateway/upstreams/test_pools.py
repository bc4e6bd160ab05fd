"""Pools of keys: sessions keep their account until it fails, nothing is lost, and the weights are met."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.model import Failure
from dragoman.gateway.config import load
from dragoman.gateway.upstreams.affinity import LASTS, Affinity
from dragoman.gateway.upstreams.pools import Pools
from dragoman.gateway.upstreams.routing import route
from gateway.canned import Answer, Canned, chat
from gateway.conversations.databases import PostgresDatabase
from gateway.plain import send
from gateway.running import running
from gateway.stands import Stand, gateway

KEYS = ("key-one", "key-two", "key-three", "key-four", "key-dead")
WEIGHTS = {"key-one": 1, "key-two": 1, "key-three": 2, "key-four": 1, "key-dead": 1}
SESSIONS, TURNS = 200, 10


class Accounts(Canned):
    """An Anthropic server with an account for each key: it signs its thinking, refuses signatures of others,
    has a prompt cache for each account, refuses a dead key, and limits the rate at times."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[str, list[str]] = defaultdict(list)  # session -> the account of each answered turn
        self.cached: set[tuple[str, int]] = set()
        self.hits, self.foreign, self.limited = 0, 0, Counter[str]()
        self.asked = Counter[str]()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        key = dict(scope["headers"])[b"x-api-key"].decode()
        status, answer, headers = self._answer(key, jsontext.decode(body))
        fields = [(b"content-type", b"application/json"), *headers]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": jsontext.encode(answer)})

    def _answer(self, key: str, wire: Any) -> tuple[int, Any, list[tuple[bytes, bytes]]]:
        self.asked[key] += 1
        if key == "key-dead":
            return 401, error("authentication_error"), []
        if self.asked[key] % 150 == 10 * len(key):  # not all at once
            self.limited[key] += 1
            return 429, error("rate_limit_error"), [(b"retry-after", b"3600" if key == "key-two" else b"0")]
        blocks = [
            block
            for message in wire["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        if any(block.get("signature", key) != key for block in blocks):
            self.foreign += 1
            return 400, error("invalid_request_error"), []
        session = wire["messages"][0]["content"]
        session = session if isinstance(session, str) else session[0]["text"]
        prefix = jsontext.dumps(wire["messages"][:-2])
        self.hits += (key, hash(prefix)) in self.cached
        self.cached.add((key, hash(jsontext.dumps(wire["messages"]))))
        self.begun[session].append(key)
        content = [
            {"type": "thinking", "thinking": "hm", "signature": key},
            {"type": "text", "text": f"answer {len(wire['messages'])}"},
        ]
        return 200, reply(content), []


def error(kind: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": "no"}}


def reply(content: Any) -> Any:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def pool(url: str, store: str = "") -> str:
    keys = ", ".join([f'{{ key = "{key}", weight = {weight} }}' for key, weight in WEIGHTS.items()])
    text = f'[providers.up]\nprotocol = "anthropic"\nbase_url = "{url}"\napi_keys = [{keys}]\n'
    return text + '[models]\n"*" = "up:m"\n' + (f'[store]\nurl = "{store}"\n' if store else "")


def talk(urls: list[str]) -> int:
    """Every session in turn, at one gateway after the other; the number of answered turns."""
    histories: list[list[Any]] = [[] for _ in range(SESSIONS)]
    answered = 0
    for turn in range(TURNS):
        for number, history in enumerate(histories):
            history.append({"role": "user", "content": f"session {number}" if not turn else f"turn {turn}"})
            body = {"model": "any", "max_tokens": 99, "messages": history}
            got = send(urls[(number + turn) % len(urls)], "POST", "/v1/messages", jsontext.encode(body))
            assert got.status == 200, got.body
            answered += 1
            history.append({"role": "assistant", "content": got.json["content"]})
    return answered


def judge(accounts: Accounts, answered: int) -> None:
    assert answered == SESSIONS * TURNS
    assert accounts.foreign == 0
    moves = sum(before != after for turns in accounts.begun.values() for before, after in pairwise(turns))
    alive = sum(WEIGHTS.values()) - WEIGHTS["key-dead"]
    shares = {key: SESSIONS * weight / alive for key, weight in WEIGHTS.items() if key != "key-dead"}
    # one for each refusal, and those of the account that rests, to which a replica may send a few more
    assert moves <= sum(accounts.limited.values()) + 1.5 * shares["key-two"]
    assert accounts.hits >= 0.95 * SESSIONS * (TURNS - 1)
    started = Counter(turns[0] for turns in accounts.begun.values())
    assert all(abs(started[key] - share) <= 0.1 * share for key, share in shares.items()), started


def test_sessions_keep_their_account_until_it_fails():
    accounts = Accounts()
    with running(accounts) as url, gateway(pool(url)) as stand:
        answered = talk([stand.url])
        names = {line.get("credential") for line in stand.finished()}
    judge(accounts, answered)
    assert names == {"key-1", "key-2", "key-3", "key-4"}
    assert not any(key in line for line in stand.lines for key in KEYS)
    assert any("up/key-5 is paused for 60 s: unauthenticated" in line for line in stand.lines)


def test_two_replicas_on_postgresql_agree(postgres: str):
    database = PostgresDatabase.made(postgres)
    accounts = Accounts()
    try:
        with replicas(accounts, database.url) as stands:
            judge(accounts, talk([stand.url for stand in stands]))
    finally:
        database.drop()


@contextmanager
def replicas(accounts: Accounts, store: str) -> Iterator[list[Stand]]:
    with ExitStack() as stack:
        url = stack.enter_context(running(accounts))
        yield [stack.enter_context(gateway(pool(url, store))) for _ in range(2)]


FILE = """
[providers.up]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
api_keys = ["env:KEY_A", { key = "env:KEY_B", weight = 2, name = "second" }]
shares_state = true
[models]
shared = [{ to = "up:a", weight = 3 }, { to = "demo:b", weight = 1 }, "demo:c"]
"""


def test_a_pool_is_a_target_for_each_key():
    targets = route(load(FILE, {"KEY_A": "a", "KEY_B": "b"}), "up:x")
    assert [target.id for target in targets] == ["up/KEY_A:x", "up/second:x"]
    assert [round(target.weight * 3) for target in targets] == [1, 2]
    assert {target.provider.state_key for target in targets} == {"a"}


def test_weighted_neighbours_are_a_group_and_others_follow():
    targets = route(load(FILE, {"KEY_A": "a", "KEY_B": "b"}), "shared")
    assert [(target.id, target.group, target.weight, target.shared) for target in targets] == [
        ("up/KEY_A:a", 0, 1.0, True),
        ("up/second:a", 0, 2.0, True),
        ("demo:b", 0, 1.0, True),
        ("demo:c", 1, 1.0, False),
    ]


MISTAKES = {
    "both": ('api_key = "x"\napi_keys = ["y"]', "replaces api_key"),
    "none": ("api_keys = []", "expected at least one key"),
    "twice": ('api_keys = ["y", "y"]', "is there twice"),
    "a weight of nothing": ('api_keys = [{ key = "y", weight = 0 }]', "weight"),
}


@pytest.mark.parametrize("given, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(given: str, message: str):
    head = '[providers.up]\nprotocol = "anthropic"\nbase_url = "http://127.0.0.1:9"\n'
    with pytest.raises(ConfigError, match=message):
        load(head + given, {})


def test_an_account_rests_for_as_long_as_the_answer_says_else_longer_each_time():
    now, said = 100.0, list[str]()
    pools = Pools(Affinity(), said.append, lambda: now)
    one, two = route(load(FILE, {"KEY_A": "a", "KEY_B": "b"}), "up:x")

    def first() -> str:
        return asyncio.run(pools.order((one, two)))[0].id

    pools.note_failure(two, Failure("rate_limit", "", 429, retry_after=30.0))
    assert {first() for _ in range(6)} == {one.id}
    now += 31
    assert {first() for _ in range(6)} == {one.id, two.id}
    for seconds in (60, 120, 240):
        pools.note_failure(one, Failure("unauthenticated", "", 401))
        assert said[-1] == f"up/KEY_A is paused for {seconds} s: unauthenticated"
    pools.note_failure(two, Failure("rate_limit", "", 429, retry_after=5.0))
    assert first() == two.id  # its rest ends first
    pools.note_failure(one, Failure("bad_request", "", 400))
    assert len(said) == 5


def test_sessions_are_bounded_and_end():
    now = 0.0
    affinity = Affinity(now=lambda: now, most=3)
    for name in "abcd":
        asyncio.run(affinity.assign(name, "x"))
    assert len(affinity) == 3
    assert asyncio.run(affinity.target("a")) == ""
    assert asyncio.run(affinity.target("d")) == "x"
    now += LASTS + 1
    assert asyncio.run(affinity.target("d")) == ""


def test_a_conversation_that_is_continued_by_id_keeps_its_account():
    """Only its new part is sent: that says nothing of the session."""
    behind = Canned(Answer(200, chat("hello")))
    with running(behind) as url:
        text = f'[providers.up]\nprotocol = "openai-chat"\nbase_url = "{url}"\napi_keys = ["a", "b", "c"]\n'
        with gateway(text) as stand:
            for number in range(4):
                last: dict[str, str] = {}
                for turn in range(3):
                    body = {"model": "up:m", "input": f"turn {turn} of {number}", "store": True, **last}
                    got = send(stand.url, "POST", "/v1/responses", jsontext.encode(body))
                    last = {"previous_response_id": got.json["id"]}
    keys = [request.headers["authorization"] for request in behind.requests]
    conversations = [keys[number * 3 : number * 3 + 3] for number in range(4)]
    assert [len(set(each)) for each in conversations] == [1, 1, 1, 1]
    assert len(set(keys)) == 3
