"""A model that says what a script says, turn by turn, in any protocol, at the pace of a real one.

It is an ASGI application. Which turn a request is follows from the tool results in it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.events import Event, PartDelta, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Response, Stop, Text, ToolCall, ToolResult, Usage
from dragoman.inspector.analysis import decode_request
from dragoman.protocols import protocol

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_PATHS = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
}


class ScriptedModel:
    """`script` gives the parts of a reply for the number of results in the request and the tools in it.

    An answer may be a number instead: a status, which is sent as an error. `pace` multiplies all waits.
    """

    def __init__(
        self, script: Callable[[int, str], Sequence[AnyPart] | int], pace: float = 1.0, cached: float = 0.9
    ) -> None:
        self._script, self._pace, self._cached = script, pace, cached
        self._count = 0  # Claude Code joins replies that have the same id

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        name = _PATHS.get(scope["path"], "gemini")
        wire = json.loads(body or b"{}")
        request = decode_request(name, wire)
        parts = [part for message in (request.messages if request else ()) for part in message.parts]
        texts = " ".join([part.text for part in parts if isinstance(part, Text)])
        reply = self._script(sum(isinstance(part, ToolResult) for part in parts), texts)
        codec = protocol(name).codec
        if isinstance(reply, int):
            headers = [(b"content-type", b"application/json"), (b"retry-after", b"30")]
            await send({"type": "http.response.start", "status": reply, "headers": headers})
            problem = {"error": {"message": "Rate limit reached: 6,000 tokens a minute.", "code": reply}}
            await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
            return
        is_stream = bool(wire.get("stream")) or "stream" in scope["path"]
        response = self._response(reply, len(body))
        await asyncio.sleep((0.25 + len(body) / 500_000) * self._pace)
        if not is_stream:
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            whole = codec.encode_response(response, Losses(), None)
            await send({"type": "http.response.body", "body": jsontext.encode(whole)})
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        encoder = codec.stream_encoder(Losses(), None)
        framing = protocol(name).framing.encoder()
        for event in _small(unfold(response)):
            data = b"".join([piece for frame in encoder.feed(event) for piece in _bytes(framing.feed(frame))])
            if data:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if isinstance(event, PartDelta) and event.text:
                await asyncio.sleep(0.02 * self._pace)
        rest = b"".join([piece for frame in encoder.close() for piece in _bytes(framing.feed(frame))])
        await send({"type": "http.response.body", "body": rest + b"".join(_bytes(framing.close()))})

    def _response(self, parts: Sequence[AnyPart], size: int) -> Response:
        calls = any(isinstance(part, ToolCall) for part in parts)
        tokens = size // 4
        spoken = sum([len(part.text) for part in parts if isinstance(part, Text | Reasoning)])
        given = sum([len(part.arguments) for part in parts if isinstance(part, ToolCall)])
        usage = Usage(tokens, (spoken + given) // 4 + 12, int(tokens * self._cached), 0, 0)
        stop = Stop("tool_calls" if calls else "end")
        self._count += 1
        return Response(f"resp_{self._count}", "scripted", tuple(parts), stop, usage, int(time.time()))


def _bytes(made: Any) -> list[bytes]:
    return [made] if isinstance(made, bytes) else list(made)


def _small(events: Iterator[Event]) -> Iterator[Event]:
    """Deltas as models send them: a few words each."""
    for event in events:
        if not isinstance(event, PartDelta) or not event.text:
            yield event
            continue
        for at in range(0, len(event.text), 28):
            yield PartDelta(event.index, event.text[at : at + 28])


def call(id: str, tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(id, tool, json.dumps(arguments))
