"""The grammar checker of Chat streams: what it lets pass, and what it names."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError
from dragoman.core.model import Wire
from dragoman.protocols.openai_chat import CODEC


def chunk(delta: Any, finish: str | None = None, **more: Any) -> Wire:
    head = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def begin(index: int = 0, **more: Any) -> Wire:
    return {"index": index, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}, **more}


ROLE = chunk({"role": "assistant", "content": ""})
END = chunk({}, "stop")
USAGE = chunk({}, choices=[], usage={"prompt_tokens": 1})
DONE = b"[DONE]"
ERROR = {"error": {"message": "boom"}}


def check(*items: Any) -> None:
    grammar = CODEC.grammar()
    for item in items:
        frame = item if isinstance(item, Frame) else Frame("", item)
        assert list(grammar.feed(frame)) == [frame]
    assert list(grammar.close()) == []


GOOD: dict[str, list[Any]] = {
    "text": [ROLE, chunk({"content": "a"}), END, DONE],
    "usage": [ROLE, END, USAGE, DONE],
    "printed": [jsontext.encode(ROLE), jsontext.encode(END), DONE],
    "error": [ROLE, ERROR],
    "error ahead": [ERROR],
    "calls": [
        ROLE,
        chunk({"tool_calls": [begin()]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        chunk({"tool_calls": [begin(1)]}),
        chunk({"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": " "}}]}),
        chunk({}, "tool_calls"),
        DONE,
    ],
    "custom": [
        ROLE,
        chunk(
            {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "p", "input": ""}}]}
        ),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "x"}}]}),
        END,
        DONE,
    ],
}


@pytest.mark.parametrize("items", GOOD.values(), ids=GOOD)
def test_good_streams_pass(items: list[Any]) -> None:
    check(*items)


BAD: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "the stream ends without"),
    "no end": ([ROLE, END], "the stream ends without"),
    "no finish": ([ROLE, DONE], "[DONE] before a finish reason"),
    "after the end": ([ROLE, END, DONE, ROLE], "after the end"),
    "[DONE] after an error": ([ROLE, ERROR, DONE], "after the end"),
    "a name": ([Frame("message", ROLE)], "event is named 'message'"),
    "no role": ([chunk({"content": "a"})], "the role"),
    "role twice": ([ROLE, ROLE], "the role"),
    "finish twice": ([ROLE, END, END], "after its finish reason"),
    "usage too early": ([ROLE, USAGE], "without choices before"),
    "another object": ([{**ROLE, "object": "x"}], "object is 'x'"),
    "the id changes": ([ROLE, {**END, "id": "s"}], "change from"),
    "no choices": ([{**ROLE, "choices": None}], "not an array"),
    "no delta": ([chunk(None)], "without a delta"),
    "no choice index": ([{**ROLE, "choices": [{"delta": {}}]}], "without an index"),
    "text is no string": ([chunk({"role": "assistant", "content": 1})], "content is not a string"),
    "no index": ([ROLE, chunk({"tool_calls": [{"id": "c", "function": {}}]})], "without its index"),
    "G03 an index jumps": ([ROLE, chunk({"tool_calls": [begin(1)]})], "call 1 begins, expected 0"),
    "no id": ([ROLE, chunk({"tool_calls": [begin(id="")]})], "id, type and name"),
    "no type": ([ROLE, chunk({"tool_calls": [begin(type=None)]})], "id, type and name"),
    "no name": ([ROLE, chunk({"tool_calls": [begin(function={"arguments": ""})]})], "id, type and name"),
    "G08 id twice": ([ROLE, chunk({"tool_calls": [begin()]}), chunk({"tool_calls": [begin()]})], "once"),
    "arguments as an object": (
        [ROLE, chunk({"tool_calls": [begin(function={"name": "f", "arguments": {}})]})],
        "not a string",
    ),
}


@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_bad_streams_are_named(row: tuple[list[Any], str]) -> None:
    items, problem = row
    with pytest.raises(GrammarError) as raised:
        check(*items)
    assert problem in str(raised.value)
