"""A server of Interactions as its clients see it: its routes, and what it keeps.

The model lists are those of generateContent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.core.errors import WireError
from dragoman.protocols.gemini_interactions.serving.accounting import ACCOUNTING
from dragoman.protocols.gemini_interactions.serving.background import BACKGROUND
from dragoman.protocols.gemini_interactions.serving.stored_interactions import STORED_INTERACTIONS
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME
from dragoman.protocols.google import decode_models, encode_model, encode_models
from dragoman.serving.routes import Route
from dragoman.serving.server import ProtocolServer

_VERSIONS = ("v1", "v1beta", "v1beta1", "v1beta2", "v1alpha")
_REVISION, _OF_STEPS = "api-revision", "2026-05-20"
_PLACES = ("", "projects/{project}/locations/{location}/")  # the second: of Vertex AI


def _read_query(query: Mapping[str, str]) -> dict[str, Any]:
    """The whole timeline is that of the stored turns; a stream never repeats the input."""
    stream = query.get("stream") == "true"
    whole = query.get("include_input") == "true" and not stream
    return {"stream": stream} | ({"action": "items"} if whole else {})


def _check_revision(headers: Mapping[str, str]) -> None:
    """A client of the schema before steps would find nothing in a reply."""
    asked = headers.get(_REVISION, "")
    if asked and asked < _OF_STEPS:
        raise WireError(PROTOCOL_NAME, "Api-Revision", f"expected {_OF_STEPS} or later, got {asked!r}")


ROUTES = tuple(
    route
    for base in (f"/{version}/{place}interactions" for version in _VERSIONS for place in _PLACES)
    for route in (
        Route("POST", base, "generate"),
        Route("GET", f"{base}/{{id}}", "retrieve", query=_read_query),
        Route("DELETE", f"{base}/{{id}}", "delete"),
        Route("POST", f"{base}/{{id}}/cancel", "cancel"),
    )
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/v1beta/models?pageSize=1000",
    decode_models=decode_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"totalTokens": tokens},
    accounting=ACCOUNTING,
    required=("input",),
    forwards=(_REVISION,),
    check_headers=_check_revision,
    turn_codec=STORED_INTERACTIONS,
    background=BACKGROUND,
)
