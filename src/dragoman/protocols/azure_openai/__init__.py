"""`azure-openai`: Chat at `/openai/v1` of Azure OpenAI and Foundry. The model is the name of a deployment.

A request has a key, or a token of Entra that an application gets for its id and its secret, or for the token
that its cluster writes to a file (workload identity).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.core.codec import OutgoingRequest, bearer
from dragoman.core.credentials import Credential, Refresh
from dragoman.core.errors import ConfigError
from dragoman.framing.sse import SSE
from dragoman.protocols import openai_chat as chat
from dragoman.protocols.token_endpoint import fetch_token
from dragoman.serving.protocol import Protocol

_SCOPE = "https://cognitiveservices.azure.com/.default"
_AUTHORITY = "https://login.microsoftonline.com"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"  # RFC 7523
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"
_VARIABLES = {"tenant": "AZURE_TENANT_ID", "id": "AZURE_CLIENT_ID", "secret": "AZURE_CLIENT_SECRET"}


def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return {"api-key": credential.key} if credential.key else bearer(credential, request)


def refresh(
    given: Credential, options: Mapping[str, str], environ: Mapping[str, str]
) -> Credential | Refresh | None:
    """`AZURE_AUTHORITY_HOST` names the login of another cloud, `AZURE_FEDERATED_TOKEN_FILE` the token of a
    workload, as they do for Azure's own libraries. A secret goes before the file."""
    if given.token or given.key:
        return None
    if key := environ.get("AZURE_OPENAI_API_KEY", ""):
        return Credential(key=key)
    found = {"tenant": options.get("tenant", ""), "id": given.id, "secret": given.secret}
    found = {name: value or environ.get(_VARIABLES[name], "") for name, value in found.items()}
    file = options.get("file", "") or environ.get(_TOKEN_FILE, "")
    if file and not found["secret"]:
        del found["secret"]
    if missing := [f"{name} ({_VARIABLES[name]})" for name, value in found.items() if not value]:
        raise ConfigError(f"expected api_key, or for Entra {', '.join(missing)}")
    host = environ.get("AZURE_AUTHORITY_HOST", "") or _AUTHORITY
    if "://" not in host:
        host = f"https://{host}"
    url = f"{host.rstrip('/')}/{quote(found['tenant'], safe='')}/oauth2/v2.0/token"
    form = {
        "grant_type": "client_credentials",
        "client_id": found["id"],
        "scope": _SCOPE,
    }
    if "secret" in found:
        return lambda: fetch_token(url, {**form, "client_secret": found["secret"]})
    return lambda: fetch_token(url, {**form, **_assertion(file)})


def _assertion(file: str) -> dict[str, str]:
    """The cluster renews the file, so it is read for each token."""
    token = Path(file).read_text("utf-8").strip()
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}


HTTP = replace(chat.CODEC.http, authenticate=authenticate, refresh=refresh)
PROTOCOL = Protocol(codec=replace(chat.CODEC, http=HTTP), framing=SSE, server=chat.PROTOCOL.server)
