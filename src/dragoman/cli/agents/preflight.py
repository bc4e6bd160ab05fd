"""Before an agent starts: is the provider there, does it take the key, does it have the model?

Agents answer these failures with minutes of retries, so they are found here first. The provider's model list
settles most cases for free. Lists are often incomplete, so a model that is not in it gets one short request.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from difflib import get_close_matches
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError, UpstreamError
from dragoman.gateway.process.serve import PrivateGateway
from dragoman.gateway.upstreams.model_lists import models_of
from dragoman.gateway.upstreams.routing import DEMO, Target
from dragoman.http.client import Client, TransportError

_LIST_SECONDS = 5.0
_REQUEST_SECONDS = 15.0
_REFUSED = (401, 403, 404)


def preflight(target: Target, gateway: PrivateGateway, model: str) -> str:
    """What is wrong, in one line, or an empty string; a provider that is only slow is left to the agent."""
    provider = target.provider
    if provider.base_url == f"{DEMO}:":
        return ""
    if provider.needs_key:
        return f"{provider.name} has no key: set {provider.key_env}"
    try:
        listed = asyncio.run(_list(target))
    except UpstreamError as error:
        if error.failure.status in (401, 403):
            variable = f" in {provider.key_env}" if provider.key_env else ""
            return f"{provider.name} refuses the key{variable}: {error}"
        listed = ()
    except TransportError as error:
        return f"{provider.name} cannot be reached at {provider.base_url}: {error}"
    except (DragomanError, TimeoutError, ValueError):
        listed = ()
    if any(name.removeprefix("models/") == target.model for name in listed):
        return ""
    if problem := _request(gateway, model):
        close = get_close_matches(target.model, listed, 3)
        hint = f"; it has {', '.join(close)}" if close else ""
        return f"{provider.name}:{target.model}: {problem}{hint}"
    return ""


async def _list(target: Target) -> tuple[str, ...]:
    client = Client()
    try:
        return await asyncio.wait_for(models_of(client, target.provider), _LIST_SECONDS)
    finally:
        await client.close()


def _request(gateway: PrivateGateway, model: str) -> str:
    """The error that a short request through the gateway meets, where it is about the key or the model."""
    body = {"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"content-type": "application/json", "authorization": f"Bearer {gateway.key}"}
    request = urllib.request.Request(f"{gateway.url}/v1/messages", jsontext.encode(body), headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(request, timeout=_REQUEST_SECONDS).close()
    except urllib.error.HTTPError as error:
        return _message(error.read(20_000)) if error.code in _REFUSED else ""
    except OSError:
        pass
    return ""


def _message(body: bytes) -> str:
    try:
        value: Any = jsontext.decode(body)
        return " ".join(str(value["error"]["message"]).split())
    except (ValueError, KeyError, TypeError):
        return "the model is not available"
