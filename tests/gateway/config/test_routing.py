"""Which provider and model answer for what a client asks."""

import pytest

from dragoman.gateway.config import load
from dragoman.gateway.upstreams.routing import UnknownModel, names, route

FILE = """
[providers.near]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
models = ["one", "two"]
[providers.far]
protocol = "anthropic"
base_url = "http://127.0.0.1:9"
[models]
"*sonnet*" = "far:middle"
"claude-*" = "far:star"
"claude-sonnet-*" = "far:longer"
"claude-sonnet-4-5" = "far:exact"
list = ["near:a", "groq:no-key", "far:b"]
same = "near:*"
"gpt-*" = "near:*"
"a[b]?" = "near:literal"
"""
TWO = {"GROQ_API_KEY": "g", "MISTRAL_API_KEY": "m"}

# name: (file, environment, requested, targets)
ROUTES: dict[str, tuple[str, dict[str, str], str, list[str]]] = {
    "an exact name before a pattern": (FILE, {}, "claude-sonnet-4-5", ["far:exact"]),
    "the pattern that says more": (FILE, {}, "claude-sonnet-4-6", ["far:longer"]),
    "the pattern that says less": (FILE, {}, "claude-opus", ["far:star"]),
    "a pattern with two stars": (FILE, {}, "my-sonnet-9", ["far:middle"]),
    "a list in its order, without those that have no key": (FILE, {}, "list", ["near:a", "far:b"]),
    "a list, with all of them": (FILE, {"GROQ_API_KEY": "k"}, "list", ["near:a", "groq:no-key", "far:b"]),
    "a star passes the name on": (FILE, {}, "same", ["near:same"]),
    "a star passes on what matched": (FILE, {}, "gpt-5", ["near:gpt-5"]),
    "only the star is special": (FILE, {}, "a[b]?", ["near:literal"]),
    "provider and model": (FILE, {}, "near:x/y:z", ["near:x/y:z"]),
    "provider and model before a pattern": (FILE + '"*" = "far:z"', {}, "near:q", ["near:q"]),
    "a colon that names no provider": (FILE + '"*" = "far:z"', {}, "qwen3:8b", ["far:z"]),
    "a known provider that needs no key": (FILE, {}, "ollama:qwen3", ["ollama:qwen3"]),
    "a provider before a slash": (FILE, {}, "near/x/y:z", ["near:x/y:z"]),
    "a known provider before a slash": (FILE, {"ANTHROPIC_API_KEY": "k"}, "anthropic/c-5", ["anthropic:c-5"]),
    "as another gateway calls it": (FILE, {"GEMINI_API_KEY": "k"}, "gemini/g-3", ["google-ai-studio:g-3"]),
    "an alias before a slash": (FILE + '"near/x" = "far:z"', {}, "near/x", ["far:z"]),
    "a pattern before a slash": (FILE + '"near/*" = "far:z"', {}, "near/x", ["far:z"]),
    "a slash and no key": ("", {"OPENROUTER_API_KEY": "k"}, "anthropic/c-5", ["openrouter:anthropic/c-5"]),
    "a slash in a tag of Ollama": (FILE, {}, "ollama/qwen3:8b", ["ollama:qwen3:8b"]),
    "a vendor's prefix behind its name": (
        FILE,
        {"ANTHROPIC_API_KEY": "k"},
        "anthropic:anthropic/c-5",
        ["anthropic:c-5"],
    ),
    "a model whose name begins with its provider's": (
        "",
        {"GROQ_API_KEY": "k"},
        "groq:groq/compound",
        ["groq:groq/compound"],
    ),
    "a slash in a target": (
        FILE + 'big = "openrouter/x/y"',
        {"OPENROUTER_API_KEY": "k"},
        "big",
        ["openrouter:x/y"],
    ),
    "a prefix in a target": (FILE + 'big = "x-ai/grok"', {"XAI_API_KEY": "k"}, "big", ["xai:grok"]),
    "what a star stands for": (FILE + '"team/*" = "near:lab-$1"', {}, "team/q", ["near:lab-q"]),
    "the demo by its name": (FILE, {}, "demo:x", ["demo:x"]),
    "no provider at all": ("", {}, "claude-9", ["demo:claude-9"]),
    "no provider and no name": ("", {}, "", ["demo:demo"]),
    "no provider, but a name": ('[models]\na = "demo:b"', {}, "a", ["demo:b"]),
    "the only provider": ("", {"GROQ_API_KEY": "k"}, "llama", ["groq:llama"]),
    "the only provider, beside names": ('[models]\na = "groq:b"', {"GROQ_API_KEY": "k"}, "c", ["groq:c"]),
    "two that share a key are one": ("", {"OPENAI_API_KEY": "k"}, "gpt-5", ["openai:gpt-5"]),
    "another variable for the same key": ("", {"GOOGLE_API_KEY": "k"}, "g", ["google-ai-studio:g"]),
}


@pytest.mark.parametrize("text, environ, requested, targets", ROUTES.values(), ids=ROUTES)
def test_routes(text: str, environ: dict[str, str], requested: str, targets: list[str]):
    found = route(load(text, environ), requested)
    assert [f"{target.provider.name}:{target.model}" for target in found] == targets


UNKNOWN = {
    "no name of ours": (
        FILE,
        {},
        "mystery",
        "'mystery'. Configured: claude-sonnet-4-5, list, same, a[b]?, near:one, near:two",
    ),
    "two providers, no names": ("", TWO, "mystery", "'mystery'. Configured: groq:…, mistral:…"),
    "a provider without its key": (FILE, {}, "groq:llama", "'groq:llama'"),
    "no target has its key": (
        '[models]\na = ["groq:x", "mistral:y"]',
        {},
        "a",
        "is routed to groq:x, mistral:y, and none of them has a key",
    ),
    "a prefix of a provider without its key": (
        "",
        TWO,
        "gemini/g",
        "Provider 'google-ai-studio' of 'gemini/g' has no key. Set GEMINI_API_KEY",
    ),
    "patterns are named": (FILE, {}, "mystery", "near:two, *sonnet*, claude-*, claude-sonnet-*, gpt-*"),
    "a provider without a model": (FILE, {}, "near:", "'near:'"),
    "a name that is none": ("", {}, "x" * 1_001, "a model whose name has 1001 characters"),
}


@pytest.mark.parametrize("text, environ, requested, message", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_models_say_what_there_is(text: str, environ: dict[str, str], requested: str, message: str):
    with pytest.raises(UnknownModel) as caught:
        route(load(text, environ), requested)
    assert message in str(caught.value)


def test_names_are_what_can_be_asked_for():
    assert names(load(FILE, {})) == ("claude-sonnet-4-5", "list", "same", "a[b]?", "near:one", "near:two")
    assert names(load("", {})) == ("demo",)
    assert names(load("", TWO)) == ()
