"""Spliced texts: with and without `TextSplice` a stream becomes the same bytes, losses and end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.exchange import Exchange
from dragoman.pipeline import TranslatedStream

RECORDINGS = Path(__file__).parent.parent / "recordings"
PAIRS = {"openai-chat": "anthropic", "anthropic": "openai-chat"}
RECORDED = {path.name: path for path in sorted(RECORDINGS.glob("*.sse")) if path.name.split(".")[0] in PAIRS}
TEXTS = [
    "a",
    "b c",
    "é",
    "\n",
    'say "x"',
    "\\",
    "\\n",
    "\u2028",
    "\x85",
    "😀",
    "\x00",
    "/",
    "",
    '"}\n\ndata: {',
    "\t",
]


def outcome(upstream: str, pieces: list[bytes], splices: bool) -> tuple[object, ...]:
    exchange = Exchange(PAIRS[upstream], upstream, reply_created=1)
    stream = exchange.stream()
    assert isinstance(stream, TranslatedStream)
    assert stream._splice
    if not splices:
        stream._splice = None
    out = b"".join([*map(stream.feed, pieces), stream.close()])
    return out, exchange.losses, exchange.usage, exchange.calls, stream.ended, stream.failure


def cuttings(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [event + b"\n\n" for event in data.split(b"\n\n")]
    for size in (1, 7, 100, 1000):
        yield [data[start : start + size] for start in range(0, len(data), size)]
    ends = [at for at in range(1, len(data)) if data[at - 1 : at + 1] == b"\n\n"]  # inside the blank line
    yield [data[start:end] for start, end in pairwise([0, *ends, len(data)])]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_is_the_same_with_and_without(name: str) -> None:
    upstream, data = name.split(".")[0], RECORDED[name].read_bytes()
    for pieces in cuttings(data):
        assert outcome(upstream, pieces, True) == outcome(upstream, pieces, False)


def chat(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more}


def anthropic(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def text_event(upstream: str, text: str) -> dict[str, Any]:
    if upstream == "openai-chat":
        return chat({"content": text})
    return anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


CALL = [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]
OTHERS: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        chat({"reasoning_content": "a"}),
        chat({"tool_calls": CALL}),
        chat({"content": "a"}, usage={"prompt_tokens": 1, "completion_tokens": 2}),
        chat({"content": "a"}, x=1),
        chat({"content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]}),
        chat({"refusal": "a"}),
        chat({}),
        {"error": {"message": "broken"}},
        {**chat({}), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**chat({}), "choices": [{"index": 1, "delta": {"content": "a"}, "finish_reason": None}]},
    ],
    "anthropic": [
        anthropic("ping"),
        anthropic("content_block_stop", index=0),
        anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        anthropic("content_block_start", index=1, content_block={"type": "thinking", "thinking": ""}),
        anthropic("content_block_delta", index=1, delta={"type": "text_delta", "text": "a"}),
        anthropic("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
        anthropic("message_stop"),
        anthropic("error", error={"type": "overloaded_error", "message": "m"}),
    ],
}
BEGIN: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [chat({"role": "assistant", "content": "Hi"}), chat({"content": " there"})],
    "anthropic": [
        anthropic("message_start", message={"id": "m", "model": "m", "usage": {"input_tokens": 1}}),
        anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        text_event("anthropic", "Hi"),
        text_event("anthropic", " there"),
    ],
}


def printed(event: dict[str, Any], style: int) -> bytes:
    """As servers print: compact in UTF-8, compact in ASCII, or with spaces; with the name of the event."""
    compact = None if style == 2 else (",", ":")
    text = json.dumps(event, ensure_ascii=style == 1, separators=compact).encode()
    name = f"event: {event['type']}\n".encode() if "type" in event else b""
    return name + b"data: " + text + b"\n\n"


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    upstream = draw(st.sampled_from(sorted(PAIRS)))
    texts = st.sampled_from(TEXTS).map(lambda text: text_event(upstream, text))
    others = st.sampled_from(OTHERS[upstream])
    events = draw(st.lists(st.one_of(texts, texts, texts, others), max_size=25))
    style = draw(st.integers(0, 2))
    data = b"".join(printed(event, style) for event in [*BEGIN[upstream], *events])
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    pieces = [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]
    whole = [event + b"\n\n" for event in data.split(b"\n\n") if event]
    return upstream, draw(st.sampled_from([pieces, whole]))


@given(streams())
def test_any_stream_is_the_same_with_and_without(case: tuple[str, list[bytes]]) -> None:
    upstream, pieces = case
    assert outcome(upstream, pieces, True) == outcome(upstream, pieces, False)


@pytest.mark.parametrize("upstream", PAIRS)
def test_texts_are_spliced(upstream: str) -> None:
    """Of many texts, few are translated."""
    exchange = Exchange(PAIRS[upstream], upstream)
    stream = exchange.stream()
    assert isinstance(stream, TranslatedStream)
    assert stream._splice
    translated = list[bytes]()
    translate = stream._translate
    stream._splice._translate = lambda data: (translated.append(data), translate(data))[1]
    for event in BEGIN[upstream]:
        stream.feed(printed(event, 0))
    before = len(translated)
    out = stream.feed(b"".join(printed(text_event(upstream, f"w{number}"), 0) for number in range(50)))
    assert out.count(b"w49") == 1
    assert len(translated) - before < 3
