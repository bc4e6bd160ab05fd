"""Clients that cut call ids to 64 characters: the state inside is found again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.model import State
from dragoman.core.seal import MAGIC
from dragoman.gateway.conversations.cut_ids import CutIds
from dragoman.gateway.conversations.store import StoreError, open_store
from dragoman.transforms.call_ids import CallId, wrap
from gateway.canned import Answer, Canned
from gateway.plain import send
from gateway.running import running
from gateway.stands import Stand, gateway
from waiting import wait_until

SIGNATURE = "CpwBAdHtim+/9k" * 12 + "=="
CALL = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": SIGNATURE}
REPLY = {
    "candidates": [{"content": {"role": "model", "parts": [CALL]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    "modelVersion": "m",
    "responseId": "r",
}
TOOLS: dict[str, list[Any]] = {
    "/v1/messages": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
    "/v1/chat/completions": [{"type": "function", "function": {"name": "f"}}],
}
each_client = pytest.mark.parametrize("path", TOOLS)


def configuration(url: str, store: Path) -> str:
    return (
        f'[store]\nurl = "sqlite:///{store}"\n[providers.g]\nprotocol = "gemini"\nbase_url = "{url}"\n'
        'api_key = "k"\n[models]\n"*" = "g:gemini-3-pro"\n'
    )


def ask(stand: Stand, path: str, id: str = "") -> Any:
    """A turn; with `id`, one that returns the call of that id and its result."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    if id and path == "/v1/messages":
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]},
        ]
    elif id:
        call = {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": "ok"},
        ]
    body = {"model": "m", "max_tokens": 100, "messages": messages, "tools": TOOLS[path]}
    got = send(stand.url, "POST", path, jsontext.encode(body))
    assert got.status == 200, got.body
    return got


def id_in(got: Any) -> str:
    reply = got.json
    if "choices" in reply:
        return reply["choices"][0]["message"]["tool_calls"][0]["id"]
    return next(block["id"] for block in reply["content"] if block["type"] == "tool_use")


@each_client
def test_the_state_in_a_cut_id_is_restored(tmp_path: Path, path: str) -> None:
    upstream = Canned(Answer(200, jsontext.encode(REPLY)))
    with running(upstream) as url, gateway(configuration(url, tmp_path / "store.db")) as stand:
        id = id_in(ask(stand, path))
        assert MAGIC in id[:64]
        assert len(id) > 64
        got = ask(stand, path, id[:64])
        assert SIGNATURE in upstream.requests[-1].body.decode()
        assert "call.id" not in got.headers.get("x-dragoman-losses", "").replace("call.id.invented", "")


@each_client
def test_another_gateway_finds_it_in_the_store(tmp_path: Path, path: str) -> None:
    """Once a client is known to cut ids, those that it gets are stored."""
    upstream = Canned(Answer(200, jsontext.encode(REPLY)))
    text = ""
    with running(upstream) as url:
        text = configuration(url, tmp_path / "store.db")
        with gateway(text) as first, gateway(text) as second:
            id = id_in(ask(first, path))
            assert "call.id.dropped" in ask(second, path, id[:64]).headers["x-dragoman-losses"]
            ask(first, path, id[:64])
            assert id_in(ask(first, path)) == id

            def is_found() -> bool:  # it is written when the reply has ended
                ask(second, path, id[:64])
                return SIGNATURE in upstream.requests[-1].body.decode()

            wait_until(is_found)


def test_an_id_that_nobody_remembers_is_reported(tmp_path: Path) -> None:
    upstream = Canned(Answer(200, jsontext.encode(REPLY)))
    with running(upstream) as url:
        with gateway(configuration(url, tmp_path / "one.db")) as stand:
            id = id_in(ask(stand, "/v1/messages"))
        with gateway(configuration(url, tmp_path / "other.db")) as stand:
            assert "call.id.dropped" in ask(stand, "/v1/messages", id[:64]).headers["x-dragoman-losses"]


def test_what_is_remembered_is_bounded() -> None:
    class NoStore:
        async def remember(self, owner: str, digest: str, handle: bytes) -> None:
            raise AssertionError("nobody has cut an id")

        async def recall_many(self, owner: str, digests: Sequence[str]) -> dict[str, bytes]:
            raise StoreError("the disk is gone")

    errors: list[StoreError] = []
    ids = CutIds(NoStore(), errors.append)
    sealed = [wrap(CallId(f"c{n}", State("g", SIGNATURE * 40)), ProtocolLimits()) for n in range(1000)]

    async def work() -> tuple[bytes, bytes]:
        await ids.remember("a", sealed)
        old, new = [b'{"id": "%b"}' % id[:64].encode() for id in (sealed[0], sealed[-1])]
        return await ids.restore("a", old), await ids.restore("a", new)

    forgotten, restored = asyncio.run(work())
    assert len(forgotten) < 100  # and the store, which failed, was asked
    assert len(errors) == 1
    assert sealed[-1].encode() in restored
    assert ids._size <= 4 * 1024 * 1024


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_many_cut_ids_are_few_queries(count: int) -> None:
    """The latest ids are looked up; a body of thousands asks the store a handful of times."""
    store, asked = open_store("memory:"), list[int]()
    ids = [f"call_{MAGIC}M{number:06d}{'a' * 80}" for number in range(count)]
    recall = store.recall_many

    async def counted(owner: str, digests: Sequence[str]) -> dict[str, bytes]:
        asked.append(len(digests))
        return await recall(owner, digests)

    store.recall_many = counted

    async def run() -> bytes:
        before = CutIds(store, raises)
        await before.restore("a", f'"{ids[0][:64]}"'.encode())  # from now on its ids are stored
        asked.clear()
        await before.remember("a", ids)
        after = CutIds(store, raises)  # another process
        try:
            return await after.restore("a", jsontext.encode([id[:64] for id in ids]))
        finally:
            await store.close()

    restored = jsontext.decode(asyncio.run(run()))
    assert restored[-2000:] == ids[-2000:]
    assert asked == [min(count, 2000)]


def raises(error: Exception) -> None:
    raise error
