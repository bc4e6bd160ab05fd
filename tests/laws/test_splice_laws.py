"""Spliced deltas: with and without `DeltaSplice` a stream becomes the same bytes, losses and end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolDeclaration
from dragoman.exchange import Exchange
from dragoman.pipeline import TranslatedStream
from dragoman.protocols import protocol

RECORDINGS = Path(__file__).parent.parent / "recordings"
NAMES = ("openai-chat", "anthropic", "openai-responses", "gemini")
RECORDED = {path.name: path for path in sorted(RECORDINGS.glob("*.sse"))}
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
    "<",
    "tool_call>",
    "`",
    "\ud83d",
    "\ude00",
    "assistant",
]
PARAMETERS = {
    "any": {"type": "object"},
    "typed": {"type": "object", "properties": {"n": {"type": "integer"}}},  # calls are held until they end
}


class Pair(NamedTuple):
    client: str
    upstream: str
    dialect: str | None = None
    recover: bool = False
    tool: str = ""


PAIRS = [Pair(client, upstream) for client in NAMES for upstream in NAMES if client != upstream]
SPECIAL = [
    *[pair._replace(tool=tool) for pair in PAIRS for tool in PARAMETERS],
    *[Pair("anthropic", name, "hermes") for name in NAMES],
    *[Pair("openai-responses", name, recover=True, tool="any") for name in NAMES],
    Pair("openai-chat", "openai-chat", "hermes", tool="typed"),
]


def outcome(pair: Pair, pieces: list[bytes], splices: bool) -> tuple[object, ...]:
    exchange = Exchange(pair.client, pair.upstream, pair.dialect, recover=pair.recover, reply_created=1)
    if pair.tool:
        tool = ToolDeclaration("f", "", PARAMETERS[pair.tool])
        request = Request("m", (Message("user", (Text("hi"),)),), tools=(tool,), stream=True)
        exchange.request(protocol(pair.client).codec.encode_request(request, Losses()))
    stream = exchange.stream()
    assert isinstance(stream, TranslatedStream)
    assert stream.splice
    if not splices:
        stream.splice = None
    out = b"".join([*map(stream.feed, pieces), stream.close()])
    losses = sorted(exchange.losses, key=str)  # their order depends on how the bytes were cut
    return out, losses, exchange.usage, exchange.calls, stream.ended, stream.failure


def cuttings(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [event + b"\n\n" for event in data.split(b"\n\n")]
    for size in (7, 100, 1000):
        yield [data[start : start + size] for start in range(0, len(data), size)]
    ends = [at for at in range(1, len(data)) if data[at - 1 : at + 1] == b"\n\n"]  # inside the blank line
    yield [data[start:end] for start, end in pairwise([0, *ends, len(data)])]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_is_the_same_with_and_without(name: str) -> None:
    upstream, data = name.split(".")[0], RECORDED[name].read_bytes()
    for pair in (*PAIRS, *SPECIAL):
        if pair.upstream == upstream:
            for pieces in cuttings(data):
                assert outcome(pair, pieces, True) == outcome(pair, pieces, False)


# Streams that nobody recorded: deltas of each kind in any order, and what may stand between them


def chat(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more}


def chat_call(index: int, **more: Any) -> dict[str, Any]:
    return chat({"tool_calls": [{"index": index, **more}]})


def anthropic(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def block(index: int, **delta: Any) -> dict[str, Any]:
    return anthropic("content_block_delta", index=index, delta=delta)


def opened(index: int, **content: Any) -> dict[str, Any]:
    return anthropic("content_block_start", index=index, content_block=content)


def response(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


def candidate(*parts: Any, **more: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **more}], "responseId": "r"}


def counted(chunk: dict[str, Any], tokens: int) -> dict[str, Any]:
    return {**chunk, "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": tokens}}


def deltas(upstream: str, text: str, number: int) -> list[dict[str, Any]]:
    """Events that continue a text, a thought or a call."""
    place = {"output_index": 0, "content_index": 0}
    match upstream:
        case "openai-chat":
            return [
                chat({"content": text}),
                chat({"content": text}, obfuscation="x" * (number % 5)),
                chat({"content": text, "role": "assistant", "reasoning_content": None}),
                chat({"reasoning_content": text}),
                chat_call(0, function={"arguments": text}),
                chat_call(1, id=None, function={"name": None, "arguments": text}),
            ]
        case "anthropic":
            return [
                block(0, type="text_delta", text=text),
                block(1, type="input_json_delta", partial_json=text),
                block(2, type="thinking_delta", thinking=text),
            ]
        case "openai-responses":
            return [
                response("output_text.delta", sequence_number=number, **place, delta=text),
                response("output_text.delta", **place, delta=text, sequence_number=number, obfuscation="x"),
                response("function_call_arguments.delta", output_index=1, delta=text),
                response("reasoning_summary_text.delta", output_index=2, summary_index=0, delta=text),
            ]
        case _:
            return [
                candidate({"text": text}),
                counted(candidate({"text": text}), number),
                counted(candidate({"text": text, "thought": True}), number),
            ]


FUNCTION = {"id": "fc", "type": "function_call", "call_id": "t", "name": "f"}
CALL = {"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}
OTHERS: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        chat({"tool_calls": [CALL]}),
        chat_call(0, id="t", function={"name": "f", "arguments": '{"n": "'}),
        chat_call(1, id="u", function={"name": "f", "arguments": "{"}),
        chat({"content": "a"}, usage={"prompt_tokens": 1, "completion_tokens": 2}),
        chat({"content": "a"}, x=1),
        chat({"content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]}),
        chat({"content": "a", "audio": {"data": "AA"}}),
        chat({"refusal": "a"}),
        chat({}),
        {"error": {"message": "broken"}},
        {**chat({}), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**chat({}), "choices": [{"index": 1, "delta": {"content": "a"}, "finish_reason": None}]},
    ],
    "anthropic": [
        anthropic("ping"),
        anthropic("content_block_stop", index=0),
        anthropic("content_block_stop", index=1),
        opened(0, type="text", text=""),
        opened(1, type="tool_use", id="t", name="f", input={}),
        opened(2, type="thinking", thinking=""),
        block(2, type="signature_delta", signature="s"),
        anthropic("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
        anthropic("message_stop"),
        anthropic("error", error={"type": "overloaded_error", "message": "m"}),
    ],
    "openai-responses": [
        response("in_progress"),
        response("output_item.added", output_index=1, item={**FUNCTION, "arguments": ""}),
        response("output_item.done", output_index=1, item={**FUNCTION, "arguments": "{}"}),
        response("output_text.done", output_index=0, content_index=0, text="Hi there"),
        response("output_text.delta", output_index=0, content_index=1, delta="other"),
        response("reasoning_summary_text.delta", output_index=2, summary_index=1, delta="new"),
        response("completed", response={"usage": {"input_tokens": 1, "output_tokens": 2}}),
        response("failed", response={"error": {"message": "m"}}),
    ],
    "gemini": [
        counted(candidate({"functionCall": {"name": "f", "args": {"n": 1}}}), 3),
        candidate({"text": "a"}, {"text": "b"}),
        candidate({"text": "a", "thoughtSignature": "c2ln"}),
        candidate({"text": "a"}, finishReason="STOP"),
        {"usageMetadata": {"promptTokenCount": 7}},
        {"error": {"code": 500, "message": "m"}},
    ],
}
BEGIN: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [chat({"role": "assistant", "content": "Hi"}), chat({"content": " there"})],
    "anthropic": [
        anthropic("message_start", message={"id": "m", "model": "m", "usage": {"input_tokens": 1}}),
        opened(0, type="text", text=""),
        block(0, type="text_delta", text="Hi"),
        block(0, type="text_delta", text=" there"),
    ],
    "openai-responses": [
        response("created", response={"id": "r", "model": "m"}, sequence_number=0),
        response("output_item.added", output_index=0, item={"id": "m", "type": "message", "content": []}),
        *[deltas("openai-responses", text, number)[0] for number, text in enumerate(("Hi", " there"), 2)],
    ],
    "gemini": [deltas("gemini", text, number)[1] for number, text in enumerate(("Hi", " there"), 8)],
}


def printed(event: dict[str, Any], style: int) -> bytes:
    """As servers print: compact in UTF-8, compact in ASCII, with spaces or with CRLF; with its name."""
    compact = None if style == 2 else (",", ":")
    text = json.dumps(event, ensure_ascii=style in (1, 2), separators=compact)
    name = f"event: {event['type']}\n" if "type" in event else ""
    lines = f"{name}data: {text}\n\n".encode("utf-8", "surrogatepass")
    return lines.replace(b"\n", b"\r\n") if style == 3 else lines


@st.composite
def streams(draw: st.DrawFn) -> tuple[Pair, list[bytes]]:
    pair = draw(st.sampled_from([*PAIRS, *SPECIAL]))
    upstream, events = pair.upstream, list[dict[str, Any]]()
    kinds = len(deltas(upstream, "", 0))
    for _ in range(draw(st.integers(1, 6))):  # runs of one kind of delta, or one other event
        run = draw(st.lists(st.sampled_from(TEXTS), max_size=6))
        kind = draw(st.integers(0, kinds - 1))
        events += [deltas(upstream, text, len(events) + n)[kind] for n, text in enumerate(run)]
        events += draw(st.lists(st.sampled_from(OTHERS[upstream]), max_size=2))
    style = draw(st.integers(0, 3))
    begin = BEGIN[upstream][: draw(st.sampled_from([1, len(BEGIN[upstream])]))]
    whole = [printed(event, style) for event in [*begin, *events]]
    data = b"".join(whole)
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    pieces = [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]
    return pair, draw(st.sampled_from([pieces, whole]))


@given(streams())
def test_any_stream_is_the_same_with_and_without(case: tuple[Pair, list[bytes]]) -> None:
    pair, pieces = case
    assert outcome(pair, pieces, True) == outcome(pair, pieces, False)


def words(upstream: str, *texts: str) -> list[dict[str, Any]]:
    return [deltas(upstream, text, number)[0] for number, text in enumerate(texts)]


HERMES = Pair("anthropic", "openai-chat", "hermes")
CALL_TEXT = ("<tool_call>", '{"name": "f", "arguments": {}}', "</tool_call>")
HOSTILE: dict[str, tuple[Pair, list[dict[str, Any]]]] = {
    "a call as text": (HERMES, words("openai-chat", "a ", "b ", "c ", *CALL_TEXT, "d", "e", "f")),
    "a call in code": (HERMES, words("openai-chat", "a ", "b ", "`", "c", *CALL_TEXT, "`", "d", "e")),
    "a call after a line": (HERMES, words("openai-chat", "a", "b", "\n", "c", "\n\n", "d", *CALL_TEXT)),
    "a character in two halves": (
        Pair("openai-responses", "openai-chat"),
        words("openai-chat", "a", "b", "\ud83d", "\ude00", "c"),
    ),
    "the text stands elsewhere too": (
        Pair("anthropic", "openai-chat"),
        [{"x": text, **chat({"content": "é"})} for text in ("é", "é", "b", "c")],
    ),
    "a field that looks like the text": (
        Pair("anthropic", "openai-chat"),
        [chat({"content": "é"}, x={"content": text}) for text in ("a", "b", "é", "c", "d")],
    ),
    "interleaved sections of a thought": (
        Pair("openai-chat", "openai-responses"),
        [
            response("output_item.done", output_index=0, item={"id": "m", "type": "message", "content": []}),
            *[
                response("reasoning_summary_text.delta", output_index=2, summary_index=section, delta="word")
                for section in (0, 0, 0, 1, 0, 0, 1, 1, 1, 0)
            ],
        ],
    ),
    "interleaved calls": (
        Pair("anthropic", "openai-chat", tool="typed"),
        [
            chat_call(0, id="t", function={"name": "f", "arguments": '{"n": "'}),
            chat_call(1, id="u", function={"name": "f", "arguments": '{"n": "'}),
            *[chat_call(n % 2, function={"arguments": str(n)}) for n in range(12)],
            *[chat_call(0, function={"arguments": text}) for text in ("a", "b", "c", '"}')],
            *[chat_call(1, function={"arguments": text}) for text in ("a", "b", "c", '"}')],
        ],
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_stream_is_the_same_with_and_without(name: str) -> None:
    pair, events = HOSTILE[name]
    for style in (0, 1, 2):
        pieces = [printed(event, style) for event in (*BEGIN[pair.upstream], *events)]
        assert outcome(pair, pieces, True) == outcome(pair, pieces, False)


SIGNED_FIRST = [
    BEGIN["anthropic"][0],
    opened(0, type="thinking", thinking="", signature=""),
    block(0, type="signature_delta", signature="s"),
    *[block(0, type="thinking_delta", thinking=text) for text in ("They", " want", " it", ".")],
]


@pytest.mark.parametrize("client", [name for name in NAMES if name != "anthropic"])
def test_the_first_chunk_of_a_stream_is_no_frame(client: str) -> None:
    """Chat names the role there, and only there."""
    whole = [printed(event, 0) for event in SIGNED_FIRST]
    for pieces in (whole, [b"".join(whole)]):
        pair = Pair(client, "anthropic")
        assert outcome(pair, pieces, True) == outcome(pair, pieces, False)


def translated_events(pair: Pair, events: list[dict[str, Any]]) -> tuple[int, bytes]:
    """How many of these events were translated and not spliced, behind a beginning, and what came out."""
    stream = Exchange(pair.client, pair.upstream, pair.dialect).stream()
    assert isinstance(stream, TranslatedStream)
    assert stream.splice
    for event in BEGIN[pair.upstream]:
        stream.feed(printed(event, 0))
    translated = list[bytes]()
    translate = stream.translate
    stream.splice._translate = lambda data: (translated.append(data), translate(data))[1]
    out = stream.feed(b"".join(printed(event, 0) for event in events))
    return len(translated), out


@pytest.mark.parametrize("pair", [*PAIRS, Pair("openai-chat", "openai-chat", "hermes")], ids=str)
def test_texts_are_spliced(pair: Pair) -> None:
    """Of many texts, few are translated."""
    kind = 1 if pair.upstream in ("openai-responses", "gemini") else 0
    events = [deltas(pair.upstream, f"w{number}", number)[kind] for number in range(50)]
    translated, out = translated_events(pair, events)
    assert out.count(b"w49") == 1
    assert translated < 3
