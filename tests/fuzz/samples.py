"""Good input of every kind, to be spoiled: the goldens in and out, the recordings, the scripted model."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Response
from dragoman.framing import sse
from dragoman.protocols import names, upstream
from goldens.scenarios import SCENARIOS
from protocols.gemini_interactions import wires
from spoken import AT_CLOUDS

TESTS = Path(__file__).parent.parent
STEPS = "gemini-interactions"
CONVERSE = "bedrock-converse"  # its streams are binary
KEPT = "qwen-chat"  # Chat, from a server that keeps the conversation
NAMES = {"chat_id": "c1", "parent_id": "p1", "response_id": "r1"}


@cache
def requests(protocol: str) -> list[Any]:
    """Requests of clients of this protocol, and requests to its upstreams."""
    bodies = [scenario.requests[protocol] for scenario in SCENARIOS.values() if protocol in scenario.requests]
    if protocol == STEPS:
        bodies += wires.REQUESTS
    return bodies + _golden(protocol, "request", "request again")


@cache
def replies(protocol: str) -> list[Any]:
    protocol = AT_CLOUDS.get(protocol, protocol)
    if protocol == KEPT:
        named = [{**reply, **NAMES} for reply in replies("openai-chat")]
        return [*named, {"success": True, "data": named[0]}]
    if protocol == CONVERSE:
        return [upstream(CONVERSE).encode_response(response, Losses()) for response in _responses()]
    bodies = [scenario.replies[protocol] for scenario in SCENARIOS.values() if protocol in scenario.replies]
    if protocol == STEPS:
        bodies += wires.REPLIES
    return bodies + _golden(protocol, "reply")


def _responses() -> list[Response]:
    """What the replies of Claude in the scenarios say."""
    claude = upstream("anthropic")
    return [claude.decode_response(reply, Losses()) for reply in replies("anthropic") if "content" in reply]


@cache
def streams(protocol: str) -> list[bytes]:
    protocol = AT_CLOUDS.get(protocol, protocol)
    if protocol == KEPT:
        created = b"data: %b\n\n" % json.dumps({"response.created": NAMES}).encode()
        return [created + stream for stream in streams("openai-chat")]
    raw = [scenario.streams[protocol] for scenario in SCENARIOS.values() if protocol in scenario.streams]
    return raw + [path.read_bytes() for path in sorted((TESTS / "recordings").glob(f"{protocol}.*"))]


@cache
def frames(protocol: str) -> list[list[tuple[str, Any]]]:
    """Streams as events: their names and their values, the end of a Chat stream as the text it is."""
    if protocol == CONVERSE:
        return [_converse_frames(response) for response in _responses()]
    read: list[list[tuple[str, Any]]] = [*wires.STREAMS] if protocol == STEPS else []
    for stream in streams(protocol):
        decoder = sse.Decoder()
        decoded = [*decoder.feed(stream), *decoder.close()]
        read.append([(frame.event, _value(frame.data)) for frame in decoded])
    return [stream for stream in read if stream]


def _converse_frames(response: Response) -> list[tuple[str, Any]]:
    encoder = upstream(CONVERSE).stream_encoder(Losses())
    frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
    return [(frame.event, frame.data) for frame in frames]


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def _golden(protocol: str, *kinds: str) -> list[Any]:
    """What our own translations into this protocol look like."""
    found: list[Any] = []
    for path in sorted((TESTS / "goldens").glob("*.json")):
        for pair, golden in json.loads(path.read_text()).items():
            client, _, upstream = pair.partition(" -> ")
            for kind in kinds:
                body = golden.get(kind)
                if isinstance(body, dict) and protocol == (client if kind == "reply" else upstream):
                    found.append(body)
    return found


def donors(protocol: str) -> list[Any]:
    """Values whose pieces fit somewhere: the protocol's own, and one of each other's."""
    others = [requests(name)[-1] for name in names() if name != protocol]
    return (requests(protocol) if protocol in names() else []) + replies(protocol) + others
