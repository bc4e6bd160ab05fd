"""The store behind kept conversations is never a need, and a handle is good for one account only."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.credentials import Credential
from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.conversations.upstream_sessions import UpstreamSessions
from dragoman.profiles import ProviderSettings

PROVIDER = ProviderSettings(
    name="kept", protocol="qwen-chat", base_url="http://127.0.0.1:9/v1", credentials=Credential(key="k")
)
ONE = {"role": "user", "content": "one"}
SAID = {"role": "assistant", "content": "1"}
REPLY = {"response_id": "r", "choices": [{"message": SAID}]}


class Memory:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}

    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        self.kept[owner, digest] = handle

    async def recall(self, owner: str, digest: str) -> bytes | None:
        return self.kept.get((owner, digest))


class Broken(Memory):
    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        raise StoreError("the disk is full")

    async def recall(self, owner: str, digest: str) -> bytes | None:
        raise StoreError("the disk is gone")


class Hung(Memory):
    async def remember(self, owner: str, digest: str, handle: bytes) -> None:
        await asyncio.Event().wait()

    async def recall(self, owner: str, digest: str) -> bytes | None:
        await asyncio.Event().wait()
        raise AssertionError


def exchanged(sessions: UpstreamSessions, provider: ProviderSettings, key: str) -> bool:
    """Whether a conversation begun by PROVIDER and "key" goes on for this provider and this key."""

    async def both() -> bool:
        first = Exchange("openai-chat", "qwen-chat")
        first.request({"model": "m", "messages": [ONE]})
        first.response(REPLY)
        await sessions.talk(first, PROVIDER, "key", "req_1").keep()
        second = Exchange("openai-chat", "qwen-chat")
        second.request({"model": "m", "messages": [ONE, SAID, ONE]})
        return await sessions.talk(second, provider, key, "req_2").resume() is not None

    return asyncio.run(both())


ACCOUNTS = {
    "the same": (PROVIDER, "key", True),
    "another name": (replace(PROVIDER, name="other"), "key", False),
    "another address": (replace(PROVIDER, base_url="http://127.0.0.1:8/v1"), "key", False),
    "another key of the provider": (replace(PROVIDER, credentials=Credential(key="l")), "key", False),
    "the client's own key": (replace(PROVIDER, passthrough=True), "key", False),
    "another client": (PROVIDER, "other", False),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_whose_conversation_it_is(name: str) -> None:
    provider, key, same = ACCOUNTS[name]
    memory = Memory()
    assert exchanged(UpstreamSessions(memory, ("key", "other"), print), provider, key) is same
    ((owner, digest),) = memory.kept
    assert (len(owner), len(digest)) == (64, 64)


def test_a_gateway_without_keys_asks_nobody_for_one() -> None:
    assert exchanged(UpstreamSessions(Memory(), (), print), PROVIDER, "any other")


@pytest.mark.parametrize(
    "store, why",
    [(Broken(), ["the disk is full", "the disk is gone"]), (Hung(), ["the store took too long"] * 2)],
)
def test_a_store_that_does_not_answer(store: Memory, why: list[str]) -> None:
    lines: list[str] = []
    assert not exchanged(UpstreamSessions(store, (), lines.append, timeout=0.01), PROVIDER, "")
    records = [jsontext.decode(line) for line in lines]
    assert [line["store"] for line in records] == why
    assert [line["id"] for line in records] == ["req_1", "req_2"]


def test_what_is_no_handle_is_none() -> None:
    class Garbled(Memory):
        async def recall(self, owner: str, digest: str) -> bytes | None:
            return b"\xff{"

    assert not exchanged(UpstreamSessions(Garbled(), (), print), PROVIDER, "")
