"""A session that falls back in its middle, between providers that refuse state which they did not make.

The vendors answer 400 to a signature or to encrypted reasoning of another account, in every later turn.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.model import Reasoning, Response, State, Stop, ToolCall, Usage
from dragoman.core.seal import MAGIC
from dragoman.framing import sse
from dragoman.protocols import codec
from gateway.canned import Answer, Canned
from gateway.plain import send
from gateway.running import running
from gateway.stands import HASTY, gateway
from laws.test_exchange_laws import folded, response_wire, stream_wire
from laws.test_issuer_laws import WHOLE
from spoken import addressed, echoed

PROTOCOLS = ("anthropic", "openai-responses", "gemini")  # those with opaque state
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    },
    "openai-responses": {
        "input": [{"role": "user", "content": "go"}],
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
        "include": ["reasoning.encrypted_content"],
        "store": False,
    },
    "anthropic": {
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
    },
}


class Issuer(Canned):
    """A server that signs its replies, and refuses requests with anybody else's signature."""

    def __init__(self, name: str, protocol: str) -> None:
        super().__init__(Answer(503))
        self.name, self._protocol = name, protocol
        self.signatures: list[str] = []
        self.strangers: list[Issuer] = []
        self.is_down = False
        self.refusals: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._answer(scope, body.decode()).send(send)

    def _answer(self, scope: dict[str, Any], body: str) -> Answer:
        if self.is_down:
            return Answer(503, b'{"error": {"message": "down"}}')
        foreign = [each for stranger in self.strangers for each in stranger.signatures if each in body]
        if foreign or MAGIC in body:
            self.refusals.append(f"{self.name}: {foreign or 'a seal'}")
            return Answer(400, b'{"error": {"message": "Invalid signature in thinking block"}}')
        mine = [each for each in self.signatures if each in body]
        self.requests.append(mine)  # pyright: ignore[reportArgumentType] - which of its signatures came back
        response = self._signed()
        if '"stream":true' in body or "streamGenerateContent" in scope["path"]:
            return Answer(200, *stream_wire(self._protocol, response), content_type="text/event-stream")
        return Answer(200, jsontext.encode(response_wire(self._protocol, response)))

    def _signed(self) -> Response:
        number = len(self.signatures) + 1
        signature = base64.b64encode(f"signature {number} of {self.name}".encode()).decode()
        self.signatures.append(signature)
        state = State(self._protocol, signature, f"rs_{self.name}{number}")
        call = ToolCall(f"call_{self.name}{number}", "f", "{}")
        if self._protocol == "gemini":
            parts = Reasoning("hm"), replace(call, state=replace(state, id=""))
        else:
            parts = Reasoning("hm", state=state), call
        return Response(f"r_{self.name}{number}", "m", parts, Stop("tool_calls"), Usage(1, 1))


class Agent:
    """Sends everything that it got, as it got it, and the results of its calls."""

    def __init__(self, client: str, url: str, streamed: bool) -> None:
        self._client, self._url, self._streamed = client, url, streamed
        self._body: dict[str, Any] = jsontext.decode(jsontext.encode(REQUESTS[client]))

    def turn(self) -> str:
        client = self._client
        path, body = addressed(client, self._body, stream=self._streamed)
        got = send(self._url, "POST", path, jsontext.encode(body))
        assert got.status == 200, got.body
        reply = jsontext.decode(jsontext.encode(whole(client, got.body))) if self._streamed else got.json
        results = dragoman.build_tool_results(dragoman.parse_tool_calls(reply, client), ["ok"], client)
        self._body[codec(client).turns] += [*echoed(client, reply), *results]
        return got.headers.get("x-dragoman-losses", "")


def whole(client: str, stream: bytes) -> dict[str, Any]:
    """What a client puts together from a stream, with opaque fields as they are."""
    if client not in WHOLE:
        return folded(client, stream)
    events = [jsontext.decode(frame.data) for frame in sse.Decoder().feed(stream) if frame.data != b"[DONE]"]
    return WHOLE[client](events)


def provider(name: str, protocol: str, url: str) -> str:
    version = "/v1" if protocol.startswith("openai") else ""
    address = f'base_url = "{url}{version}"\napi_key = "key-of-{name}"\n'
    return f'[providers.{name}]\nprotocol = "{protocol}"\n{address}'


@contextmanager
def issuers(protocol: str) -> Iterator[tuple[Issuer, Issuer, str]]:
    """Two providers of one protocol, and a configuration in which the second one is the fallback."""
    first, second = Issuer("first", protocol), Issuer("second", protocol)
    first.strangers, second.strangers = [second], [first]
    with running(first) as one, running(second) as other:
        rows = provider("first", protocol, one) + provider("second", protocol, other)
        yield first, second, f'{rows}[models]\nm = ["first:m", "second:m"]\n'


def session(agent: Agent, first: Issuer, second: Issuer) -> None:
    """Two turns with the first provider, two with the second one while the first is down, and back again."""
    agent.turn()
    agent.turn()
    assert first.requests[-1] == first.signatures[:1]
    first.is_down = True
    assert "reasoning.signature.dropped" in agent.turn()
    agent.turn()
    assert second.requests[-1] == second.signatures[:1]
    first.is_down = False
    agent.turn()
    assert first.requests[-1] == first.signatures[:2]
    assert first.refusals + second.refusals == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", REQUESTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fallback_in_the_middle_of_a_session(protocol: str, client: str, streamed: bool) -> None:
    pace = replace(HASTY, tries=1)
    with issuers(protocol) as (first, second, text), gateway(text, pace) as stand:
        session(Agent(client, stand.url, streamed), first, second)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fallback_behind_two_gateways(protocol: str, streamed: bool) -> None:
    pace = replace(HASTY, tries=1)
    with issuers(protocol) as (first, second, text), ExitStack() as stack:
        inner = stack.enter_context(gateway(text, pace))
        outer = stack.enter_context(gateway(provider("inner", protocol, inner.url), pace))
        agent = Agent(protocol, outer.url, streamed)
        agent.turn()
        agent.turn()
        assert first.requests[-1] == first.signatures[:1]
        first.is_down = True
        agent.turn()
        agent.turn()
        assert second.requests[-1] == second.signatures[:1]
        first.is_down = False
        agent.turn()
        assert first.requests[-1] == first.signatures[:2]
        assert first.refusals + second.refusals == []
