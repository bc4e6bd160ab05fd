"""google-genai as the referee: it reads what we write, and we read what it writes."""

import base64
import json
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from dragoman.core import jsontext
from dragoman.core.events import Event, KeepAlive, ResponseFailed, ResponseStart, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Failure,
    HostedTool,
    Media,
    Message,
    OutputFormat,
    Reasoning,
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
    Wire,
)
from dragoman.framing import sse
from dragoman.protocols.gemini import CODEC

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\xff\xfe").decode()
ANTHROPIC = State("anthropic", "c2lnbmF0dXJl+/==")
ANSWER = Response(
    "r1",
    "some-model",
    (
        Reasoning("hm", state=ANTHROPIC),
        Text("é ok", (Citation("https://a.test", "A", start=2, end=4),)),
        ToolCall("call_1", "get_weather", '{"city":"Paris","n":1.0}', state=State("gemini", "//4=")),
        ToolCall("call_2", "get_time", ""),
    ),
    Stop("tool_calls", "tool_use"),
    Usage(100, 60, 64, 0, 20),
)


class Served:
    """A client whose server answers with `replies`, one after another."""

    def __init__(self, *replies: bytes | tuple[int, bytes]) -> None:
        self.bodies: list[Wire] = []
        self.paths: list[str] = []
        self._replies = iter(replies)
        options = types.HttpOptions(
            base_url="http://gemini.test",
            client_args={"transport": httpx2.MockTransport(self._answer)},
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        self.client = genai.Client(api_key="k", http_options=options)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        self.paths.append(request.url.raw_path.decode())
        reply = next(self._replies)
        status, content = reply if isinstance(reply, tuple) else (200, reply)
        return httpx2.Response(status, content=content, headers={"content-type": "application/json"})


def streamed(events: Iterable[Event], between: bytes = b"") -> bytes:
    encoder, printer = CODEC.stream_encoder(Losses()), sse.Encoder()
    return b"".join(
        piece + between for event in events for frame in encoder.feed(event) for piece in printer.feed(frame)
    )


def calls(parts: Iterable[types.Part]) -> list[tuple[Any, ...]]:
    return [(c.id, c.name, c.args) for part in parts if (c := part.function_call)]


CALLS = [("call_1", "get_weather", {"city": "Paris", "n": 1.0}), ("call_2", "get_time", {})]


def test_a_whole_response():
    served = Served(jsontext.encode(CODEC.encode_response(ANSWER, Losses())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reply = served.client.models.generate_content(model="gemini-3-pro", contents="hello")
    assert reply.candidates is not None
    (candidate,) = reply.candidates
    assert candidate.content is not None
    assert candidate.content.parts is not None
    assert candidate.content.role == "model"
    assert [part.text for part in candidate.content.parts if part.thought] == ["hm"]
    assert [part.text for part in candidate.content.parts if part.text and not part.thought] == ["é ok"]
    assert calls(candidate.content.parts) == CALLS
    assert candidate.content.parts[2].thought_signature == b"\xff\xfe"
    assert candidate.finish_reason == types.FinishReason.STOP
    assert (reply.model_version, reply.response_id) == ("some-model", "r1")
    usage = reply.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count) == (
        100,
        40,
        20,
    )
    assert (usage.cached_content_token_count, usage.total_token_count) == (64, 160)
    grounding = candidate.grounding_metadata
    assert grounding is not None
    assert grounding.grounding_supports is not None
    assert grounding.grounding_supports[0].segment == types.Segment(start_index=3, end_index=5, text="ok")


@pytest.mark.parametrize("between", [b"", CODEC.keep_alive], ids=["plain", "with keep-alives"])
def test_a_stream(between: bytes):
    served = Served(streamed([*unfold(ANSWER)], between))
    chunks = list(served.client.models.generate_content_stream(model="gemini-3-pro", contents="hello"))
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or ()
        for part in (candidate.content.parts if candidate.content else None) or ()
    ]
    assert "".join(part.text or "" for part in parts if part.thought) == "hm"
    assert "".join(part.text or "" for part in parts if not part.thought) == "é ok"
    assert calls(parts) == CALLS
    assert chunks[-1].candidates is not None
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata is not None
    assert chunks[-1].usage_metadata.total_token_count == 160
    assert {chunk.response_id for chunk in chunks} == {"r1"}


def test_a_stream_that_fails():
    failure = ResponseFailed(Failure("rate_limit", "slow down", 429, retry_after=3))
    served = Served(streamed([ResponseStart("r1", "m"), *list(unfold(ANSWER))[1:4], KeepAlive(), failure]))
    with pytest.raises(errors.APIError) as error:
        list(served.client.models.generate_content_stream(model="gemini-3-pro", contents="hello"))
    assert (error.value.code, error.value.status, error.value.message) == (
        429,
        "RESOURCE_EXHAUSTED",
        "slow down",
    )


@pytest.mark.parametrize("kind, status", [("bad_request", 400), ("not_found", 404), ("overloaded", 503)])
def test_an_error(kind: Any, status: int):
    code, body = CODEC.encode_error(Failure(kind, "what happened"))
    served = Served((code, jsontext.encode(body)))
    with pytest.raises(errors.APIError) as error:
        served.client.models.generate_content(model="gemini-3-pro", contents="hello")
    assert (error.value.code, error.value.message) == (status, "what happened")


# A conversation: what went out comes back


def reasoning(request: Request) -> list[Reasoning]:
    return [part for message in request.messages for part in message.parts if isinstance(part, Reasoning)]


SAY: dict[str, Callable[[Any], Any]] = {
    "whole": lambda chat: chat.send_message("hello"),
    "streamed": lambda chat: list(chat.send_message_stream("hello")),
}


@pytest.mark.parametrize("way", SAY)
def test_a_chat_brings_everything_back(way: str):
    """The SDK writes bytes in the URL-safe alphabet, and makes a content of every chunk."""
    whole = jsontext.encode(CODEC.encode_response(ANSWER, Losses()))
    first = streamed(unfold(ANSWER)) if way == "streamed" else whole
    served = Served(first, whole)
    chat = served.client.chats.create(model="gemini-3-pro")
    SAY[way](chat)
    answer = types.Part.from_function_response(name="get_weather", response={"output": "72"})
    answer.function_response.id = "call_1"  # pyright: ignore[reportOptionalMemberAccess] - it has just been made
    chat.send_message([answer])
    request = CODEC.decode_request(served.bodies[1], Losses())
    parts = [part for message in request.messages for part in message.parts]
    assert [(part.text, part.state) for part in reasoning(request)] == [("hm", ANTHROPIC)]
    assert [(part.id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)] == [
        ("call_1", "get_weather", '{"city":"Paris","n":1.0}'),
        ("call_2", "get_time", "{}"),
    ]
    assert next(part.state for part in parts if isinstance(part, ToolCall)) == State("gemini", "__4=")
    assert next(part for part in parts if isinstance(part, ToolResult)).content == (Text("72"),)


# What the SDK sends


def test_a_request_of_the_sdk():
    def get_weather(city: str) -> str:
        """Says the weather."""
        return city

    served = Served(jsontext.encode(CODEC.encode_response(ANSWER, Losses())))
    config = types.GenerateContentConfig(
        system_instruction="be brief",
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration.from_callable(
                        client=served.client._api_client, callable=get_weather
                    ),
                    types.FunctionDeclaration(name="raw", parameters_json_schema={"type": "object"}),
                ]
            ),
            types.Tool(google_search=types.GoogleSearch()),
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["raw"]
            )
        ),
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW),
        temperature=0.5,
        max_output_tokens=100,
        stop_sequences=["END"],
        response_mime_type="application/json",
        response_schema={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents = [
        types.UserContent(
            [
                types.Part.from_text(text="look"),
                types.Part.from_bytes(data=b"\xff\xfe", mime_type="image/png"),
            ]
        ),
        types.ModelContent(
            [
                types.Part(
                    function_call=types.FunctionCall(id="1", name="raw", args={"a": 1}),
                    thought_signature=b"\xff",
                )
            ]
        ),
        types.UserContent([types.Part.from_function_response(name="raw", response={"error": "no"})]),
    ]
    served.client.models.generate_content(model="gemini-3-pro", contents=contents, config=config)  # pyright: ignore[reportArgumentType] - the SDK takes contents too
    losses = Losses()
    request = CODEC.decode_request(served.bodies[0], losses)
    assert list(losses) == []
    assert [part.text for part in request.system] == ["be brief"]
    assert request.messages[0].parts[1] == Media(
        "image", "image/png", Base64("//4="), extras=request.messages[0].parts[1].extras
    )
    call = request.messages[1].parts[0]
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments, call.state) == (
        "1",
        "raw",
        '{"a":1}',
        State("gemini", "_w=="),
    )
    failed = request.messages[2].parts[0]
    assert isinstance(failed, ToolResult)
    assert (failed.name, failed.failed) == ("raw", True)
    weather, raw = (tool for tool in request.tools if isinstance(tool, ToolDeclaration))
    assert weather.parameters is not None
    assert weather.parameters["properties"] == {"city": {"type": "string"}}
    assert raw.parameters == {"type": "object"}
    assert [tool.kind for tool in request.tools if isinstance(tool, HostedTool)] == ["web_search"]
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.names) == ("required", ("raw",))
    assert request.settings == Settings(
        max_tokens=100,
        temperature=0.5,
        stop=("END",),
        effort="low",
        show_reasoning=True,
        output=OutputFormat("schema", {"type": "object", "properties": {"a": {"type": "string"}}}),
    )


def test_a_request_of_ours_has_only_fields_that_the_sdk_knows():
    request = Request(
        "gemini-3-pro",
        (
            Message("user", (Text("look"), Media("image", "image/png", Base64(PNG), detail="low"))),
            Message("assistant", (Reasoning("hm"), Text("ok"), ToolCall("1", "f", '{"a":1}'))),
            Message(
                "user",
                (
                    ToolResult("1", "f", (Text("see"), Media("image", "image/png", Base64(PNG), "a.png"))),
                    Text("so?"),
                ),
            ),
        ),
        (Text("be brief"),),
        (
            ToolDeclaration("f", "does f", {"type": "object", "properties": {"a": {"type": "integer"}}}),
            HostedTool("web_search"),
        ),
        ToolChoice("auto", ("f",)),
        None,
        Settings(
            max_tokens=5,
            temperature=0,
            top_k=3,
            effort="low",
            show_reasoning=True,
            seed=1,
            output=OutputFormat("json"),
        ),
    )
    body = CODEC.encode_request(request, Losses())
    for content in body["contents"]:
        types.Content.model_validate(content)
    types.Content.model_validate(body["systemInstruction"])
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(body["toolConfig"])
    types.GenerationConfig.model_validate(body["generationConfig"])
    assert body.keys() == {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}


def test_where_the_sdk_sends_it():
    served = Served(jsontext.encode(CODEC.encode_response(ANSWER, Losses())), streamed(unfold(ANSWER)))
    served.client.models.generate_content(model="gemini-3-pro", contents="x")
    list(served.client.models.generate_content_stream(model="gemini-3-pro", contents="x"))
    assert [path.replace("/v1/", "/v1beta/") for path in served.paths] == [
        CODEC.http.path("gemini-3-pro", False),
        CODEC.http.path("gemini-3-pro", True),
    ]
