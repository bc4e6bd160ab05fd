"""A Responses server as its clients see it: its routes, and what it keeps. The model list is Chat's."""

from __future__ import annotations

from dragoman.protocols.openai import encode_model, encode_models, rate_limit_headers
from dragoman.protocols.openai_responses.serving.accounting import ACCOUNTING
from dragoman.protocols.openai_responses.serving.background import BACKGROUND
from dragoman.protocols.openai_responses.serving.batches import BATCHES
from dragoman.protocols.openai_responses.serving.compaction import COMPACTION
from dragoman.protocols.openai_responses.serving.conversations import CONVERSATIONS
from dragoman.protocols.openai_responses.serving.conversations import ROUTES as CONVERSATION_ROUTES
from dragoman.protocols.openai_responses.serving.files import FILES, NAMED_FILES
from dragoman.protocols.openai_responses.serving.search import SEARCH_ROUTE
from dragoman.protocols.openai_responses.serving.stored_responses import STORED_RESPONSES
from dragoman.protocols.openai_responses.serving.websocket import WEBSOCKET
from dragoman.serving.routes import Route
from dragoman.serving.server import ProtocolServer, read_list

ROUTES = (
    Route("POST", "/v1/responses", "generate"),
    Route("POST", "/v1/responses/compact", "compact"),
    Route("POST", "/v1/responses/input_tokens", "count"),
    Route("POST", "/v1/alpha/search", "search"),
    Route(
        "GET", "/v1/responses/{id}", "retrieve", query=lambda query: {"stream": query.get("stream") == "true"}
    ),
    Route("DELETE", "/v1/responses/{id}", "delete"),
    Route("GET", "/v1/responses/{id}/input_items", "items"),
    Route("POST", "/v1/responses/{id}/cancel", "cancel"),
    Route("POST", "/v1/files", "file", variant="create"),
    Route("GET", "/v1/files", "file", variant="list"),
    Route("GET", "/v1/files/{id}", "file", variant="retrieve"),
    Route("GET", "/v1/files/{id}/content", "file", variant="content"),
    Route("DELETE", "/v1/files/{id}", "file", variant="delete"),
    Route("POST", "/v1/batches", "batch", variant="create"),
    Route("GET", "/v1/batches", "batch", variant="list"),
    Route("GET", "/v1/batches/{id}", "batch", variant="retrieve"),
    Route("POST", "/v1/batches/{id}/cancel", "batch", variant="cancel"),
    Route("GET", "/v1/responses", "websocket", requires=("upgrade",)),
    *CONVERSATION_ROUTES,
)
SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/models",
    decode_models=read_list("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=rate_limit_headers,
    count_path=lambda model: "/responses/input_tokens",
    forwards=("openai-beta",),
    streams_overflow=True,
    turn_codec=STORED_RESPONSES,
    compaction=COMPACTION,
    websocket=WEBSOCKET,
    background=BACKGROUND,
    conversations=CONVERSATIONS,
    batches=BATCHES,
    files=FILES,
    named_files=NAMED_FILES,
    search=SEARCH_ROUTE,
)
