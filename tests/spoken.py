"""What tests know of each protocol that clients speak, written by hand. A new protocol adds its row here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Wire = dict[str, Any]


class Spoken(NamedTuple):
    """`path`: as SDKs send it. `field`: the conversation in a request. `says`: an entry of it, of the user.
    `fixed`: what else a request needs, so that its server keeps nothing. `echo`: what a client sends back of
    a whole reply. `called`, `ended`: how a reply with calls ends, and one without. `model`: one that thinks.
    """

    path: str
    field: str
    says: Callable[[str], Wire]
    fixed: Wire
    echo: Callable[[Wire], list[Wire]]
    called: str
    ended: str
    model: str


def _message(text: str) -> Wire:
    return {"role": "user", "content": text}


SPOKEN = {
    "openai-chat": Spoken(
        path="/v1/chat/completions",
        field="messages",
        says=_message,
        fixed={},
        echo=lambda reply: [reply["choices"][0]["message"]],
        called="tool_calls",
        ended="stop",
        model="gpt-4.1",
    ),
    "openai-responses": Spoken(
        path="/v1/responses",
        field="input",
        says=_message,
        fixed={"store": False},
        echo=lambda reply: reply["output"],
        called="completed",
        ended="completed",
        model="gpt-5",
    ),
    "anthropic": Spoken(
        path="/v1/messages",
        field="messages",
        says=_message,
        fixed={"max_tokens": 99},
        echo=lambda reply: [{"role": "assistant", "content": reply["content"]}],
        called="tool_use",
        ended="end_turn",
        model="claude-sonnet-4-5",
    ),
    "gemini": Spoken(
        path="/v1beta/models/{model}:generateContent",
        field="contents",
        says=lambda text: {"role": "user", "parts": [{"text": text}]},
        fixed={},
        echo=lambda reply: [reply["candidates"][0]["content"]],
        called="STOP",
        ended="STOP",
        model="gemini-3-pro-preview",
    ),
    "gemini-interactions": Spoken(
        path="/v1beta/interactions",
        field="input",
        says=lambda text: {"type": "user_input", "content": [{"type": "text", "text": text}]},
        fixed={"store": False},
        echo=lambda reply: reply["steps"],
        called="requires_action",
        ended="completed",
        model="gemini-3-pro-preview",
    ),
}
# At a cloud the bodies are those of the vendor: the protocols that only upstreams speak, and whose they are
AT_CLOUDS = {
    "azure-openai": "openai-chat",
    "azure-responses": "openai-responses",
    "bedrock-invoke": "anthropic",
    "vertex-claude": "anthropic",
    "vertex-gemini": "gemini",
}


def asking(protocol: str, text: str, model: str = "m", stream: bool = False) -> tuple[str, Wire]:
    """The path and the body of a request that says `text`."""
    spoken = SPOKEN[protocol]
    body = {spoken.field: [spoken.says(text)], **spoken.fixed}
    return addressed(protocol, body, model, stream)


def addressed(protocol: str, body: Wire, model: str = "m", stream: bool = False) -> tuple[str, Wire]:
    """The path for `body`, and `body` with what other protocols say in the path."""
    path = SPOKEN[protocol].path
    if "{model}" not in path:
        return path, {**body, "model": model, **({"stream": True} if stream else {})}
    if stream:
        path = path.replace("generateContent", "streamGenerateContent?alt=sse")
    return path.format(model=model), body


def echoed(protocol: str, reply: Wire) -> list[Wire]:
    """What a client got, as it sends it back."""
    return SPOKEN[protocol].echo(reply)
