"""Events as chunks: what clients of Chat see of a stream."""

from itertools import product
from typing import Any

import pytest

from dragoman.core.codec import Frame
from dragoman.core.events import (
    Event,
    KeepAlive,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    unfold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.openai_chat import CODEC

HEAD = {"id": "chatcmpl-r-1", "object": "chat.completion.chunk", "created": 17, "model": "m"}
DONE = Frame("", b"[DONE]")


def encode(*events: Event, request: Request | None = None) -> tuple[list[Frame], list[str]]:
    losses = Losses()
    encoder = CODEC.stream_encoder(losses, request)
    frames = [frame for event in events for frame in encoder.feed(event)]
    return [*frames, *encoder.close()], [str(loss) for loss in losses]


def reply(*parts: Any, stop: str = "end", usage: Usage | None = None) -> list[Event]:
    return list(unfold(Response("chatcmpl-r-1", "m", parts, Stop(stop), usage, 17)))  # pyright: ignore[reportArgumentType] - a row


def chunk(delta: Wire, finish: str | None = None) -> Wire:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def start(id: str, name: str, index: int = 0) -> Wire:
    return {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}


def more(arguments: str, index: int = 0) -> Wire:
    return {"index": index, "function": {"arguments": arguments}}


SIGNATURE = {
    "index": 0,
    "function": {"arguments": ""},
    "extra_content": {"google": {"thought_signature": "c2ln"}},
}
STREAMS: dict[str, tuple[list[Any], str, list[Wire], str, list[str]]] = {
    "text": ([Text("hi")], "end", [{"role": "assistant", "content": "hi"}], "stop", []),
    "nothing": ([], "end", [{"role": "assistant", "content": ""}], "stop", []),
    "an empty text is not said": ([Text("")], "end", [{"role": "assistant", "content": ""}], "stop", []),
    "one call": (
        [ToolCall("c1", "f", '{"a":1}')],
        "tool_calls",
        [
            {"role": "assistant", "content": None, "tool_calls": [start("c1", "f")]},
            {"tool_calls": [more('{"a":1}')]},
        ],
        "tool_calls",
        [],
    ),
    "text and two calls": (
        [Text("a"), ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g", '{"b":2}')],
        "tool_calls",
        [
            {"role": "assistant", "content": "a"},
            {"tool_calls": [start("c1", "f")]},
            {"tool_calls": [more('{"a":1}')]},
            {"tool_calls": [start("c2", "g", 1)]},
            {"tool_calls": [more('{"b":2}', 1)]},
        ],
        "tool_calls",
        [],
    ),
    "G64 a call without arguments": (
        [ToolCall("c1", "f")],
        "tool_calls",
        [
            {"role": "assistant", "content": None, "tool_calls": [start("c1", "f")]},
            {"tool_calls": [more("{}")]},
        ],
        "tool_calls",
        [],
    ),
    "G28 a call cut before its arguments": (
        [Text("a"), ToolCall("c1", "f", complete=False)],
        "length",
        [{"role": "assistant", "content": "a"}, {"tool_calls": [start("c1", "f")]}],
        "length",
        [],
    ),
    "custom call": (
        [ToolCall("c1", "patch", "***", "custom")],
        "tool_calls",
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "patch", "input": ""}}
                ],
            },
            {"tool_calls": [{"index": 0, "custom": {"input": "***"}}]},
        ],
        "tool_calls",
        [],
    ),
    "state of a call": (
        [Text("a"), ToolCall("c1", "f", "{}", state=State("gemini", "c2ln"))],
        "tool_calls",
        [
            {"role": "assistant", "content": "a"},
            {"tool_calls": [start("c1", "f")]},
            {"tool_calls": [more("{}")]},
            {"tool_calls": [SIGNATURE]},
        ],
        "tool_calls",
        [],
    ),
    "refusal": ([Refusal("no")], "refusal", [{"role": "assistant", "refusal": "no"}], "stop", []),
    "G29 refusal without words": (
        [],
        "refusal",
        [{"role": "assistant", "content": ""}],
        "content_filter",
        [],
    ),
    "reasoning": (
        [Reasoning("hm"), Text("a")],
        "end",
        [{"role": "assistant", "reasoning_content": "hm"}, {"content": "a"}],
        "stop",
        [],
    ),
    "sealed reasoning": (
        [
            Reasoning("hm", state=State("anthropic", "sig")),
            Text("a"),
            Reasoning(hidden=True, state=State("gemini", "late")),
        ],
        "end",
        [
            {"role": "assistant", "reasoning_content": "hm"},
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "hm",
                        "signature": seal_state(State("anthropic", "sig"), ""),
                        "format": "dragoman-v1",
                        "index": 0,
                    }
                ]
            },
            {"content": "a"},
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.encrypted",
                        "data": seal_state(State("gemini", "late"), ""),
                        "format": "dragoman-v1",
                        "index": 1,
                        "after": "content",
                    }
                ]
            },
        ],
        "stop",
        [],
    ),
    "reasoning that Chat itself signed": (
        [Reasoning("hm", state=State("openai-chat", '[{"type":"reasoning.text","index":0}]'))],
        "end",
        [
            {"role": "assistant", "reasoning_content": "hm"},
            {"reasoning_details": [{"type": "reasoning.text", "index": 0}]},
        ],
        "stop",
        [],
    ),
    "sources wait for the end": (
        [Text("See: ", (Citation("https://a", "A"),)), Text("fact", (Citation("https://b", "B", "", 1, 2),))],
        "end",
        [
            {"role": "assistant", "content": "See: "},
            {"content": "fact"},
            {
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 5},
                    },
                    {
                        "type": "url_citation",
                        "url_citation": {"url": "https://b", "title": "B", "start_index": 6, "end_index": 7},
                    },
                ]
            },
        ],
        "stop",
        ["changed text: It was joined to the text before it."],
    ),
    "picture": (
        [Text("see"), Media("image", "image/png", Base64("QQ=="))],
        "end",
        [
            {"role": "assistant", "content": "see"},
            {
                "images": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}, "index": 0}
                ]
            },
        ],
        "stop",
        [],
    ),
    "sound": (
        [Text("a"), Media("audio", "audio/wav", Base64("QQ=="), where="p")],
        "end",
        [{"role": "assistant", "content": "a"}],
        "stop",
        ["dropped p: Chat has no audio in a reply."],
    ),
    "speech of Chat itself": (
        [Foreign("openai-chat", {"audio": {"id": "a"}})],
        "end",
        [{"role": "assistant", "audio": {"id": "a"}}],
        "stop",
        [],
    ),
    "another's part": (
        [Text("a"), Foreign("gemini", {"executableCode": {}})],
        "end",
        [{"role": "assistant", "content": "a"}],
        "stop",
        [],
    ),
    "G44 text after a call": (
        [ToolCall("c1", "f", "{}"), Text("b", where="content[1]")],
        "tool_calls",
        [
            {"role": "assistant", "content": None, "tool_calls": [start("c1", "f")]},
            {"tool_calls": [more("{}")]},
            {"content": "b"},
        ],
        "tool_calls",
        ["changed content[1]: Chat puts the text of a message before its calls."],
    ),
    "context full": ([Text("a")], "context_full", [{"role": "assistant", "content": "a"}], "length", []),
    "filter": ([Text("a")], "content_filter", [{"role": "assistant", "content": "a"}], "content_filter", []),
}


@pytest.mark.parametrize("row", STREAMS.values(), ids=STREAMS)
def test_what_a_client_sees(row: tuple[list[Any], str, list[Wire], str, list[str]]) -> None:
    parts, stop, deltas, finish, lost = row
    frames, losses = encode(*reply(*parts, stop=stop))
    assert [frame.data for frame in frames[:-1]] == [*[chunk(delta) for delta in deltas], chunk({}, finish)]
    assert frames[-1] == DONE
    assert losses == lost


def test_every_delta_is_sent_at_once() -> None:
    encoder = CODEC.stream_encoder(Losses())
    assert list(encoder.feed(ResponseStart("chatcmpl-r-1", "m", created=17))) == []
    assert list(encoder.feed(PartStart(0, Text()))) == []
    assert list(encoder.feed(PartDelta(0, "I'll "))) == [
        Frame("", chunk({"role": "assistant", "content": "I'll "}))
    ]
    assert list(encoder.feed(PartDelta(0, "read"))) == [Frame("", chunk({"content": "read"}))]
    assert list(encoder.feed(PartEnd(0))) == []
    assert list(encoder.feed(PartStart(1, ToolCall("c1", "f")))) == [
        Frame("", chunk({"tool_calls": [start("c1", "f")]}))
    ]
    assert list(encoder.feed(PartDelta(1, "{"))) == [Frame("", chunk({"tool_calls": [more("{")]}))]


def client(options: Any = None) -> Request:
    body = {"model": "m", "messages": [], "stream": True, **({"stream_options": options} if options else {})}
    return CODEC.decode_request(body, Losses())


ASKED: dict[str, tuple[Request | None, bool]] = {
    "nobody's request": (None, True),
    "a request of another protocol": (Request("m", ()), True),
    "a client that asked": (client({"include_usage": True}), True),
    "a client that did not ask": (client(), False),
    "a client that declined": (client({"include_usage": False}), False),
}


@pytest.mark.parametrize("row", ASKED.values(), ids=ASKED)
def test_who_gets_the_usage_chunk(row: tuple[Request | None, bool]) -> None:
    request, wanted = row
    frames, _ = encode(*reply(Text("a"), usage=Usage(9, 5, 4, 0, 3)), request=request)
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    counted = [{**HEAD, "choices": [], "usage": usage}] if wanted else []
    assert [frame.data for frame in frames[2:]] == [*counted, b"[DONE]"]


def test_usage_known_at_the_start_is_better_than_none() -> None:
    frames, _ = encode(ResponseStart("chatcmpl-r-1", "m", Usage(7)), ResponseEnd(Stop("end")))
    assert frames[-2].data["usage"]["prompt_tokens"] == 7


def test_g15_a_failure_is_an_error_and_no_done() -> None:
    frames, _ = encode(*reply(Text("a"))[:4], ResponseFailed(Failure("overloaded", "try later")))
    assert [frame.data for frame in frames] == [
        chunk({"role": "assistant", "content": "a"}),
        {"error": {"message": "try later", "type": "overloaded_error", "param": None, "code": "overloaded"}},
    ]


def test_g24_a_sign_of_life_is_an_empty_chunk() -> None:
    frames, _ = encode(
        ResponseStart("chatcmpl-r-1", "m", created=17), KeepAlive(), KeepAlive(), *reply(Text("a"))[1:]
    )
    assert [frame.data for frame in frames[:3]] == [
        chunk({"role": "assistant", "content": ""}),
        chunk({}),
        chunk({"content": "a"}),
    ]


def test_a_client_that_declares_functions_gets_a_function_call() -> None:
    decoded = CODEC.decode_request({"model": "m", "messages": [], "functions": [{"name": "f"}]}, Losses())
    two = reply(ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}", where="second"), stop="tool_calls")
    frames, losses = encode(*two, request=decoded)
    assert [frame.data for frame in frames] == [
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, "function_call"),
        b"[DONE]",
    ]
    assert losses == ["dropped second: A client that declares functions takes one call at a time."]


@pytest.mark.parametrize("signed", [*product([False, True], repeat=3)], ids=str)
def test_a_stream_has_the_details_of_a_whole_reply(signed: tuple[bool, ...]) -> None:
    """A client that echoes details leaves the plain text of the reasoning out."""
    parts = [
        Reasoning(f"thought {i}", state=State("anthropic", f"sig{i}") if each else None)
        for i, each in enumerate(signed)
    ]
    response = Response("r", "m", (*parts, Text("So.")), Stop("end"), Usage())
    message = CODEC.encode_response(response, Losses())["choices"][0]["message"]
    frames: list[Any] = [frame.data for frame in encode(*unfold(response))[0] if isinstance(frame.data, dict)]
    deltas = [choice["delta"] for frame in frames for choice in frame["choices"]]
    streamed = [entry for delta in deltas for entry in delta.get("reasoning_details", ())]
    assert streamed == message.get("reasoning_details", [])
