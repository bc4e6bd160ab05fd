"""OAuth: a form goes to a token endpoint, or a question to the server of a machine's identity. A token that
expires comes back. Called in a thread of its own."""

from __future__ import annotations

import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.credentials import Credential
from dragoman.core.model import Wire

_TIMEOUT = 10.0  # seconds
_LARGEST = 1024 * 1024
_USUAL_LIFE = 3600.0  # seconds; every endpoint says it


class TokenEndpoint(Struct, frozen=True):
    """`form` is what is posted. Without one the token is asked for, and never through a proxy: the server of
    an identity is at the machine itself."""

    url: str
    form: dict[str, str] | None = None
    headers: dict[str, str] = {}

    def fetch(self) -> Credential:
        """Raises OSError with the endpoint's own words."""
        host, begun = self.url.split("/")[2], time.time()
        try:
            with self._opener().open(self._request(), timeout=_TIMEOUT) as reply:
                body = reply.read(_LARGEST)
        except HTTPError as error:
            raise OSError(f"{host} answered {error.code}: {_problem(error.read(_LARGEST))}") from None
        except (OSError, HTTPException) as error:
            raise OSError(f"{host} is not reachable: {getattr(error, 'reason', error)}") from None
        answer = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise OSError(f"{host} answered without an access_token")
        return Credential(token=token, expires=_expires(answer, begun))

    def _opener(self) -> OpenerDirector:
        return build_opener() if self.form is not None else build_opener(ProxyHandler({}))

    def _request(self) -> Request:
        data = None if self.form is None else urlencode(self.form).encode()
        return Request(self.url, data, {"accept": "application/json", **self.headers})


def _expires(answer: Wire, begun: float) -> float:
    """Some endpoints say the seconds as text, some the moment instead."""
    for field, since in (("expires_in", begun), ("expires_on", 0.0)):
        try:
            return since + float(answer[field])
        except (KeyError, TypeError, ValueError):
            continue
    return begun + _USUAL_LIFE


def _problem(body: bytes) -> str:
    answer = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
    said = answer.get("error_description") or answer.get("error") or body[:200].decode("utf-8", "replace")
    return " ".join(str(said).split())
