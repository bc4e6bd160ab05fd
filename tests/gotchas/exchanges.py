"""Exchanges from bytes to bytes, with every stream checked against its protocol's grammar."""

from __future__ import annotations

import json
from typing import Any

import dragoman
from dragoman.core import jsontext
from dragoman.framing.sse import Decoder
from dragoman.protocols import codec
from seeds.wires import PROTOCOLS, Wire, dumps, gathered

CHAT, RESPONSES, ANTHROPIC, GEMINI = PROTOCOLS
CITY: Wire = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def others(upstream: str) -> list[str]:
    """The clients that need a translation."""
    return [name for name in PROTOCOLS if name != upstream]


def streamed(client: str, upstream: str, data: bytes, request: Wire | None = None) -> bytes:
    """What the client gets for the upstream's `data`."""
    exchange = dragoman.Exchange(client, upstream, reply_created=1_700_000_000)  # two calls may be compared
    if request is not None:
        exchange.request(request, model="m")
    return through(exchange, data)


def through(exchange: dragoman.Exchange, data: bytes) -> bytes:
    stream = exchange.stream()
    out = stream.feed(data) + stream.close()
    check(exchange.client.name, out)
    return out


def check(protocol: str, data: bytes) -> None:
    grammar, decoder = codec(protocol).grammar(), Decoder()
    for frame in [*decoder.feed(data), *decoder.close()]:
        list(grammar.feed(frame))
    list(grammar.close())


def reply(client: str, upstream: str, data: bytes, request: Wire | None = None) -> Wire:
    """The same, put together into a whole reply."""
    return gathered(client, streamed(client, upstream, data, request))


def sent(client: str, upstream: str, body: Wire, model: str = "m", **more: Any) -> Wire:
    """The upstream's request."""
    return translated(client, upstream, body, model, **more)[0]


def translated(
    client: str, upstream: str, body: Wire, model: str = "m", **more: Any
) -> tuple[Wire, list[str]]:
    """The upstream's request as its bytes say it, and the losses."""
    exchange = dragoman.Exchange(client, upstream)
    out = exchange.request(dumps(body).encode(), model=model, **more)
    return codec_free(out), [str(loss) for loss in exchange.losses]


def codec_free(body: Any) -> Any:
    """As a peer would parse it, with nothing of ours in it."""
    return json.loads(jsontext.encode(body))


def request_body(protocol: str, *turns: Any, **more: Any) -> Wire:
    """A request with these turns, or a greeting."""
    greeting: Any = {"role": "user", "parts": [{"text": "Hi"}]}
    if protocol != GEMINI:
        greeting = {"role": "user", "content": "Hi"}
    field = {RESPONSES: "input", GEMINI: "contents"}.get(protocol, "messages")
    head: Wire = {} if protocol == GEMINI else {"model": "m"}
    if protocol == ANTHROPIC:
        head["max_tokens"] = 1024
    return {**head, field: list(turns) or [greeting], **more}


def tools(protocol: str, name: str = "get_weather", schema: Wire | None = CITY, **more: Any) -> list[Wire]:
    """A declaration of one function."""
    match protocol:
        case "openai-chat":
            return [{"type": "function", "function": {"name": name, "parameters": schema, **more}}]
        case "openai-responses":
            return [{"type": "function", "name": name, "parameters": schema, **more}]
        case "anthropic":
            return [{"name": name, "input_schema": schema, **more}]
        case _:
            return [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema, **more}]}]
