"""Paths and headers of an upstream."""

from __future__ import annotations

from dragoman.core.codec import Http, OutgoingRequest, bearer, same_path
from dragoman.core.credentials import Credential


def _authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    """OAuth tokens of a Claude login are bearer tokens; API keys have a header of their own."""
    key = credential.key
    return {"x-api-key": key} if key and not key.startswith("sk-ant-oat") else bearer(credential, request)


HTTP = Http(
    path=same_path("/v1/messages"),
    authenticate=_authenticate,
    signs=False,
    headers={"anthropic-version": "2023-06-01"},
    field_headers={"mcp_servers": {"anthropic-beta": "mcp-client-2025-11-20"}},
)
