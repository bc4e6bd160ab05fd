"""The official SDK as referee: it reads what we write, and adds our chunks up to what they say."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from openai._models import construct_type
from openai.lib.streaming.chat._completions import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Media,
    Message,
    OutputFormat,
    Reasoning,
    Refusal,
    Request,
    Response,
    Settings,
    State,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Usage,
)
from dragoman.protocols.openai_chat import CODEC

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
USAGE = Usage(9, 5, 4, 0, 3)
REPLIES: dict[str, Response] = {
    "text": Response("r", "m", (Text("hello"),), Stop("end"), USAGE, 17),
    "two texts": Response("r", "m", (Text("a"), Text("b")), Stop("end"), USAGE),
    "nothing": Response("r", "m", (), Stop("end")),
    "calls": Response(
        "r",
        "m",
        (Text("a"), ToolCall("c1", "f", '{"city":"Rome"}'), ToolCall("c2", "g"), ToolCall("c3", "f", "{}")),
        Stop("tool_calls"),
        USAGE,
    ),
    "signed calls": Response(
        "r",
        "m",
        (ToolCall("c1", "f", "{}", state=State("gemini", "c2ln")), ToolCall("c2", "g", "{}")),
        Stop("tool_calls"),
    ),
    "refusal": Response("r", "m", (Refusal("no"),), Stop("refusal")),
    "reasoning": Response(
        "r",
        "m",
        (
            Reasoning("hm", state=State("anthropic", "sig")),
            Reasoning(hidden=True, state=State("anthropic", "red")),
            Text("a"),
            ToolCall("c1", "f", "{}"),
        ),
        Stop("tool_calls"),
    ),
    "sources": Response(
        "r",
        "m",
        (
            Text("a", (Citation("https://a", "A"), Citation("https://b", "B"))),
            Text("b", (Citation("https://c", "C"),)),
        ),
        Stop("end"),
    ),
    "pictures": Response(
        "r",
        "m",
        (Media("image", "image/png", Base64("QQ==")), Media("image", "image/png", Base64("Qg=="))),
        Stop("end"),
    ),
    "cut": Response("r", "m", (Text("a"),), Stop("length")),
}


def summed_up(response: Response) -> Any:
    """The completion that the SDK makes of our chunks."""
    state = ChatCompletionStreamState()
    for frame in frames_of(response)[:-1]:
        body = json.loads(jsontext.encode(frame.data))
        ChatCompletionChunk.model_validate(body)
        chunk: Any = construct_type(type_=ChatCompletionChunk, value=body)
        state.handle_chunk(chunk)
    return state.current_completion_snapshot


def frames_of(response: Response) -> list[Frame]:
    encoder = CODEC.stream_encoder(Losses())
    return [frame for event in unfold(response) for frame in encoder.feed(event)]


def expected(response: Response) -> dict[str, Any]:
    parts = response.parts
    return {
        "content": "".join([part.text for part in parts if isinstance(part, Text)]),
        "refusal": next((part.text for part in parts if isinstance(part, Refusal)), None),
        "calls": [
            (part.id, part.name, part.arguments or "{}") for part in parts if isinstance(part, ToolCall)
        ],
        "usage": (response.usage.input, response.usage.output) if response.usage else None,
    }


def seen(completion: Any) -> dict[str, Any]:
    message = completion.choices[0].message
    return {
        "content": message.content or "",
        "refusal": message.refusal,
        "calls": [
            (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()
        ],
        "usage": (completion.usage.prompt_tokens, completion.usage.completion_tokens)
        if completion.usage
        else None,
    }


@pytest.mark.parametrize("response", REPLIES.values(), ids=REPLIES)
def test_the_sdk_reads_our_replies(response: Response) -> None:
    body = json.loads(jsontext.encode(CODEC.encode_response(response, Losses())))
    completion = ChatCompletion.model_validate(body)
    assert seen(completion) == expected(response)
    assert completion.choices[0].finish_reason in ("stop", "tool_calls", "length")
    assert completion.model_dump(exclude_unset=True) == body


@pytest.mark.parametrize("response", REPLIES.values(), ids=REPLIES)
def test_the_sdk_adds_our_chunks_up(response: Response) -> None:
    completion = summed_up(response)
    assert seen(completion) == expected(response)
    whole = CODEC.encode_response(response, Losses())["choices"][0]
    assert completion.choices[0].finish_reason == whole["finish_reason"]
    summed = completion.choices[0].message.model_dump()
    for key in ("reasoning_content", "reasoning_details", "annotations"):
        assert (summed.get(key) or None) == (whole["message"].get(key) or None)


def test_what_an_echoing_client_returns_is_what_it_was_given() -> None:
    """The message as the SDK summed it up goes back into the history: the state is there again."""
    response = REPLIES["reasoning"]
    echoed = summed_up(response).choices[0].message.model_dump(exclude_none=True)
    message = CODEC.decode_request({"model": "m", "messages": [echoed]}, Losses()).messages[0]
    assert [replace(part, extras=None) for part in message.parts] == list(response.parts)


@pytest.mark.parametrize("response", REPLIES.values(), ids=REPLIES)
def test_our_chunks_read_by_ourselves_say_the_same(response: Response) -> None:
    decoder = CODEC.stream_decoder(Losses())
    events = [
        event
        for frame in frames_of(response)
        for event in decoder.feed(
            Frame("", frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data))
        )
    ]
    back = fold([*events, *decoder.close()])
    calls = [(part.id, part.name) for part in back.parts if isinstance(part, ToolCall)]
    assert calls == [(part.id, part.name) for part in response.parts if isinstance(part, ToolCall)]
    assert back.stop.reason == response.stop.reason
    assert back.usage == response.usage


REQUESTS: dict[str, Request] = {
    "tools": Request(
        "gpt-4o",
        (
            Message("user", (Text("weather?"), Media("image", "image/png", Base64("QQ==")))),
            Message("assistant", (Text("let me see"), ToolCall("c1", "weather", '{"city":"Rome"}'))),
            Message(
                "user",
                (ToolResult("c1", "weather", (Text("sunny"), Media("image", "image/png", Base64("QQ==")))),),
            ),
        ),
        (Text("Be brief."), Text("Be kind.")),
        (
            ToolDeclaration("weather", "d", SCHEMA, True),
            ToolDeclaration("patch", "d", kind="custom", grammar=("lark", "start: x")),
        ),
        ToolChoice("auto", ("weather", "patch")),
        False,
    ),
    "settings": Request(
        "gpt-4o",
        (Message("user", (Text("hi"),)),),
        settings=Settings(
            max_tokens=9,
            temperature=0.5,
            stop=("a",),
            output=OutputFormat("schema", SCHEMA, "n", strict=True),
            user="u",
            service_tier="flex",
        ),
    ),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_the_sdk_types_hold_for_our_requests(request_: Request) -> None:
    body = CODEC.encode_request(request_, Losses())
    adapter: Any = TypeAdapter(CompletionCreateParamsNonStreaming)
    read = adapter.validate_python(body)
    assert set(read) == set(body), "a field that the SDK does not know"
