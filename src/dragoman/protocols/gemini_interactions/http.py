"""The path and the key of an upstream."""

from __future__ import annotations

from dragoman.core.codec import Http, same_path

# google-genai 3 uses v1, its earlier versions and most users of REST v1beta
HTTP = Http(
    path=same_path("/v1/interactions"),
    authenticate=lambda credential, request: {"x-goog-api-key": credential.key},
    signs=False,
)
