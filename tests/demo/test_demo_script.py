"""The scripted model over each wire: the tool cycle, its state, and what it refuses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from demo.wires import WEATHER, ask, asking, calls_of, results, send, text_of, then
from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Media,
    Message,
    OutputFormat,
    Reasoning,
    Request,
    Response,
    Settings,
    State,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.demo.answers import ScriptedAnswer, answer
from dragoman.demo.faults import Memory
from dragoman.exchange import Exchange
from dragoman.framing import sse
from dragoman.protocols import codec, names

BOTH = "What is the weather in Oslo and Rome?"
CALLS = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
USER = {"role": "user", "parts": [{"text": "hi"}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"ok": 1}}}]}
each_protocol = pytest.mark.parametrize("protocol", names())


@each_protocol
def test_a_cycle(protocol: str) -> None:
    request = asking(BOTH, WEATHER)
    first = ask(protocol, request)
    assert calls_of(first) == CALLS
    assert (first.stop.reason, text_of(first)) == ("tool_calls", "I will use get_weather and get_weather.")
    assert first.usage
    assert first.usage.input > 0 < first.usage.output
    second = ask(protocol, then(request, first, results(first, "rain", "sun")))
    assert text_of(second) == "get_weather returned: rain\nget_weather returned: sun"
    assert (second.stop.reason, calls_of(second)) == ("end", [])


@each_protocol
def test_an_answer_has_the_form_that_was_asked_for(protocol: str) -> None:
    """Gemini CLI asks so for a model to send the prompt to, and asks again until it gets what it wants."""
    choice = {"type": "string", "enum": ["flash", "pro"]}
    schema = {"type": "object", "properties": {"model_choice": choice}, "required": ["model_choice"]}
    wanted = Settings(output=OutputFormat("schema", schema, "choice"))
    reply = ask(protocol, replace(asking("Which of them, pro?"), settings=wanted))
    assert jsontext.decode(text_of(reply).encode()) == {"model_choice": "pro"}


@each_protocol
def test_the_same_request_gets_the_same_answer(protocol: str) -> None:
    assert send(protocol, asking(BOTH, WEATHER)) == send(protocol, asking(BOTH, WEATHER))


def decoded(protocol_codec: Codec, answered: ScriptedAnswer) -> Response:
    """A streamed answer, checked against the grammar of its protocol on the way."""
    framing, grammar, decoder = (
        sse.Decoder(),
        protocol_codec.grammar(),
        protocol_codec.stream_decoder(Losses()),
    )
    frames = [frame for piece in answered.pieces for frame in framing.feed(piece)] + framing.close()
    checked = [passed for frame in frames for passed in grammar.feed(frame)]
    grammar.close()
    return fold([event for frame in checked for event in decoder.feed(frame)] + list(decoder.close()))


@each_protocol
def test_streamed_equals_whole(protocol: str) -> None:
    answered = send(protocol, asking(BOTH, WEATHER), stream=True)
    streamed, whole = decoded(codec(protocol), answered), ask(protocol, asking(BOTH, WEATHER))
    assert len(answered.pieces) > 10
    assert (calls_of(streamed), text_of(streamed), streamed.stop) == (
        calls_of(whole),
        text_of(whole),
        whole.stop,
    )
    assert [part.state.data for part in streamed.parts if part.state] == [
        part.state.data for part in whole.parts if part.state
    ]


@each_protocol
def test_images_and_failures_are_seen(protocol: str) -> None:
    request = asking("Show the picture of Oslo and Rome", replace(WEATHER, name="take_picture"))
    first = ask(protocol, request)
    one, two = [part for part in first.parts if isinstance(part, ToolCall)]
    image = Media("image", "image/png", Base64("aGVsbG8="))
    answers: list[AnyPart] = [
        ToolResult(one.id, one.name, (Text("here"), image)),
        ToolResult(two.id, two.name, (Text("no camera"),), failed=True),
    ]
    text = text_of(ask(protocol, then(request, first, answers)))
    assert "take_picture returned: here" in text
    assert "[image image/png " in text
    assert "no camera" in text


@each_protocol
def test_state_is_demanded_over_three_turns(protocol: str) -> None:
    request = asking("weather in Oslo", WEATHER)
    for city in ("Rome", "Paris", "Bern"):
        first = ask(protocol, request)
        assert any(part.state for part in first.parts)
        request = then(request, first, results(first, "rain"))
        second = ask(protocol, request)
        request = then(request, second, [Text(f"weather in {city}")])
    assert calls_of(ask(protocol, request)) == [("get_weather", {"city": "Bern"})]


def changed(request: Request, change: object) -> Request:
    def part(part: AnyPart) -> AnyPart:
        return replace(part, state=change(part.state), extras=None) if part.state else part  # type: ignore[operator]

    messages = [
        Message(message.role, tuple(part(each) for each in message.parts)) for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


FORGERIES = {
    "missing": lambda state: None,
    "changed": lambda state: State(state.origin, state.data.replace("ZGVtb", "ZGVtc"), state.id),
    "someone else's": lambda state: State(state.origin, "bm90IG1pbmU=", state.id),
}


@pytest.mark.parametrize("forgery", FORGERIES)
@each_protocol
def test_state_that_did_not_survive_is_refused(protocol: str, forgery: str) -> None:
    request = asking("weather in Oslo", WEATHER)
    first = ask(protocol, request)
    follow = changed(then(request, first, results(first, "rain")), FORGERIES[forgery])
    if protocol == "openai-chat" and forgery == "someone else's":
        follow = changed(
            follow, lambda state: State(state.origin, '[{"type":"reasoning.text","signature":"x"}]')
        )
    if protocol == "gemini" and forgery == "missing":
        assert send(protocol, follow).status == 200  # the codec says for itself that it has none
        body = {
            "contents": [
                USER,
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                RESULT,
            ]
        }
        answered = raw("/v1beta/models/m:generateContent", body)
    else:
        answered = send(protocol, follow)
    assert answered.status == 400, answered.pieces
    failure = codec(protocol).decode_error(jsontext.decode(answered.pieces[0]), 400)
    assert failure
    assert failure.kind == "bad_request"


def test_state_of_earlier_turns_may_be_gone() -> None:
    request = asking("weather in Oslo", WEATHER)
    first = ask("anthropic", request)
    request = changed(then(request, first, results(first, "rain")), lambda state: None)
    with_output = replace(
        request,
        messages=(*request.messages, Message("assistant", (Text("rain"),)), Message("user", (Text("hi"),))),
    )
    assert text_of(ask("anthropic", with_output)) == "You said: hi"


@each_protocol
def test_it_does_not_think_where_thinking_is_off(protocol: str) -> None:
    request = replace(
        asking("weather in Oslo", WEATHER), settings=Settings(max_tokens=100, effort="none", budget=0)
    )
    answered = ask(protocol, request)
    assert not [part for part in answered.parts if isinstance(part, Reasoning)]


def test_a_rendered_prompt_is_answered_in_kind() -> None:
    """No native tools: declarations in the prompt, calls in the text, results in the next prompt."""
    tools = [{"type": "function", "function": {"name": WEATHER.name, "parameters": WEATHER.parameters}}]
    messages: list[object] = [{"role": "user", "content": BOTH}]

    def turn() -> dict[str, object]:
        exchange = Exchange("openai-chat", "openai-chat", dialect="hermes")
        body = exchange.request({"model": "m", "messages": messages, "tools": tools})
        assert "tools" not in body
        answered = raw("/v1/chat/completions", body)
        assert b"tool_calls" not in b"".join(answered.pieces)
        return exchange.response(b"".join(answered.pieces))["choices"][0]["message"]

    first = turn()
    calls = first["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"city":"Oslo"}', '{"city":"Rome"}']  # type: ignore[attr-defined]
    messages += [first, *({"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls)]  # type: ignore[attr-defined]
    second = turn()
    assert second["content"] == "get_weather returned: rain\nget_weather returned: rain"


def raw(path: str, body: object) -> ScriptedAnswer:
    return answer("POST", path, {}, {}, jsontext.encode(body), Memory())


HI = {"role": "user", "content": "hi"}
# name: (path, body, the field that is missing)
INVALID = {
    "Anthropic without max_tokens": ("/v1/messages", {"model": "m", "messages": [HI]}, "max_tokens"),
    "Anthropic without messages": (
        "/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": []},
        "messages",
    ),
    "Gemini without contents": ("/v1beta/models/m:generateContent", {"contents": []}, "contents"),
}


@pytest.mark.parametrize("path, body, field", INVALID.values(), ids=INVALID)
def test_an_invalid_request_is_refused_as_the_vendor_does(path: str, body: object, field: str) -> None:
    answered = raw(path, body)
    assert answered.status == 400
    assert field in b"".join(answered.pieces).decode()
