"""`vertex-claude`: Claude at Vertex AI (`rawPredict`). The URL names the model and the body the version."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.core.codec import OutgoingRequest, bearer, with_listed_tools
from dragoman.core.credentials import Credential
from dragoman.core.fold import EncodedMessages
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import CLIENT_TOOLS, Failure, Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.framing.sse import SSE
from dragoman.protocols import anthropic
from dragoman.protocols.claude_at_clouds import HEADER_FIELDS, with_known_fields
from dragoman.protocols.google import decode_error_object
from dragoman.protocols.google_cloud import address, refresh
from dragoman.serving.protocol import Protocol


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    wire = anthropic.CODEC.conversation.encode_around(request, messages, losses, profile)
    rest = {name: value for name, value in wire.items() if name != "model"}
    return {"anthropic_version": "vertex-2023-10-16", **with_known_fields(rest, "Vertex AI", losses)}


def decode_error(body: Wire, status: int) -> Failure | None:
    """Errors of Claude are Anthropic's. Those of the platform, such as quotas and rights, are Google's."""
    error = body.get("error")
    if is_object(error) and "status" in error:
        return decode_error_object(error, status if status >= 400 else 0)
    return anthropic.CODEC.decode_error(body, status)


def path(model: str, stream: bool) -> str:
    method = "streamRawPredict" if stream else "rawPredict"
    return f"/publishers/anthropic/models/{quote(model, safe='@')}:{method}"


def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return bearer(credential, request)


# It runs Anthropic's search, and none of the other tools (platform.claude.com/docs, "Features overview")
HOSTED = anthropic.LIMITS.hosted_tools & {*CLIENT_TOOLS, "tool_search", "web_search"}
LIMITS = replace(anthropic.LIMITS, hosted_tools=HOSTED, lists_hosted=True)

HTTP = replace(
    anthropic.CODEC.http,
    path=path,
    authenticate=authenticate,
    refresh=refresh,
    address=partial(address, "v1"),
    headers={},  # the version is in the body
    field_headers={},
    header_fields=HEADER_FIELDS,
    model_in_body=False,
)
CODEC = replace(
    anthropic.CODEC,
    http=HTTP,
    conversation=replace(anthropic.CODEC.conversation, encode_around=encode_around),
    decode_error=decode_error,
    limits=partial(with_listed_tools, LIMITS),
)
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=anthropic.PROTOCOL.server)
