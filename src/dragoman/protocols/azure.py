"""What the protocols of Azure OpenAI and Foundry share: keys, and tokens of Entra.

A request has a key, or a token of Entra. An application gets one for its id and its secret, or for the token
that its cluster writes to a file (workload identity); a machine of Azure has a server that gives it one
(managed identity).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from dragoman.core.codec import OutgoingRequest, bearer
from dragoman.core.credentials import Credential, Refresh
from dragoman.core.errors import ConfigError
from dragoman.protocols.token_endpoint import TokenEndpoint

_RESOURCE = "https://cognitiveservices.azure.com"
_AUTHORITY = "https://login.microsoftonline.com"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"  # RFC 7523
_TOKEN_FILE = "AZURE_FEDERATED_TOKEN_FILE"
_VARIABLES = {"tenant": "AZURE_TENANT_ID", "id": "AZURE_CLIENT_ID", "secret": "AZURE_CLIENT_SECRET"}
# The server of a virtual machine's identity; Azure's own libraries read the variable too
_MACHINE = "http://169.254.169.254"
_MACHINE_VARIABLE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"


def authenticate(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return {"api-key": credential.key} if credential.key else bearer(credential, request)


def refresh(
    given: Credential, options: Mapping[str, str], environ: Mapping[str, str]
) -> Credential | Refresh | None:
    """`AZURE_AUTHORITY_HOST` names the login of another cloud, `AZURE_FEDERATED_TOKEN_FILE` the token of a
    workload, as they do for Azure's own libraries. A secret goes before the file."""
    if given.token or given.key:
        return None
    if asked := options.get("identity", ""):
        if asked != "managed":
            raise ConfigError(f'identity: expected "managed", got "{asked}"')
        return _managed(given.id, environ)
    if key := environ.get("AZURE_OPENAI_API_KEY", ""):
        return Credential(key=key)
    return _entra(given, options, environ)


def _entra(given: Credential, options: Mapping[str, str], environ: Mapping[str, str]) -> Refresh:
    found = {"tenant": options.get("tenant", ""), "id": given.id, "secret": given.secret}
    found = {name: value or environ.get(_VARIABLES[name], "") for name, value in found.items()}
    file = options.get("file", "") or environ.get(_TOKEN_FILE, "")
    if "IDENTITY_ENDPOINT" in environ and not (found["secret"] or file):
        return _managed(found["id"], environ)
    if file and not found["secret"]:
        del found["secret"]
    if missing := [f"{name} ({_VARIABLES[name]})" for name, value in found.items() if not value]:
        problem = f"expected api_key, or for Entra {', '.join(missing)}"
        raise ConfigError(f'{problem}, or identity = "managed" on a machine of Azure')
    return _application(found, file, environ)


def _application(found: Mapping[str, str], file: str, environ: Mapping[str, str]) -> Refresh:
    host = environ.get("AZURE_AUTHORITY_HOST", "") or _AUTHORITY
    if "://" not in host:
        host = f"https://{host}"
    url = f"{host.rstrip('/')}/{quote(found['tenant'], safe='')}/oauth2/v2.0/token"
    form = {
        "grant_type": "client_credentials",
        "client_id": found["id"],
        "scope": f"{_RESOURCE}/.default",
    }
    if "secret" in found:
        return TokenEndpoint(url, {**form, "client_secret": found["secret"]}).fetch
    return lambda: TokenEndpoint(url, {**form, **_assertion(file)}).fetch()


def _managed(id: str, environ: Mapping[str, str]) -> Refresh:
    """Of App Service, Functions and Container Apps, which say where their server is, or of a virtual machine.
    `id`: of an identity that the user made; the machine may have several."""
    asked = {"resource": _RESOURCE} | ({"client_id": id} if id else {})
    if url := environ.get("IDENTITY_ENDPOINT", ""):
        version, headers = "2019-08-01", {"x-identity-header": environ.get("IDENTITY_HEADER", "")}
    else:
        url = f"{environ.get(_MACHINE_VARIABLE, '') or _MACHINE}/metadata/identity/oauth2/token"
        version, headers = "2018-02-01", {"metadata": "true"}
    query = urlencode({"api-version": version, **asked})
    return TokenEndpoint(f"{url}?{query}", headers=headers).fetch


def _assertion(file: str) -> dict[str, str]:
    """The cluster renews the file, so it is read for each token."""
    token = Path(file).read_text("utf-8").strip()
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}
