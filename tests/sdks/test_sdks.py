"""The official SDKs as referees: whatever the upstream, a client's SDK reads the same from what we emit."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Reasoning, Refusal, Response, State, Stop, Text, ToolCall, Usage
from dragoman.framing import sse
from dragoman.protocols import codec
from sdks.readers import Seen, read
from seeds.wires import EVERY_PAIR, rows

CHAT, RESPONSES, ANTHROPIC, GEMINI, INTERACTIONS = dragoman.protocols()
SPELLED = 'Zürich → 東京 🌍 "quoted" back\\slash\n\ttab \u2028\u2029\x85\x0b\x0c\x1c <b>&amp;</b> \x7f'
USAGE = Usage(40, 9, 30, 0, 2)


def response(*parts: Any, stop: Any = "end") -> Response:
    return Response("id-1", "some-model", parts, Stop(stop), USAGE, 1700000000)


def call(id: str, name: str, arguments: Any = None) -> ToolCall:
    return ToolCall(id, name, "" if arguments is None else jsontext.dumps(arguments))


def signed(upstream: str) -> State | None:
    """State as the upstream makes it; Chat makes none."""
    return (
        None
        if upstream == CHAT
        else State(upstream, "c2lnbmF0dXJl+/==", "rs_1" if upstream == RESPONSES else "")
    )


CASES: dict[str, Any] = {
    "text": lambda upstream: response(Text("Hello there.")),
    "one call": lambda upstream: response(call("call_1", "f", {"a": 1}), stop="tool_calls"),
    "parallel calls": lambda upstream: response(
        Text("Look:"),
        call("call_1", "f", {"city": "Paris", "n": [1, 2.5, None]}),
        call("call_2", "f", {"city": "Oslo"}),
        stop="tool_calls",
    ),
    "reasoning with state": lambda upstream: response(
        Reasoning("First this, then that.", state=signed(upstream)),
        Text("So."),
        call("call_1", "f", {"a": 1}),
        stop="tool_calls",
    ),
    "refusal": lambda upstream: response(Refusal("I cannot help."), stop="refusal"),
    "truncated": lambda upstream: response(Text("Let me"), stop="length"),
    "truncated inside a call": lambda upstream: response(
        Text("Let me"), ToolCall("call_1", "f", '{"city":"Pa', complete=False), stop="length"
    ),
    "spelled with care": lambda upstream: response(
        Text(SPELLED), call("call_1", "f", {"text": SPELLED, "\u00e9": "\u2029"}), stop="tool_calls"
    ),
    "no arguments": lambda upstream: response(
        call("call_1", "f"), call("call_2", "g", {}), stop="tool_calls"
    ),
    "nothing at all": lambda upstream: response(),
}
STOPS: dict[str, dict[str, str]] = {
    CHAT: {"end": "stop", "tool_calls": "tool_calls", "length": "length"},
    RESPONSES: {"end": "completed", "tool_calls": "completed", "length": "max_output_tokens"},
    ANTHROPIC: {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
    GEMINI: {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"},
    INTERACTIONS: {"end": "completed", "tool_calls": "requires_action", "length": "incomplete"},
}
# The text of a refusal survives everywhere; whether it differs from an answer depends on both wires
REFUSED = {
    CHAT: ("stop", "content_filter"),
    RESPONSES: ("completed", "content_filter"),
    ANTHROPIC: ("refusal",),
    GEMINI: ("SAFETY",),
    INTERACTIONS: ("completed", "incomplete"),
}


def expected(given: Response) -> tuple[str, str, list[tuple[str, Any]]]:
    text = "".join(part.text for part in given.parts if isinstance(part, Text | Refusal))
    thoughts = "".join(part.text for part in given.parts if isinstance(part, Reasoning))
    calls = [
        (part.name, json.loads(part.arguments or "{}"))
        for part in given.parts
        if isinstance(part, ToolCall) and part.complete
    ]
    return text, thoughts, calls


def wire(upstream: str, given: Response, streamed: bool) -> bytes:
    """`given` as the upstream says it."""
    if not streamed:
        return jsontext.encode(codec(upstream).encode_response(given, Losses()))
    encoder, printer = codec(upstream).stream_encoder(Losses()), sse.Encoder()
    frames = [frame for event in unfold(given) for frame in encoder.feed(event)]
    return b"".join(piece for frame in frames for piece in printer.feed(frame))


@rows("client, upstream, case", EVERY_PAIR, CASES)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_sdk_of_the_client_reads_the_reply_of_the_upstream(
    client: str, upstream: str, case: str, streamed: bool
) -> None:
    given = CASES[case](upstream)
    exchange = dragoman.Exchange(client, upstream)
    data = wire(upstream, given, streamed)
    if streamed:
        stream = exchange.stream()
        out = b"".join(stream.feed(data[i : i + 97]) for i in range(0, len(data), 97)) + stream.close()
    else:
        out = jsontext.encode(exchange.response(data))
    seen = read(client, out, streamed)
    if case == "truncated inside a call" and streamed:
        seen = without_cut_calls(client, seen)
    assert seen[:3] == expected(given)
    assert seen.stop in (REFUSED[client] if case == "refusal" else (STOPS[client][given.stop.reason],))


def without_cut_calls(client: str, seen: Seen) -> Seen:
    """A stream has announced the call before it was cut; its stop says that it must not run."""
    assert seen.stop == STOPS[client]["length"]
    return seen._replace(calls=[])
