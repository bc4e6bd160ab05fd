"""Messages as they are written, and the neutral ones they stand for."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from dragoman import (
    AssistantMessage,
    ConfigError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    WireError,
    get_arguments,
    media,
    tool,
)
from dragoman.client import export
from dragoman.client.media import image
from dragoman.client.messages import messages_of, neutral
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, Media, Message, Text, ToolResult, Url

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
OTHER = base64.b64encode(b"what is this?").decode()
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

IMAGES: dict[str, tuple[Any, Media]] = {
    "a data URL": (f"data:image/png;base64,{PNG}", Media("image", "image/png", Base64(PNG))),
    "raw base64": (PNG, Media("image", "image/png", Base64(PNG))),
    "raw base64 in lines": (f"{PNG[:9]}\n{PNG[9:]}\n", Media("image", "image/png", Base64(PNG))),
    "unknown bytes": (OTHER, Media("image", "image/jpeg", Base64(OTHER))),
    "a type that the bytes do not show": (
        f"data:image/avif;base64,{OTHER}",
        Media("image", "image/avif", Base64(OTHER)),
    ),
    "bytes": (base64.b64decode(PNG), Media("image", "image/png", Base64(PNG))),
    "a URL": ("https://a.b/c.webp?d", Media("image", "image/webp", Url("https://a.b/c.webp?d"))),
}


@pytest.mark.parametrize(("value", "expected"), IMAGES.values(), ids=IMAGES)
def test_images(value: Any, expected: Media):
    assert image(value) == expected


def test_files(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 ")
    (tmp_path / "b.png").write_bytes(base64.b64decode(PNG))
    message = UserMessage("Look", images=[tmp_path / "b.png"], files=[tmp_path / "a.pdf"])
    text, png, pdf = message.parts
    assert text == Text("Look")
    assert isinstance(png, Media)
    assert isinstance(pdf, Media)
    assert (png.kind, png.media_type, png.name) == ("image", "image/png", "b.png")
    assert (pdf.kind, pdf.media_type, pdf.name) == ("document", "application/pdf", "a.pdf")


FILES: dict[str, tuple[Any, str, str]] = {
    "an image": (base64.b64decode(PNG), "image", "image/png"),
    "a PDF": (b"%PDF-1.7 ", "document", "application/pdf"),
    "text": ("ünï".encode(), "document", "text/plain"),
    "MP3": (b"ID3\x04" + bytes(9), "audio", "audio/mpeg"),
    "MP3 without tags": (b"\xff\xfb\x90" + bytes(9), "audio", "audio/mpeg"),
    "WAV": (b"RIFF\x24\0\0\0WAVEfmt ", "audio", "audio/wav"),
    "Ogg": (b"OggS\x80" + bytes(9), "audio", "audio/ogg"),
    "M4A": (b"\0\0\0\x1cftypM4A \x80", "audio", "audio/mp4"),
    "MP4": (b"\0\0\0\x1cftypisom\x80", "video", "video/mp4"),
    "anything": (b"\x80\x81", "document", "application/octet-stream"),
    "a URL": ("https://example.com/a.mp3", "audio", "audio/mpeg"),
    "a data URL": ("data:audio/wav;base64,UklGRiQAAABXQVZF", "audio", "audio/wav"),
}


@pytest.mark.parametrize(("value", "kind", "media_type"), FILES.values(), ids=FILES)
def test_media_of_any_kind(value: Any, kind: str, media_type: str):
    made = media(value)
    assert (made.kind, made.media_type) == (kind, media_type)


def test_text_and_media_in_a_row(tmp_path: Path):
    (tmp_path / "b.png").write_bytes(base64.b64decode(PNG))
    message = UserMessage(["Compare", tmp_path / "b.png", "with", media("https://a.b/c.png")])
    kinds = [type(part).__name__ for part in message.parts]
    assert kinds == ["Text", "Media", "Text", "Media"]
    assert message.content == "Comparewith"


def test_losses_name_the_part():
    losses = Losses()
    export([UserMessage("Listen", files=[b"ID3\x04"])], "anthropic", losses=losses)
    assert "messages[0].parts[1]" in {loss.where for loss in losses}


@pytest.mark.parametrize("value", ["screenshot.png", "data:image/png,plain"])
def test_what_is_no_image(value: str):
    with pytest.raises(ConfigError, match="base64"):
        image(value)


@tool
def double(x: int) -> int:
    return 2 * x


async def wait(args: dict[str, Any]) -> str:
    return f"waited {args['x']}"


def fail(args: dict[str, Any]) -> str:
    raise KeyError("oh")


OUTPUTS: dict[str, tuple[Any, str, bool]] = {
    "a string": ("72°F", "72°F", False),
    "a function": (lambda args: args["x"] + 1, "2", False),
    "an async function": (wait, "waited 1", False),
    "a tool": (double, "2", False),
    "a value": ({"a": [1]}, '{"a":[1]}', False),
    "an exception": (OSError("gone"), "OSError: gone", True),
    "a function that fails": (fail, "KeyError: 'oh'", True),
}


@pytest.mark.parametrize(("output", "text", "failed"), OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("call", [CALL, ToolCall("c1", "f", '{"x": 1}')], ids=["dict", "ToolCall"])
def test_tool_messages(call: Any, output: Any, text: str, failed: bool):
    message = ToolMessage(call, output)
    assert message.parts == (ToolResult("c1", "f", (Text(text),), failed),)


def test_broken_arguments_are_a_failed_result():
    message = ToolMessage({"id": "c1", "function": {"name": "f", "arguments": "{"}}, double)
    assert message.failed
    assert "arguments" in message.content


def test_a_tool_message_answers_something():
    with pytest.raises(ConfigError, match="tool_call_id"):
        ToolMessage(content="72°F")


ARGUMENTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (CALL, {"x": 1}),
    "an object": ({"function": {"name": "f", "arguments": {"x": 1}}}, {"x": 1}),
    "nothing": ({"function": {"name": "f", "arguments": ""}}, {}),
    "none": ({"function": {"name": "f"}}, {}),
    "a ToolCall": (ToolCall("1", "f", '{"x": 1}'), {"x": 1}),
    "Anthropic's": ({"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}, {"x": 1}),
    "Gemini's": ({"name": "f", "args": {"x": 1}}, {"x": 1}),
    "Responses'": ({"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"x": 1}'}, {"x": 1}),
    "alone": ('{"x": 1}', {"x": 1}),
}


@pytest.mark.parametrize(("call", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(call: Any, expected: dict[str, Any]):
    assert get_arguments(call) == expected


@pytest.mark.parametrize("text", ["{", "[1]", "null"])
def test_arguments_that_are_no_object(text: str):
    with pytest.raises(WireError, match="arguments"):
        get_arguments(text)


def test_an_assistant_message_is_written_by_hand():
    message = AssistantMessage("Let me see.", [CALL])
    assert message.parts == (Text("Let me see."), ToolCall("c1", "f", '{"x": 1}'))
    assert message.tool_calls == [CALL]
    assert AssistantMessage(parts=[ToolCall("c", "f", "{", complete=False)]).parts == ()


def test_dicts_are_read_as_openai_writes_them():
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    system, messages = neutral(messages_of(conversation))
    assert system == (Text("Be brief."),)
    assert messages == (
        Message("user", (Text("Hi"),)),
        Message("assistant", (ToolCall("c1", "f", '{"x": 1}'),)),
        Message("user", (ToolResult("c1", "", (Text("2"),)),)),
    )
    with pytest.raises(ConfigError, match="role"):
        messages_of([{"role": "robot", "content": "beep"}])


def test_results_in_a_row_share_a_message_and_system_text_stands_where_it_was():
    one, two = ToolMessage(CALL, "1"), ToolMessage({**CALL, "id": "c2"}, "2")
    system, messages = neutral([SystemMessage("a"), SystemMessage("b"), one, two, SystemMessage("c")])
    assert [text.text for text in system] == ["a", "b"]
    assert messages == (Message("user", (*one.parts, *two.parts)), Message("system", (Text("c"),)))


WRONG: dict[str, Any] = {
    "texts": ["Hello"],
    "a number": 5,
    "nothing": None,
    "bytes": b"Hello",
    "a text among messages": [UserMessage("x"), "y"],
}


@pytest.mark.parametrize("conversation", WRONG.values(), ids=WRONG)
def test_what_is_no_conversation(conversation: Any):
    with pytest.raises(ConfigError, match="A conversation is"):
        messages_of(conversation)


def test_one_dict_is_one_message():
    assert messages_of({"role": "user", "content": "Hi"}) == [UserMessage("Hi")]
