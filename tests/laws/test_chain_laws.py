"""Two gateways in a row: state of the upstream behind the far one comes back through both, turn after turn.

Every chain of protocols, three turns with calls, whole and streamed, with and without origins. The upstream
gets back exactly what it signed, and each call with the id that it gave.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.seal import MAGIC
from dragoman.framing.sse import Encoder
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.protocols import codec
from goldens.echo import next_request
from goldens.pieces import MODELS
from goldens.scenarios import SCENARIOS
from seeds.wires import gathered

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "gemini")
SIGNED = {"openai-responses": "ZW5jcnlwdGVk", "anthropic": "U0lHTkFUVVJF", "gemini": "R0VNSU5J"}
Wire = dict[str, Any]


def signed_reply(protocol: str, turn: int) -> Wire:
    """A thought with its signature, and a call."""
    signature, id = f"{SIGNED[protocol]}{turn}{turn}{turn}{turn}", f"call{turn}"
    match protocol:
        case "openai-responses":
            thought = {"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": signature}
            call = {
                "type": "function_call",
                "id": f"fc_{turn}",
                "call_id": id,
                "name": "get_weather",
                "arguments": "{}",
            }
            return {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": "m",
                "status": "completed",
                "output": [thought, call],
            }
        case "anthropic":
            thinking = {"type": "thinking", "thinking": f"thought {turn}", "signature": signature}
            use = {"type": "tool_use", "id": f"toolu_{id}", "name": "get_weather", "input": {}}
            usage = {"input_tokens": 1, "output_tokens": 1}
            return {
                "id": "r",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [thinking, use],
                "stop_reason": "tool_use",
                "usage": usage,
            }
        case _:
            part = {
                "functionCall": {"id": id, "name": "get_weather", "args": {}},
                "thoughtSignature": signature,
            }
            return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


class Hop:
    """One gateway, with its memory."""

    def __init__(self, client: str, upstream: str, origin: str, streamed: bool) -> None:
        self.client, self.upstream, self.origin, self.streamed = client, upstream, origin, streamed
        self.memory = ConversationMemory()

    def ask(self, body: Wire) -> Wire:
        self.exchange = dragoman.Exchange(
            self.client, self.upstream, origin=self.origin, memory=self.memory, reply_created=1
        )
        return jsontext.decode(
            self.exchange.request_bytes(jsontext.encode(body), model=MODELS[self.upstream])
        )

    def answer(self, data: bytes) -> bytes:
        if not self.streamed:
            return self.exchange.response_bytes(data)
        stream = self.exchange.stream()
        return stream.feed(data) + stream.close()


def as_stream(protocol: str, reply: Wire) -> bytes:
    upstream = codec(protocol)
    encoder, framing = upstream.stream_encoder(Losses()), Encoder()
    events = unfold(upstream.decode_response(reply, Losses()))
    return b"".join(
        [piece for event in events for frame in encoder.feed(event) for piece in framing.feed(frame)]
    )


CHAINS = [(a, b, c) for a in PROTOCOLS for b in PROTOCOLS for c in SIGNED]


@pytest.mark.parametrize("client, between, upstream", CHAINS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("origins", [("", ""), ("near", "far"), ("same", "same")], ids=str)
def test_the_upstream_gets_back_what_it_signed(
    client: str, between: str, upstream: str, streamed: bool, origins: tuple[str, str]
) -> None:
    near, far = Hop(client, between, origins[0], streamed), Hop(between, upstream, origins[1], streamed)
    body = SCENARIOS["reasoning"].requests[client]
    for turn in range(1, 4):
        sent = jsontext.dumps(far.ask(near.ask(body)))
        assert MAGIC not in sent
        for earlier in range(1, turn):
            assert sent.count(f'"{SIGNED[upstream]}{earlier}{earlier}{earlier}{earlier}"') == 1, sent
            assert f"call{earlier}" in sent
        reply = signed_reply(upstream, turn)
        data = as_stream(upstream, reply) if streamed else jsontext.encode(reply)
        data = near.answer(far.answer(data))
        body = next_request(client, body, gathered(client, data) if streamed else jsontext.decode(data))
