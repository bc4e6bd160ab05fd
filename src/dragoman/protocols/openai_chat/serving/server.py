"""A Chat server as its clients see it: routes, model list, endpoints that are not translated."""

from __future__ import annotations

from dragoman.core.jsontext import is_object
from dragoman.core.model import Wire
from dragoman.protocols.openai import encode_model, encode_models, rate_limit_headers
from dragoman.protocols.openai_chat.serving.accounting import ACCOUNTING
from dragoman.serving.jobs import FileContent
from dragoman.serving.named_files import NamedFiles, data_url
from dragoman.serving.routes import Route
from dragoman.serving.server import Forwarding, ProtocolServer, read_list

# Endpoints that are not translated: OpenAI's, and Cohere's rerank as vLLM and others have it
_FORWARDED = (
    *("/embeddings", "/completions", "/moderations", "/rerank"),
    *("/images/generations", "/images/edits", "/images/variations"),
    *("/audio/speech", "/audio/transcriptions", "/audio/translations"),
)
ROUTES = (
    Route("POST", "/v1/chat/completions", "generate"),
    Route("POST", "/openai/deployments/{model}/chat/completions", "generate"),  # Azure names the model
    *(Route("POST", f"/v1{path}", "forward", variant=path) for path in _FORWARDED),
    Route("POST", "/openai/deployments/{model}/embeddings", "forward", variant="/embeddings"),
    Route("GET", "/v1/models", "models"),
    Route("GET", "/v1/models/{model:path}", "model"),
)


def _id_of(block: Wire) -> str:
    file = block.get("file")
    return str(file.get("file_id") or "") if block.get("type") == "file" and is_object(file) else ""


def _with_content(block: Wire, content: FileContent) -> Wire:
    file = {key: value for key, value in block["file"].items() if key != "file_id"}
    return {**block, "file": {"filename": content.file.name, **file, "file_data": data_url(content)}}


SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/models",
    decode_models=read_list("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=rate_limit_headers,
    named_files=NamedFiles("", "messages", ("content",), _id_of, _with_content),
    forwarding=Forwarding(lambda model, path: path, ("openai-chat", "openai-responses")),
)
