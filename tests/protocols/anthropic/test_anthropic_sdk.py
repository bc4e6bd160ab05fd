"""The official SDK as referee: it reads what we write, and we read what it writes."""

import json
from collections.abc import Iterable
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message as SdkMessage
from anthropic.types import MessageParam, ModelInfo, RawMessageStreamEvent, ToolUnionParam
from pydantic import BaseModel, TypeAdapter, ValidationError

from dragoman.core import jsontext
from dragoman.core.events import Event, ResponseFailed, ResponseStart, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Failure,
    Foreign,
    HostedTool,
    Media,
    Message,
    Reasoning,
    Refusal,
    Request,
    Response,
    Settings,
    State,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Usage,
    Wire,
)
from dragoman.framing import sse
from dragoman.profiles import profile_of
from dragoman.protocols.anthropic import CODEC
from dragoman.protocols.anthropic.serving.server import SERVER
from dragoman.serving.server import ListedModel

GEMINI = State("gemini", "c2ln")
DIRECT: Wire = {"caller": {"type": "direct"}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
# name: (parts of a reply, its blocks as the SDK gives them)
REPLIES: dict[str, tuple[list[AnyPart], list[Wire]]] = {
    "nothing": ([], []),
    "text": ([Text("hello")], [{"type": "text", "text": "hello"}]),
    "parallel calls": (
        [Text("ok"), ToolCall("toolu_1", "f", '{"a": [1, "é"]}'), ToolCall("toolu_2", "f", "")],
        [
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1, "é"]}, **DIRECT},
            {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}, **DIRECT},
        ],
    ),
    "reasoning": (
        [Reasoning("hm", state=State("anthropic", "S")), Text("ok")],
        [{"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "text", "text": "ok"}],
    ),
    "reasoning that stays hidden": (
        [Reasoning(hidden=True, state=State("anthropic", "R"))],
        [{"type": "redacted_thinking", "data": "R"}],
    ),
    "a refusal": ([Refusal("no")], [{"type": "text", "text": "no"}]),
    "a hosted search": ([Foreign("anthropic", SEARCH)], [SEARCH]),
}


def reply(parts: Iterable[AnyPart]) -> Response:
    return Response("r1", "m", tuple(parts), Stop("end"), Usage(40, 9, 30, reasoning=2))


def printed(events: Iterable[Event]) -> bytes:
    encoder, printer = CODEC.stream_encoder(Losses()), sse.Encoder()
    return b"".join(
        piece for event in events for frame in encoder.feed(event) for piece in printer.feed(frame)
    )


def client(answer: bytes | Wire, seen: list[Wire] | None = None, status: int = 200) -> anthropic.Anthropic:
    """The SDK, with `answer` for whatever it asks."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        if seen is not None:
            seen.append(json.loads(request.content))
        if isinstance(answer, bytes):
            return httpx2.Response(status, content=answer, headers={"content-type": "text/event-stream"})
        return httpx2.Response(status, json=answer)

    http = anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(respond))
    return anthropic.Anthropic(api_key="k", base_url="http://upstream", http_client=http, max_retries=0)


ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def blocks(message: Any) -> list[Wire]:
    return json.loads(message.to_json(exclude_none=True))["content"]


@pytest.mark.parametrize(("parts", "expected"), REPLIES.values(), ids=REPLIES)
def test_the_sdk_reads_our_streams(parts: list[AnyPart], expected: list[Wire]) -> None:
    with client(printed(unfold(reply(parts)))).messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    assert blocks(message) == expected
    _check_rest(message, refused=any(isinstance(part, Refusal) for part in parts))


@pytest.mark.parametrize(("parts", "expected"), REPLIES.values(), ids=REPLIES)
def test_the_beta_side_of_the_sdk_reads_our_streams(parts: list[AnyPart], expected: list[Wire]) -> None:
    with client(printed(unfold(reply(parts)))).beta.messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    assert blocks(message) == expected
    _check_rest(message, refused=any(isinstance(part, Refusal) for part in parts))


@pytest.mark.parametrize(("parts", "expected"), REPLIES.values(), ids=REPLIES)
def test_the_sdk_reads_our_whole_replies(parts: list[AnyPart], expected: list[Wire]) -> None:
    body = json.loads(jsontext.encode(CODEC.encode_response(reply(parts), Losses())))
    TypeAdapter(SdkMessage).validate_python(body)
    message = client(body).messages.create(**ASKED)
    assert blocks(message) == expected
    _check_rest(message, refused=any(isinstance(part, Refusal) for part in parts))


def _check_rest(message: Any, refused: bool) -> None:
    assert (message.id, message.model, message.role) == ("msg_r1", "m", "assistant")
    assert message.stop_reason == ("refusal" if refused else "end_turn")
    assert (message.stop_details.explanation if refused else message.stop_details) == (
        "no" if refused else None
    )
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (10, 30, 9)
    assert usage.output_tokens_details.thinking_tokens == 2


@pytest.mark.parametrize(("parts", "expected"), REPLIES.values(), ids=REPLIES)
def test_every_frame_is_one_that_the_sdk_declares(parts: list[AnyPart], expected: list[Wire]) -> None:
    known: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for frame in sse.Decoder().feed(printed(unfold(reply(parts)))):
        body = json.loads(frame.data)
        assert known.validate_python(body).type == frame.event == body["type"]


# Fields of the SDK's models that a reply has only on occasion
OCCASIONAL = {"diagnostics", "toolset_name"}


def missing(value: BaseModel, path: str) -> list[str]:
    """The fields of the SDK's model that the wire did not have, at any depth."""
    absent = type(value).model_fields.keys() - value.model_fields_set - OCCASIONAL
    found = [f"{path}.{name}" for name in sorted(absent)]
    for name in value.model_fields_set:
        items = getattr(value, name)
        for i, item in enumerate(items if isinstance(items, list) else [items]):
            if isinstance(item, BaseModel):
                found += missing(item, f"{path}.{name}[{i}]")
    return found


SEARCHED = Request("m", (Message("user", (Text("q"),)),), tools=(HostedTool("web_search", "web_search"),))
SHAPES = [part for parts, _ in REPLIES.values() for part in parts if not isinstance(part, Foreign)]
SHAPES += [Text("hi", (Citation("https://a", "A", "x"),))]


def test_a_whole_reply_has_every_field() -> None:
    body = CODEC.encode_response(reply(SHAPES), Losses(), SEARCHED)
    assert missing(TypeAdapter(SdkMessage).validate_python(body), "message") == []


def test_every_event_of_a_stream_has_every_field() -> None:
    known: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    encoder = CODEC.stream_encoder(Losses(), SEARCHED)
    frames = [frame for event in unfold(reply(SHAPES)) for frame in encoder.feed(event)]
    assert [
        lost for frame in frames for lost in missing(known.validate_python(frame.data), frame.event)
    ] == []


def test_a_model_of_the_list_has_every_field() -> None:
    for model in (ListedModel("m"), ListedModel("m", profile_of("gemini-3-pro"), "gemini")):
        body = SERVER.encode_model(model)
        assert missing(TypeAdapter(ModelInfo).validate_python(body), "model") == []


def test_the_sdk_reads_citations() -> None:
    cited = Text("hi", (Citation("https://a", "A", "x"),))
    with client(printed(unfold(reply([cited])))).messages.stream(**ASKED) as stream:
        (block,) = stream.get_final_message().content
    assert block.type == "text"
    assert block.citations is not None
    (citation,) = block.citations
    assert citation.type == "web_search_result_location"
    assert (citation.url, citation.title, citation.cited_text) == ("https://a", "A", "x")


def test_g15_the_sdk_raises_our_errors_inside_a_stream() -> None:
    failed = [ResponseStart("r", "m"), ResponseFailed(Failure("overloaded", "come back later"))]
    with (
        client(printed(failed)).messages.stream(**ASKED) as stream,
        pytest.raises(anthropic.APIStatusError, match="come back later"),
    ):
        stream.get_final_message()


ERRORS = {
    "rate_limit": anthropic.RateLimitError,
    "bad_request": anthropic.BadRequestError,
    "unauthenticated": anthropic.AuthenticationError,
    "not_found": anthropic.NotFoundError,
    "overloaded": anthropic.InternalServerError,
}


@pytest.mark.parametrize(("kind", "raised"), ERRORS.items(), ids=ERRORS)
def test_g34_the_sdk_raises_our_error_bodies(kind: Any, raised: type[Exception]) -> None:
    status, body = CODEC.encode_error(Failure(kind, "why it failed"))
    with pytest.raises(raised, match="why it failed"):
        client(body, status=status).messages.create(**ASKED)


# What the SDK writes, we read

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
WRITTEN: Any = {
    "model": "claude-x",
    "max_tokens": 99,
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "f", "description": "does", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "high"},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u"},
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [PNG]}]},
    ],
}


def test_we_read_what_the_sdk_writes() -> None:
    seen: list[Wire] = []
    client(CODEC.encode_response(reply([]), Losses()), seen).messages.create(**WRITTEN)
    (body,) = seen
    request = CODEC.decode_request(body, Losses())
    assert CODEC.encode_request(request, Losses()) == body == WRITTEN
    assert request.messages == (
        Message("user", (Text("hi"),), extras={"anthropic": {}}),
        Message(
            "assistant",
            (ToolCall("toolu_1", "f", '{"a":1}', extras={"anthropic": {}}),),
            extras={"anthropic": {}},
        ),
        Message(
            "user",
            (
                ToolResult(
                    "toolu_1",
                    content=(Media("image", "image/png", Base64("iVBO"), extras={"anthropic": {}}),),
                    extras={"anthropic": {}},
                ),
            ),
            extras={"anthropic": {}},
        ),
    )
    assert request.parallel is False
    assert request.settings.effort == "high"


def test_an_answer_that_the_sdk_echoes_comes_back_to_us() -> None:
    """G97: the state of another provider travels through the SDK's own types."""
    parts = (
        Reasoning("hm", state=GEMINI),
        Reasoning(hidden=True, state=GEMINI),
        ToolCall("toolu_1", "f", '{"a":1}'),
    )
    with client(printed(unfold(reply(parts)))).messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    seen: list[Wire] = []
    echoed = [*ASKED["messages"], {"role": "assistant", "content": message.content}]
    client(CODEC.encode_response(reply([]), Losses()), seen).messages.create(**{**ASKED, "messages": echoed})
    thought, hidden, call = CODEC.decode_request(seen[0], Losses()).messages[1].parts
    assert (thought.state, hidden.state) == (GEMINI, GEMINI)
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments) == ("toolu_1", "f", '{"a":1}')


# What we ask of Anthropic is what its SDK declares


def spent(value: Any) -> Any:
    """Everything that a lazy validator holds, so that it is really looked at."""
    match value:
        case dict():
            return {key: spent(item) for key, item in value.items()}
        case str() | int() | float() | None:
            return value
        case _ if isinstance(value, Iterable):
            return [spent(item) for item in value]
        case _:
            return value


def test_our_requests_are_what_the_sdk_declares() -> None:
    request = Request(
        "claude-sonnet-4-5",
        (
            Message("user", (Text("a"), Media("document", "text/plain", Base64("YQ==")))),
            Message("assistant", (Reasoning("hm", state=State("anthropic", "S")), ToolCall("t", "f", "{}"))),
            Message(
                "user",
                (
                    ToolResult(
                        "t", content=(Text("x"), Media("image", "image/png", Base64("iVBO"))), failed=True
                    ),
                ),
            ),
        ),
        tools=(
            ToolDeclaration("f", "does", {"type": "object"}, True),
            HostedTool("web_search", "", {"max_uses": 1}),
        ),
        settings=Settings(max_tokens=9),
    )
    wire = CODEC.encode_request(request, Losses())
    messages, tools = TypeAdapter(list[MessageParam]), TypeAdapter(list[ToolUnionParam])
    assert spent(messages.validate_python(wire["messages"])) == wire["messages"]
    assert spent(tools.validate_python(wire["tools"])) == wire["tools"]
    with pytest.raises(ValidationError):  # the referee can say no
        spent(messages.validate_python([{"role": "user", "content": [{"type": "tool_result"}]}]))
