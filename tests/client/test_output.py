"""Typed output: how it is requested, validated, retried and streamed."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import pickle
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from client.scripted import Script, as_response
from dragoman import ConfigError, OutputError, Provider, agenerate, generate, protocols, run, stream, tool
from dragoman.client import Model, OutputDelta, TextDelta, astream
from dragoman.client.partial_json import PartialJson
from dragoman.core.model import Refusal, Text, ToolCall
from dragoman.demo import DemoTransport

CHAT = "openai-chat"


class City(pydantic.BaseModel):
    name: str
    inhabitants: int = pydantic.Field(default=1, ge=1)
    tags: list[str] = []


@dataclasses.dataclass
class Place:
    name: str
    country: str = "US"


class Point(msgspec.Struct):
    x: float
    y: float


class Movie(TypedDict):
    title: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    a: int
    b: str


OUTPUTS: dict[str, tuple[Any, str, Any]] = {
    "pydantic": (City, '{"name": "Rome", "inhabitants": 3}', City(name="Rome", inhabitants=3)),
    "a dataclass": (Place, '{"name": "Rome", "country": "IT"}', Place("Rome", "IT")),
    "msgspec": (Point, '{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
    "a TypedDict": (Movie, '{"title": "Heat"}', {"title": "Heat"}),
    "a list": (list[City], '{"value": [{"name": "Rome"}]}', [City(name="Rome")]),
    "a number": (int, '{"value": 7}', 7),
    "text": (str, '{"value": "seven"}', "seven"),
    "yes or no": (bool, '{"value": true}', True),
    "an enum": (Colour, '{"value": "red"}', Colour.RED),
    "a choice": (Literal["a", "b"], '{"value": "b"}', "b"),
    "a union": (City | int, '{"value": {"name": "Rome"}}', City(name="Rome")),
    "maybe": (int | None, '{"value": null}', None),
    "a NamedTuple": (Pair, '{"value": [1, "b"]}', Pair(1, "b")),
    "a schema": ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": 2}', {"n": 2}),
    "json": ("json", '{"anything": [1.5]}', {"anything": [1.5]}),
}


@pytest.mark.parametrize(("output", "text", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_types(output: Any, text: str, expected: Any):
    assert generate("?", Script(CHAT, text).model(), output=output).output == expected


@pytest.mark.parametrize("mode", ["native", "tool"])
@pytest.mark.parametrize("output", [City, Place, Point, Movie, list[City], Colour, int], ids=str)
def test_every_protocol_and_a_dialect(model: Model, output: Any, mode: Any):
    """The scripted model really answers by the schema that it gets."""
    reply = generate("Tell me about Rome", model, output=output, output_mode=mode)
    assert reply.problems == []
    assert reply.output is not None
    assert reply.tool_calls == []


WAYS: dict[str, tuple[str, dict[str, Any], str]] = {
    "native": (CHAT, {}, "native"),
    "no structured output": ("anthropic", {}, "tool"),
    "forced": (CHAT, {"output_mode": "tool"}, "tool"),
    "an instruction": ("gemini", {"output_mode": "instruction"}, "instruction"),
}


@pytest.mark.parametrize(("protocol", "settings", "way"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_ways_to_request_it(protocol: str, settings: dict[str, Any], way: str, streamed: bool):
    answer = '{"name": "Rome"}'
    reply: Any = [Text("Well."), ToolCall("c", "final_answer", answer)] if way == "tool" else answer
    script = Script(protocol, reply)
    model = script.model("claude-sonnet-4-20250514" if protocol == "anthropic" else "m")
    shown = (lambda event: None) if streamed else None
    result = generate("?", model, output=City, on_event=shown, **settings)
    assert result.output == City(name="Rome")
    assert (result.finish_reason, result.tool_calls) == ("stop", [])
    assert any(loss.code == "setting.output.emulated" for loss in result.losses) is (way != "native")
    sent = str(script.sent[0])
    assert ("final_answer" in sent) is (way == "tool")
    assert ("JSON Schema" in sent) is (way == "instruction")
    assert ("response_format" in script.sent[0]) is (way == "native")


def test_strict_schemas_where_the_target_has_them():
    script = Script(CHAT, '{"name": "Rome", "inhabitants": null, "tags": null}')
    assert generate("?", script.model(), output=City).output == City(name="Rome")
    sent = script.sent[0]["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["name", "inhabitants", "tags"]


def test_what_strict_mode_cannot_express_goes_through_a_tool():
    script = Script(CHAT, ToolCall("c", "final_answer", '{"a": 1}'))
    assert generate("?", script.model(), output=dict[str, int]).output == {"a": 1}


def test_tools_and_a_schema_that_exclude_each_other():
    script = Script("gemini", ToolCall("c", "final_answer", '{"name": "Rome"}'))
    model = script.model("gemini-2.5-flash")
    assert generate("?", model, output=City, tools=[get_weather]).output == City(name="Rome")
    assert "responseJsonSchema" not in str(script.sent)
    generate("?", script.model("gemini-3-pro"), output=City, tools=[get_weather])
    assert "responseJsonSchema" in str(script.sent[-1])


TEXTS: dict[str, str] = {
    "a code block": 'Here it is:\n```json\n{"name": "Rome"}\n```\nDone.',
    "text around": 'The answer is {"name": "Rome"}.',
    "types that text spells": '{"name": "Rome", "inhabitants": "1"}',
    "encoded twice": '"{\\"name\\": \\"Rome\\"}"',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_answers_as_models_write_them(text: str):
    assert generate("?", Script(CHAT, text).model(), output=City).output == City(name="Rome")


# Retries


@pytest.mark.parametrize("protocol", protocols())
def test_an_invalid_output_goes_back_to_the_model(protocol: str):
    script = Script(protocol, '{"inhabitants": 0}', "Rome, I think", '{"name": "Rome"}')
    result = generate("?", script.model(), output=City)
    assert result.output == City(name="Rome")
    assert result.usage.output == 15
    assert "name: Field required" in str(script.sent[1])
    assert "inhabitants: Input should be greater than or equal to 1" in str(script.sent[1])
    assert "the answer is not JSON" in str(script.sent[2])


def test_not_for_ever():
    script = Script(CHAT, "no")
    with pytest.raises(OutputError, match="the answer is not JSON") as caught:
        generate("?", script.model(), output=City, output_retries=1)
    assert len(script.sent) == 2
    assert caught.value.result is not None
    assert caught.value.result.usage.output == 10
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


ENDS: dict[str, tuple[Any, str]] = {
    "cut": (as_response('{"name": "Ro', "length"), "the reply ended with length"),
    "refused": (as_response([Refusal("I will not.")], "refusal"), "the reply ended with content_filter"),
}


@pytest.mark.parametrize(("reply", "message"), ENDS.values(), ids=ENDS)
def test_replies_that_no_retry_makes_better(reply: Any, message: str):
    script = Script(CHAT, reply)
    with pytest.raises(OutputError, match=message):
        generate("?", script.model(), output=City)
    assert len(script.sent) == 1


# Streams


@pytest.mark.parametrize("mode", ["native", "tool"])
def test_partial_outputs(mode: Any):
    answer = '{"name": "Rome", "tags": ["old", "warm"]}'
    reply: Any = ToolCall("c", "final_answer", answer) if mode == "tool" else answer
    with stream("?", Script(CHAT, reply).model(), output=City, output_mode=mode) as events:
        seen = list(events)
    assert [event for event in seen if isinstance(event, TextDelta)]
    values = [event.value for event in seen if isinstance(event, OutputDelta)]
    assert values[-1] == {"name": "Rome", "tags": ["old", "warm"]}
    assert events.result.output == City(name="Rome", tags=["old", "warm"])


def test_partial_outputs_grow(model: Model):
    with stream("Tell me about Rome", model, output=list[City]) as events:
        values = list(events.partial_outputs())
    assert isinstance(values[0], list)
    assert [City(**each) for each in values[-1]] == events.result.output


def test_partial_outputs_async():
    async def main() -> None:
        async with astream("?", "demo:demo", output=City) as events:
            values = [value async for value in events.partial_outputs()]
        assert City(**values[-1]) == events.result.output
        assert (await agenerate("?", "demo:demo", output=City)).output == events.result.output

    asyncio.run(main())


def test_a_streamed_output_that_is_invalid():
    with stream("?", Script(CHAT, "no").model(), output=City) as events:
        list(events)
    assert events.result.content == "no"
    with pytest.raises(OutputError, match="not JSON"):
        _ = events.result.output


WHOLE = '{"a": "x\\n\\u00e9\\"", "b": [1, -2.5e3, {"c": null}], "d": {}, "e": [true, "y"]}'


def test_every_prefix_of_json_is_a_value():
    seen: list[Any] = []
    partial = PartialJson()
    for character in WHOLE:
        partial.feed(character)
        seen.append(partial.value())
    assert None not in seen
    assert seen[0] == {}
    assert seen[-1] == {"a": 'x\né"', "b": [1, -2500.0, {"c": None}], "d": {}, "e": [True, "y"]}
    assert {"a": "x\n"} in seen
    assert {"a": 'x\né"', "b": [1]} in seen
    sizes = [len(str(value)) for value in seen]
    assert sizes == sorted(sizes), "nothing that was shown is taken back"


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_where_the_text_is_cut_does_not_matter(cut: int):
    text = "```json\n" + WHOLE + "\n``` and {more}"
    partial = PartialJson()
    for start in range(0, len(text), cut):
        partial.feed(text[start : start + cut])
    assert partial.value()["e"] == [True, "y"]


# Together with tools


@tool
def get_weather(city: str) -> str:
    return f"72 in {city}"


def test_generate_with_calls_has_no_output_yet():
    reply = generate("Weather in Rome", "demo:demo", output=City, tools=[get_weather])
    assert reply.tool_calls
    with pytest.raises(OutputError, match="called tools"):
        _ = reply.output


@pytest.mark.parametrize("protocol", protocols())
def test_an_agent_with_a_typed_answer(protocol: str):
    call = ToolCall("c1", "get_weather", '{"city": "Rome"}')
    script = Script(protocol, call, "no", '{"name": "Rome"}')
    done = run("?", script.model(), [get_weather], output=City)
    assert done.output == City(name="Rome")
    assert (done.stopped, done.usage.output) == ("answer", 15)


def test_calls_beside_the_answer_run_too():
    called: list[str] = []

    @tool
    def note(text: str) -> None:
        called.append(text)

    both = [ToolCall("1", "note", '{"text": "a"}'), ToolCall("2", "final_answer", '{"name": "Rome"}')]
    script = Script(CHAT, list(both))
    done = run("?", script.model(), [note], output=City, output_mode="tool")
    assert (done.output, called, len(script.sent)) == (City(name="Rome"), ["a"], 1)


def test_a_run_without_a_valid_output_keeps_its_messages():
    call = ToolCall("c1", "get_weather", '{"city": "Rome"}')
    done = run("?", Script(CHAT, call, "no").model(), [get_weather], output=City, output_retries=1)
    assert (done.stopped, len(done.messages), done.usage.output) == ("output", 4, 15)
    with pytest.raises(OutputError, match="the answer is not JSON"):
        _ = done.output


def test_a_run_that_stops_early_has_no_output():
    script = Script(CHAT, ToolCall("c1", "get_weather", '{"city": "Rome"}'))
    done = run("?", script.model(), [get_weather], output=City, max_turns=1)
    with pytest.raises(OutputError, match="stopped before an answer: turns"):
        _ = done.output


def test_text_is_the_output_where_none_was_requested():
    assert generate("Hi", "demo:demo").output == "You said: Hi"
    assert run("Hi", "demo:demo", output="text").output == "You said: Hi"


def test_mistakes():
    with pytest.raises(ConfigError, match="output is a type"):
        generate("Hi", "demo:demo", output="yaml")  # pyright: ignore[reportArgumentType] - the mistake
    with pytest.raises(ConfigError, match="not a JSON Schema"):
        generate("Hi", "demo:demo", output={"type": "nothing"})


FORMATS: dict[str, tuple[Any, Any]] = {
    "json": ({"type": "json_object"}, {"answer": "You said: Hi"}),
    "text": ({"type": "text"}, "You said: Hi"),
    "a schema": (
        {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}}, "strict": False},
        },
        {},
    ),
    "the schema alone": ({"type": "object", "properties": {}}, {}),
}


@pytest.mark.parametrize(("wanted", "output"), FORMATS.values(), ids=FORMATS)
def test_response_format_as_for_openai(wanted: Any, output: Any):
    model = Provider("chat", protocol=CHAT, base_url="http://x/v1", transport=DemoTransport()).model("m")
    assert generate("Hi", model, response_format=wanted).output == output
