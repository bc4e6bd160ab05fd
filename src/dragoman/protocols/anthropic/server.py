"""The paths of the Messages API, its model list, its token counts and what accounting reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

from dragoman.core.fields import Fields
from dragoman.core.jsontext import Glance
from dragoman.core.losses import Losses
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
from dragoman.protocols.anthropic.kept import KEPT
from dragoman.protocols.anthropic.response import decode_usage
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME


def recognise(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> RouteMatch | None:
    if method == "POST":
        match path:
            case "/v1/messages":
                return RouteMatch("generate")
            case "/v1/messages/count_tokens":
                return RouteMatch("count")
            case _:
                return None
    about_models = path == "/v1/models" or path.startswith("/v1/models/")
    if method != "GET" or not about_models or "anthropic-version" not in headers:
        return None
    name = path.removeprefix("/v1/models").strip("/")
    return RouteMatch("model", name) if name else RouteMatch("models")


def claims(path: str, headers: Mapping[str, str]) -> bool:
    return path.startswith("/v1/messages") or "anthropic-version" in headers


def encode_models(names: tuple[str, ...]) -> Wire:
    data = [encode_model(name) for name in names]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": data, "has_more": False, **ends}


def encode_model(name: str) -> Wire:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def _quota(quota: RateLimitStatus) -> dict[str, str]:
    full = datetime.fromtimestamp(quota.now + quota.reset, UTC).isoformat(timespec="seconds")
    return {
        "anthropic-ratelimit-requests-limit": str(quota.limit),
        "anthropic-ratelimit-requests-remaining": str(quota.remaining),
        "anthropic-ratelimit-requests-reset": full.replace("+00:00", "Z"),
    }


class _Request(TypedDict, total=False):
    model: Any
    stream: Any
    tools: list[Entry] | None
    thread: Any
    mcp_servers: Any


class _Block(TypedDict, total=False):
    type: Any


class _Reply(TypedDict, total=False):
    type: Any
    error: Any
    content: list[_Block] | None
    usage: Any


TALLY = Accounting(
    request=Glance(_Request),
    reply=Glance(_Reply),
    tools=lambda body: count(body.get("tools")),
    calls=lambda body: sum(block.get("type") == "tool_use" for block in rows(body.get("content"))),
    usage=lambda body: decode_usage(Fields(body["usage"], "usage", PROTOCOL_NAME), Losses()),
    usage_field="usage",
    call_hint=b"tool_use",
    call_mark=r'"type":\s*"tool_use"',
)
SERVER = ProtocolServer(
    recognise=recognise,
    claims=claims,
    models_path="/v1/models?limit=1000",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    tally=TALLY,
    encode_quota=_quota,
    count_path=lambda model: "/v1/messages/count_tokens",
    forwards=("anthropic-version", "anthropic-beta"),
    kept=KEPT,
)
