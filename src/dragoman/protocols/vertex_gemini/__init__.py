"""`vertex-gemini`: Gemini at Vertex AI. The wire is Gemini's; paths and credentials are Google Cloud's."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.core.codec import OutgoingRequest, bearer
from dragoman.core.credentials import Credential
from dragoman.framing.sse import SSE
from dragoman.protocols import gemini
from dragoman.protocols.google_cloud import address, refresh
from dragoman.serving.protocol import Protocol


def path(model: str, stream: bool) -> str:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/publishers/google/models/{quote(model.removeprefix('models/'), safe='')}:{method}"


def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return {"x-goog-api-key": credential.key} if credential.key else bearer(credential, request)


HTTP = replace(
    gemini.CODEC.http,
    path=path,
    authenticate=authenticate,
    refresh=refresh,
    address=partial(address, "v1beta1"),
)
PROTOCOL = Protocol(codec=replace(gemini.CODEC, http=HTTP), framing=SSE, server=gemini.PROTOCOL.server)
