"""A gateway that remembers conversations sends what one without memory sends, for small and large bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.gateway.large_bodies import LARGE
from dragoman.memory.conversation_memory import ConversationMemory
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import gateway

KEYS = '[server]\nkeys = ["key-a", "key-b"]\n'


@pytest.fixture
def recalled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The scope of each request that was looked up, and whether its conversation was known."""
    found: list[tuple[str, bool]] = []
    read = ConversationMemory.read

    def recording(self: ConversationMemory, scope: str, *rest: Any) -> Any:
        known = read(self, scope, *rest)
        found.append((scope, known is not None))
        return known

    monkeypatch.setattr(ConversationMemory, "read", recording)
    return found


@pytest.fixture
def upstream() -> Iterator[tuple[Canned, str]]:
    app = Canned(Answer(200, chat("Done.")))
    with running(app) as url:
        yield app, url


def session(turns: int, size: int) -> list[bytes]:
    """An Anthropic client's requests, each with one more call and its result."""
    messages: list[Any] = [{"role": "user", "content": "Begin. " + "é" * size}]
    tool = {"name": "run", "input_schema": {"type": "object"}}
    bodies: list[bytes] = []
    for turn in range(turns):
        body = {
            "model": "one:m",
            "max_tokens": 9,
            "messages": messages,
            "tools": [tool],
            "system": "Be brief.",
        }
        bodies.append(jsontext.encode(body))
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "run", "input": {"n": 1.10}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "ok " * size}
        messages = [
            *messages,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    return bodies


def ask(url: str, body: bytes, key: str = "key-a") -> Got:
    got = send(url, "POST", "/v1/messages", body, key=key)
    assert got.status == 200, got.body
    return got


@pytest.mark.parametrize("size", [3_000, LARGE // 4], ids=["small", "large"])
def test_the_upstream_gets_the_same(
    upstream: tuple[Canned, str], recalled: list[tuple[str, bool]], size: int
) -> None:
    app, url = upstream
    bodies = session(6, size)
    for memory in ("", "history_mb = 0\n"):
        with gateway(KEYS + memory + provider("one", url)) as stand:
            losses = [ask(stand.url, body).headers.get("x-dragoman-losses") for body in bodies]
            assert len(set(losses)) == 1
    sent = [request.body for request in app.requests]
    assert sent[:6] == sent[6:]
    assert [known for _, known in recalled] == [False, *[True] * 5]


def test_each_key_has_its_own_memory(upstream: tuple[Canned, str], recalled: list[tuple[str, bool]]) -> None:
    body = session(3, 3_000)[-1]
    with gateway(KEYS + provider("one", upstream[1])) as stand:
        for key in ("key-a", "key-a", "key-b", "key-b"):
            ask(stand.url, body, key)
    assert [known for _, known in recalled] == [False, True, False, True]
    assert not any("key-" in scope for scope, _ in recalled)
