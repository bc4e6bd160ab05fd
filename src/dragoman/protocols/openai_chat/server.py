"""The path of the Chat API, the model list that it shares with Responses, and what accounting reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from dragoman.core.jsontext import Glance, is_object
from dragoman.core.model import Wire
from dragoman.core.server import (
    Accounting,
    Entry,
    ProtocolServer,
    RateLimitStatus,
    RouteMatch,
    count,
    listed,
    rows,
)
from dragoman.protocols.openai_chat.response import decode_usage


def recognise(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> RouteMatch | None:
    """Clients whose base URL lacks the version ask without it."""
    if method == "POST":
        return RouteMatch("generate") if path in ("/v1/chat/completions", "/chat/completions") else None
    bare = path.removeprefix("/v1")
    if method != "GET" or not (bare == "/models" or bare.startswith("/models/")):
        return None
    name = bare.removeprefix("/models").strip("/")
    return RouteMatch("model", name) if name else RouteMatch("models")


def encode_models(names: tuple[str, ...]) -> Wire:
    return {"object": "list", "data": [encode_model(name) for name in names]}


def encode_model(name: str) -> Wire:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


class _Request(TypedDict, total=False):
    model: Any
    stream: Any
    tools: list[Entry] | None
    functions: list[Entry] | None


class _Message(TypedDict, total=False):
    tool_calls: list[Entry] | None


class _Choice(TypedDict, total=False):
    message: _Message


class _Reply(TypedDict, total=False):
    error: Any
    object: Any
    choices: list[_Choice] | None
    usage: Any


def _calls(body: Wire) -> int:
    messages = [choice.get("message") for choice in rows(body.get("choices"))]
    return sum([count(message.get("tool_calls")) for message in messages if is_object(message)])


def _quota(quota: RateLimitStatus) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset:.3f}s",
    }


TALLY = Accounting(
    request=Glance(_Request),
    reply=Glance(_Reply),
    tools=lambda body: count(body.get("tools")) or count(body.get("functions")),
    calls=_calls,
    usage=lambda body: decode_usage(body["usage"]),
    usage_field="usage",
    call_hint=b"tool_calls",
    call_mark=r'"type":\s*"function"',
)
SERVER = ProtocolServer(
    recognise=recognise,
    claims=lambda path, headers: "/chat/" in path,
    models_path="/models",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    tally=TALLY,
    encode_quota=_quota,
)
