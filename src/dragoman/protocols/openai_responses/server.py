"""The paths of the Responses API. Its model list is Chat's."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.model import Wire
from dragoman.core.server import Served, Server


def recognise(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Served | None:
    if method != "POST":
        return None
    match path.removeprefix("/v1"):
        case "/responses":
            return Served("generate")
        case "/responses/input_tokens":
            return Served("count")
        case _:
            return None


def encode_models(names: tuple[str, ...]) -> Wire:
    return {"object": "list", "data": [encode_model(name) for name in names]}


def encode_model(name: str) -> Wire:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


SERVER = Server(
    recognise=recognise,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    stateful={
        "previous_response_id": "previous_response_not_found",
        "conversation": "conversation_not_found",
    },
)
