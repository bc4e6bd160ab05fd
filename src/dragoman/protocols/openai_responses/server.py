"""The paths of the Responses API and what accounting reads. Its model list is Chat's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import unquote

from dragoman.core.fields import Fields
from dragoman.core.jsontext import Glance
from dragoman.core.model import Wire
from dragoman.core.server import Accounting, ProtocolServer, RateLimitStatus, RouteMatch, count, listed, rows
from dragoman.protocols.openai_responses.kept import KEPT
from dragoman.protocols.openai_responses.response import decode_usage
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def recognise(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> RouteMatch | None:
    if "/responses" not in path:
        return None
    match method, path.removeprefix("/v1").split("/")[1:]:
        case "POST", ["responses"]:
            return RouteMatch("generate")
        case "POST", ["responses", "input_tokens"]:
            return RouteMatch("count")
        case "GET", ["responses", id] if id:
            return RouteMatch("retrieve", id=unquote(id), stream=query.get("stream") == "true")
        case "DELETE", ["responses", id] if id:
            return RouteMatch("delete", id=unquote(id))
        case "GET", ["responses", id, "input_items"] if id:
            return RouteMatch("items", id=unquote(id))
        case _:
            return None


def encode_models(names: tuple[str, ...]) -> Wire:
    return {"object": "list", "data": [encode_model(name) for name in names]}


def encode_model(name: str) -> Wire:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


def _quota(quota: RateLimitStatus) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(quota.limit),
        "x-ratelimit-remaining-requests": str(quota.remaining),
        "x-ratelimit-reset-requests": f"{quota.reset:.3f}s",
    }


class _Item(TypedDict, total=False):
    type: Any


class _Reply(TypedDict, total=False):
    type: Any
    object: Any
    status: Any
    error: Any
    output: list[_Item] | None
    usage: Any


TALLY = Accounting(  # a request is read in full: unless it says otherwise, it is to be kept
    reply=Glance(_Reply),
    tools=lambda body: count(body.get("tools")),
    calls=lambda body: sum(item.get("type") in _CALLS for item in rows(body.get("output"))),
    usage=lambda body: decode_usage(Fields(body, "", PROTOCOL_NAME)),
    usage_field="usage",
    call_hint=b".done",
    call_mark=r'"type":\s*"response\.(?:function_call_arguments|custom_tool_call_input)\.done"',
)
SERVER = ProtocolServer(
    recognise=recognise,
    claims=lambda path, headers: path.removeprefix("/v1").startswith("/responses"),
    models_path="/models",
    decode_models=listed("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    tally=TALLY,
    encode_quota=_quota,
    count_path=lambda model: "/responses/input_tokens",
    forwards=("openai-beta",),
    kept=KEPT,
    stateful={"conversation": "conversation_not_found", "background": "background_not_supported"},
)
