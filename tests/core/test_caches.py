"""Caches: one list for the same declarations, results with their losses, bounded memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dragoman.core import caches, jsontext
from dragoman.core.caches import (
    LONGEST_TEXT,
    MOST_TEXTS,
    CachedDeclarations,
    CachedTools,
    LearningPace,
    cache_tools,
    cached_by_text,
    cached_by_tools,
    copied_if_cached,
    with_cached_tools,
    with_encoded_tools,
)
from dragoman.core.errors import WireError
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, HostedTool, ToolDeclaration


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_lists", caches._Lists())  # pyright: ignore[reportPrivateUsage]


def read(text: str) -> Any:
    return jsontext.decode(f'{{"tools": {text}}}')


def kept(text: str, *tools: AnyTool) -> CachedDeclarations:
    body = again(read(text))
    cache_tools(body, tools)
    return body["tools"]


def again(body: Any) -> Any:
    with_cached_tools(body)
    return with_cached_tools(body)


def test_the_same_declarations_are_one_list() -> None:
    first = kept('[{"name": "f"}]')
    assert with_cached_tools(read('[ {"name":"f"} ]'))["tools"] is first
    assert first == [{"name": "f"}]


def test_a_list_that_comes_once_is_not_kept() -> None:
    body = read('["once"]')
    assert with_cached_tools(body) is body
    assert type(with_cached_tools(body)["tools"]) is CachedDeclarations


SPELLINGS = ['[{"a": 1, "b": 2}]', '[{"b": 2, "a": 1}]', '[{"a": 1}]', '[{"a": true}]', '[{"a": 1.0}]']
SPELLINGS += ['[{"a": 1.00}]', '[{"a": ["1.00"]}]', '[{"a": "1.00"}]', '[{"a": null}]', "[{}]"]


def test_what_is_spelled_otherwise_is_another_list() -> None:
    lists = [kept(text) for text in SPELLINGS]
    assert len({id(one) for one in lists}) == len(SPELLINGS)
    assert [with_cached_tools(read(text))["tools"] for text in SPELLINGS] == lists
    assert [jsontext.dumps(one) for one in lists] == [text.replace(" ", "") for text in SPELLINGS]


def test_the_callers_list_is_not_kept() -> None:
    body = read('[{"name": "f", "input_schema": {"type": "object"}}]')
    found = again(body)
    cache_tools(found, ())
    body["tools"][0]["input_schema"]["type"] = "scribble"
    assert found["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]


NOT_KEPT = {
    "no tools": "[]",
    "not an array": '{"name": "f"}',
    "null": "null",
    "a huge number": '[{"a": 100000000000000000000000000000}]',
    "a long list": f'["{"x" * 300_000}"]',
}


@pytest.mark.parametrize("text", NOT_KEPT.values(), ids=NOT_KEPT)
def test_not_kept(text: str) -> None:
    body = read(text)
    assert again(body) is body


@pytest.mark.parametrize("kind", ["mcp", "other"])
def test_what_may_hold_a_key_is_forgotten(kind: Any) -> None:
    first = kept('[{"authorization": "secret"}]', ToolDeclaration("f"), HostedTool(kind))
    assert not first.cache
    body = read('[{"authorization": "secret"}]')
    assert again(body) is body


@cached_by_tools
def decoded(tools: Any, losses: Losses, suffix: str = "") -> tuple[AnyTool, ...]:
    if "broken" in tools:
        raise WireError("test", "tools", "broken")
    losses.dropped(f"tools{suffix}", "for a test")
    return tuple([ToolDeclaration(f"{name}{suffix}") for name in tools])


@cached_by_tools
def encoded(tools: Any, losses: Losses) -> list[dict[str, str]]:
    return [{"name": tool.name} for tool in tools]


def test_an_answer_is_given_again_with_its_losses() -> None:
    tools = kept('["f", "g"]')
    for _ in range(2):
        losses = Losses()
        found = decoded(tools, losses, "!")
        assert [str(loss) for loss in losses] == ["dropped tools!: for a test"]
        assert found == (ToolDeclaration("f!"), ToolDeclaration("g!"))
        assert found is decoded(tools, Losses(), "!")
        assert found is not decoded(tools, Losses(), "?")
        assert encoded(found, Losses()) is encoded(found, Losses())


def test_plain_tools_are_not_remembered() -> None:
    found = decoded(["f"], Losses())
    assert type(found) is tuple
    assert found is not decoded(["f"], Losses())
    assert encoded(found, Losses()) is not encoded(found, Losses())


def test_an_error_is_no_answer() -> None:
    tools = kept('["broken"]')
    for _ in range(2):
        with pytest.raises(WireError):
            decoded(tools, Losses())
    assert not tools.cache


def test_printed_once_and_private_to_each() -> None:
    tools = decoded(kept('["f"]'), Losses())
    made = encoded(tools, Losses())
    for tail in ("a", "b"):
        text = jsontext.dumps(with_encoded_tools({"tools": made, "x": tail}, tools))
        assert text == f'{{"tools":[{{"name":"f"}}],"x":"{tail}"}}'
    assert with_encoded_tools({"x": 1}, tools) == {"x": 1}
    assert with_encoded_tools({"tools": [1]}, ()) == {"tools": [1]}
    assert copied_if_cached(made, tools) == made
    assert copied_if_cached(made, tools)[0] is not made[0]
    assert copied_if_cached(made, ()) is made


def test_memory_is_bounded() -> None:
    for i in range(3000):
        kept(f'["{i}", "{"x" * (i % 7) * 1000}"]')
    lists: Any = caches._lists  # pyright: ignore[reportPrivateUsage]
    for generation in (lists._young, lists._old):
        assert len(generation) <= 257
        assert sum(map(len, generation)) <= 1_010_000
    tools = kept('["f"]')
    for i in range(1000):
        decoded(tools, Losses(), str(i))
    assert len(tools.cache) <= 32
    assert isinstance(decoded(tools, Losses(), "7"), CachedTools)


def test_what_is_asked_for_stays() -> None:
    first = kept('["first"]')
    for i in range(1000):
        kept(f'["{i}"]')
        assert with_cached_tools(read('["first"]'))["tools"] is first


def test_threads_share_without_harm() -> None:
    def work(i: int) -> bool:
        body = again(read(f'["{i % 5}"]'))
        losses = Losses()
        made = encoded(decoded(body["tools"], losses, str(i % 40)), Losses())
        cache_tools(body, ())
        return made == [{"name": f"{i % 5}{i % 40}"}] and len(losses) == 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(4000)))


# Texts


def test_a_short_text_is_worked_on_once_and_a_long_one_each_time() -> None:
    worked: list[int] = []

    @cached_by_text
    def doubled(text: str, times: int) -> str:
        worked.append(len(text))
        return text * times

    assert [doubled("ab", 2), doubled("ab", 2), doubled("ab", 3)] == ["abab", "abab", "ababab"]
    assert worked == [2, 2]
    long = "a" * (LONGEST_TEXT + 1)
    assert doubled(long, 1) == doubled(long, 1) == long
    assert worked == [2, 2, LONGEST_TEXT + 1, LONGEST_TEXT + 1]


def test_only_so_many_are_kept() -> None:
    worked: list[str] = []

    @cached_by_text
    def noted(text: str) -> None:
        worked.append(text)

    for number in (*range(MOST_TEXTS + 1), 0):
        noted(str(number))
    assert worked[-1] == "0"


def test_what_comes_in_turn_with_something_known_is_learnt() -> None:
    pace = LearningPace()
    assert not pace.is_due()
    pace.found()
    assert pace.is_due()


def test_what_never_comes_again_is_learnt_ever_more_rarely() -> None:
    pace = LearningPace()
    assert sum(pace.is_due() for _ in range(10_000)) < 20
