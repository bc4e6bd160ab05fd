"""Chat chunks to events: the parts of a stream, their order, and that they equal the whole reply."""

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.events import (
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    fold,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    State,
    Stop,
    Text,
    ToolCall,
    Wire,
)
from dragoman.protocols.openai_chat import CODEC
from protocols.openai_chat.streams import (
    CALLED,
    DONE,
    END,
    OURS,
    ROLE,
    TIME,
    USAGE,
    WEATHER,
    bare,
    calls,
    chunk,
    decode,
    frame,
    piece,
)

STREAMS: dict[str, tuple[list[Any], list[Any], Stop]] = {
    "text": (
        [ROLE, chunk({"content": "Hel"}), chunk({"content": "lo"}), END, DONE],
        [Text("Hello")],
        Stop("end", "stop"),
    ),
    "D11 status finished is an end": (
        [
            chunk({"content": "why", "phase": "think", "status": "typing"}),
            chunk({"content": "", "phase": "think", "status": "finished"}),
            chunk({"content": "Hi", "phase": "answer", "status": "typing"}),
            chunk({"content": "", "phase": "answer", "status": "finished"}),
        ],
        [Text("whyHi")],
        Stop("end", ""),
    ),
    "role with the first text": (
        [chunk({"role": "assistant", "content": "Hi"}), END, DONE],
        [Text("Hi")],
        Stop("end", "stop"),
    ),
    "role in every chunk": (
        [
            chunk({"role": "assistant", "content": "a"}),
            chunk({"role": "assistant", "content": "b"}),
            END,
            DONE,
        ],
        [Text("ab")],
        Stop("end", "stop"),
    ),
    "one call by the book": (
        [
            chunk({"role": "assistant", "content": None}),
            calls(piece(0, "c1", "weather", "")),
            calls(piece(0, arguments='{"city"')),
            calls(piece(0, arguments=':"Rome"}')),
            CALLED,
            DONE,
        ],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "two calls by the book": (
        [
            ROLE,
            chunk({"content": "Let me see."}),
            calls(piece(0, "c1", "weather", "")),
            calls(piece(0, arguments='{"city":"Rome"}')),
            calls(piece(1, "c2", "time", "")),
            calls(piece(1, arguments='{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [Text("Let me see."), WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G01 two calls in one chunk": (
        [
            ROLE,
            calls(piece(0, "c1", "weather", '{"city":"Rome"}'), piece(1, "c2", "time", '{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G01 pieces of two calls in one chunk": (
        [
            calls(piece(0, "c1", "weather", ""), piece(1, "c2", "time", "")),
            calls(piece(0, arguments='{"city"'), piece(1, arguments='{"tz"')),
            calls(piece(1, arguments=':"UTC"}'), piece(0, arguments=':"Rome"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G02 interleaved calls": (
        [
            calls(piece(0, "c1", "weather", '{"city"')),
            calls(piece(1, "c2", "time", '{"tz"')),
            calls(piece(0, arguments=':"Rome"}')),
            calls(piece(1, arguments=':"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G06 name and arguments in one chunk": (
        [calls(piece(0, "c1", "weather", '{"city"')), calls(piece(0, arguments=':"Rome"}')), CALLED, DONE],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "G07 name after arguments": (
        [
            calls(piece(0, "c1", None, '{"city"')),
            calls(piece(0, arguments=':"Rome"}')),
            calls(piece(0, None, "weather")),
            CALLED,
            DONE,
        ],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "G07 empty name first": (
        [calls(piece(0, "c1", "", "")), calls(piece(0, None, "weather", '{"city":"Rome"}')), CALLED, DONE],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "G08 id and name repeated": (
        [
            calls(piece(0, "c1", "weather", '{"city"')),
            calls(piece(0, "c1", "weather", ':"Rome"')),
            calls(piece(0, "c1", "weather", "}")),
            CALLED,
            DONE,
        ],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "G08 name in pieces": (
        [
            calls(piece(0, "c1", "wea", "")),
            calls(piece(0, None, "ther", "")),
            calls(piece(0, None, None, '{"city":"Rome"}')),
            CALLED,
            DONE,
        ],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "id and name null later": (
        [
            calls(piece(0, "c1", "weather", "")),
            chunk(
                {
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": None,
                            "type": None,
                            "function": {"name": None, "arguments": '{"city":"Rome"}'},
                        }
                    ]
                }
            ),
            CALLED,
            DONE,
        ],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 no index": (
        [
            calls(piece(None, "c1", "weather", '{"city":"Rome"}')),
            calls(piece(None, "c2", "time", '{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 no index, in pieces": (
        [
            calls(piece(None, "c1", "weather", "")),
            calls(piece(None, arguments='{"city":"Rome"}')),
            calls(piece(None, "c2", "time", "")),
            calls(piece(None, arguments='{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 no index, distinguished by ids": (
        [
            calls(piece(None, "c1", "weather", '{"city"'), piece(None, "c2", "time", '{"tz"')),
            calls(piece(None, "c1", None, ':"Rome"}'), piece(None, "c2", None, ':"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 neither index nor id": (
        [
            calls(piece(None, None, "weather", '{"city":"Rome"}'), piece(None, None, "time", '{"tz":"UTC"}')),
            END,
            DONE,
        ],
        [replace(WEATHER, id=""), replace(TIME, id="")],
        Stop("end", "stop"),
    ),
    "G09 neither index nor id, the same tool twice": (
        [calls(piece(None, None, "f", '{"a":1}'), piece(None, None, "f", '{"a":2}')), END, DONE],
        [ToolCall("", "f", '{"a":1}'), ToolCall("", "f", '{"a":2}')],
        Stop("end", "stop"),
    ),
    "G09 every index is 0, ids change": (
        [
            calls(piece(0, "c1", "weather", "")),
            calls(piece(0, arguments='{"city":"Rome"}')),
            calls(piece(0, "c2", "time", "")),
            calls(piece(0, arguments='{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 every index is 0, no ids": (
        [calls(piece(0, None, "f", '{"a":1}')), calls(piece(0, None, "f", '{"a":2}')), CALLED, DONE],
        [ToolCall("", "f", '{"a":1}'), ToolCall("", "f", '{"a":2}')],
        Stop("tool_calls", "tool_calls"),
    ),
    "G09 index counts from 1": (
        [
            calls(piece(1, "c1", "weather", '{"city":"Rome"}')),
            calls(piece(2, "c2", "time", '{"tz":"UTC"}')),
            CALLED,
            DONE,
        ],
        [WEATHER, TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G10 arguments that parse before they are whole": (
        [calls(piece(0, "c1", "f", "1")), calls(piece(0, arguments="2")), CALLED, DONE],
        [ToolCall("c1", "f", "12")],
        Stop("tool_calls", "tool_calls"),
    ),
    "G11 reasoning, text and call in one chunk": (
        [
            chunk({"reasoning_content": "hm", "content": "ok", "tool_calls": [piece(0, "c1", "f", "{}")]}),
            CALLED,
            DONE,
        ],
        [Reasoning("hm"), Text("ok"), ToolCall("c1", "f", "{}")],
        Stop("tool_calls", "tool_calls"),
    ),
    "G12 finish with content": (
        [ROLE, chunk({"content": "all of it"}, "stop"), DONE],
        [Text("all of it")],
        Stop("end", "stop"),
    ),
    "G12 finish with a call": (
        [ROLE, chunk({"tool_calls": [piece(0, "c1", "f", "{}")]}, "tool_calls"), DONE],
        [ToolCall("c1", "f", "{}")],
        Stop("tool_calls", "tool_calls"),
    ),
    "G14 finish without [DONE]": ([ROLE, chunk({"content": "a"}), END], [Text("a")], Stop("end", "stop")),
    "[DONE] without finish": (
        [chunk({"role": "assistant", "content": "a"}), DONE],
        [Text("a")],
        Stop("end", ""),
    ),
    "[DONE] without finish, after a call": (
        [calls(piece(0, "c1", "weather", '{"city":"Rome"}')), DONE],
        [WEATHER],
        Stop("end", ""),
    ),
    "[DONE] without finish, inside a call": (
        [calls(piece(0, "c1", "weather", '{"city')), DONE],
        [ToolCall("c1", "weather", '{"city', complete=False)],
        Stop("end", ""),
    ),
    "nothing but a finish": ([ROLE, END, DONE], [], Stop("end", "stop")),
    "G26 stop although there is a call": (
        [calls(piece(0, "c1", "f", "{}")), END, DONE],
        [ToolCall("c1", "f", "{}")],
        Stop("end", "stop"),
    ),
    "G28 a call cut by length": (
        [calls(piece(0, "c1", "f", "{}")), calls(piece(1, "c2", "g", '{"a')), chunk({}, "length"), DONE],
        [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", '{"a', complete=False)],
        Stop("length", "length"),
    ),
    "G28 a call cut before its arguments": (
        [calls(piece(0, "c1", "f", "")), chunk({}, "length"), DONE],
        [ToolCall("c1", "f", "", complete=False)],
        Stop("length", "length"),
    ),
    "G64 a call without arguments": (
        [calls(piece(0, "c1", "f", "")), calls(piece(1, "c2", "time", '{"tz":"UTC"}')), CALLED, DONE],
        [ToolCall("c1", "f", ""), TIME],
        Stop("tool_calls", "tool_calls"),
    ),
    "G65 arguments as an object": (
        [calls(piece(0, "c1", "weather", {"city": "Rome"})), CALLED, DONE],
        [WEATHER],
        Stop("tool_calls", "tool_calls"),
    ),
    "custom call": (
        [
            chunk(
                {
                    "tool_calls": [
                        {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "patch", "input": ""}}
                    ]
                }
            ),
            chunk({"tool_calls": [{"index": 0, "custom": {"input": "*** Begin"}}]}),
            CALLED,
            DONE,
        ],
        [ToolCall("c1", "patch", "*** Begin", "custom")],
        Stop("tool_calls", "tool_calls"),
    ),
    "function_call of old": (
        [
            chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
            chunk({"function_call": {"arguments": '{"a":'}}),
            chunk({"function_call": {"arguments": "1}"}}),
            chunk({}, "function_call"),
            DONE,
        ],
        [ToolCall("", "f", '{"a":1}')],
        Stop("tool_calls", "function_call"),
    ),
    "text around a call": (
        [chunk({"content": "a"}), calls(piece(0, "c1", "f", "{}")), chunk({"content": "b"}), CALLED, DONE],
        [Text("a"), ToolCall("c1", "f", "{}"), Text("b")],
        Stop("tool_calls", "tool_calls"),
    ),
    "text after a call that was only announced": (
        [calls(piece(0, "c1", "f", "")), chunk({"content": "b"}), CALLED, DONE],
        [ToolCall("c1", "f", ""), Text("b")],
        Stop("tool_calls", "tool_calls"),
    ),
    "G103 reasoning_content": (
        [
            chunk({"reasoning_content": "h"}),
            chunk({"reasoning_content": "m", "content": None}),
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        [Reasoning("hm"), Text("a")],
        Stop("end", "stop"),
    ),
    "reasoning as an object (Envoy)": (
        [
            chunk({"reasoning_content": {"text": "hm"}}),
            chunk({"reasoning_content": {"signature": "c2ln"}}),
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        [Reasoning("hm"), Text("a")],
        Stop("end", "stop"),
    ),
    "G103 reasoning": (
        [chunk({"reasoning": "hm"}), chunk({"content": "a", "reasoning": None}), END, DONE],
        [Reasoning("hm"), Text("a")],
        Stop("end", "stop"),
    ),
    "G103 reasoning_text (GitHub Copilot), and Mistral's padding": (
        [{**chunk({"reasoning_text": "hm"}), "p": "abc"}, chunk({"content": "a"}), END, DONE],
        [Reasoning("hm"), Text("a")],
        Stop("end", "stop"),
    ),
    "G103 both fields say the same": (
        [chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "a"}), END, DONE],
        [Reasoning("hm"), Text("a")],
        Stop("end", "stop"),
    ),
    "G103 details beside reasoning": (
        [
            chunk(
                {"reasoning": "h", "reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]}
            ),
            chunk(
                {"reasoning": "m", "reasoning_details": [{"type": "reasoning.text", "text": "m", "index": 0}]}
            ),
            chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        [
            Reasoning(
                "hm", state=State(OURS, '[{"type":"reasoning.text","text":"hm","index":0,"signature":"s"}]')
            ),
            Text("a"),
        ],
        Stop("end", "stop"),
    ),
    "G103 details alone": (
        [
            chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}]}),
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        [
            Reasoning("hm", state=State(OURS, '[{"type":"reasoning.summary","summary":"hm","index":0}]')),
            Text("a"),
        ],
        Stop("end", "stop"),
    ),
    "encrypted details before a call": (
        [
            chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}]}),
            calls(piece(0, "c1", "f", "{}")),
            CALLED,
            DONE,
        ],
        [
            Reasoning("", True, state=State(OURS, '[{"type":"reasoning.encrypted","data":"x","index":0}]')),
            ToolCall("c1", "f", "{}"),
        ],
        Stop("tool_calls", "tool_calls"),
    ),
    "details that come after the text": (
        [
            chunk({"content": "a"}),
            chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}]}),
            END,
            DONE,
        ],
        [
            Text("a"),
            Reasoning("", True, state=State(OURS, '[{"type":"reasoning.encrypted","data":"x","index":0}]')),
        ],
        Stop("end", "stop"),
    ),
    "thinking in the content (Mistral)": (
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]}),
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]}),
            chunk({"content": [{"type": "text", "text": "a"}]}),
            chunk({"content": "b"}),
            END,
            DONE,
        ],
        [Reasoning("hm"), Text("ab")],
        Stop("end", "stop"),
    ),
    "refusal": (
        [ROLE, chunk({"refusal": "I "}), chunk({"refusal": "can't"}), END, DONE],
        [Refusal("I can't")],
        Stop("refusal", "stop"),
    ),
    "null and empty fields": (
        [
            chunk(
                {
                    "content": None,
                    "refusal": None,
                    "tool_calls": None,
                    "reasoning": "",
                    "function_call": {"name": ""},
                }
            ),
            chunk({"content": "a", "tool_calls": []}),
            END,
            DONE,
        ],
        [Text("a")],
        Stop("end", "stop"),
    ),
    "G97 signature of a call": (
        [
            calls(piece(0, "c1", "f", "{}", extra_content={"google": {"thought_signature": "c2ln"}})),
            END,
            DONE,
        ],
        [ToolCall("c1", "f", "{}", state=State(OURS, "c2ln"))],
        Stop("end", "stop"),
    ),
    "G97 signature that comes later": (
        [
            calls(piece(0, "c1", "f", "{}")),
            calls(piece(0, arguments="", extra_content={"vertex": {"thought_signature": "c2ln"}})),
            END,
            DONE,
        ],
        [ToolCall("c1", "f", "{}", state=State(OURS, "c2ln"))],
        Stop("end", "stop"),
    ),
    "sources": (
        [
            chunk({"content": "fact"}),
            chunk(
                {
                    "annotations": [
                        {"type": "url_citation", "url_citation": {"url": "https://a", "title": "A"}}
                    ]
                }
            ),
            END,
            DONE,
        ],
        [Text("fact", (Citation("https://a", "A"),))],
        Stop("end", "stop"),
    ),
    "sources before the text": (
        [
            chunk(
                {
                    "role": "assistant",
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a"}}],
                }
            ),
            chunk({"content": "fact"}),
            END,
            DONE,
        ],
        [Text("fact", (Citation("https://a"),))],
        Stop("end", "stop"),
    ),
    "pictures": (
        [
            chunk({"content": "see"}),
            chunk(
                {
                    "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}],
                    "role": "assistant",
                }
            ),
            END,
            DONE,
        ],
        [Text("see"), Media("image", "image/png", Base64("QQ=="))],
        Stop("end", "stop"),
    ),
    "speech": (
        [
            chunk({"role": "assistant", "audio": {"id": "a", "transcript": "Hel"}}),
            chunk({"audio": {"transcript": "lo"}, "content": None}),
            chunk({"audio": {"data": "QQ=="}, "content": None}),
            END,
            chunk({"audio": {"expires_at": 9}, "content": None}),
            DONE,
        ],
        [
            Foreign(
                OURS, {"audio": {"id": "a", "transcript": "Hello", "data": "QQ==", "expires_at": 9}}, "Hello"
            )
        ],
        Stop("end", "stop"),
    ),
    "finish said twice (OpenRouter)": (
        [
            chunk({"content": "a"}),
            END,
            chunk({"role": "assistant", "content": ""}, "stop", usage={"prompt_tokens": 1}),
            DONE,
        ],
        [Text("a")],
        Stop("end", "stop"),
    ),
    "frames after [DONE]": (
        [chunk({"content": "a"}), END, DONE, chunk({"content": "b"}), DONE],
        [Text("a")],
        Stop("end", "stop"),
    ),
    "blanks around [DONE], and empty frames": (
        [" ", chunk({"content": "a"}), END, "", " [DONE] "],
        [Text("a")],
        Stop("end", "stop"),
    ),
    "the preface of Azure": (
        [
            {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": [{}]},
            chunk({"content": "a"}),
            END,
            DONE,
        ],
        [Text("a")],
        Stop("end", "stop"),
    ),
    "a finish of Mistral": (
        [chunk({"content": "a"}), chunk({}, "model_length"), DONE],
        [Text("a")],
        Stop("context_full", "model_length"),
    ),
}


@pytest.mark.parametrize("row", STREAMS.values(), ids=STREAMS)
def test_what_a_stream_says(row: tuple[list[Any], list[Any], Stop]) -> None:
    items, parts, stop = row
    response = fold(decode(*items)[0])
    assert [bare(part) for part in response.parts] == parts
    assert response.stop == stop
    assert (response.id, response.model, response.created) == ("chatcmpl-1", "m", 17)


@pytest.mark.parametrize("items", [row[0] for row in STREAMS.values()], ids=STREAMS)
def test_the_events_of_a_stream_are_in_order(items: list[Any]) -> None:
    events, _ = decode(*items)
    assert isinstance(events[0], ResponseStart)
    assert [event for event in events if isinstance(event, ResponseEnd | ResponseFailed)] == [events[-1]]
    opened: set[int] = set()
    closed: set[int] = set()
    for event in events:
        match event:
            case PartStart(index):
                assert index not in opened
                opened.add(index)
            case PartDelta(index):
                assert index in opened - closed
                assert event.text or event.state or event.citation
            case PartEnd(index):
                assert index in opened - closed
                closed.add(index)
            case _:
                pass
    assert opened == closed


def test_events_come_as_early_as_they_can() -> None:
    decoder = CODEC.stream_decoder(Losses())
    assert list(decoder.feed(frame(ROLE))) == [ResponseStart("chatcmpl-1", "m", created=17)]
    assert list(decoder.feed(frame(chunk({"content": "a"})))) == [PartStart(0, Text()), PartDelta(0, "a")]
    assert list(decoder.feed(frame(chunk({"content": "b"})))) == [PartDelta(0, "b")]
    assert list(decoder.feed(frame(calls(piece(0, "c1", "f", ""))))) == []
    started = list(decoder.feed(frame(calls(piece(0, arguments="{")))))
    assert [type(event) for event in started] == [PartEnd, PartStart, PartDelta]
    assert list(decoder.feed(frame(calls(piece(0, arguments="}"))))) == [PartDelta(1, "}")]
    assert list(decoder.feed(frame(CALLED))) == []


TWINS: dict[str, tuple[Wire, list[Any], str]] = {
    "text": (
        {"role": "assistant", "content": "Hello"},
        [chunk({"content": "Hel"}), chunk({"content": "lo"})],
        "stop",
    ),
    "calls": (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "p", "input": "x"}},
            ],
        },
        [
            calls(piece(0, "c1", "f", "")),
            calls(piece(0, arguments='{"a":1}')),
            chunk(
                {
                    "tool_calls": [
                        {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "p", "input": "x"}}
                    ]
                }
            ),
        ],
        "tool_calls",
    ),
    "refusal": (
        {"role": "assistant", "content": None, "refusal": "no"},
        [chunk({"refusal": "n"}), chunk({"refusal": "o"})],
        "stop",
    ),
    "a cut call": (
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a'}}],
        },
        [calls(piece(0, "c1", "f", '{"a'))],
        "length",
    ),
}


@pytest.mark.parametrize("row", TWINS.values(), ids=TWINS)
def test_streamed_equals_whole(row: tuple[Wire, list[Any], str]) -> None:
    message, items, finish = row
    body = {**chunk(usage=USAGE), "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    whole = CODEC.decode_response(body, Losses())
    streamed = fold(decode(*items, chunk({}, finish), chunk(usage=USAGE), DONE)[0])
    assert replace(streamed, extras=None) == replace(whole, extras=None)
