"""What the protocols of AWS share: Signature Version 4, and the names of its errors.

A signature covers method, path, query, headers and body, so the body is complete before it is made
(docs.aws.amazon.com, "Create a signed AWS API request").
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from dragoman.core.codec import Authenticate, OutgoingRequest, bearer
from dragoman.core.credentials import Credential, Refresh
from dragoman.core.optional import require

_SIGNED = ("content-type",)  # of the request's own headers; proxies may change others


def sign(service: str, clock: Callable[[], float] = time.time) -> Authenticate:
    """An API key is a bearer token; anything else signs."""

    def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
        if not credential.id:
            return bearer(credential, request)
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(clock()))
        return signature(credential, request, service, now)

    return authenticate


def signature(credential: Credential, request: OutgoingRequest, service: str, now: str) -> dict[str, str]:
    """The headers that sign `request` at `now` (20261116T000000Z)."""
    url = urlsplit(request.url)
    added = {"x-amz-date": now}
    if credential.session:
        added["x-amz-security-token"] = credential.session
    headers = {name: value for name, value in request.headers.items() if name in _SIGNED}
    headers = dict(sorted({**headers, "host": url.netloc, **added}.items()))
    names = ";".join(headers)
    canonical = "\n".join(
        [
            request.method,
            quote(url.path or "/", safe="/-_.~"),  # once more than on the wire
            "&".join(sorted(url.query.split("&"))) if url.query else "",
            *(f"{name}:{' '.join(value.split())}" for name, value in headers.items()),
            "",
            names,
            hashlib.sha256(request.body).hexdigest(),
        ]
    )
    scope = f"{now[:8]}/{credential.region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credential.secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    proof = _hmac(key, text).hex()
    stated = f"Credential={credential.id}/{scope}, SignedHeaders={names}, Signature={proof}"
    return {"authorization": f"AWS4-HMAC-SHA256 {stated}", **added}


def chain(region: str) -> Refresh:
    """What AWS's own tools would find: profiles, roles of a container or a machine, single sign-on."""
    require("aws")

    def fetch() -> Credential:
        auth: Any = import_module("awscrt.auth")  # it has no types
        found = auth.AwsCredentialsProvider.new_default_chain().get_credentials().result()
        expiry = found.expiration
        return Credential(
            id=found.access_key_id,
            secret=found.secret_access_key,
            session=found.session_token or "",
            region=region,
            expires=expiry.timestamp() if expiry and expiry.year < 9999 else 0.0,
        )

    return fetch


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


_TYPES = {
    "throttlingexception": "rate_limit_error",
    "validationexception": "invalid_request_error",
    "serviceunavailableexception": "overloaded_error",
    "modeltimeoutexception": "timeout_error",
    "accessdeniedexception": "permission_error",
}


def error_type(exception: str) -> str:
    """Of Anthropic's error types, the one that an exception of AWS means."""
    return _TYPES.get(exception.lower(), "api_error")
