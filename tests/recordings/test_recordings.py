"""Streams with the habits of real servers: what each client's SDK reads from their translation.

A file is named after its protocol and its server. The words are ours; the shapes are what the servers send:
obfuscation, filters ahead of the reply, comments, padding, CRLF, calls that share an index, arguments that
come at the end, usage in every chunk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.framing import sse
from dragoman.protocols import codec
from sdks.readers import read
from seeds.wires import PROTOCOLS, rows

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
}
CALLED = {
    "openai-chat": "tool_calls",
    "openai-responses": "completed",
    "anthropic": "tool_use",
    "gemini": "STOP",
}
ENDED = {**CALLED, "openai-chat": "stop", "anthropic": "end_turn"}


def translated(client: str, name: str, size: int) -> bytes:
    """The recording for this client, fed in pieces of `size` bytes."""
    data = (HERE / name).read_bytes()
    stream = dragoman.Exchange(client, name.split(".")[0]).stream()
    out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size)) + stream.close()
    assert stream.failure is None
    return out


CASES = [(client, name) for name in SAYS for client in PROTOCOLS if client != name.split(".")[0]]


@rows("client, name", CASES)
def test_what_the_sdk_of_the_client_reads(client: str, name: str) -> None:
    text, thoughts, calls, _ = SAYS[name]
    seen = read(client, translated(client, name, 1 << 20), streamed=True)
    assert seen == (text, thoughts, calls, (CALLED if calls else ENDED)[client])


@rows("client, name", CASES)
def test_where_the_network_cuts_does_not_matter(client: str, name: str) -> None:
    assert translated(client, name, 7) == translated(client, name, 1 << 20)


@pytest.mark.parametrize("name", SAYS)
def test_usage(name: str) -> None:
    """As Chat and Responses tell it, whichever of them the recording is not."""
    client = "openai-responses" if name.startswith("openai-chat") else "openai-chat"
    asked, said = (
        ("input_tokens", "output_tokens")
        if client == "openai-responses"
        else ("prompt_tokens", "completion_tokens")
    )
    out = translated(client, name, 1 << 20).decode()
    input, output = SAYS[name][3]
    if not input:
        assert f'"{asked}":0' in out or asked not in out
        return
    assert f'"{asked}":{input}' in out
    assert f'"{said}":{output}' in out


# These two leave numbers out that SDKs rely on
SAID_ANEW = ["openai-responses.lmstudio.sse", "openai-responses.llamacpp.sse"]


@pytest.mark.parametrize("name", [name for name in SAYS if name.endswith(".sse") and name not in SAID_ANEW])
def test_within_its_protocol_a_recording_passes_byte_for_byte(name: str) -> None:
    assert translated(name.split(".")[0], name, 13) == (HERE / name).read_bytes()


@pytest.mark.parametrize("name", SAID_ANEW)
@pytest.mark.parametrize("size", [13, 1 << 20])
def test_within_its_protocol_a_stream_without_numbers_gets_them(name: str, size: int) -> None:
    text, thoughts, calls, _ = SAYS[name]
    protocol = name.split(".")[0]
    out = translated(protocol, name, size)
    assert read(protocol, out, streamed=True) == (text, thoughts, calls, CALLED[protocol])
    grammar = codec(protocol).grammar()
    assert [passed for frame in sse.Decoder().feed(out) for passed in grammar.feed(frame)]


def test_every_recording_is_listed() -> None:
    assert {path.name for path in HERE.iterdir() if path.suffix in (".sse", ".json")} == SAYS.keys()
