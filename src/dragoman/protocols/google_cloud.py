"""What the protocols of Vertex AI share: its addresses, and tokens that google-auth fetches.

Credentials are those of `file` (a service account), else the application default ones: the variable
GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, or the metadata server of the machine.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dragoman.core.credentials import Credential, Refresh
from dragoman.core.errors import ConfigError
from dragoman.core.optional import require

_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_PROJECT = ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
_LOCATION = ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION")
_MULTI = ("us", "eu")  # regions of regions


def address(version: str, options: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The base URL of a project at a location."""
    project = options.get("project") or _first(_PROJECT, environ)
    location = options.get("location") or _first(_LOCATION, environ)
    if not project or not location:
        missing = "project (GOOGLE_CLOUD_PROJECT)" if not project else "location (GOOGLE_CLOUD_LOCATION)"
        raise ConfigError(f"Vertex needs {missing}, or a base_url up to /locations/LOCATION")
    host = f"{location}-aiplatform.googleapis.com"
    if location == "global":
        host = "aiplatform.googleapis.com"
    elif location in _MULTI:
        host = f"aiplatform.{location}.rep.googleapis.com"
    return f"https://{host}/{version}/projects/{project}/locations/{location}"


def refresh(given: Credential, options: Mapping[str, str], environ: Mapping[str, str]) -> Refresh | None:
    if given.token or given.key:
        return None
    require("vertex")
    file = options.get("file", "")
    found: list[Any] = []  # google-auth keeps what it has read

    def fetch() -> Credential:
        auth: Any = import_module("google.auth")  # its types are incomplete
        accounts: Any = import_module("google.oauth2.service_account")
        transport: Any = import_module("google.auth.transport.requests")
        if not found:
            if file:
                found.append(accounts.Credentials.from_service_account_file(file, scopes=_SCOPES))
            else:
                found.append(auth.default(_SCOPES)[0])
        found[0].refresh(transport.Request())
        expiry = found[0].expiry  # in UTC, without a zone
        expires = calendar.timegm(expiry.utctimetuple()) if expiry else 0.0
        return Credential(token=found[0].token, expires=expires)

    return fetch


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")
