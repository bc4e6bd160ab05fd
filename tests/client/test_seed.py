"""Every snippet of seed 002, in Python, against the scripted model over each protocol and a dialect."""

from __future__ import annotations

import base64
from hashlib import blake2s

import pytest

from client.upstreams import UPSTREAMS, model_named
from dragoman import (
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    generate,
    get_arguments,
    stream,
)
from dragoman.client import Model, ToolCallDelta, ToolCallEnd, ToolCallStart

weather_tool = Tool(
    name="get_weather",
    description="Get the current weather for a city",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "City name"}},
        "required": ["city"],
    },
)
screenshot_tool = Tool(name="take_screenshot", description="Take a screenshot")
tools = [weather_tool]
PROMPT = "What's the weather in NYC?"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode()


def fake_weather(args: dict[str, str]) -> str:
    data = {"NYC": "72°F, sunny", "SF": "58°F, foggy"}
    return data.get(args["city"], "Unknown city")


def test_the_model_calls_a_tool(model: Model):
    r = generate(PROMPT, model, tools=tools)
    (call,) = r.tool_calls
    assert r.finish_reason == "tool_calls"
    assert call == {
        "id": call["id"],
        "type": "function",
        "function": {"name": "get_weather", "arguments": call["function"]["arguments"]},
    }
    assert call["id"]
    assert isinstance(call["function"]["arguments"], str)
    assert get_arguments(call) == {"city": "NYC"}
    assert r.content == "I will use get_weather."
    assert r.reasoning == "I need get_weather."
    assert r.usage.input > 0 < r.usage.output
    assert isinstance(r.raw, dict)


def test_arguments_that_are_already_parsed():
    assert get_arguments({"id": "1", "function": {"name": "f", "arguments": {"city": "NYC"}}}) == {
        "city": "NYC"
    }


WAYS = {
    "keywords": lambda call: ToolMessage(content="72°F, sunny", tool_call_id=call["id"], name="get_weather"),
    "a call and a string": lambda call: ToolMessage(call, "72°F, sunny"),
    "a call and a function": lambda call: ToolMessage(call, fake_weather),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_multi_turn_conversation(model: Model, way):
    r1 = generate(PROMPT, model, tools=tools)
    conversation = [UserMessage(content=PROMPT), r1, way(r1.tool_calls[0])]
    r2 = generate(conversation, model, tools=tools)
    assert r2.content == "get_weather returned: 72°F, sunny"
    assert r2.finish_reason == "stop"
    assert r2.tool_calls == []
    r3 = generate([*conversation, r2, UserMessage("Thanks a lot")], model, tools=tools)
    assert r3.content == "You said: Thanks a lot"


def test_parallel_calls(model: Model):
    r1 = generate("Weather in NYC and SF?", model, tools=tools)
    assert [get_arguments(call)["city"] for call in r1.tool_calls] == ["NYC", "SF"]
    assert len({call["id"] for call in r1.tool_calls}) == 2
    tool_msgs = [ToolMessage(tc, fake_weather) for tc in r1.tool_calls]
    conversation = [UserMessage(content="Weather in NYC and SF?"), r1, *tool_msgs]
    r2 = generate(conversation, model, tools=tools)
    assert r2.content == "get_weather returned: 72°F, sunny\nget_weather returned: 58°F, foggy"


def seen(data: str, media_type: str) -> str:
    return f"[image {media_type} {blake2s(data.encode(), digest_size=8).hexdigest()}]"


IMAGES = {
    "with a text": (f"data:image/png;base64,{PNG}", "Screenshot captured", seen(PNG, "image/png")),
    "alone": (f"data:image/png;base64,{PNG}", "", seen(PNG, "image/png")),
    "raw base64": (PNG, "", seen(PNG, "image/png")),
    "raw base64, a jpeg": (JPEG, "", seen(JPEG, "image/jpeg")),
    "the wrong type": (f"data:image/jpeg;base64,{PNG}", "", seen(PNG, "image/png")),
}


@pytest.mark.parametrize(("image", "text", "shown"), IMAGES.values(), ids=IMAGES)
def test_images_in_results(model: Model, image: str, text: str, shown: str):
    prompt = "Take a screenshot"
    r1 = generate(prompt, model, tools=[screenshot_tool])
    (tc,) = r1.tool_calls
    results = [
        ToolMessage(tc, text, image_data=[image]),
        ToolMessage(content=text, tool_call_id=tc["id"], name="take_screenshot", image_data=[image]),
    ]
    for result in results:
        r2 = generate([UserMessage(prompt), r1, result], model, tools=[screenshot_tool])
        assert shown in r2.content
        assert text in r2.content


def test_streaming(model: Model):
    with stream(PROMPT, model, tools=tools) as s:
        events = list(s)
    r = s.result
    (call,) = r.tool_calls
    assert get_arguments(call) == {"city": "NYC"}
    (start,) = [event for event in events if isinstance(event, ToolCallStart)]
    assert (start.id, start.name) == (call["id"], "get_weather")
    pieces = [event.text for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(pieces) == call["function"]["arguments"]
    assert [event.call for event in events if isinstance(event, ToolCallEnd)] == [call]


def test_streaming_to_a_callback(model: Model):
    shown = []
    r = generate("Tell me a story", model, tools=tools, on_event=shown.append)
    assert "".join(event.text for event in shown if type(event).__name__ == "TextDelta") == r.content
    assert r.content == "You said: Tell me a story"


def test_streamed_is_whole(model: Model):
    whole = generate(PROMPT, model, tools=tools)
    with stream(PROMPT, model, tools=tools) as s:
        assert list(s)
    streamed = s.result
    for name in ("content", "tool_calls", "reasoning", "finish_reason", "refusal"):
        assert getattr(streamed, name) == getattr(whole, name), name


def test_the_same_tool_everywhere(address: str):
    for upstream in UPSTREAMS:
        r = generate("What's the weather in Rome?", model_named(address, upstream), tools=tools)
        assert [get_arguments(call) for call in r.tool_calls] == [{"city": "Rome"}], upstream


def test_system_message(model: Model):
    r = generate([SystemMessage("Be brief."), UserMessage("Good evening")], model)
    assert r.content == "You said: Good evening"


@pytest.mark.parametrize("first", UPSTREAMS)
@pytest.mark.parametrize("second", UPSTREAMS)
@pytest.mark.parametrize("third", UPSTREAMS[:4])
def test_a_conversation_moves_between_providers(address: str, first: str, second: str, third: str):
    """It keeps its meaning: each model sees the calls, the results and the texts of the others."""
    prompt = "Weather in NYC and SF?"
    r1 = generate(prompt, model_named(address, first), tools=tools)
    conversation = [UserMessage(prompt), r1, *[ToolMessage(call, fake_weather) for call in r1.tool_calls]]
    r2 = generate(conversation, model_named(address, second), tools=tools)
    assert r2.content == "get_weather returned: 72°F, sunny\nget_weather returned: 58°F, foggy"
    conversation += [r2, UserMessage("What's the weather in Rome?")]
    r3 = generate(conversation, model_named(address, third), tools=tools)
    assert [get_arguments(call) for call in r3.tool_calls] == [{"city": "Rome"}]
    ids = [call["id"] for reply in (r1, r3) for call in reply.tool_calls]
    assert len(set(ids)) == 3
    conversation += [r3, ToolMessage(r3.tool_calls[0], "rain")]
    r4 = generate(conversation, model_named(address, first), tools=tools)
    assert r4.content == "get_weather returned: rain"
