"""Streams with the habits of real servers: what each client's SDK reads from their translation.

A file is named after its protocol and its server. The words are ours; the shapes are what the servers send:
obfuscation, filters ahead of the reply, comments, padding, CRLF, calls that share an index, arguments that
come at the end, usage in every chunk. A `.bin` is an AWS event stream, whose payloads are padded. At a cloud
the wire is the vendor's, with the cloud's own ids and counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.codec import frame_object
from dragoman.core.model import Wire
from dragoman.framing import sse
from dragoman.framing.aws_events import AWS_CHUNKS, AWS_EVENTS
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.protocols import codec
from sdks.readers import read
from seeds.wires import gather_interactions, rows
from spoken import AT_CLOUDS, SPOKEN

HERE = Path(__file__).parent
WEATHER, TIME = ("get_weather", {"city": "Paris"}), ("get_time", {})
THOUGHT, SAID = "They want weather.", "Let me look."
# recording: (text, thoughts, calls, (input tokens, output tokens))
SAYS: dict[str, tuple[str, str, list[Any], tuple[int, int]]] = {
    "openai-chat.openai.sse": ("", "", [WEATHER, TIME], (81, 34)),
    "openai-chat.azure.sse": ("Sunny.", "", [], (0, 0)),
    "openai-chat.deepseek.sse": (SAID, THOUGHT, [WEATHER], (210, 60)),
    "openai-chat.openrouter.sse": ("", THOUGHT, [WEATHER], (400, 80)),
    "openai-chat.ollama.sse": ("", "", [WEATHER, TIME], (0, 0)),
    "openai-responses.openai.sse": ("", THOUGHT, [WEATHER], (58, 87)),
    "openai-responses.lmstudio.sse": ("", "", [WEATHER], (70, 20)),
    "openai-responses.llamacpp.sse": (SAID, "", [WEATHER], (273, 32)),
    "anthropic.anthropic.sse": (SAID, THOUGHT, [WEATHER], (712, 96)),
    "gemini.google.sse": (SAID, THOUGHT, [WEATHER], (60, 60)),
    "gemini.array.json": (SAID, THOUGHT, [WEATHER], (60, 60)),
    "gemini-interactions.google.sse": (SAID, THOUGHT, [WEATHER], (60, 60)),
    "gemini-interactions.search.sse": ("Zürich: rain.", "", [], (1195, 788)),
    "bedrock-converse.claude.bin": (SAID, THOUGHT, [WEATHER], (431, 60)),
    "bedrock-invoke.claude.bin": (SAID, THOUGHT, [WEATHER], (712, 96)),
    "vertex-claude.anthropic.sse": (SAID, THOUGHT, [WEATHER], (712, 96)),
    "vertex-gemini.google.sse": (SAID, THOUGHT, [WEATHER], (60, 60)),
    "azure-openai.azure.sse": ("", "", [WEATHER, TIME], (81, 34)),
    "azure-responses.azure.sse": ("", THOUGHT, [WEATHER], (58, 87)),
}


def wire_of(name: str) -> str:
    protocol = name.split(".")[0]
    return AT_CLOUDS.get(protocol, protocol)


def translated(client: str, name: str, size: int) -> bytes:
    """The recording for this client, fed in pieces of `size` bytes."""
    data = (HERE / name).read_bytes()
    stream = dragoman.Exchange(client, name.split(".")[0], reply_created=1).stream()
    out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size)) + stream.close()
    assert stream.failure is None
    return out


CASES = [(client, name) for name in SAYS for client in SPOKEN if client != wire_of(name)]


@rows("client, name", CASES)
def test_what_the_sdk_of_the_client_reads(client: str, name: str) -> None:
    text, thoughts, calls, _ = SAYS[name]
    seen = read(client, translated(client, name, 1 << 20), streamed=True)
    assert seen == (text, thoughts, calls, SPOKEN[client].called if calls else SPOKEN[client].ended)


@rows("client, name", CASES)
def test_where_the_network_cuts_does_not_matter(client: str, name: str) -> None:
    assert translated(client, name, 7) == translated(client, name, 1 << 20)


@pytest.mark.parametrize("name", SAYS)
def test_usage(name: str) -> None:
    """As Chat and Responses tell it, whichever of them the recording is not."""
    client = "openai-responses" if wire_of(name) == "openai-chat" else "openai-chat"
    request, reply = (
        ("input_tokens", "output_tokens")
        if client == "openai-responses"
        else ("prompt_tokens", "completion_tokens")
    )
    out = translated(client, name, 1 << 20).decode()
    input, output = SAYS[name][3]
    if not input:
        assert f'"{request}":0' in out or request not in out
        return
    assert f'"{request}":{input}' in out
    assert f'"{reply}":{output}' in out


# These two leave numbers out that SDKs rely on
SAID_ANEW = ["openai-responses.lmstudio.sse", "openai-responses.llamacpp.sse"]


# Claude's signatures at Vertex are not valid at Anthropic: its clients get them sealed
SEALED = "vertex-claude.anthropic.sse"


@pytest.mark.parametrize(
    "name", [name for name in SAYS if name.endswith(".sse") and name not in (*SAID_ANEW, SEALED)]
)
def test_within_its_protocol_a_recording_passes_byte_for_byte(name: str) -> None:
    assert translated(wire_of(name), name, 13) == (HERE / name).read_bytes()


@pytest.mark.parametrize("name", SAID_ANEW)
@pytest.mark.parametrize("size", [13, 1 << 20])
def test_within_its_protocol_a_stream_without_numbers_gets_them(name: str, size: int) -> None:
    text, thoughts, calls, _ = SAYS[name]
    protocol = name.split(".")[0]
    out = translated(protocol, name, size)
    assert read(protocol, out, streamed=True) == (text, thoughts, calls, SPOKEN[protocol].called)
    grammar = codec(protocol).grammar()
    assert [passed for frame in sse.Decoder().feed(out) for passed in grammar.feed(frame)]


# The whole reply that a recorded stream stands for, put together without our codecs


def whole_of(name: str) -> Wire:
    data, protocol = (HERE / name).read_bytes(), wire_of(name)
    if protocol == "bedrock-converse":
        return whole_converse(
            [(frame.event, frame_object(frame)) for frame in AWS_EVENTS.decoder().feed(data)]
        )
    framings = {".json": JSON_ARRAY, ".bin": AWS_CHUNKS}
    decoder = framings.get(Path(name).suffix, sse.SSE).decoder()
    frames = [frame.data for frame in [*decoder.feed(data), *decoder.close()]]
    events = [jsontext.decode(frame) for frame in frames if frame != b"[DONE]"]
    return {
        "openai-chat": whole_chat,
        "openai-responses": lambda events: events[-1]["response"],
        "anthropic": whole_anthropic,
        "gemini": whole_gemini,
        "gemini-interactions": gather_interactions,
    }[protocol](events)


def whole_chat(events: list[Wire]) -> Wire:
    message: Wire = {"role": "assistant", "content": None}
    calls: dict[Any, Wire] = {}
    choice: Wire = {"index": 0, "message": message, "finish_reason": None}
    body: Wire = {"choices": [choice]}
    for event in events:
        body |= {key: value for key, value in event.items() if key not in ("choices", "object") and value}
        for answer in event.get("choices") or ():
            choice["finish_reason"] = answer.get("finish_reason") or choice["finish_reason"]
            for key, value in (answer.get("delta") or {}).items():
                if key == "tool_calls":
                    for piece in value:
                        merge_call(calls, piece)
                elif key == "reasoning_details":
                    message.setdefault(key, []).extend(value)
                elif isinstance(value, str) and key != "role":
                    message[key] = (message.get(key) or "") + value
    return {**body, "object": "chat.completion"} | (
        {"choices": [{**choice, "message": {**message, "tool_calls": [*calls.values()]}}]} if calls else {}
    )


def merge_call(calls: dict[Any, Wire], piece: Wire) -> None:
    """Calls that share an index are distinguished by their ids."""
    key = (piece.get("index"), piece["id"]) if piece.get("id") else [*calls][-1]
    call = calls.setdefault(
        key, {"id": key[1], "type": "function", "function": {"name": "", "arguments": ""}}
    )
    function = piece.get("function") or {}
    call["function"]["name"] = function.get("name") or call["function"]["name"]
    call["function"]["arguments"] += function.get("arguments") or ""


def whole_anthropic(events: list[Wire]) -> Wire:
    body: Wire = {}
    for event in events:
        match event["type"]:
            case "message_start":
                body = event["message"]
            case "content_block_start":
                body["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = body["content"][event["index"]], event["delta"]
                field = {"input_json_delta": "json"}.get(delta["type"], delta["type"].removesuffix("_delta"))
                block[field] = block.get(field, "") + delta[field if field != "json" else "partial_json"]
            case "content_block_stop":
                block = body["content"][event["index"]]
                if "json" in block:
                    block["input"] = jsontext.decode(block.pop("json") or "{}")
            case "message_delta":
                body |= event["delta"]
                body["usage"] |= event["usage"]
            case _:
                pass
    return body


def whole_gemini(events: list[Wire]) -> Wire:
    parts: list[Wire] = []
    for event in events:
        for candidate in event.get("candidates") or ():
            parts += (candidate.get("content") or {}).get("parts") or ()
    *_, last = events
    candidate = {**last["candidates"][0], "content": {"role": "model", "parts": parts}}
    return {**last, "candidates": [candidate]}


def whole_converse(events: list[tuple[str, Wire]]) -> Wire:
    blocks: dict[int, Wire] = {}
    body: Wire = {}
    for name, event in events:
        if name == "contentBlockStart":
            blocks[event["contentBlockIndex"]] = {"toolUse": {**event["start"]["toolUse"], "input": ""}}
        elif name == "contentBlockDelta":
            ((kind, delta),) = event["delta"].items()
            block = blocks.setdefault(
                event["contentBlockIndex"], {kind: {"reasoningText": {}} if kind != "text" else ""}
            )
            match kind:
                case "text":
                    block["text"] += delta
                case "toolUse":
                    block["toolUse"]["input"] += delta["input"]
                case _:
                    for field, text in delta.items():
                        thought = block["reasoningContent"]["reasoningText"]
                        thought[field] = thought.get(field, "") + text
        elif name in ("messageStop", "metadata"):
            body |= event
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = jsontext.decode(block["toolUse"]["input"])
    return {**body, "output": {"message": {"role": "assistant", "content": [*blocks.values()]}}}


@rows("client, name", CASES)
def test_whole_equals_streamed(client: str, name: str) -> None:
    exchange = dragoman.Exchange(client, name.split(".")[0])
    whole = read(client, jsontext.encode(exchange.response(whole_of(name))), streamed=False)
    assert whole == read(client, translated(client, name, 1 << 20), streamed=True)


def test_every_recording_is_listed() -> None:
    assert {path.name for path in HERE.iterdir() if path.suffix in (".sse", ".json", ".bin")} == SAYS.keys()
