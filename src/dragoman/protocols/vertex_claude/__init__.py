"""`vertex-claude`: Claude at Vertex AI (`rawPredict`). The URL names the model and the body the version."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.core.codec import OutgoingRequest, bearer
from dragoman.core.credentials import Credential
from dragoman.core.fold import EncodedMessages
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.framing.sse import SSE
from dragoman.protocols import anthropic
from dragoman.protocols.google_cloud import address, refresh
from dragoman.serving.protocol import Protocol


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    wire = anthropic.CODEC.conversation.encode_around(request, messages, losses, profile)
    rest = {name: value for name, value in wire.items() if name != "model"}
    return {"anthropic_version": "vertex-2023-10-16", **rest}


def path(model: str, stream: bool) -> str:
    method = "streamRawPredict" if stream else "rawPredict"
    return f"/publishers/anthropic/models/{quote(model, safe='@')}:{method}"


def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return bearer(credential, request)


HTTP = replace(
    anthropic.CODEC.http,
    path=path,
    authenticate=authenticate,
    refresh=refresh,
    address=partial(address, "v1"),
    headers={},  # the version is in the body
    model_in_body=False,
)
CODEC = replace(
    anthropic.CODEC,
    http=HTTP,
    conversation=replace(anthropic.CODEC.conversation, encode_around=encode_around),
)
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=anthropic.PROTOCOL.server)
