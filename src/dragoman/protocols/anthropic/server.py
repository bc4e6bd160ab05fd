"""The paths of the Messages API, its model list and its token counts."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.model import Wire
from dragoman.core.server import Served, Server



def recognise(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Served | None:
    if method == "POST":
        match path:
            case "/v1/messages":
                return Served("generate")
            case "/v1/messages/count_tokens":
                return Served("count")
            case _:
                return None
    if method == "GET" and "anthropic-version" in headers and path.startswith("/v1/models"):
        name = path.removeprefix("/v1/models").strip("/")
        return Served("model", name) if name else Served("models")
    return None


def encode_models(names: tuple[str, ...]) -> Wire:
    data = [encode_model(name) for name in names]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": data, "has_more": False, **ends}


def encode_model(name: str) -> Wire:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


SERVER = Server(
    recognise=recognise,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    stateful={"thread": "thread_unsupported_request"},
)
