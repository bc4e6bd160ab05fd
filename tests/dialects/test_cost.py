"""The cost of parsing is linear: sixteen times the text takes about sixteen times the time, whatever it is.

Where it is quadratic, the factor is 256. What a busy machine adds to the time of a process is far from both.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dialects.parsing import events, tool
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Stop, ToolCall
from dragoman.dialects import dialect, names

TOOLS = (tool("read", ["path"], path="string", content="string"), tool("now"))
SIZE = 4_000
TIMES = 16

# What a model would have to repeat to make a careless parser look at everything again and again
HARD = {
    "newlines": "\n",
    "backticks": "`",
    "angles": "<",
    "braces": "{",
    "brackets": "[",
    "roo-xml": "<read>\n<path>",
    "roo-xml, closed inside": "<read><path></path>x",
    "roo-xml, undeclared": "\n<foo>\n<a>",
    "hermes": '<tool_call>{"name',
    "qwen3-coder": "<function=read><parameter=path>x</parameter>",
    "anthropic-xml": '<invoke name="read"><parameter name="path">x</parameter>y',
    "llama3-json": '\n{"name": "read", "parameters": {',
    "pythonic": "[read(path='\"",
    "glm": "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>",
    "gemma": '<|tool_call>call:read{path:<|"|>',
}


def seconds(name: str, text: str) -> float:
    """The best of three, in pieces of four characters."""
    taken: list[float] = []
    for _ in range(3):
        stage = dialect(name).parser(TOOLS, Losses())
        start = time.process_time()
        events(stage, [text[at : at + 4] for at in range(0, len(text), 4)], Stop("end"))
        taken.append(time.process_time() - start)
    return min(taken)


def grows_steadily(name: str, text_of: Callable[[int], str]) -> bool:
    once, often = text_of(SIZE), text_of(TIMES * SIZE)
    return any(seconds(name, often) < 4 * TIMES * seconds(name, once) for _ in range(3))


@pytest.mark.parametrize("hard", HARD)
def test_hard_texts(hard: str) -> None:
    name = hard.split(",")[0] if hard.split(",")[0] in names() else "roo-xml"
    assert grows_steadily(name, lambda size: HARD[hard] * (size // len(HARD[hard])))


@pytest.mark.parametrize("name", names())
def test_a_long_call(name: str) -> None:
    def written(size: int) -> str:
        call = ToolCall("c", "read", '{"path":"a","content":"' + "some text\\n" * (size // 10) + '"}')
        request = Request("m", (Message("assistant", (call,)),), tools=TOOLS)
        return dialect(name).render(request, Losses()).messages[0].parts[0].text  # type: ignore[union-attr]

    assert grows_steadily(name, written)
