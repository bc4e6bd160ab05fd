"""Facts about models at providers: rows that combine, and what is said of single models."""

import tomllib
from importlib.resources import files

import msgspec
import pytest

from dragoman.core.model_profile import EFFORTS, ModelProfile
from dragoman.profiles import ProfileRow, find_server, known, profile_of
from dragoman.profiles.models import server_tables, vendor_server
from waiting import finish

ROWS = tomllib.loads(files("dragoman.profiles").joinpath("models.toml").read_text("utf-8"))["models"]
MATCHING = {"match", "vendor", "from", "below"}
SERVERS = [
    pytest.param(row, id=f"{name}:{row.get('match', '*')}")
    for name, table in server_tables().items()
    for row in (table.get("profile", {}), *table.get("models", ()))
]


@pytest.mark.parametrize("row", [*[pytest.param(row, id=row["match"]) for row in ROWS], *SERVERS])
def test_rows_hold_facts_only(row: dict):
    facts = {key: value for key, value in row.items() if key not in MATCHING}
    assert facts.keys() <= set(ModelProfile.__struct_fields__)
    msgspec.convert(facts, ModelProfile)
    assert list(facts.get("efforts", ())) == [each for each in EFFORTS if each in facts.get("efforts", ())]


def test_vendors_are_known_providers():
    assert {row["vendor"] for row in ROWS if "vendor" in row} <= known().keys()


NONE_TO_XHIGH = ("none", "low", "medium", "high", "xhigh")

# model -> facts; OpenAI's reasoning guide, Anthropic's and Google's model pages
FACTS = {
    "gpt-5": {"efforts": ("minimal", "low", "medium", "high"), "default_effort": "medium"},
    "gpt-5-2025-08-07": {"efforts": ("minimal", "low", "medium", "high"), "context_window": 400_000},
    "gpt-5.1": {"efforts": ("none", "low", "medium", "high"), "default_effort": "none"},
    "gpt-5.1-codex-max": {"efforts": ("low", "medium", "high", "xhigh")},
    "gpt-5.2": {"efforts": NONE_TO_XHIGH, "tools_without_reasoning": False},
    "openai/gpt-5.2": {"efforts": NONE_TO_XHIGH},
    "gpt-5.4-mini": {"efforts": NONE_TO_XHIGH, "tools_without_reasoning": True, "default_effort": "none"},
    "gpt-5.5": {"default_effort": "medium", "tools_without_reasoning": True},
    "gpt-6": {"reasoning": True, "sampling": "unless_reasoning", "efforts": None},
    "gpt-5.2-chat-latest": {"reasoning": False, "efforts": (), "sampling": "any"},
    "gpt-4o": {"reasoning": False, "images": True},
    "gpt-35-turbo": {"reasoning": False, "images": False},
    "o3-mini": {"efforts": ("low", "medium", "high"), "images": False},
    "openai/gpt-oss-120b": {"images": False, "verbosity": False},
    "claude-opus-5": {"sampling": "none", "budget": False, "system_messages": True},
    "claude-opus-4-8": {"system_messages": True},
    "claude-opus-4-7": {"system_messages": False, "sampling": "none", "budget": False},
    "claude-sonnet-4-6": {"sampling": "one", "efforts": ("low", "medium", "high", "max"), "prefill": False},
    "claude-sonnet-4-5-20250929": {"efforts": (), "prefill": True, "tool_search": True},
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": {"efforts": (), "context_window": 200_000},
    "claude-opus-4-20250514": {"sampling": "any", "tool_search": False, "max_output": 32_000},
    "claude-3-5-sonnet-20241022": {"default_output": 8192},
    "claude-2.1": {"default_output": 4096},
    "claude-instant-1.2": {"default_output": 4096},
    "claude-sonnet-4-5@20250929": {"tool_search": True, "system_messages": False},
    "anthropic/claude-sonnet-4.6": {"sampling": "one", "max_output": 64_000},
    "claude-fable-5-2": {"system_messages": True, "forced_tools": False},
    "claude-mythos-preview": {"forced_tools": False, "sampling": "any"},
    "claude-3-opus-20240229": {"default_output": 4096},
    "claude-mythos-5": {"forced_tools": False},
    "claude-gateway-alias": {"sampling": "any", "prefill": False, "efforts": None},
    "gemini-3-pro-preview": {"efforts": ("low", "medium", "high"), "combined_tools": True},
    "gemini-3.6-flash": {"efforts": ("minimal", "low", "medium", "high")},
    "gemini-3.7-flash": {"efforts": ("low", "medium", "high")},
    "models/gemini-3.8-flash-preview": {"efforts": ("low", "medium", "high")},
    "gemini-3.7-flash-lite": {"efforts": ("minimal", "low", "medium", "high")},
    "gemini-2.5-pro": {"efforts": (), "budget": True, "budget_range": (128, 32_768)},
    "gemini-2.5-flash": {"budget_range": (0, 24_576), "media_in_results": False},
    "models/gemini-1.5-pro-002": {"budget": False, "signed_calls": False},
    "google/gemini-2.5-pro": {"efforts": (), "budget": True},
    "gemini-live-2.5-flash": {"efforts": (), "combined_tools": False},
    "gemini-10-pro": {"efforts": ("low", "medium", "high")},
    "gemini-2.0-flash": {"budget": False, "reasoning": False},
    "gemini-flash-latest": {"combined_tools": True, "signed_calls": True},
    "mistral-large-latest": {"call_id_length": 9, "efforts": ()},
    "grok-4": {"efforts": (), "refused": ("frequency_penalty", "presence_penalty", "stop")},
    "grok-4.5": {"efforts": ("low", "medium", "high"), "context_window": 500_000},
    "deepseek-chat": {"reasoning_history": "required", "text_parts": False, "images": False},
    "Qwen/Qwen3-Coder-480B": {"reasoning_history": "taken", "images": False},
    "kimi-k2-0905-preview": {"images": False},
    "kimi-k2.6": {"images": True},
    "glm-4.6": {"images": False},
    "glm-4.6v": {"images": True},
    "llama3:latest": {"context_window": 8192, "images": False},
    "llama-3.3-70b-versatile": {"context_window": 131_072},
    "some-model": {"images": None, "efforts": None, "context_window": None},
}


@pytest.mark.parametrize("model", FACTS)
def test_facts_of_models(model: str):
    profile = profile_of(model)
    assert {name: getattr(profile, name) for name in FACTS[model]} == FACTS[model]


NEAREST = {
    ("gpt-5.1", "minimal"): "low",  # never none, which would switch reasoning off
    ("gpt-5.1", "xhigh"): "high",
    ("gpt-5.2", "minimal"): "low",
    ("gpt-5.2", "max"): "xhigh",
    ("gpt-5", "none"): "minimal",
    ("o3", "max"): "high",
    ("claude-sonnet-4-6", "xhigh"): "high",  # the lesser of two at the same distance
    ("gpt-4o", "high"): None,
    ("some-model", "max"): "max",
}


@pytest.mark.parametrize("model, effort", NEAREST)
def test_the_nearest_effort(model: str, effort):
    assert profile_of(model).nearest_effort(effort) == NEAREST[model, effort]


def test_a_provider_adds_to_what_its_models_are():
    groq = profile_of("openai/gpt-oss-120b", "groq", "openai-chat")
    assert "cache_key" in groq.refused
    assert groq.efforts == ("low", "medium", "high")
    assert profile_of("openai/gpt-oss-120b", "vllm", "openai-chat").refused == ()


# Their validators refuse `reasoning_content`, which the vendors' own servers of these models take or require
CLOSED = {"groq": "moonshotai/kimi-k2-instruct", "cerebras": "zai-glm-4.7", "mistral": "magistral-medium"}


@pytest.mark.parametrize("provider, model", CLOSED.items())
def test_closed_validators_get_no_reasoning_content(provider: str, model: str):
    assert profile_of(model, provider, "openai-chat").reasoning_history == "refused"


def test_a_row_for_a_model_of_a_provider_wins_over_the_provider():
    assert profile_of("gpt-4o", "openai-chat", "openai-chat").hosted_tools is None
    search = profile_of("gpt-4o-search-preview", "openai-chat", "openai-chat")
    assert search.hosted_tools == ("web_search",)


VENDORS = {
    ("gpt-5", "openai-chat"): "openai-chat",
    ("gpt-5", "openai-responses"): "openai",
    ("openai/gpt-5", "openai-chat"): "",  # somebody else's catalogue
    ("gpt-oss-120b", "openai-chat"): "",
    ("claude-opus-5", "anthropic"): "anthropic",
    ("claude-opus-5", "openai-chat"): "",
    ("mistral-small", "openai-chat"): "mistral",
    ("", "openai-chat"): "openai-chat",
    ("m", "openai-chat"): "",
}


@pytest.mark.parametrize("model, protocol", VENDORS)
def test_whose_server_is_assumed(model: str, protocol: str):
    assert vendor_server(model, protocol) == VENDORS[model, protocol]


def test_known_servers_are_found_by_name_or_address():
    assert find_server("groq", "http://127.0.0.1:1") == "groq"
    assert find_server("mine", "https://api.groq.com/openai/v1/") == "groq"
    assert find_server("mine", "https://llm.example.com/v1") == ""


def test_what_the_user_says_wins_and_the_longest_pattern_most():
    rows = (
        ProfileRow("prod-*", (("images", False), ("max_tools", 7))),
        ProfileRow("prod-1", (("images", True),), like="gpt-5.1"),
    )
    profile = profile_of("prod-1", "", "openai-responses", rows)
    assert (profile.images, profile.max_tools) == (True, 7)
    assert profile.efforts == ("none", "low", "medium", "high")
    assert profile.min_output == 16  # of OpenAI's server, because the model is like one of its own
    assert profile_of("other", "", "openai-responses", rows).images is None


def test_equal_facts_are_one_object():
    assert profile_of("some-model") is profile_of("another-model")


def test_a_name_of_any_length_is_looked_up_at_once():
    assert finish(profile_of, "gemini" * 1_000_000).call_state
