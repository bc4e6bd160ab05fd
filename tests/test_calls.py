"""Calls without an exchange: mistakes of callers are explained, and no declaration vanishes."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core.errors import ConfigError
from dragoman.core.model import Text, ToolCall, ToolResult

CALL, NAMELESS = ToolCall("call_1", "f", "{}"), ToolCall("", "f", "{}")

# name: (calls, outputs, what the error says)
WRONG: dict[str, tuple[list[ToolCall], Any, str]] = {
    "too few": ([CALL], [], "1 calls need as many outputs, got 0"),
    "no output for an id": ([CALL], {"call_2": "x"}, "There is no output for the call call_1 of f."),
    "an id that no call has": ([CALL], {"call_1": "x", "call_9": "y"}, "No call has the id 'call_9'"),
    "a result of another call": (
        [CALL],
        [ToolResult("call_2", "g")],
        "There is no output for the call call_1 of f.",
    ),
    "two results of one call": ([CALL], [ToolResult("call_1", "f")] * 2, "Two outputs answer the same call"),
    "calls without ids": ([NAMELESS, NAMELESS], {"": "x"}, "has no id"),
    "no JSON": ([CALL], [object()], "the output for f is no text and no JSON value"),
}


@pytest.mark.parametrize("protocol", dragoman.protocols())
@pytest.mark.parametrize("calls, outputs, says", WRONG.values(), ids=WRONG)
def test_outputs_that_answer_nothing(calls: list[ToolCall], outputs: Any, says: str, protocol: str) -> None:
    with pytest.raises(ConfigError, match=says):
        dragoman.build_tool_results(calls, outputs, protocol)


@pytest.mark.parametrize("target", dragoman.protocols())
def test_deferred_tools_are_declared_where_no_conversation_can_load_them(target: str) -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}, "defer_loading": True} for name in ("f", "g")]
    translated = str(dragoman.translate_tools(tools, "anthropic", target))
    assert "'f'" in translated
    assert "'g'" in translated


def test_declarations_alone_are_not_counted():
    tools = [{"name": f"t{i}", "input_schema": {"type": "object"}} for i in range(200)]
    assert len(dragoman.translate_tools(tools, "anthropic", "openai-chat")) == 200


@pytest.mark.parametrize("protocol", dragoman.protocols())
def test_D10_results_answer_the_call_whose_id_they_name(protocol: str) -> None:
    calls = [ToolCall("call_1", "f", "{}"), ToolCall("call_2", "g", "{}")]
    results = [ToolResult("call_2", "g", (Text("two"),)), ToolResult("call_1", "f", (Text("one"),))]
    in_order = dragoman.build_tool_results(calls, ["one", "two"], protocol)
    assert dragoman.build_tool_results(calls, results, protocol) == in_order
