"""The paths of the Gemini API and what accounting reads.

The model and the method are in the URL, in any of its versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import quote, unquote

from dragoman.core.jsontext import Glance, is_object
from dragoman.core.model import Wire
from dragoman.core.server import Accounting, Entry, ProtocolServer, RouteMatch, count, listed, rows
from dragoman.protocols.gemini.objects import opened
from dragoman.protocols.gemini.response import read_usage

_PATH = re.compile(
    r"/(?:v1|v1beta|v1alpha)/(?:models/)?(?P<model>.+?)(?::|%3A)(?P<method>\w+)/?$", re.IGNORECASE
)
_MODELS = re.compile(r"/(?P<version>v1|v1beta|v1alpha)/models(?:/(?P<model>.+?))?/?$")


def recognise(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> RouteMatch | None:
    if method == "POST" and (found := _PATH.match(path)):
        return _method(unquote(found["model"]), found["method"], query)
    if method != "GET" or not (found := _MODELS.match(path)):
        return None
    if found["version"] == "v1" and not _is_google(query, headers):
        return None  # the other protocols have a list there too
    return RouteMatch("model", unquote(found["model"])) if found["model"] else RouteMatch("models")


def _method(model: str, method: str, query: Mapping[str, str]) -> RouteMatch | None:
    match method:
        case "generateContent":
            return RouteMatch("generate", model, stream=False)
        case "streamGenerateContent":
            return RouteMatch("generate", model, stream=True, array=query.get("alt") != "sse")
        case "countTokens":
            return RouteMatch("count", model)
        case _:
            return None


def _is_google(query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    return "x-goog-api-key" in headers or "x-goog-api-client" in headers or "key" in query


def decode_models(body: Wire) -> tuple[str, ...]:
    return tuple(name.removeprefix("models/") for name in listed("models", "name")(body))


def encode_models(names: tuple[str, ...]) -> Wire:
    return {"models": [encode_model(name) for name in names]}


def encode_model(name: str) -> Wire:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _claims(path: str, headers: Mapping[str, str]) -> bool:
    return path.startswith(("/v1beta", "/v1alpha")) or _is_google({}, headers)


class _Tool(TypedDict, total=False):
    functionDeclarations: list[Entry] | None
    function_declarations: list[Entry] | None


class _Request(TypedDict, total=False):
    model: Any
    stream: Any
    tools: list[_Tool] | None


class _Part(TypedDict, total=False):
    functionCall: Entry | None


class _Content(TypedDict, total=False):
    parts: list[_Part] | None


class _Candidate(TypedDict, total=False):
    content: _Content | None


class _Reply(TypedDict, total=False):
    error: Any
    candidates: list[_Candidate] | None
    usageMetadata: Any


def _tools(body: Wire) -> int:
    tools = rows(body.get("tools"))
    return sum(
        count(tool.get("functionDeclarations") or tool.get("function_declarations")) or 1 for tool in tools
    )


def _calls(body: Wire) -> int:
    contents = [candidate.get("content") for candidate in rows(body.get("candidates"))]
    parts = [part for content in contents if is_object(content) for part in rows(content.get("parts"))]
    return sum("functionCall" in part for part in parts)


TALLY = Accounting(
    request=Glance(_Request),
    reply=Glance(_Reply),
    tools=_tools,
    calls=_calls,
    usage=lambda body: read_usage(opened(body["usageMetadata"], "usageMetadata")),
    usage_field="usageMetadata",
    call_hint=b"functionCall",
    call_mark=r'"functionCall":',
)
SERVER = ProtocolServer(
    recognise=recognise,
    claims=_claims,
    models_path="/v1beta/models?pageSize=1000",
    decode_models=decode_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"totalTokens": tokens},
    tally=TALLY,
    count_path=lambda model: f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:countTokens",
)
