"""The server side of the Gemini API: routes, paths and headers, errors, model lists, accounting.

The model and the method are in the URL, in any of its versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypedDict
from urllib.parse import quote

from dragoman.core.codec import Framing, Http
from dragoman.core.failures import (
    not_a_reply,
)
from dragoman.core.fields import count, rows
from dragoman.core.jsontext import Glance, Once, is_array, is_object
from dragoman.core.model import Failure, Wire
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.protocols.gemini.response import read_usage
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, opened
from dragoman.protocols.google import decode_error_object, decode_models, encode_model, encode_models
from dragoman.serving.accounting import Accounting, Entry, ReplyFacts
from dragoman.serving.routes import Route
from dragoman.serving.server import Forwarding, ProtocolServer

# Routes

_GOOGLE = ("x-goog-api-key", "x-goog-api-client", "?key")  # the other protocols have a list at /v1/models too


def _read_alt(query: Mapping[str, str]) -> dict[str, Framing | None]:
    """A stream is SSE where the query says so, otherwise a JSON array."""
    return {"framing": None if query.get("alt") == "sse" else JSON_ARRAY}


_VERTEX = ("projects/{project}/locations/{location}/", "")  # of a project, or with an express key
_FORWARDED = ("embedContent", "batchEmbedContents", "predict")  # methods that are not translated


def _routes(version: str) -> Iterator[Route]:
    # The name of a model may be a path (tunedModels/x, projects/p/…), with or without `models/` before it
    for name in ("models/{model:path}", "{model:path}"):
        path = f"/{version}/{name}"
        yield Route("POST", f"{path}:generateContent", "generate", stream=False)
        yield Route("POST", f"{path}:streamGenerateContent", "generate", stream=True, query=_read_alt)
        yield Route("POST", f"{path}:countTokens", "count")
        for method in _FORWARDED:
            yield Route("POST", f"{path}:{method}", "forward", variant=method)
    for place in _VERTEX:  # more literal characters than the paths above, so these go first
        path = f"/{version}/{place}publishers/google/models/{{model}}"
        yield Route("POST", f"{path}:generateContent", "generate", stream=False)
        yield Route("POST", f"{path}:streamGenerateContent", "generate", stream=True, query=_read_alt)
        yield Route("POST", f"{path}:countTokens", "count")
    requires = _GOOGLE if version == "v1" else ()
    yield Route("GET", f"/{version}/models", "models", requires)
    yield Route("GET", f"/{version}/models/{{model:path}}", "model", requires)


ROUTES = tuple(route for version in ("v1beta", "v1", "v1alpha", "v1beta1") for route in _routes(version))


# Paths and headers of an upstream

_RESOURCES = ("tunedModels/", "publishers/", "projects/")  # names of models that are paths already


def path(model: str, stream: bool) -> str:
    return _method_path(model, "streamGenerateContent?alt=sse" if stream else "generateContent")


@lru_cache(1024)
def _method_path(model: str, method: str) -> str:
    name = model.removeprefix("models/")
    if name.startswith(_RESOURCES) and ".." not in name.split("/"):  # a name must not leave the path
        resource = quote(name, safe="/")  # `%` is escaped too: a server might decode `%2e%2e`
    else:
        resource = f"models/{quote(name, safe='')}"
    return f"/v1beta/{resource}:{method}"


def _resource(model: str) -> str:
    return model if model.startswith(("models/", *_RESOURCES)) else f"models/{model}"


HTTP = Http(
    path=path,
    authenticate=lambda credential, request: {"x-goog-api-key": credential.key},
    signs=False,
    model_in_body=False,
    resource=_resource,
)


# Errors


def decode_error(body: Any, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply: it has neither a candidate nor a blocked prompt."""
    if is_array(body) and len(body) == 1:  # Google wraps the error of a stream that is not SSE
        body = body[0]
    if not is_object(body):
        return None
    if body.get("error"):
        return decode_error_object(body["error"], status if status >= 400 else 0)
    whole = 0 < status < 400  # 0: an event of a stream
    replied = body.get("candidates") or _is_blocked(body)
    return not_a_reply(body, "candidates") if whole and not replied else None


def _is_blocked(body: Wire) -> bool:
    feedback = body.get("promptFeedback")
    return is_object(feedback) and feedback.get("blockReason") is not None


# Accounting: what the gateway counts in bodies that it does not decode


class _ToolGlance(TypedDict, total=False):
    functionDeclarations: list[Entry] | None
    mcpServers: Any
    mcp_servers: Any
    function_declarations: list[Entry] | None


class _RequestGlance(TypedDict, total=False):
    model: Once
    stream: Any
    tools: list[_ToolGlance] | None


class _PartGlance(TypedDict, total=False):
    functionCall: Entry | None


class _ContentGlance(TypedDict, total=False):
    parts: list[_PartGlance] | None


class _CandidateGlance(TypedDict, total=False):
    content: _ContentGlance | None


class _ReplyGlance(TypedDict, total=False):
    modelVersion: Once
    error: Any
    promptFeedback: Any
    candidates: list[_CandidateGlance] | None
    usageMetadata: Any


def _count_tools(body: Wire) -> int:
    tools = rows(body.get("tools"))
    return sum(
        count(tool.get("functionDeclarations") or tool.get("function_declarations")) or 1 for tool in tools
    )


def _count_calls(body: Wire) -> int:
    contents = [candidate.get("content") for candidate in rows(body.get("candidates"))]
    parts = [part for content in contents if is_object(content) for part in rows(content.get("parts"))]
    return sum("functionCall" in part for part in parts)


_REPLY = Glance(_ReplyGlance)


def _glance_reply(body: bytes) -> ReplyFacts | None:
    reply: Any = _REPLY.read(body)
    return None if reply is None or decode_error(reply, 200) else ACCOUNTING.facts(reply, "modelVersion")


ACCOUNTING = Accounting(
    request=Glance(_RequestGlance),
    may_hold_key=lambda body: any(
        "mcpServers" in tool or "mcp_servers" in tool for tool in rows(body.get("tools"))
    ),
    reply=_glance_reply,
    tools=_count_tools,
    calls=_count_calls,
    usage=lambda usage: read_usage(opened(usage, "usageMetadata")),
    usage_field="usageMetadata",
    call_hint=b"functionCall",
    call_mark=r'"functionCall":',
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/v1beta/models?pageSize=1000",
    decode_models=decode_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"totalTokens": tokens},
    accounting=ACCOUNTING,
    required=("contents",),
    forwarding=Forwarding(_method_path, (PROTOCOL_NAME,)),
    count_path=lambda model: f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:countTokens",
)
