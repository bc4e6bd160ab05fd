"""What the memory of conversations counts is what it takes, as tracemalloc sees it, so its limit holds."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.protocols import codec

MAX = 800_000
CLIENTS = {
    "openai-chat": "anthropic",
    "anthropic": "openai-chat",
    "openai-responses": "anthropic",
    "gemini": "openai-chat",
}
TEXTS = {"ASCII": "x" * 1_000, "short": "x", "three bytes": "—" * 500, "an emoji": "x" * 1_000 + "😀"}


HERMES = ("anthropic", "openai-chat", "hermes")


def conversation(client: str, number: int, text: str, rounds: int = 10, system: str = "") -> bytes:
    """Calls and their results, with `text`, as the client writes them."""
    name, arguments = "read", f'{{"path":"{number}.py"}}'
    first = f"{number} {text}"
    entries: list[Any] = [_said(client, first)]
    for i in range(rounds):
        id, result = f"call_{number}_{i}", f"{number} {i} {text}"
        if client == "openai-chat":
            call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            entries.append({"role": "assistant", "content": f"Round {i}.", "tool_calls": [call]})
            entries.append({"role": "tool", "tool_call_id": id, "content": result})
        elif client == "anthropic":
            use = {"type": "tool_use", "id": id, "name": name, "input": {"path": f"{number}.py"}}
            entries.append({"role": "assistant", "content": [{"type": "text", "text": f"Round {i}."}, use]})
            entries.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}
            )
        elif client == "openai-responses":
            entries.append({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
            entries.append({"type": "function_call_output", "call_id": id, "output": result})
        else:
            call = {"functionCall": {"name": name, "args": {"path": f"{number}.py"}}}
            entries.append({"role": "model", "parts": [{"text": f"Round {i}."}, call]})
            response = {"name": name, "response": {"result": result}}
            entries.append({"role": "user", "parts": [{"functionResponse": response}]})
    return written(client, entries, system)


def _said(client: str, text: str) -> dict[str, Any]:
    return {"role": "user", **({"parts": [{"text": text}]} if client == "gemini" else {"content": text})}


def written(client: str, entries: list[Any], system: str = "") -> bytes:
    fields: dict[str, Any] = {codec(client).turns: entries}
    if client == "anthropic":
        fields |= {"model": "m", "max_tokens": 9, "system": system}
    return jsontext.encode(fields if client == "gemini" else {"model": "m", **fields})


def measured(memory: ConversationMemory, fill: Callable[[ConversationMemory, int], None], count: int) -> int:
    """The bytes that `fill` leaves behind; before, it fills other caches with little."""
    fill(ConversationMemory(memory.max_bytes), 2)
    gc.collect()
    tracemalloc.start()
    try:
        fill(memory, count)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def send(memory: ConversationMemory, client: str, upstream: str, body: bytes, **how: Any) -> None:
    dragoman.Exchange(client, upstream, memory=memory, **how).request_bytes(body, model=how.pop("model", "m"))


def each_twice(bodies: Iterable[bytes]) -> Iterable[bytes]:
    return (body for body in bodies for _ in "ab")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_counted_is_used(client: str, text: str) -> None:
    memory = ConversationMemory(100 * MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for number in range(count):
            body = conversation(client, number, text)
            for target in "aab":
                send(memory, client, CLIENTS[client], body, origin=target)

    used = measured(memory, fill, 4)
    assert 0.85 < memory.size / used < 1.7


@pytest.mark.parametrize("dialect", [None, "hermes"])
@pytest.mark.parametrize(("calls", "text"), [(300, "x"), (20, "x"), (1, "x" * 9_000)])
def test_calls_are_counted(calls: int, text: str, dialect: str | None) -> None:
    """Several in one message; long arguments."""
    memory = ConversationMemory(100 * MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for number in range(count):
            ids = [f"{number}_{i}" for i in range(calls)]
            uses = [{"type": "tool_use", "id": id, "name": "write", "input": {"text": text}} for id in ids]
            results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids]
            turn = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
            body = written("anthropic", [_said("anthropic", "x"), *turn, _said("anthropic", "?")])
            for target in "aabcd":
                send(memory, "anthropic", "openai-chat", body, origin=target, dialect=dialect)

    used = measured(memory, fill, 4)
    assert 0.85 < memory.size / used < 1.7


@pytest.mark.parametrize(
    ("client", "upstream", "dialect"),
    [
        *((client, upstream, None) for client, upstream in CLIENTS.items()),
        ("anthropic", "openai-chat", "hermes"),
    ],
)
def test_many_conversations_to_many_targets_stay_within_the_limit(
    client: str, upstream: str, dialect: str | None
) -> None:
    memory = ConversationMemory(MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for number in range(count):
            body = conversation(client, number, TEXTS["ASCII"] if number % 2 else TEXTS["three bytes"])
            for target in "aabcdefgh":
                send(memory, client, upstream, body, origin=target, dialect=dialect)

    assert measured(memory, fill, 16) < 1.3 * MAX
    assert memory.conversations > 1


def test_branches_of_a_long_conversation_stay_within_the_limit() -> None:
    """Each holds all that was sent of the messages it shares with the others."""
    entries = [_said("openai-chat", f"{i} " + "x" * 500) for i in range(100)]
    memory = ConversationMemory(MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for end in range(99, 99 - count, -1):
            branch = written("openai-chat", [*entries[:end], _said("openai-chat", f"no {end}"), entries[0]])
            for body in each_twice([written("openai-chat", entries), branch]):
                send(memory, "openai-chat", "anthropic", body)

    assert measured(memory, fill, 40) < 1.3 * MAX


def test_divided_runs_keep_no_text_twice() -> None:
    """Conversations that part from a long one ever earlier; nothing is translated."""
    entries = [_said("openai-chat", f"{i} " + "x" * 500) for i in range(100)]
    memory = ConversationMemory(100 * MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for end in range(99, 99 - count, -1):
            branch = written("openai-chat", [*entries[:end], _said("openai-chat", f"no {end}"), entries[0]])
            for body in each_twice([written("openai-chat", entries), branch]):
                memory.read("", codec("openai-chat"), body)

    used = measured(memory, fill, 79)
    assert used < 1.3 * memory.size < 1_000_000


def test_heads_with_many_targets_stay_within_the_limit() -> None:
    memory = ConversationMemory(MAX)

    def fill(memory: ConversationMemory, count: int) -> None:
        for number in range(count):
            for model in range(8):
                for i in range(2):
                    body = conversation("anthropic", i, "", 1, f"{number} " + "x" * 10_000)
                    dragoman.Exchange("anthropic", "openai-chat", memory=memory).request_bytes(
                        body, f"m{model}"
                    )

    assert measured(memory, fill, 20) < 1.3 * MAX


def test_the_longest_unused_target_goes_first() -> None:
    memory, body = ConversationMemory(1_000_000), conversation("openai-chat", 0, "x" * 5_000, 20)
    for target in ("a", "a", "b", "c", "d", "e", "a", "b"):
        send(memory, "openai-chat", "anthropic", body, origin=target)
    reading = memory.read("", codec("openai-chat"), body)
    assert reading
    prefix = reading.prefix
    assert prefix
    before = [*prefix.entries]
    for number in range(1, 10):
        for _ in "ab":
            send(memory, "openai-chat", "anthropic", conversation("openai-chat", number, "x" * 1_000))
        send(memory, "openai-chat", "anthropic", body, origin="a")
    assert 1 <= len(prefix.entries) < len(before)
    assert before[0] in prefix.entries
