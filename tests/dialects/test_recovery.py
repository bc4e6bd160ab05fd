"""Calls that leak as text from an upstream with native calls."""

from __future__ import annotations

from typing import Any

import pytest

from dialects.parsing import events, in_short, joined, tool
from dragoman.core.events import PartDelta, PartEnd, PartStart, ResponseEnd, ResponseStart, fold
from dragoman.core.losses import Losses
from dragoman.core.model import Stop, Text, ToolCall
from dragoman.dialects import recovery
from dragoman.exchange import Exchange

TOOLS = (tool("read", ["path"], path="string"), tool("now"))
READ = ("read", '{"path":"a"}')

# G114: the same call as each dialect would leak it
LEAKS = {
    "hermes": '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>',
    "qwen3-coder": "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n"
    "</tool_call>",
    "a function alone": "<function=read>\n<parameter=path>a</parameter>\n</function>",
    "anthropic-xml": '<function_calls>\n<invoke name="read">\n<parameter name="path">a</parameter>\n'
    "</invoke>\n</function_calls>",
    "an invocation alone": '<invoke name="read"><parameter name="path">a</parameter></invoke>',
    "kimi-k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    '{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>',
    "deepseek": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read">\n'
    '<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>",
    "roo-xml": "<read>\n<path>a</path>\n</read>",
    "glm": "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    "mistral": '[TOOL_CALLS]read[ARGS]{"path": "a"}',
    "minimax-m2": '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "harmony": '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path":"a"}<|call|>',
    "gemma": '<|tool_call>call:read{path:<|"|>a<|"|>}<tool_call|>',
    "granite": '<|tool_call|>[{"name": "read", "arguments": {"path": "a"}}]',
    "llama3-json": '{"name": "read", "parameters": {"path": "a"}}',
    "pythonic": '[read(path="a")]',
}


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("name", LEAKS)
def test_g114_a_leaked_call_becomes_a_call(name: str, size: int) -> None:
    text = f"Well.\n{LEAKS[name]}"
    losses = Losses()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    response = fold(events(recovery(TOOLS, losses), pieces, Stop("end")))
    assert in_short(*response.parts) == ["Well.", READ]
    assert response.stop.reason == "tool_calls"
    assert [loss.kind for loss in losses] == ["changed"]


STAY = {
    "an undeclared tool": '<tool_call>{"name": "ls", "arguments": {}}</tool_call>',
    "a tool of nobody": "<ls>\n<path>/</path>\n</ls>",
    "quoted": '```\n<tool_call>{"name": "now", "arguments": {}}</tool_call>\n```',
    "in inline code": '`<tool_call>{"name": "now", "arguments": {}}</tool_call>`',
    "in inline code over several lines": (
        'You wrote `<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>` here.'
    ),
    "in reasoning": '<think>maybe <tool_call>{"name": "now", "arguments": {}}</tool_call></think>Done.',
    "in reasoning that the template opened": (
        'Maybe <tool_call>{"name": "now", "arguments": {}}</tool_call> or not.</think>\nDone.'
    ),
    "in a code block that ends the reply": "So:\n```xml\n<read>\n<path>a</path>\n</read>\n```",
    "a tag without its end": "<read>\n<path>a</path>",
    "broken": '<tool_call>{"name": "now", "arguments": {',
    "other channels": "<|channel|>final<|message|>Hi<|end|>",
    "reasoning tags": "<think>x</think>y",
}


@pytest.mark.parametrize("name", STAY)
def test_text_stays_text(name: str) -> None:
    losses = Losses()
    response = fold(events(recovery(TOOLS, losses), [STAY[name]], Stop("end", "stop")))
    assert (in_short(*response.parts), response.stop) == ([STAY[name]], Stop("end", "stop"))
    assert list(losses) == []


def native(name: str, arguments: str, index: int) -> list[Any]:
    return [PartStart(index, ToolCall("n", name)), PartDelta(index, arguments), PartEnd(index)]


def text(content: str, index: int) -> list[Any]:
    return [PartStart(index, Text()), PartDelta(index, content), PartEnd(index)]


LEAK = LEAKS["hermes"]
BESIDE = {
    "another native call after it": (
        [*text(f"Well.\n{LEAK}", 0), *native("now", "{}", 1)],
        ["Well.", f"\n{LEAK}", ("now", "{}")],
        [],
    ),
    "another native call before it": (
        [*native("now", "{}", 0), *text(LEAK, 1)],
        [("now", "{}"), LEAK],
        [],
    ),
    "G115 the same call natively": (
        [*text(f"Well.\n{LEAK}", 0), *native("read", '{"path": "a"}', 1)],
        ["Well.", ("read", '{"path": "a"}')],
        ["dropped"],
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_beside_a_native_call(name: str) -> None:
    given, expected, kinds = BESIDE[name]
    losses = Losses()
    stage = recovery(TOOLS, losses)
    reply = [ResponseStart("r", "m"), *given, ResponseEnd(Stop("tool_calls", "tool_use"))]
    response = fold(joined([out for event in reply for out in stage.feed(event)] + list(stage.close())))
    assert in_short(*response.parts) == expected
    assert response.stop == Stop("tool_calls", "tool_use")
    assert [loss.kind for loss in losses] == kinds


def test_recover_beside_a_dialect_finds_calls_of_other_dialects() -> None:
    exchange = Exchange("openai-chat", "openai-chat", dialect="hermes", recover=True)
    declared = {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    body = {"model": "m", "messages": [], "tools": [{"type": "function", "function": declared}]}
    exchange.request(body)
    message = {"role": "assistant", "content": LEAKS["qwen3-coder"]}
    reply = exchange.response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    calls = reply["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["read"]
    assert "call.recovered.changed" in [loss.code for loss in exchange.losses]
