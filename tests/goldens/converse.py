"""Replies of Converse, whole and streamed, as Bedrock writes them: a union in each block, events in binary
messages, counts of a cache beside the input."""

from __future__ import annotations

from typing import Any

from dragoman.core.codec import Frame
from dragoman.framing.aws_events import AWS_EVENTS
from goldens.interactions import FOUND, OSLO, PARIS, SIGNATURE, SPOKEN, THOUGHT
from seeds.wires import Wire, dumps

USAGE: Wire = {"inputTokens": 12, "outputTokens": 9, "totalTokens": 29, "cacheReadInputTokens": 8}
METRICS: Wire = {"latencyMs": 1}
NO = "I cannot help with that."


def reply(stop: str, *content: Wire) -> Wire:
    message = {"role": "assistant", "content": [*content]}
    return {"output": {"message": message}, "stopReason": stop, "usage": USAGE, "metrics": METRICS}


def tool_use(id: str, name: str, input: Any) -> Wire:
    return {"toolUse": {"toolUseId": id, "name": name, "input": input}}


def called(id: str, name: str, *fragments: str) -> tuple[Wire | None, list[Wire]]:
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return start, [{"toolUse": {"input": fragment}} for fragment in fragments]


def said(*pieces: str) -> tuple[Wire | None, list[Wire]]:
    return None, [{"text": piece} for piece in pieces]


def stream(stop: str, *blocks: tuple[Wire | None, list[Wire]]) -> bytes:
    """A text and a thought begin with their first delta."""
    events: list[tuple[str, Wire]] = [("messageStart", {"role": "assistant"})]
    for index, (start, deltas) in enumerate(blocks):
        place = {"contentBlockIndex": index}
        if start:
            events.append(("contentBlockStart", {**place, "start": start}))
        events += [("contentBlockDelta", {**place, "delta": delta}) for delta in deltas]
        events.append(("contentBlockStop", place))
    events += [("messageStop", {"stopReason": stop}), ("metadata", {"usage": USAGE, "metrics": METRICS})]
    encoder = AWS_EVENTS.encoder()
    return b"".join(piece for name, body in events for piece in encoder.feed(Frame(name, body)))


THINKING: Wire = {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}}
HIDDEN: Wire = {"reasoningContent": {"redactedContent": "aGlkZGVu"}}
CITED: Wire = {
    "title": "Oslo",
    "sourceContent": [{"text": "Rain in Oslo"}],
    "location": {"web": {"url": "https://a.test/oslo", "domain": "a.test"}},
}

REPLIES: dict[str, Wire] = {
    "text": reply("end_turn", {"text": "Hello there."}),
    "one_call": reply("tool_use", {"text": SPOKEN}, tool_use("tooluse_1", "get_weather", PARIS)),
    "parallel_calls": reply(
        "tool_use", tool_use("tooluse_1", "get_weather", PARIS), tool_use("tooluse_2", "get_weather", OSLO)
    ),
    "reasoning": reply("tool_use", THINKING, HIDDEN, tool_use("tooluse_1", "get_weather", PARIS)),
    "structured_output": reply("end_turn", {"text": '{"mood":"good"}'}),
    "hosted_tool": reply(
        "end_turn", {"citationsContent": {"content": [{"text": FOUND}], "citations": [CITED]}}
    ),
    "refusal": reply("content_filtered", {"text": NO}),
    "truncation": reply("max_tokens", {"text": SPOKEN}, tool_use("tooluse_1", "get_weather", {})),
}
STREAMS: dict[str, bytes] = {
    "text": stream("end_turn", said("Hello", " there.")),
    "one_call": stream("tool_use", said(SPOKEN), called("tooluse_1", "get_weather", '{"city":', '"Paris"}')),
    "parallel_calls": stream(
        "tool_use",
        called("tooluse_1", "get_weather", dumps(PARIS)),
        called("tooluse_2", "get_weather", dumps(OSLO)),
    ),
    "reasoning": stream(
        "tool_use",
        (
            None,
            [{"reasoningContent": {"text": THOUGHT}}, {"reasoningContent": {"signature": SIGNATURE}}],
        ),
        (None, [{"reasoningContent": {"redactedContent": "aGlkZGVu"}}]),
        called("tooluse_1", "get_weather", dumps(PARIS)),
    ),
    "hosted_tool": stream("end_turn", (None, [{"text": FOUND}, {"citation": CITED}])),
    "refusal": stream("content_filtered", said("I cannot", " help with that.")),
    "truncation": stream("max_tokens", said(SPOKEN), called("tooluse_1", "get_weather", '{"city":"Pa')),
}
