"""A Messages server as its clients see it: routes, rate limits, and what it keeps."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_array
from dragoman.core.model import Wire
from dragoman.framing.aws_events import AWS_CHUNKS
from dragoman.protocols.anthropic.serving.accounting import ACCOUNTING
from dragoman.protocols.anthropic.serving.batches import BATCHES
from dragoman.protocols.anthropic.serving.compaction import COMPACTION
from dragoman.protocols.anthropic.serving.files import FILES, NAMED_FILES
from dragoman.protocols.anthropic.serving.models import encode_model, encode_models
from dragoman.protocols.anthropic.serving.threads import THREADS
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.routes import Route, RouteMatch
from dragoman.serving.server import ProtocolServer, RateLimitStatus, read_list

# Every Anthropic SDK sends it, and the other protocols have model lists and files at the same paths
_LIST_HEADER = ("anthropic-version",)
_BEDROCK = "/model/{model}/invoke"
_VERTEX = "/v1/projects/{project}/locations/{region}/publishers/anthropic/models"
ROUTES = (
    Route("POST", "/v1/messages", "generate"),
    Route("POST", "/v1/messages/count_tokens", "count"),
    # What Claude Code sends with CLAUDE_CODE_USE_BEDROCK or CLAUDE_CODE_USE_VERTEX, as the SDK's clients do
    Route("POST", _BEDROCK, "generate", stream=False, variant="bedrock"),
    Route(
        "POST",
        f"{_BEDROCK}-with-response-stream",
        "generate",
        stream=True,
        variant="bedrock",
        framing=AWS_CHUNKS,
    ),
    Route("POST", f"{_VERTEX}/{{model}}:rawPredict", "generate", stream=False, variant="vertex"),
    Route("POST", f"{_VERTEX}/{{model}}:streamRawPredict", "generate", stream=True, variant="vertex"),
    Route("POST", f"{_VERTEX}/count-tokens:rawPredict", "count", variant="vertex"),
    Route("POST", "/v1/messages/batches", "batch", variant="create"),
    Route("GET", "/v1/messages/batches", "batch", variant="list"),
    Route("GET", "/v1/messages/batches/{id}", "batch", variant="retrieve"),
    Route("POST", "/v1/messages/batches/{id}/cancel", "batch", variant="cancel"),
    Route("DELETE", "/v1/messages/batches/{id}", "batch", variant="delete"),
    Route("GET", "/v1/messages/batches/{id}/results", "batch", variant="results"),
    Route("POST", "/v1/files", "file", requires=_LIST_HEADER, variant="create"),
    Route("GET", "/v1/files", "file", requires=_LIST_HEADER, variant="list"),
    Route("GET", "/v1/files/{id}", "file", requires=_LIST_HEADER, variant="retrieve"),
    Route("GET", "/v1/files/{id}/content", "file", requires=_LIST_HEADER, variant="content"),
    Route("DELETE", "/v1/files/{id}", "file", requires=_LIST_HEADER, variant="delete"),
    Route("GET", "/v1/models", "models", requires=_LIST_HEADER),
    Route("GET", "/v1/models/{model:path}", "model", requires=_LIST_HEADER),
)


def _unwrap(body: Wire, route: RouteMatch) -> tuple[Wire, dict[str, str]]:
    """A body for Bedrock or Vertex: the URL names the model, and `anthropic_*` are what headers say here."""
    if "thread" in body:
        raise WireError(PROTOCOL_NAME, "thread", "threads are kept at /v1/messages only")
    rest = {key: value for key, value in body.items() if not key.startswith("anthropic_")}
    if route.model:
        rest |= {"model": route.model, "stream": bool(route.stream)}
    betas = body.get("anthropic_beta")
    names = [beta for beta in betas if isinstance(beta, str)] if is_array(betas) else []
    return rest, {"anthropic-beta": ",".join(names)} if names else {}


def _quota(quota: RateLimitStatus) -> dict[str, str]:
    full = datetime.fromtimestamp(quota.now + quota.reset, UTC).isoformat(timespec="seconds")
    return {
        "anthropic-ratelimit-requests-limit": str(quota.limit),
        "anthropic-ratelimit-requests-remaining": str(quota.remaining),
        "anthropic-ratelimit-requests-reset": full.replace("+00:00", "Z"),
    }


SERVER = ProtocolServer(
    routes=ROUTES,
    models_path="/v1/models?limit=1000",
    decode_models=read_list("data", "id"),
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: {"input_tokens": tokens},
    accounting=ACCOUNTING,
    encode_quota=_quota,
    count_path=lambda model: "/v1/messages/count_tokens",
    forwards=("anthropic-version", "anthropic-beta"),
    batches=BATCHES,
    files=FILES,
    named_files=NAMED_FILES,
    turn_codec=THREADS,
    unwrap=_unwrap,
    compaction=COMPACTION,
    required=("model", "max_tokens", "messages"),
)
