"""Whole Responses replies, both ways, and their errors."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import Response as SdkResponse

import dragoman
from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.errors import UpstreamError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
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
from dragoman.core.seal import seal
from dragoman.protocols.openai_responses import CODEC

OWN = "openai-responses"
END = Stop("end")
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 17,
}
TEXT = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
MESSAGE = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [TEXT]}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"a": 1}',
}
URL = {"type": "url_citation", "start_index": 0, "end_index": 2, "title": "T", "url": "https://example.com"}


def body(*output: Wire, **more: Any) -> Wire:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1790000000,
        "status": "completed",
        "model": "gpt-5",
        "output": list(output),
        "usage": USAGE,
        "error": None,
        "incomplete_details": None,
        **more,
    }


def decode(wire: Wire) -> tuple[Response, list[str]]:
    losses = Losses()
    return CODEC.decode_response(wire, losses), [str(loss) for loss in losses]


def encode(
    *parts: AnyPart, stop: Stop = END, request: Request | None = None, **more: Any
) -> tuple[Wire, list[str]]:
    losses = Losses()
    response = Response("resp_1", "m", parts, stop, **more)
    return CODEC.encode_response(response, losses, request), [str(loss) for loss in losses]


SAME: dict[str, Wire] = {
    "text": body(MESSAGE),
    "nothing": body(),
    "no output at all": {"id": "resp_1", "status": "completed"},
    "several parts and kinds": body(
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {
            **MESSAGE,
            "phase": "commentary",
            "content": [TEXT, {"type": "refusal", "refusal": "no"}, {**TEXT, "text": ""}],
        },
        CALL,
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "c",
            "name": "p",
            "input": "x",
            "status": "completed",
        },
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "d",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {**MESSAGE, "id": "msg_2", "content": []},
        {"type": "message", "id": "msg_3", "role": "assistant", "status": "completed"},
    ),
    "annotations": body(
        {
            **MESSAGE,
            "content": [
                {
                    **TEXT,
                    "annotations": [
                        URL,
                        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
                    ],
                },
                {"type": "output_text", "text": "x"},
                {"type": "output_text", "text": "x", "annotations": None, "logprobs": [{"token": "x"}]},
            ],
        }
    ),
    "incomplete": body(
        {**CALL, "status": "incomplete", "arguments": '{"a'},
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    ),
    "echoes and unknown fields": body(
        MESSAGE, tools=[], temperature=1.0, store=True, usage={**USAGE, "cost": 1}, new={}
    ),
    "nulls": body(usage=None, created_at=None, model=None),
}


@pytest.mark.parametrize("wire", SAME.values(), ids=SAME)
def test_responses_return_unchanged(wire: Wire):
    before = copy.deepcopy(wire)
    assert CODEC.encode_response(decode(wire)[0], Losses()) == before
    assert wire == before


PARTS: dict[str, tuple[list[Wire], list[AnyPart], list[str]]] = {
    "text": ([MESSAGE], [Text("hi")], []),
    "parts of a message": (
        [{**MESSAGE, "content": [TEXT, {"type": "refusal", "refusal": "no"}]}],
        [Text("hi"), Refusal("no")],
        [],
    ),
    "calls": (
        [
            CALL,
            {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "raw"},
            {**CALL, "namespace": "n"},
        ],
        [
            ToolCall("call_1", "f", '{"a": 1}'),
            ToolCall("c", "p", "raw", "custom"),
            ToolCall("call_1", "f", '{"a": 1}', namespace="n"),
        ],
        [],
    ),
    "reasoning": (
        [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "g",
            }
        ],
        [Reasoning("hm", state=State(OWN, "g", "rs_1"))],
        [],
    ),
    "citations": (
        [{**MESSAGE, "content": [{**TEXT, "annotations": [URL]}]}],
        [Text("hi", (Citation("https://example.com", "T", start=0, end=2),))],
        [],
    ),
    "citations of files": (
        [{**MESSAGE, "content": [{**TEXT, "annotations": [{"type": "file_path", "file_id": "f"}]}]}],
        [Text("hi", (Citation(""),))],
        ["dropped output[0].content[0].annotations[0]: Only openai-responses has this citation."],
    ),
    "logprobs": (
        [{**MESSAGE, "content": [{**TEXT, "logprobs": [{"token": "h"}]}]}],
        [Text("hi")],
        ["dropped output[0].content[0].logprobs: Only openai-responses has this field."],
    ),
    "hosted calls": (
        [{"type": "web_search_call", "id": "ws_1"}],
        [Foreign(OWN, {"type": "web_search_call", "id": "ws_1"})],
        ["dropped output[0]: Only openai-responses understands an item of type web_search_call."],
    ),
}


def bare(part: Any) -> Any:
    if isinstance(part, Text):
        part = replace(part, citations=tuple(replace(citation, extras=None) for citation in part.citations))
    return replace(part, extras=None)


@pytest.mark.parametrize("output, parts, losses", PARTS.values(), ids=PARTS)
def test_output_becomes_parts(output: list[Wire], parts: list[AnyPart], losses: list[str]):
    response, reported = decode(body(*output))
    assert [bare(part) for part in response.parts] == parts
    assert reported == losses


STOPS: dict[str, tuple[Wire, Stop]] = {
    "end": (body(MESSAGE), Stop("end", "completed")),
    "G26 calls": (body(CALL), Stop("tool_calls", "completed")),
    "length": (
        body(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        Stop("length", "max_output_tokens"),
    ),
    "length, as some servers say it": (
        body(MESSAGE, status="incomplete", incomplete_details={"reason": "max_tokens"}),
        Stop("length", "max_tokens"),
    ),
    "G29 filtered": (
        body(MESSAGE, status="incomplete", incomplete_details={"reason": "content_filter"}),
        Stop("content_filter", "content_filter"),
    ),
    "steered": (
        body(status="incomplete", incomplete_details={"reason": "steered"}),
        Stop("other", "steered"),
    ),
    "incomplete, without details": (body(status="incomplete"), Stop("length", "incomplete")),
    "no status": ({"output": [MESSAGE]}, Stop("end", "")),
    "null as R writes it": (body(MESSAGE, error={}, incomplete_details={}), Stop("end", "completed")),
    "only a call that was cut": (body({**CALL, "status": "incomplete"}), Stop("end", "completed")),
}


@pytest.mark.parametrize("wire, stop", STOPS.values(), ids=STOPS)
def test_the_stop_reason(wire: Wire, stop: Stop):
    assert decode(wire)[0].stop == stop


def test_g28_a_call_that_was_cut_is_not_complete():
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    silent = {key: value for key, value in CALL.items() if key != "status"}
    response, _ = decode(body(CALL, {**silent, "arguments": '{"a'}, **cut))
    assert [part.complete for part in response.parts if isinstance(part, ToolCall)] == [True, False]


ECHOES = """
    access_programs background billing completed_at content_filters conversation error frequency_penalty
    image incomplete_details instructions max_output_tokens max_tool_calls metadata moderation object
    parallel_tool_calls presence_penalty previous_response_id prompt prompt_cache_key prompt_cache_options
    prompt_cache_retention reasoning safety_identifier service_tier status store temperature text
    tool_choice tool_usage tools top_logprobs top_p truncation user
"""


def test_what_a_response_repeats_is_not_reported():
    assert decode(dict.fromkeys(ECHOES.split(), "x"))[1] == []


def test_the_rest_of_a_response():
    response, losses = decode(body(MESSAGE, service_tier="default", billing={}, new=1))
    assert (response.id, response.model, response.created) == ("resp_1", "gpt-5", 1790000000)
    assert response.usage == Usage(10, 7, 4, 1, 3)
    assert losses == ["dropped new: Only openai-responses has this field."]


ENCODED: dict[str, tuple[list[AnyPart], list[Wire], list[str]]] = {
    "text": ([Text("hi")], [{**MESSAGE, "id": "msg_1_0"}], []),
    "nothing to say": ([Text(""), Reasoning(""), Foreign("gemini", {})], [], []),
    "G49 ids by place and kind": (
        [
            Reasoning("hm"),
            Text("hi"),
            ToolCall("call_1", "f", '{"a": 1}'),
            ToolCall("c", "p", "raw", "custom"),
        ],
        [
            {"id": "rs_1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {**MESSAGE, "id": "msg_1_1"},
            {**CALL, "id": "fc_1_2"},
            {
                "id": "ctc_1_3",
                "type": "custom_tool_call",
                "status": "completed",
                "call_id": "c",
                "name": "p",
                "input": "raw",
            },
        ],
        [],
    ),
    "own state": (
        [Reasoning("hm", state=State(OWN, "gAAA", "rs_9"))],
        [
            {
                "id": "rs_9",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "gAAA",
            }
        ],
        [],
    ),
    "G97 state of others travels sealed": (
        [Reasoning(hidden=True, state=State("gemini", "sig"))],
        [
            {
                "id": "rs_1_0",
                "type": "reasoning",
                "summary": [],
                "encrypted_content": seal("gemini", "sig", ""),
            }
        ],
        [],
    ),
    "G28 a call that was cut": (
        [ToolCall("call_1", "f", '{"a', complete=False)],
        [{**CALL, "id": "fc_1_0", "arguments": '{"a', "status": "incomplete"}],
        [],
    ),
    "G91 a namespace": (
        [ToolCall("call_1", "f", '{"a": 1}', namespace="n")],
        [{**CALL, "id": "fc_1_0", "namespace": "n"}],
        [],
    ),
    "G93 a local shell": (
        [ToolCall("c", "local_shell", '{"command":["ls"]}', "local_shell")],
        [
            {
                "id": "lsh_1_0",
                "type": "local_shell_call",
                "status": "completed",
                "call_id": "c",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            }
        ],
        [],
    ),
    "a refusal": (
        [Refusal("no")],
        [{**MESSAGE, "id": "msg_1_0", "content": [{"type": "refusal", "refusal": "no"}]}],
        [],
    ),
    "citations": (
        [
            Text(
                "hi",
                (
                    Citation("https://example.com", "T"),
                    Citation("", "of a file"),
                    Citation("u", start=1, end=2),
                ),
            )
        ],
        [
            {
                **MESSAGE,
                "id": "msg_1_0",
                "content": [
                    {
                        **TEXT,
                        "annotations": [
                            URL,
                            {**URL, "start_index": 1, "end_index": 2, "title": "", "url": "u"},
                        ],
                    }
                ],
            }
        ],
        [],
    ),
    "a picture": (
        [Media("image", "image/png", Base64("iVBOR"))],
        [
            {
                "id": "ig_1_0",
                "type": "image_generation_call",
                "status": "completed",
                "output_format": "png",
                "result": "iVBOR",
            }
        ],
        [],
    ),
    "audio": (
        [Media("audio", "audio/wav", Base64("x"), where="a")],
        [{**MESSAGE, "id": "msg_1_0", "content": [{**TEXT, "text": "[audio of type audio/wav left out]"}]}],
        ["dropped a: openai-responses takes no audio of this form (audio/wav) here."],
    ),
}


@pytest.mark.parametrize("parts, output, losses", ENCODED.values(), ids=ENCODED)
def test_parts_become_output(parts: list[AnyPart], output: list[Wire], losses: list[str]):
    wire, reported = encode(*parts)
    assert wire["output"] == output
    assert reported == losses


def test_the_call_of_a_search_that_the_client_runs():
    tool = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    request = CODEC.decode_request({"model": "m", "input": "hi", "tools": [tool]}, Losses())
    call = ToolCall("c", "tool_search", '{"q":"x"}')
    assert encode(call, request=request)[0]["output"] == [
        {
            "type": "tool_search_call",
            "id": "tsc_1_0",
            "call_id": "c",
            "execution": "client",
            "status": "completed",
            "arguments": {"q": "x"},
        }
    ]
    assert encode(call)[0]["output"][0]["type"] == "function_call"


STATUSES: dict[str, tuple[Stop, tuple[AnyPart, ...], str, Any]] = {
    "end": (Stop("end"), (), "completed", None),
    "calls": (Stop("tool_calls"), (), "completed", None),
    "length": (Stop("length"), (), "incomplete", {"reason": "max_output_tokens"}),
    "G30 context full": (Stop("context_full"), (), "incomplete", {"reason": "max_output_tokens"}),
    "G29 filtered": (Stop("content_filter"), (), "incomplete", {"reason": "content_filter"}),
    "a refusal without text": (Stop("refusal"), (), "incomplete", {"reason": "content_filter"}),
    "a refusal with text": (Stop("refusal"), (Refusal("no"),), "completed", None),
    "G29 a malformed call": (Stop("malformed_call"), (), "incomplete", {"reason": "malformed_call"}),
    "a pause": (Stop("pause"), (), "completed", None),
}


@pytest.mark.parametrize("stop, parts, status, details", STATUSES.values(), ids=STATUSES)
def test_the_status(stop: Stop, parts: tuple[AnyPart, ...], status: str, details: Any):
    wire, _ = encode(*parts, stop=stop)
    assert (wire["status"], wire["incomplete_details"]) == (status, details)


def test_g32_usage_has_every_number():
    assert encode(usage=Usage(10, 7, 4, 1, 3))[0]["usage"] == USAGE
    assert encode()[0]["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}


def test_the_settings_of_the_request_are_repeated():
    body_in: Wire = {
        "model": "m",
        "input": "hi",
        "instructions": "be brief",
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "text": {"verbosity": "low"},
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
        "store": False,
        "max_output_tokens": 5,
    }
    wire, _ = encode(request=CODEC.decode_request(body_in, Losses()))
    for key in body_in.keys() - {"model", "input", "text", "reasoning"}:
        assert wire[key] == body_in[key]
    assert wire["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert wire["reasoning"] == {"effort": "low", "summary": None}


def test_without_a_request_there_are_defaults():
    wire, _ = encode(Text("hi"), created=5)
    assert wire["tools"] == []
    assert wire["tool_choice"] == "auto"
    assert wire["parallel_tool_calls"] is True
    assert wire["created_at"] == 5
    assert wire["object"] == "response"


@pytest.mark.parametrize("parts", [row[0] for row in ENCODED.values()], ids=ENCODED)
def test_the_sdk_reads_what_we_write(parts: list[AnyPart]):
    wire, _ = encode(*parts, usage=Usage(1, 2))
    read = SdkResponse.model_validate(wire)
    if not any(isinstance(part, Media) for part in parts):
        assert read.output_text == "".join(part.text for part in parts if isinstance(part, Text))
    ids = [
        item.call_id
        for item in read.output
        if item.type == "function_call" or item.type == "custom_tool_call"
    ]
    assert ids == [part.id for part in parts if isinstance(part, ToolCall) and part.kind != "local_shell"]


IDS = {
    "its own": ("resp_abc", "resp_abc"),
    "another protocol's": ("msg_abc", "resp_msg_abc"),
    "none": ("", "resp_dragoman"),
}


@pytest.mark.parametrize("id, expected", IDS.values(), ids=IDS)
def test_ids_of_responses(id: str, expected: str):
    assert CODEC.encode_response(Response(id, "m", (), Stop("end")), Losses())["id"] == expected


def test_ids_of_items_are_legal_and_short():
    response = Response("resp_" + "é/" * 100, "m", (Text("a"), Text("b")), Stop("end"))
    ids = [item["id"] for item in CODEC.encode_response(response, Losses())["output"]]
    assert len(set(ids)) == 2
    assert all(id.startswith("msg_") and id.isascii() and len(id) <= 64 for id in ids)


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_an_unfinished_response_is_a_failure(status: str):
    with pytest.raises(UpstreamError, match=status):
        decode(body(MESSAGE, status=status, background=True))
    exchange = dragoman.Exchange("openai-chat", "openai-responses")
    assert "error" in exchange.response(body(status=status))
    stream = dragoman.Exchange("openai-chat", "openai-responses").stream()
    assert b'"error"' in stream.feed(jsontext.encode(body(status=status))) + stream.close()


def test_a_response_in_the_background_is_forwarded():
    queued = body(status="queued", background=True)
    assert dragoman.Exchange("openai-responses", "openai-responses").response(queued) == queued


# Errors

NO_REPLIES: list[Wire] = [
    {},
    {"detail": "why"},
    {"errors": [{"message": "why"}]},
    {"error": "why"},
    {"error": None, "message": "why"},
]


@pytest.mark.parametrize("client", ["openai-chat", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("wire", NO_REPLIES)
def test_a_body_that_is_no_reply_is_a_failure(client: str, upstream: str, wire: Wire):
    exchange = dragoman.Exchange(client, upstream)
    assert b'"error"' in exchange.response_bytes(jsontext.encode(wire))
    assert exchange.failure
    assert "why" in exchange.failure.message or not wire
    stream = dragoman.Exchange(client, upstream).stream()
    assert b'"error"' in stream.feed(jsontext.encode(wire)) + stream.close()
    assert stream.failure


ERRORS: dict[str, tuple[Wire, int, tuple[str, int, str] | None]] = {
    "no error": (body(MESSAGE), 0, None),
    "quota": (
        {
            "error": {
                "message": "quota",
                "type": "insufficient_quota",
                "param": None,
                "code": "insufficient_quota",
            }
        },
        429,
        ("billing", 429, "quota"),
    ),
    "quota by its type": (
        {"error": {"message": "q", "type": "insufficient_quota"}},
        429,
        ("billing", 429, "q"),
    ),
    "rate limit": (
        {"error": {"message": "slow", "code": "rate_limit_exceeded"}},
        429,
        ("rate_limit", 429, "slow"),
    ),
    "G36 context": (
        {
            "error": {
                "message": "too long",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        400,
        ("context_too_long", 400, "too long"),
    ),
    "G36 context in words": (
        {"error": {"message": "This model's maximum context length is 8", "type": "invalid_request_error"}},
        400,
        ("context_too_long", 400, "This model's maximum context length is 8"),
    ),
    "bad request": (
        {"error": {"message": "bad", "type": "invalid_request_error", "code": None}},
        0,
        ("bad_request", 400, "bad"),
    ),
    "by status": (
        {"error": {"message": "who", "type": "invalid_request_error"}},
        401,
        ("unauthenticated", 401, "who"),
    ),
    "unknown model": ({"error": {"message": "m", "code": "model_not_found"}}, 404, ("not_found", 404, "m")),
    "a failed response": (
        body(status="failed", error={"code": "server_error", "message": "oops"}),
        0,
        ("server", 500, "oops"),
    ),
    "a failed response without words": (
        body(status="failed"),
        0,
        ("server", 500, "the response failed without saying why"),
    ),
    "overloaded": (
        body(status="failed", error={"code": "server_is_overloaded", "message": "later"}),
        0,
        ("overloaded", 503, "later"),
    ),
    "a flat event": ({"type": "error", "code": "server_error", "message": "x"}, 0, ("server", 500, "x")),
    "a string": ({"error": "nope"}, 400, ("bad_request", 400, "nope")),
    "a status as the code": ({"error": {"message": "x", "code": 429}}, 0, ("rate_limit", 429, "x")),
    "vLLM": (
        {"object": "error", "message": "x", "type": "BadRequestError", "code": 400},
        400,
        ("bad_request", 400, "x"),
    ),
    "FastAPI": ({"detail": "Not Found"}, 404, ("not_found", 404, "Not Found")),
    "detail with status 200": ({"detail": "Not Found"}, 200, ("server", 502, "Not Found")),
    "nothing with status 200": ({}, 200, ("server", 502, "the upstream's reply has no output")),
    "an event": ({"type": "response.output_text.delta"}, 0, None),
    "nothing sensible": (
        {"error": {"message": 5}},
        502,
        ("server", 502, "the upstream failed without saying why"),
    ),
}


@pytest.mark.parametrize("wire, status, expected", ERRORS.values(), ids=ERRORS)
def test_errors_become_failures(wire: Wire, status: int, expected: tuple[str, int, str] | None):
    failure = CODEC.decode_error(wire, status)
    assert (failure and (failure.kind, failure.status, failure.message)) == expected


FAILURES: dict[str, tuple[Any, int, str, str | None]] = {
    "bad request": ("bad_request", 400, "invalid_request_error", None),
    "G36 context": ("context_too_long", 400, "invalid_request_error", "context_length_exceeded"),
    "too large": ("too_large", 413, "invalid_request_error", None),
    "key": ("unauthenticated", 401, "invalid_request_error", "invalid_api_key"),
    "billing": ("billing", 429, "insufficient_quota", "insufficient_quota"),
    "forbidden": ("forbidden", 403, "permission_error", None),
    "not found": ("not_found", 404, "invalid_request_error", "model_not_found"),
    "G35 rate limit": ("rate_limit", 429, "rate_limit_error", "rate_limit_exceeded"),
    "server": ("server", 500, "server_error", None),
    "overloaded": ("overloaded", 503, "server_error", "server_is_overloaded"),
    "timeout": ("timeout", 504, "server_error", None),
    "truncated": ("truncated", 502, "server_error", None),
}


@pytest.mark.parametrize("kind, status, type, code", FAILURES.values(), ids=FAILURES)
def test_failures_become_errors(kind: Any, status: int, type: str, code: str | None):
    known, wire = CODEC.encode_error(Failure(kind, "no context window"))
    assert known == status
    assert wire == {"error": {"message": "no context window", "type": type, "param": None, "code": code}}


def test_the_address():
    assert CODEC.http.path("gpt-5", True) == "/responses"
    assert CODEC.http.authenticate(Credential(key="k"), OutgoingRequest("POST", "", {}, b"")) == {
        "authorization": "Bearer k"
    }
