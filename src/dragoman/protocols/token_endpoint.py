"""OAuth: a form goes to a token endpoint, a token that expires comes back. Called in a thread of its own."""

from __future__ import annotations

import time
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from dragoman.core import jsontext
from dragoman.core.credentials import Credential

_TIMEOUT = 10.0  # seconds
_LARGEST = 1024 * 1024
_USUAL_LIFE = 3600.0  # seconds; every endpoint says it


def fetch_token(url: str, form: dict[str, str]) -> Credential:
    """Raises OSError with the endpoint's own words."""
    host = url.split("/")[2]
    request = Request(url, urlencode(form).encode(), {"accept": "application/json"})
    begun = time.time()
    try:
        with urlopen(request, timeout=_TIMEOUT) as reply:
            body = reply.read(_LARGEST)
    except HTTPError as error:
        raise OSError(f"{host} answered {error.code}: {_problem(error.read(_LARGEST))}") from None
    except (URLError, TimeoutError) as error:
        raise OSError(f"{host} is not reachable: {getattr(error, 'reason', error)}") from None
    answer = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
    token, life = answer.get("access_token"), answer.get("expires_in", _USUAL_LIFE)
    if not isinstance(token, str) or not token:
        raise OSError(f"{host} answered without an access_token")
    try:  # some endpoints say the seconds as text
        seconds = float(life)
    except (TypeError, ValueError):
        seconds = _USUAL_LIFE
    return Credential(token=token, expires=begun + seconds)


def _problem(body: bytes) -> str:
    answer = jsontext.decode_object(body.decode("utf-8", "replace")) or {}
    said = answer.get("error_description") or answer.get("error") or body[:200].decode("utf-8", "replace")
    return " ".join(str(said).split())
