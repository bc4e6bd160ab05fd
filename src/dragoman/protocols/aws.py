"""What the protocols of AWS share: addresses, credentials, Signature Version 4, and the names of its errors.

A signature covers method, path, query, headers and body, so the body is complete before it is made
(docs.aws.amazon.com, "Create a signed AWS API request").
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from dragoman.core.codec import Authenticate, OutgoingRequest, bearer
from dragoman.core.credentials import Credential, Refresh
from dragoman.core.errors import ConfigError
from dragoman.core.optional import require

_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SIGNED = ("content-type",)  # of the request's own headers; proxies may change others


def address(options: Mapping[str, str], environ: Mapping[str, str]) -> str:
    region = options.get("region") or _region(environ)
    if not region:
        raise ConfigError("Bedrock needs region (AWS_REGION), or a base_url")
    return f"https://bedrock-runtime.{region}.amazonaws.com"


def refresh(
    given: Credential, options: Mapping[str, str], environ: Mapping[str, str]
) -> Credential | Refresh | None:
    """Without any in the configuration: an API key, or what AWS's own tools would find."""
    if given.key or given.token or given.id:
        region = given.region or options.get("region") or _region(environ)
        if given.id and not (given.secret and region):
            raise ConfigError("a signature needs id, secret and region (AWS_REGION)")
        return replace(given, region=region)
    found = Credential(
        key=environ.get("AWS_BEARER_TOKEN_BEDROCK", ""),
        id=environ.get("AWS_ACCESS_KEY_ID", ""),
        secret=environ.get("AWS_SECRET_ACCESS_KEY", ""),
        session=environ.get("AWS_SESSION_TOKEN", ""),
        region=options.get("region") or _region(environ),
    )
    if found.key:
        return found
    if not found.region:
        raise ConfigError("expected api_key (AWS_BEARER_TOKEN_BEDROCK), or a region (AWS_REGION) to sign for")
    return found if found.id and found.secret else chain(found.region)


def _region(environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in _REGION if environ.get(name)), "")


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
            # by name, then value: "Param=" is before "Param-3=" (get-vanilla-query-order-encoded)
            "&".join(sorted(url.query.split("&"), key=lambda pair: pair.split("=", 1))),
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


# "Signature expired: 20261118T100000Z is now earlier than …", "Signature not yet current: …"
_SKEWED = re.compile("signature (?:expired|not yet current)", re.IGNORECASE)


def explain(message: str) -> str:
    """An error's words, and what to do where they say that the clocks disagree."""
    skewed = _SKEWED.search(message)
    return f"{message} (the clock of this machine is off by more than five minutes)" if skewed else message
