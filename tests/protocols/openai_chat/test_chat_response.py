"""Chat completions: what a whole reply means, what goes back unchanged, how another's reply is written."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
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
    ToolDeclaration,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.openai_chat import CODEC

OURS = "openai-chat"


def completion(message: Wire, finish: Any = "stop", **more: Any) -> Wire:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 17,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": finish,
                "logprobs": None,
            }
        ],
        **more,
    }


def call(id: str, name: str, arguments: Any = "{}") -> Wire:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def decode(body: Wire) -> tuple[Response, list[str]]:
    losses = Losses()
    return CODEC.decode_response(body, losses), [str(loss) for loss in losses]


def bare(part: Any) -> Any:
    if isinstance(part, Text):
        part = replace(part, citations=tuple(replace(c, extras=None) for c in part.citations))
    return replace(part, extras=None)


SOURCE = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 4, "title": "A", "url": "https://a"},
}
REPLIES: dict[str, tuple[Wire, list[Any], Stop, list[str]]] = {
    "text": (completion({"content": "hi", "refusal": None}), [Text("hi")], Stop("end", "stop"), []),
    "calls": (
        completion(
            {"content": None, "tool_calls": [call("c1", "f", '{"a":1}'), call("c2", "g")]}, "tool_calls"
        ),
        [ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g", "{}")],
        Stop("tool_calls", "tool_calls"),
        [],
    ),
    "G26 calls under an ordinary stop": (
        completion({"content": "", "tool_calls": [call("c1", "f")]}, "stop"),
        [ToolCall("c1", "f", "{}")],
        Stop("end", "stop"),
        [],
    ),
    "function_call of old": (
        completion({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"),
        [ToolCall("", "f", "{}")],
        Stop("tool_calls", "function_call"),
        [],
    ),
    "length": (completion({"content": "hi"}, "length"), [Text("hi")], Stop("length", "length"), []),
    "G28 a call that was cut": (
        completion({"content": None, "tool_calls": [call("c1", "f"), call("c2", "g", '{"a')]}, "length"),
        [ToolCall("c1", "f", "{}"), ToolCall("c2", "g", '{"a', complete=False)],
        Stop("length", "length"),
        [],
    ),
    "G66 a call that is broken but was not cut": (
        completion({"content": None, "tool_calls": [call("c1", "f", '{"a')]}, "tool_calls"),
        [ToolCall("c1", "f", '{"a')],
        Stop("tool_calls", "tool_calls"),
        [],
    ),
    "a call without a name": (
        completion(
            {"content": "x", "tool_calls": None, "function_call": {"name": "", "arguments": ""}}, "stop"
        ),
        [Text("x")],
        Stop("end", "stop"),
        [],
    ),
    "G29 filter": (
        completion({"content": ""}, "content_filter"),
        [],
        Stop("content_filter", "content_filter"),
        [],
    ),
    "G29 refusal": (
        completion({"content": None, "refusal": "no"}),
        [Refusal("no")],
        Stop("refusal", "stop"),
        [],
    ),
    "context full (Mistral)": (
        completion({"content": "x"}, "model_length"),
        [Text("x")],
        Stop("context_full", "model_length"),
        [],
    ),
    "error (Mistral)": (
        completion({"content": "x"}, "error"),
        [Text("x")],
        Stop("other", "error"),
        ["changed choices[0].finish_reason: No other protocol says error. The nearest reason was sent."],
    ),
    "a finish nobody knows": (
        completion({"content": "x"}, "tired"),
        [Text("x")],
        Stop("other", "tired"),
        ["changed choices[0].finish_reason: No other protocol says tired. The nearest reason was sent."],
    ),
    "the end, as Together says it": (
        completion({"content": "x"}, "eos"),
        [Text("x")],
        Stop("end", "eos"),
        [],
    ),
    "no finish": (completion({"content": "x"}, None), [Text("x")], Stop("end", ""), []),
    "an empty finish": (completion({"content": "x"}, ""), [Text("x")], Stop("end", ""), []),
    "G97 signature of Gemini's endpoint, which wants it back": (
        completion(
            {
                "content": None,
                "tool_calls": [
                    {**call("c1", "f"), "extra_content": {"google": {"thought_signature": "c2ln"}}},
                ],
            },
            "tool_calls",
        ),
        [ToolCall("c1", "f", "{}", state=State(OURS, "c2ln"))],
        Stop("tool_calls", "tool_calls"),
        [],
    ),
    "G103 reasoning": (
        completion({"content": "x", "reasoning_content": "hm"}),
        [Reasoning("hm"), Text("x")],
        Stop("end", "stop"),
        [],
    ),
    "reasoning as an object (Envoy)": (
        completion({"content": "x", "reasoning_content": {"text": "hm", "signature": "c2ln"}}),
        [Reasoning("hm"), Text("x")],
        Stop("end", "stop"),
        ["dropped choices[0].message.reasoning_content.signature: Only openai-chat has this field."],
    ),
    "sources": (
        completion({"content": "fact", "annotations": [SOURCE]}),
        [Text("fact", (Citation("https://a", "A", "", 0, 4),))],
        Stop("end", "stop"),
        [],
    ),
    "a source with its words (OpenRouter)": (
        completion(
            {
                "content": "fact",
                "annotations": [
                    {"type": "url_citation", "url_citation": {"url": "https://a", "content": "w"}}
                ],
            }
        ),
        [Text("fact", (Citation("https://a", "", "w"),))],
        Stop("end", "stop"),
        [],
    ),
    "another annotation": (
        completion({"content": "fact", "annotations": [{"type": "file", "file": {"hash": "h"}}]}),
        [Text("fact", (Citation(""),))],
        Stop("end", "stop"),
        [
            "dropped choices[0].message.annotations[0].type: Only openai-chat has this field.",
            "dropped choices[0].message.annotations[0].file: Only openai-chat has this field.",
        ],
    ),
    "empty annotations": (
        completion({"content": "x", "annotations": []}),
        [Text("x")],
        Stop("end", "stop"),
        [],
    ),
    "spoken": (
        completion({"content": None, "audio": {"id": "a", "data": "QQ=="}}),
        [Foreign(OURS, {"audio": {"id": "a", "data": "QQ=="}})],
        Stop("end", "stop"),
        ["dropped choices[0].message.audio: Only openai-chat understands spoken replies."],
    ),
    "not spoken": (
        completion({"content": "x", "audio": {"id": "", "data": "", "expires_at": 0}}),
        [Text("x")],
        Stop("end", "stop"),
        [],
    ),
    "unknown fields": (
        completion({"content": "x", "executed_tools": [1]}, citations=["https://a"]),
        [Text("x")],
        Stop("end", "stop"),
        [
            "dropped choices[0].message.executed_tools: Only openai-chat has this field.",
            "dropped citations: Only openai-chat has this field.",
        ],
    ),
    "bookkeeping": (
        completion(
            {"content": "x"},
            service_tier="default",
            system_fingerprint="fp",
            provider="P",
            x_groq={"id": "r"},
            latency_checkpoint={"pre_inference_ms": 221},
            usage={"latency_checkpoint": {"pre_inference_ms": 221}},
            temperature=1.0,
            tools=[],
        ),
        [Text("x")],
        Stop("end", "stop"),
        [],
    ),
}


@pytest.mark.parametrize("row", REPLIES.values(), ids=REPLIES)
def test_what_a_reply_means(row: tuple[Wire, list[Any], Stop, list[str]]) -> None:
    body, parts, stop, lost = row
    response, losses = decode(copy.deepcopy(body))
    assert [bare(part) for part in response.parts] == parts
    assert (response.id, response.model, response.created, response.stop) == ("chatcmpl-1", "m", 17, stop)
    assert losses == lost


@pytest.mark.parametrize("body", [row[0] for row in REPLIES.values()], ids=REPLIES)
def test_a_reply_goes_back_unchanged(body: Wire) -> None:
    assert CODEC.encode_response(CODEC.decode_response(copy.deepcopy(body), Losses()), Losses()) == body


def test_d09_a_choice_that_a_filter_emptied_is_a_reply() -> None:
    choice = {"index": 0, "finish_reason": "content_filter", "content_filter_results": {"hate": {}}}
    response, _ = decode({"id": "c", "model": "m", "choices": [choice]})
    assert (response.parts, response.stop) == ((), Stop("content_filter", "content_filter"))


def test_d09_an_object_as_content_is_its_json() -> None:
    response, losses = decode(completion({"content": {"title": "x"}}))
    assert [bare(part) for part in response.parts] == [Text('{"title":"x"}')]
    assert losses == []


def test_logprobs_are_reported_where_there_are_any() -> None:
    body = completion({"content": "x"})
    body["choices"][0]["logprobs"] = {"content": None, "refusal": None}
    assert decode(body)[1] == []
    body["choices"][0]["logprobs"] = {"content": [{"token": "x"}]}
    assert decode(body)[1] == ["dropped choices[0].logprobs: Only openai-chat has this field."]


def test_the_first_choice_is_the_reply() -> None:
    body = completion({"content": "a"})
    body["choices"].append(
        {"index": 1, "message": {"role": "assistant", "content": "b"}, "finish_reason": "stop"}
    )
    response, losses = decode(copy.deepcopy(body))
    assert [bare(part) for part in response.parts] == [Text("a")]
    assert losses == ["dropped choices[1]: Only the first choice is passed on."]
    assert CODEC.encode_response(response, Losses()) == body


def test_calls_in_a_choice_of_their_own_belong_to_the_text() -> None:
    """GitHub Copilot splits what Claude says in this way, without an index."""
    body = completion({"content": "Let me look."}, "tool_calls")
    calls = {"role": "assistant", "tool_calls": [call("1", "f", '{"a":1}')]}
    body["choices"] = [body["choices"][0], {"finish_reason": "tool_calls", "message": calls}]
    response, losses = decode(body)
    assert [bare(part) for part in response.parts] == [Text("Let me look."), ToolCall("1", "f", '{"a":1}')]
    assert (response.stop.reason, losses) == ("tool_calls", [])


def test_a_nameless_call_is_reported_and_left_out() -> None:
    response, losses = decode(completion({"content": None, "tool_calls": [call("c1", ""), call("c2", "g")]}))
    assert [bare(part) for part in response.parts] == [ToolCall("c2", "g", "{}")]
    assert losses == ["dropped choices[0].message.tool_calls[0]: A call without a name cannot run."]


def test_a_stop_that_a_dialect_found_wins_over_the_old_word() -> None:
    response, _ = decode(completion({"content": "<call/>"}))
    settled = replace(response, parts=(ToolCall("c1", "f", "{}"),), stop=Stop("tool_calls", "stop"))
    choice = CODEC.encode_response(settled, Losses())["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [call("c1", "f")]


USAGES: dict[str, tuple[Wire, Usage]] = {
    "plain": ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(3, 2)),
    "details": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        Usage(9, 5, 4, 2, 3),
    ),
    "null details": (
        {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        Usage(3, 2),
    ),
    "DeepSeek": ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 6}, Usage(9, 2, 6)),
    "Moonshot": ({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 6}, Usage(9, 2, 6)),
    "G32 thoughts in the total only (xAI, Gemini)": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 31,
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        Usage(9, 22, 0, 0, 20),
    ),
    "what was heard in the total only (Mistral)": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 248,
            "total_tokens": 632,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 375},
        },
        Usage(384, 248),
    ),
    "what was heard is in the prompt (OpenAI)": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"audio_tokens": 5},
        },
        Usage(9, 2),
    ),
    "d14 cached tokens beside the input (xAI)": (
        {
            "prompt_tokens": 154,
            "completion_tokens": 10,
            "total_tokens": 164,
            "prompt_tokens_details": {"cached_tokens": 164},
        },
        Usage(318, 10, 164),
    ),
    "d14 reasoning that exceeds the output": (
        {
            "prompt_tokens": 61,
            "completion_tokens": 10,
            "total_tokens": 71,
            "completion_tokens_details": {"reasoning_tokens": 96},
        },
        Usage(61, 10, 0, 0, 96),
    ),
    "a number for details": ({"prompt_tokens": 9, "prompt_tokens_details": 4}, Usage(9)),
    "wrong types": ({"prompt_tokens": "9", "completion_tokens": None, "prompt_tokens_details": []}, Usage()),
}


@pytest.mark.parametrize("row", USAGES.values(), ids=USAGES)
def test_what_usage_means_and_that_it_goes_back(row: tuple[Wire, Usage]) -> None:
    wire, usage = row
    body = completion({"content": "x"}, usage=wire)
    response, losses = decode(copy.deepcopy(body))
    assert response.usage == usage
    assert losses == []
    assert CODEC.encode_response(response, Losses()) == body


def reply(*parts: Any, stop: Stop | None = None, usage: Usage | None = None) -> Response:
    return Response("r-1", "m", parts, stop or Stop("end"), usage)


PNG = Media("image", "image/png", Base64("iVBORw0KGgo="))
WRITTEN: dict[str, tuple[Response, Wire, str, list[str]]] = {
    "text": (reply(Text("hi")), {"content": "hi"}, "stop", []),
    "nothing": (reply(), {"content": None}, "stop", []),
    "texts are joined": (
        reply(Text("a"), Text("b", where="content[1]")),
        {"content": "ab"},
        "stop",
        ["changed content[1]: It was joined to the text before it."],
    ),
    "calls": (
        reply(ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g"), stop=Stop("tool_calls", "tool_use")),
        {"content": None, "tool_calls": [call("c1", "f", '{"a":1}'), call("c2", "g", "{}")]},
        "tool_calls",
        [],
    ),
    "custom call": (
        reply(ToolCall("c1", "patch", "***", "custom"), stop=Stop("tool_calls")),
        {
            "content": None,
            "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "***"}}],
        },
        "tool_calls",
        [],
    ),
    "G28 a call that was cut does not run": (
        reply(Text("a"), ToolCall("c1", "f", '{"a', complete=False), stop=Stop("length")),
        {"content": "a"},
        "length",
        ["dropped tool call: The reply was cut inside this call, so it must not run."],
    ),
    "refusal": (reply(Refusal("no"), stop=Stop("refusal")), {"content": None, "refusal": "no"}, "stop", []),
    "G29 refusal without words": (reply(stop=Stop("refusal")), {"content": None}, "content_filter", []),
    "G30 context full": (reply(Text("a"), stop=Stop("context_full")), {"content": "a"}, "length", []),
    "G30 stop sequence": (
        reply(Text("a"), stop=Stop("stop_sequence", "", "END")),
        {"content": "a"},
        "stop",
        [],
    ),
    "G30 pause": (reply(Text("a"), stop=Stop("pause")), {"content": "a"}, "stop", []),
    "other": (reply(Text("a"), stop=Stop("other", "WEIRD")), {"content": "a"}, "stop", []),
    "reasoning": (
        reply(Reasoning("hm"), Reasoning("so"), Text("a")),
        {"content": "a", "reasoning_content": "hmso"},
        "stop",
        [],
    ),
    "sealed reasoning": (
        reply(
            Reasoning("hm", state=State("anthropic", "sig")),
            Reasoning(hidden=True, state=State("anthropic", "red")),
            Text("a"),
            Reasoning(hidden=True, state=State("gemini", "late")),
        ),
        {
            "content": "a",
            "reasoning_content": "hm",
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "hm",
                    "signature": seal_state(State("anthropic", "sig"), OURS),
                    "format": "dragoman-v1",
                    "index": 0,
                },
                {
                    "type": "reasoning.encrypted",
                    "data": seal_state(State("anthropic", "red"), OURS),
                    "format": "dragoman-v1",
                    "index": 1,
                },
                {
                    "type": "reasoning.encrypted",
                    "data": seal_state(State("gemini", "late"), OURS),
                    "format": "dragoman-v1",
                    "index": 2,
                    "after": "content",
                },
            ],
        },
        "stop",
        [],
    ),
    "reasoning that Chat itself signed": (
        reply(Reasoning("hm", state=State(OURS, '[{"type":"reasoning.text","signature":"s"}]')), Text("a")),
        {
            "content": "a",
            "reasoning_content": "hm",
            "reasoning_details": [{"type": "reasoning.text", "signature": "s"}],
        },
        "stop",
        [],
    ),
    "state of a call": (
        reply(ToolCall("c1", "f", "{}", state=State("gemini", "c2ln")), stop=Stop("tool_calls")),
        {
            "content": None,
            "tool_calls": [{**call("c1", "f"), "extra_content": {"google": {"thought_signature": "c2ln"}}}],
        },
        "tool_calls",
        [],
    ),
    "sources": (
        reply(
            Text("See: "),
            Text("fact", (Citation("https://a", "A", "w"), Citation("https://b", start=1, end=3))),
        ),
        {
            "content": "See: fact",
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {
                        "url": "https://a",
                        "title": "A",
                        "content": "w",
                        "start_index": 5,
                        "end_index": 9,
                    },
                },
                {
                    "type": "url_citation",
                    "url_citation": {"url": "https://b", "title": "", "start_index": 6, "end_index": 8},
                },
            ],
        },
        "stop",
        ["changed text: It was joined to the text before it."],
    ),
    "picture": (
        reply(Text("see"), PNG),
        {
            "content": "see",
            "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
        },
        "stop",
        [],
    ),
    "sound": (
        reply(Media("audio", "audio/wav", Base64("QQ=="), where="p")),
        {"content": None},
        "stop",
        ["dropped p: Chat has no audio in a message of the assistant."],
    ),
    "G44 text after a call": (
        reply(ToolCall("c1", "f", "{}"), Text("b", where="content[1]"), stop=Stop("tool_calls")),
        {"content": "b", "tool_calls": [call("c1", "f")]},
        "tool_calls",
        ["changed content[1]: Chat puts the text of a message before its calls."],
    ),
}


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN)
def test_how_a_reply_is_written(row: tuple[Response, Wire, str, list[str]]) -> None:
    response, message, finish, lost = row
    losses = Losses()
    body = CODEC.encode_response(response, losses)
    written = {"role": "assistant", "refusal": None, "annotations": [], **message}
    assert body == {
        "id": "chatcmpl-r-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": written, "finish_reason": finish, "logprobs": None}],
        "system_fingerprint": None,
    }
    assert [str(loss) for loss in losses] == lost


def test_how_usage_is_written() -> None:
    body = CODEC.encode_response(reply(usage=Usage(9, 5, 4, 2, 3)), Losses())
    assert body["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    plain = CODEC.encode_response(reply(usage=Usage(1, 1)), Losses())["usage"]
    assert plain["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_reply_always_has_an_id() -> None:
    assert CODEC.encode_response(Response("", "m", (), Stop("end")), Losses())["id"]


def test_a_client_that_declares_functions_gets_a_function_call() -> None:
    request = CODEC.decode_request({"model": "m", "messages": [], "functions": [{"name": "f"}]}, Losses())
    losses = Losses()
    two = reply(ToolCall("c1", "f", "{}"), ToolCall("c2", "g", where="second"), stop=Stop("tool_calls"))
    choice = CODEC.encode_response(two, losses, request)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"
    assert [str(loss) for loss in losses] == [
        "dropped second: A client that declares functions takes one call at a time."
    ]


def test_a_client_that_declares_tools_gets_tool_calls() -> None:
    request = Request("m", (), tools=(ToolDeclaration("f"),))
    choice = CODEC.encode_response(reply(ToolCall("c1", "f"), stop=Stop("tool_calls")), Losses(), request)[
        "choices"
    ][0]
    assert choice["message"]["tool_calls"] == [call("c1", "f", "{}")]
