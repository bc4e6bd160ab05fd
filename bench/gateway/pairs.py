"""Pairs of a client's protocol and an upstream's, and the kinds of replies that are measured."""

from typing import Literal, NamedTuple

Kind = Literal["whole", "stream", "pause", "pace", "hold"]
"""How the upstream replies: at once, whole or as a stream; with a pause after the first text; one event every
5 ms; without end."""

WHOLE: Kind = "whole"
STREAM: Kind = "stream"
PAUSE: Kind = "pause"
PACE: Kind = "pace"
HOLD: Kind = "hold"
KINDS = (WHOLE, STREAM, PAUSE, PACE, HOLD)


class Pair(NamedTuple):
    """`upstream` is a protocol, or `hermes`: a Chat upstream whose model writes its calls as text."""

    client: str
    upstream: str

    @property
    def title(self) -> str:
        return f"{TITLES[self.client]} → {TITLES[self.upstream]}"

    @property
    def translates(self) -> bool:
        return self.client != self.upstream


TITLES = {
    "openai-chat": "Chat",
    "openai-responses": "Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "hermes": "hermes text",
}
CHAT_CHAT = Pair("openai-chat", "openai-chat")
ANTHROPIC_ANTHROPIC = Pair("anthropic", "anthropic")
ANTHROPIC_CHAT = Pair("anthropic", "openai-chat")
CHAT_ANTHROPIC = Pair("openai-chat", "anthropic")
PAIRS = (
    CHAT_CHAT,
    ANTHROPIC_ANTHROPIC,
    ANTHROPIC_CHAT,
    CHAT_ANTHROPIC,
    Pair("openai-chat", "gemini"),
    Pair("openai-responses", "anthropic"),
    Pair("openai-chat", "hermes"),
)
UPSTREAMS = ("openai-chat", "anthropic", "gemini", "hermes", "openai-responses")
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models",  # followed by model and method
}
