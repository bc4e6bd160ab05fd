"""A Gemini server as its clients see it. The model and the method are in the URL, in any of its versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from dragoman.core.codec import Framing
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.protocols.gemini.http import method_path
from dragoman.protocols.gemini.serving.accounting import ACCOUNTING
from dragoman.protocols.gemini.wire import PROTOCOL_NAME
from dragoman.protocols.google import decode_models, encode_model, encode_models
from dragoman.serving.routes import Route
from dragoman.serving.server import Forwarding, ProtocolServer

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
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/v1beta/models?pageSize=1000",
    decode_models=decode_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"totalTokens": tokens},
    accounting=ACCOUNTING,
    required=("contents",),
    forwarding=Forwarding(method_path, (PROTOCOL_NAME,)),
    count_path=lambda model: f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:countTokens",
)
