"""Addresses, errors and accounting of Converse. Only upstreams speak it, so it has no routes.

An error is `{"message": …}`; its type stands in a header, and in a stream it is the type of the message.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from dragoman.core.codec import Http
from dragoman.core.failures import kind_of, not_a_reply, recognise_overflow, status_of, with_opening, words
from dragoman.core.fields import Fields, count, rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Wire
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.protocols.aws import address, explain, refresh, sign
from dragoman.protocols.bedrock_converse.response import decode_usage
from dragoman.protocols.bedrock_converse.wire import ERRORS
from dragoman.serving.accounting import Accounting
from dragoman.serving.server import ListedModel, ProtocolServer, listed

_TOO_LONG = re.compile("input is too long", re.IGNORECASE)


def path(model: str, stream: bool) -> str:
    return f"/model/{quote(model, safe='')}/converse{'-stream' if stream else ''}"


HTTP = Http(
    path=path,
    authenticate=sign("bedrock"),
    refresh=refresh,
    address=address,
    model_in_body=False,
    stream_type=AWS_EVENTS.content_type,
)


def decode_error(body: Wire, status: int) -> Failure | None:
    """Also of a body with status 200 that is no reply. A proxy of AWS spells `message` as `Message`."""
    if status and status < 400:
        return None if "output" in body else not_a_reply(body, "output")
    message = words(body.get("message") or body.get("Message"))
    name = words(body.get("__type")).rpartition("#")[2]
    if not status:
        return decode_exception(name, body) if name else None
    if not message and not name:
        return None
    kind = ERRORS.decode(_spelled(name)) if name else kind_of(status)
    return Failure(recognise_overflow(kind, message, name), explain(message or name), status, name)


def decode_exception(name: str, body: Wire) -> Failure | None:
    """Of a message of a stream; None for an event."""
    if name == "error":  # the framing gives its code and text
        name = words(body.get("code")) or "internalServerException"
    elif not name.endswith("Exception"):
        return None
    message = words(body.get("message") or body.get("originalMessage")) or name
    kind = recognise_overflow(ERRORS.decode(_spelled(name)), message, name)
    status = body.get("originalStatusCode")
    return Failure(kind, message, status if type(status) is int and status >= 400 else status_of(kind), name)


def _spelled(name: str) -> str:
    """Types begin with a small letter in streams and a capital elsewhere."""
    return name[:1].lower() + name[1:]


def encode_error(failure: Failure) -> tuple[int, Wire]:
    message = failure.message
    if failure.kind == "context_too_long":
        message = with_opening(message, "Input is too long for requested model", _TOO_LONG)
    return status_of(failure.kind), {"__type": ERRORS.encode(failure.kind), "message": message}


def _count_calls(body: Wire) -> int:
    output = body.get("output")
    message = output.get("message") if is_object(output) else None
    return sum("toolUse" in block for block in rows(message.get("content") if is_object(message) else None))


def _count_tools(body: Wire) -> int:
    config = body.get("toolConfig")
    return count(config.get("tools")) if is_object(config) else 0


def _list_models(models: tuple[ListedModel, ...]) -> Wire:
    return {"modelSummaries": [_list_model(model) for model in models]}


def _list_model(model: ListedModel) -> Wire:
    return {"modelId": model.name}


SERVER = ProtocolServer(
    routes=(),
    models_path="/foundation-models",
    decode_models=listed("modelSummaries", "modelId"),
    encode_models=_list_models,
    encode_model=_list_model,
    encode_count=lambda tokens: {"inputTokens": tokens},
    accounting=Accounting(
        reply=lambda body: None,
        tools=_count_tools,
        calls=_count_calls,
        usage=lambda usage: decode_usage(Fields(usage, "usage", "bedrock-converse"), Losses()),
        usage_field="usage",
        call_hint=b"toolUse",
        call_mark=r'"toolUse":\s*\{\s*"(?:toolUseId|name)"',
    ),
    required=("messages",),
)
