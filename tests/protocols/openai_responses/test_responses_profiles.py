"""What the names of OpenAI's models tell, and what the codec says of its servers."""

from typing import Any

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Message, Request, Text
from dragoman.core.model_profile import UNKNOWN
from dragoman.profiles import profile_of
from dragoman.protocols.openai_responses import CODEC

REASONS = {
    "gpt-5": True,
    "gpt-5.2-codex": True,
    "openai/gpt-6": True,
    "o3": True,
    "o4-mini-2025-04-16": True,
    "openrouter:openai/o1": True,
    "gpt-5-chat-latest": False,
    "gpt-4.1": False,
    "gpt-4o-mini": False,
    "chatgpt-4o-latest": False,
    "gpt-3.5-turbo": False,
    "llama-3": None,
    "solo3": None,
    "": None,
}


@pytest.mark.parametrize("model, reasons", REASONS.items(), ids=[name or "none" for name in REASONS])
def test_who_reasons(model: str, reasons: bool | None):
    assert profile_of(model).reasoning is reasons


EFFORTS: dict[str, tuple[str, Any, str]] = {
    "o-series, lowest": ("o3", "none", "low"),
    "o-series, highest": ("o3", "max", "high"),
    "5.0 has minimal": ("gpt-5", "minimal", "minimal"),
    "5.0 cannot be off": ("gpt-5", "none", "minimal"),
    "5.1 has none": ("gpt-5.1", "none", "none"),
    "5.1 lacks minimal": ("gpt-5.1", "minimal", "low"),
    "5.1 lacks xhigh": ("gpt-5.1-codex", "xhigh", "high"),
    "but codex-max has it": ("gpt-5.1-codex-max", "xhigh", "xhigh"),
    "5.2 has xhigh": ("gpt-5.2", "max", "xhigh"),
    "current ones have all": ("gpt-6", "max", "max"),
    "and so have unknown ones": ("some-model", "minimal", "minimal"),
}


@pytest.mark.parametrize("model, effort, nearest", EFFORTS.values(), ids=EFFORTS)
def test_the_nearest_effort(model: str, effort: Any, nearest: str):
    assert profile_of(model).nearest_effort(effort) == nearest


@pytest.mark.parametrize("kind", sorted(CODEC.limits(UNKNOWN).hosted_tools - {"computer"}))
def test_every_hosted_tool_it_promises_can_be_declared(kind: Any):
    tool = HostedTool(kind, settings={"url": "u"} if kind == "mcp" else {}, where="tools[0]")
    losses = Losses()
    body = CODEC.encode_request(Request("m", (Message("user", (Text("hi"),)),), tools=(tool,)), losses)
    assert len(body["tools"]) == 1
    assert not any(loss.kind == "dropped" for loss in losses)


def test_the_limits_of_its_servers():
    limits = CODEC.limits(UNKNOWN)
    assert (limits.custom_tools, limits.namespaces, limits.deferred_tools) == (True, True, True)
    assert (limits.tool_name_length, limits.call_id_length, limits.schema_rules.vendor) == (64, 64, "OpenAI")
    assert (limits.reasoning_state, limits.call_state, limits.text_state) == (True, False, False)
    assert limits.hosted_tools >= {"web_search", "code_execution", "mcp", "local_shell", "tool_search"}
    assert CODEC.turns == "input"
