"""A transport that answers with given replies, in any protocol, and keeps what was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from dragoman import Provider
from dragoman.client import Model
from dragoman.core import jsontext
from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Response, Stop, StopReason, Text, ToolCall, Usage
from dragoman.http.client import Timeouts
from dragoman.protocols import protocol as find_protocol


class ScriptedReply:
    def __init__(self, pieces: list[bytes]) -> None:
        self.status, self.headers, self._pieces = 200, dict[str, str](), pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def read(self, limit: int) -> bytes:
        return b"".join(self._pieces)

    def close(self) -> None:
        pass


class Script:
    """Each reply is a text, a call, parts, or a Response. The last one is repeated."""

    def __init__(self, protocol: str, *replies: str | ToolCall | list[AnyPart] | Response) -> None:
        self._protocol, self._replies = find_protocol(protocol), list(replies)
        self.sent: list[dict[str, Any]] = []
        base_url = "http://x/v1" if protocol.startswith("openai") else "http://x"
        self.provider = Provider("scripted", protocol=protocol, base_url=base_url, transport=self)

    def model(self, name: str = "m") -> Model:
        return self.provider.model(name)

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> ScriptedReply:
        sent = jsontext.decode(body)
        self.sent.append(sent)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        response = as_response(reply)
        codec, framing = self._protocol.codec, self._protocol.framing
        if not (sent.get("stream") or "stream" in url):
            return ScriptedReply([jsontext.encode(codec.encode_response(response, Losses()))])
        encoder, printer = codec.stream_encoder(Losses()), framing.encoder()
        frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
        frames += encoder.close()
        return ScriptedReply([piece for frame in frames for piece in printer.feed(frame)])


def as_response(reply: str | ToolCall | list[AnyPart] | Response, stop: StopReason = "end") -> Response:
    match reply:
        case Response():
            return reply
        case str():
            parts: list[AnyPart] = [Text(reply)]
        case ToolCall():
            parts = [reply]
        case _:
            parts = reply
    called = any(isinstance(part, ToolCall) for part in parts)
    return Response("r", "m", tuple(parts), Stop("tool_calls" if called else stop), Usage(10, 5))
