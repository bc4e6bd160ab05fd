"""Conversations as JSON: our own form is exact and versioned; every protocol's wire is one too."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman import (
    AssistantMessage,
    ConfigError,
    SystemMessage,
    ToolMessage,
    UserMessage,
    WireError,
    dump_messages,
    load_messages,
    protocols,
    run,
    tool,
)
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Message,
    Plain,
    Reasoning,
    Refusal,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
)

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1.10}'}}


@tool
def get_weather(city: str) -> str:
    return f"72 in {city}"


MESSAGES: dict[str, Any] = {
    "system": SystemMessage("Be brief."),
    "user": UserMessage("Hi\u2028there 🙂"),
    "empty": UserMessage(""),
    "image": UserMessage("Look", images=[PNG, "https://example.com/a.png"]),
    "files": UserMessage(
        parts=[
            Media("document", "application/pdf", FileId("f1", "anthropic"), "a.pdf"),
            Media("document", "text/plain", Plain("text"), detail="low", cache="1h"),
            Media("audio", "audio/wav", Base64("AAAA"), extras={"gemini": {"videoMetadata": {"fps": 1}}}),
            Media("video", "", Url("https://example.com/v")),
        ]
    ),
    "assistant": AssistantMessage("Let me see.", [CALL]),
    "everything": AssistantMessage(
        parts=[
            Reasoning("thought", state=State("me", "c2ln", "rs_1")),
            Reasoning(hidden=True, state=State("me", "enc")),
            Text("See", (Citation("https://example.com", "t", "c", 0, 3),), cache="5m"),
            Refusal("no"),
            Foreign("anthropic", {"type": "x", "n": jsontext.Number("1.10"), "deep": [None, {}]}, "said"),
            ToolCall("c", "f", '{"x": 1.10}', "custom", "ns", extras={"openai-chat": {"k": 1}}),
        ]
    ),
    "result": ToolMessage(CALL, "72", image_data=[PNG]),
    "failed": ToolMessage(CALL, ValueError("no")),
    "nothing": ToolMessage(CALL, ""),
    "a custom tool": ToolMessage.from_result(ToolResult("c1", "f", (Text("1"),), kind="custom")),
    "developer": SystemMessage("Be brief.", role="developer"),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_loaded_as_it_was(message: Any):
    (loaded,) = load_messages(dump_messages([message]))
    assert loaded == message
    assert type(loaded) is type(message)
    assert dump_messages([loaded]) == dump_messages([message])


def test_neutral_messages_are_split():
    mixed = Message("user", (ToolResult("c1", "f", (Text("1"),)), Text("and")))
    loaded = load_messages(dump_messages([mixed, Message("developer", (Text("Be brief."),))]))
    assert [type(message) for message in loaded] == [ToolMessage, UserMessage, SystemMessage]
    assert [message.role for message in loaded] == ["user", "user", "developer"]


def test_a_run_is_loaded_and_goes_on_with_its_state():
    done = run([SystemMessage("Be brief."), UserMessage("Weather in NYC")], "demo:demo", [get_weather])
    text = dump_messages(done.messages)
    loaded = load_messages(text.encode())
    assert loaded == done.messages
    assert done.results[0].parts[0].state is not None
    more = run([*loaded, UserMessage("And the weather in Rome?")], "demo:demo", [get_weather])
    assert more.content == "get_weather returned: 72 in Rome"


@pytest.mark.parametrize("protocol", protocols())
def test_a_run_as_the_wire_of_a_protocol(protocol: str):
    done = run([SystemMessage("Be brief."), UserMessage("Weather in NYC")], "demo:demo", [get_weather])
    losses = Losses()
    loaded = load_messages(dump_messages(done.messages, protocol, losses=losses), protocol)
    kinds = ["SystemMessage", "UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage"]
    assert [type(message).__name__ for message in loaded][:5] == kinds
    assert len(losses) > 0, "the state of another provider is withheld and reported"
    assert dump_messages(load_messages(dump_messages(loaded))) == dump_messages(loaded)


def test_a_protocol_s_cache_marks_survive():
    body = {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
            },
        ],
    }
    text = dump_messages(load_messages(jsontext.dumps(body), "anthropic"), "anthropic")
    assert text.count('"cache_control"') == 2


HEAD = '{"format":"dragoman.messages","version":1,"messages":'
BROKEN: dict[str, tuple[str, type[Exception], str]] = {
    "no JSON": ("{", WireError, "invalid JSON"),
    "a list": ("[]", WireError, "object"),
    "another format": ('{"messages":[]}', WireError, "format"),
    "a later version": (
        HEAD.replace("1", "2") + "[]}",
        ConfigError,
        "version 2. This dragoman reads up to 1",
    ),
    "no parts": (HEAD + '[{"role":"user"}]}', WireError, r"messages\[0\]"),
    "a role": (HEAD + '[{"role":"robot","parts":[]}]}', WireError, r"messages\[0\].role.*'robot'"),
    "a part": (HEAD + '[{"role":"user","parts":[{"type":"x"}]}]}', WireError, r"parts\[0\].type"),
    "a field": (HEAD + '[{"role":"user","parts":[{"type":"text","text":1}]}]}', WireError, "Expected `str`"),
    "no field": (HEAD + '[{"role":"user","parts":[{"type":"media"}]}]}', WireError, "kind"),
}


@pytest.mark.parametrize(("text", "error", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_a_conversation(text: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        load_messages(text)


def test_later_fields_are_ignored():
    text = HEAD + '[{"role":"user","name":"x","parts":[{"type":"text","text":"Hi","new":1}]}],"model":"a:b"}'
    assert load_messages(text) == [UserMessage("Hi")]
