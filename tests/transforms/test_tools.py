"""Tools an upstream does not know, as functions and back."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, ToolCall, ToolDeclaration, ToolResult
from dragoman.transforms.tools import Flattened, fit_kind, flatten_call, flatten_result, freeform, unflatten

PLAIN = ProtocolLimits()
RICH = ProtocolLimits(
    custom_tools=True, namespaces=True, deferred_tools=True, hosted_tools=frozenset({"local_shell"})
)
PATCH = ToolDeclaration("apply_patch", "Edits files.", kind="custom", grammar=("lark", "start: /.+/"))
NESTED = ToolDeclaration("search", "Finds.", {"type": "object"}, namespace="docs")
SHELL = HostedTool("local_shell")


def test_G90_a_freeform_tool_becomes_a_function_with_one_string() -> None:
    losses = Losses()
    (tool,) = Flattened([PATCH], PLAIN, losses).tools
    assert isinstance(tool, ToolDeclaration)
    assert tool.kind == "function"
    assert tool.parameters == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }
    assert tool.description == "Edits files.\n\nThe input must match this lark grammar:\nstart: /.+/"
    assert [loss.kind for loss in losses] == ["changed"]


def test_what_the_upstream_knows_stays_as_it_is() -> None:
    losses = Losses()
    assert Flattened([PATCH, NESTED, SHELL], RICH, losses).tools == [PATCH, NESTED, SHELL]
    assert not list(losses)


def test_G91_a_namespace_becomes_part_of_the_name_and_is_restored() -> None:
    flattened = Flattened([NESTED], PLAIN, Losses())
    assert [tool.name for tool in flattened.tools if isinstance(tool, ToolDeclaration)] == ["docs__search"]
    call = unflatten(ToolCall("1", "docs__search", "{}"), flattened.declared["", "docs__search"])
    assert (call.name, call.namespace) == ("search", "docs")


def test_G93_a_local_shell_becomes_a_function_and_is_restored() -> None:
    flattened = Flattened([SHELL], PLAIN, Losses())
    (tool,) = flattened.tools
    assert isinstance(tool, ToolDeclaration)
    assert tool.parameters is not None
    assert tool.parameters["required"] == ["command"]
    assert unflatten(ToolCall("1", "local_shell", '{"command":["ls"]}'), SHELL).kind == "local_shell"


def test_G90_history_is_flattened_too() -> None:
    calls = [
        ToolCall("1", "apply_patch", "*** Begin", "custom"),
        ToolCall("2", "search", "{}", namespace="docs"),
    ]
    flattened = Flattened([PATCH, NESTED], PLAIN, Losses())
    assert [flatten_call(call, flattened.limits, flattened.declared) for call in calls] == [
        ToolCall("1", "apply_patch", '{"input":"*** Begin"}'),
        ToolCall("2", "docs__search", "{}"),
    ]
    assert flatten_result(ToolResult("1", kind="custom"), flattened.limits) == ToolResult("1")


def test_the_same_name_in_two_namespaces_is_two_tools() -> None:
    losses = Losses()
    tools = [NESTED, ToolDeclaration("search", namespace="web"), ToolDeclaration("search")]
    assert Flattened(tools, RICH, losses).tools == tools
    assert len(Flattened(tools, PLAIN, losses).tools) == len(tools)
    assert not list(losses)


def test_a_hosted_tool_of_a_name_already_taken_is_left_out() -> None:
    losses = Losses()
    own = ToolDeclaration("local_shell")
    assert Flattened([own, SHELL], PLAIN, losses).tools == [own]
    assert [loss.kind for loss in losses] == ["changed", "dropped"]


def test_G87_a_second_tool_of_the_same_name_is_left_out() -> None:
    losses = Losses()
    assert len(Flattened([ToolDeclaration("f"), ToolDeclaration("f", "other")], PLAIN, losses).tools) == 1
    assert [loss.kind for loss in losses] == ["dropped"]


def test_G94_deferred_tools_wait_until_they_are_loaded() -> None:
    losses = Losses()
    tools = [ToolDeclaration("now"), ToolDeclaration("later", deferred=True)]
    assert Flattened(tools, PLAIN, losses).tools == [ToolDeclaration("now")]
    assert [loss.kind for loss in losses] == ["changed"]


def test_deferred_tools_are_sent_where_the_server_would_have_searched_them() -> None:
    tools = [HostedTool("tool_search"), ToolDeclaration("later", deferred=True)]
    assert ToolDeclaration("later") in Flattened(tools, PLAIN, Losses()).tools


FREEFORM = {
    "as declared": ('{"input":"*** Begin\\n"}', "*** Begin\n"),
    "G90 another name": ('{"patch":"x"}', "x"),
    "a name nobody expects": ('{"whatever":"x"}', "x"),
    "G90 no JSON at all": ("*** Begin Patch", "*** Begin Patch"),
    "several fields": ('{"a":"x","b":"y"}', '{"a":"x","b":"y"}'),
}


DIFF = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
PATCHES = {
    "plain": {"input": DIFF},
    "in fences": {"input": f"```diff\n{DIFF}\n```"},
    "a heredoc": {"input": f"apply_patch <<'EOF'\n{DIFF}\nEOF"},
    "a command": {"command": ["apply_patch", DIFF]},
    "a shell's command": {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{DIFF}\nEOF\n"]},
}


@pytest.mark.parametrize("arguments", PATCHES.values(), ids=PATCHES)
def test_G90_a_patch_is_taken_out_of_its_wrapping(arguments: dict[str, Any]) -> None:
    call = ToolCall("1", "apply_patch", jsontext.dumps(arguments))
    assert unflatten(call, ToolDeclaration("apply_patch", kind="custom")).arguments == DIFF


@pytest.mark.parametrize("arguments, expected", FREEFORM.values(), ids=FREEFORM)
def test_freeform(arguments: str, expected: str) -> None:
    assert freeform(arguments) == expected


def test_a_client_without_freeform_calls_gets_a_function() -> None:
    assert fit_kind(ToolCall("1", "p", "raw", "custom", "ns"), PLAIN) == ToolCall("1", "p", '{"input":"raw"}')


def test_a_loaded_tool_that_is_its_own_namespace_keeps_its_name() -> None:
    flattened = Flattened([ToolDeclaration("get_rate")], PLAIN, Losses())
    call = ToolCall("1", "get_rate", "{}", namespace="get_rate")
    assert flatten_call(call, flattened.limits, flattened.declared) == ToolCall("1", "get_rate", "{}")


@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch", "bash", "text_editor", "memory"])
def test_a_tool_that_the_client_runs_becomes_a_function(kind: Any) -> None:
    losses = Losses()
    (tool,) = Flattened([HostedTool(kind)], PLAIN, losses).tools
    assert isinstance(tool, ToolDeclaration)
    assert tool.parameters
    assert [loss.kind for loss in losses] == ["changed"]
