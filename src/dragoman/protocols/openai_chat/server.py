"""The path of the Chat API, and the model list that it shares with Responses."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.model import Wire
from dragoman.core.server import Served, Server


def recognise(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Served | None:
    """Clients whose base URL lacks the version ask without it."""
    if method == "POST":
        return Served("generate") if path in ("/v1/chat/completions", "/chat/completions") else None
    bare = path.removeprefix("/v1")
    if method != "GET" or not (bare == "/models" or bare.startswith("/models/")):
        return None
    name = bare.removeprefix("/models").strip("/")
    return Served("model", name) if name else Served("models")


def encode_models(names: tuple[str, ...]) -> Wire:
    return {"object": "list", "data": [encode_model(name) for name in names]}


def encode_model(name: str) -> Wire:
    return {"id": name, "object": "model", "created": 0, "owned_by": "dragoman"}


SERVER = Server(
    recognise=recognise,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
)
