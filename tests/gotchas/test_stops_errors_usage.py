"""G26-G36: why a reply ended, what went wrong, what it cost."""

from __future__ import annotations

import json

import pytest

import dragoman
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols import codec
from gotchas.exchanges import ANTHROPIC, CHAT, GEMINI, RESPONSES, others, request_body, through, tools
from seeds.wires import (
    PAIRS,
    PROTOCOLS,
    Call,
    Wire,
    chunk,
    dumps,
    fragment,
    frames,
    gathered,
    named_sse,
    read_calls,
    read_stop,
    rows,
    sse,
    whole_reply,
)

PARIS = {"city": "Paris"}
CALL = Call("c0", "get_weather", PARIS)
CALLED = {CHAT: "tool_calls", RESPONSES: "completed", ANTHROPIC: "tool_use", GEMINI: "STOP"}
ENDED = {CHAT: "stop", RESPONSES: "completed", ANTHROPIC: "end_turn", GEMINI: "STOP"}
CUT = {CHAT: "length", RESPONSES: "max_output_tokens", ANTHROPIC: "max_tokens", GEMINI: "MAX_TOKENS"}
FILTERED = {CHAT: "content_filter", RESPONSES: "content_filter", ANTHROPIC: "refusal", GEMINI: "SAFETY"}
every_pair = rows("client, upstream", PAIRS)


def stopped(upstream: str, word: str, body: Wire) -> Wire:
    """`body` with the upstream's own word for why it stopped."""
    body = json.loads(dumps(body))
    match upstream:
        case "openai-chat":
            body["choices"][0]["finish_reason"] = word
        case "anthropic":
            body["stop_reason"] = word
        case "gemini":
            body["candidates"][0]["finishReason"] = word
        case _:
            if word not in ("completed", "cancelled"):
                body |= {"status": "incomplete", "incomplete_details": {"reason": word}}
    return body


def answered(client: str, upstream: str, body: Wire, streamed: bool = False) -> Wire:
    exchange = dragoman.Exchange(client, upstream)
    return gathered(client, through(exchange, dumps(body).encode())) if streamed else exchange.response(body)


@every_pair
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G26_a_call_means_tool_calls_whatever_the_upstream_says(
    client: str, upstream: str, streamed: bool
) -> None:
    body = stopped(upstream, ENDED[upstream], whole_reply(upstream, "", [CALL]))
    out = answered(client, upstream, body, streamed)
    assert read_stop(client, out) == CALLED[client]
    assert len(read_calls(client, out)) == 1


@pytest.mark.parametrize("client", others(CHAT))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G27_tool_calls_without_a_call(client: str, streamed: bool) -> None:
    body = stopped(CHAT, "tool_calls", whole_reply(CHAT, "Done."))
    assert read_stop(client, answered(client, CHAT, body, streamed)) == ENDED[client]


PARTIAL: dict[str, bytes] = {
    CHAT: sse(chunk(fragment(0, '{"city":"Pa', "c0", "get_weather")), chunk({}, "length"), "[DONE]"),
    RESPONSES: named_sse(
        {"type": "response.created", "response": {"id": "resp_1"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {
                "type": "function_call",
                "id": "fc_0",
                "call_id": "c0",
                "name": "get_weather",
                "arguments": "",
            },
        },
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"city":"Pa'},
        {
            "type": "response.incomplete",
            "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        },
    ),
    ANTHROPIC: named_sse(
        {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c0", "name": "get_weather", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"city":"Pa'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ),
}


@rows("client, upstream", [pair for pair in PAIRS if pair[1] in PARTIAL])
def test_G28_a_call_in_which_the_tokens_ran_out_is_never_offered_as_whole(client: str, upstream: str) -> None:
    events = frames(through(dragoman.Exchange(client, upstream), PARTIAL[upstream]))
    printed = dumps(events)
    assert '"Paris' not in printed
    assert 'Pa\\"' not in printed  # nothing was closed for it
    match client:
        case "openai-chat":
            assert events[-3 if "usage" in printed else -2]["choices"][0]["finish_reason"] == "length"
        case "openai-responses":
            assert "response.output_item.done" not in [event["type"] for event in events]
            assert [item["status"] for item in events[-1]["response"]["output"]] == ["incomplete"]
            assert events[-1]["type"] == "response.incomplete"
        case "anthropic":
            assert events[-2]["delta"]["stop_reason"] == "max_tokens"
        case _:
            assert "functionCall" not in printed
            assert events[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"


STOPS: dict[str, tuple[str, str, dict[str, str]]] = {
    "G29 chat content_filter": (CHAT, "content_filter", FILTERED),
    "G29 responses content_filter": (RESPONSES, "content_filter", FILTERED),
    "G29 messages refusal": (ANTHROPIC, "refusal", FILTERED),
    "G29 gemini SAFETY": (GEMINI, "SAFETY", FILTERED),
    "G29 gemini PROHIBITED_CONTENT": (GEMINI, "PROHIBITED_CONTENT", FILTERED),
    "G29 gemini RECITATION": (GEMINI, "RECITATION", FILTERED),
    "G30 messages model_context_window_exceeded": (ANTHROPIC, "model_context_window_exceeded", CUT),
    "G30 messages stop_sequence": (ANTHROPIC, "stop_sequence", ENDED),
    "length": (CHAT, "length", CUT),
    "max_tokens": (ANTHROPIC, "max_tokens", CUT),
    "max_output_tokens": (RESPONSES, "max_output_tokens", CUT),
    "MAX_TOKENS": (GEMINI, "MAX_TOKENS", CUT),
}


@pytest.mark.parametrize("row", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_stops(row: tuple[str, str, dict[str, str]], streamed: bool) -> None:
    upstream, word, expected = row
    body = stopped(upstream, word, whole_reply(upstream, "Hello."))
    for client in others(upstream):
        assert read_stop(client, answered(client, upstream, body, streamed)) == expected[client], client


@pytest.mark.parametrize("word", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
@pytest.mark.parametrize("client", others(GEMINI))
def test_G29_a_call_that_gemini_could_not_form_is_an_error(client: str, word: str) -> None:
    body: Wire = {
        "candidates": [{"finishReason": word, "index": 0}],
        "usageMetadata": {"promptTokenCount": 3},
    }
    exchange = dragoman.Exchange(client, GEMINI)
    exchange.response(body)
    assert exchange.failure is not None
    assert exchange.failure.kind == "server"
    assert word in exchange.failure.message
    stream = dragoman.Exchange(client, GEMINI).stream()
    stream.feed(sse(body))
    stream.close()
    assert stream.failure is not None


@pytest.mark.parametrize("client", others(ANTHROPIC))
def test_G30_pause_turn_ends_well(client: str) -> None:
    """The client sees an end, and may go on."""
    out = answered(client, ANTHROPIC, stopped(ANTHROPIC, "pause_turn", whole_reply(ANTHROPIC, "Wait.")))
    assert read_stop(client, out) == {CHAT: "stop", RESPONSES: "completed", GEMINI: "OTHER"}[client]


PLACE = {
    CHAT: "choices[0].finish_reason",
    RESPONSES: "incomplete_details.reason",
    ANTHROPIC: "stop_reason",
    GEMINI: "candidates[0].finishReason",
}


@every_pair
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_unknown_reason_is_reported(client: str, upstream: str, streamed: bool) -> None:
    """DeepSeek stops with `insufficient_system_resource`, OpenRouter with `error`."""
    exchange = dragoman.Exchange(client, upstream)
    body = stopped(upstream, "insufficient_system_resource", whole_reply(upstream, "Well"))
    if streamed:
        through(exchange, dumps(body).encode())
    else:
        exchange.response(body)
    assert [(loss.code, loss.where) for loss in exchange.losses] == [("stop.reason.changed", PLACE[upstream])]


USED: dict[str, Wire] = {
    CHAT: {
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "total_tokens": 109,
            "prompt_tokens_details": {"cached_tokens": 80},
        }
    },
    RESPONSES: {
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 80},
            "output_tokens": 9,
            "total_tokens": 109,
        }
    },
    GEMINI: {
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 80, "candidatesTokenCount": 9}
    },
    ANTHROPIC: {
        "usage": {
            "input_tokens": 15,
            "cache_read_input_tokens": 80,
            "cache_creation_input_tokens": 5,
            "output_tokens": 9,
        }
    },
}


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G31_cached_tokens_are_counted_once_for_a_messages_client(upstream: str, streamed: bool) -> None:
    usage = answered(ANTHROPIC, upstream, {**whole_reply(upstream, "ok"), **USED[upstream]}, streamed)[
        "usage"
    ]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (20, 80, 9)


def test_G31_more_cached_than_asked_is_counted_beside_it() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 5}}
    out = answered(ANTHROPIC, CHAT, {**whole_reply(CHAT, "ok"), "usage": usage})
    assert (out["usage"]["input_tokens"], out["usage"]["cache_read_input_tokens"]) == (3, 5)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G31_what_messages_counts_apart_is_one_sum_elsewhere(streamed: bool) -> None:
    body = {**whole_reply(ANTHROPIC, "ok"), **USED[ANTHROPIC]}
    assert answered(CHAT, ANTHROPIC, body, streamed)["usage"]["prompt_tokens"] == 100
    assert answered(RESPONSES, ANTHROPIC, body, streamed)["usage"]["input_tokens"] == 100
    assert answered(GEMINI, ANTHROPIC, body, streamed)["usageMetadata"]["promptTokenCount"] == 100


THOUGHT = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 30, "totalTokenCount": 45}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G32_thoughts_of_gemini_are_output(streamed: bool) -> None:
    body = {**whole_reply(GEMINI, "ok"), "usageMetadata": THOUGHT}
    chat = answered(CHAT, GEMINI, body, streamed)["usage"]
    assert (chat["completion_tokens"], chat["completion_tokens_details"]["reasoning_tokens"]) == (35, 30)
    responses = answered(RESPONSES, GEMINI, body, streamed)["usage"]
    assert (responses["output_tokens"], responses["output_tokens_details"]["reasoning_tokens"]) == (35, 30)
    assert answered(ANTHROPIC, GEMINI, body, streamed)["usage"]["output_tokens"] == 35


@pytest.mark.parametrize("upstream", others(RESPONSES))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G32_codex_needs_every_number(upstream: str, streamed: bool) -> None:
    """Even where the upstream counts nothing at all."""
    body = whole_reply(upstream, "ok")
    body.pop("usage", None)
    usage = answered(RESPONSES, upstream, body, streamed)["usage"]
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert {"input_tokens", "output_tokens", "total_tokens"} <= usage.keys()


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G33_the_meter_of_claude_code_starts_with_an_estimate(upstream: str) -> None:
    exchange = dragoman.Exchange(ANTHROPIC, upstream)
    turn = {"role": "user", "content": "word " * 400}
    exchange.request(request_body(ANTHROPIC, turn, tools=tools(ANTHROPIC), stream=True), model="m")
    data = dumps({**whole_reply(upstream, "ok"), **USED[upstream]}).encode()
    events = frames(through(exchange, data))
    assert 300 < events[0]["message"]["usage"]["input_tokens"] < 1000
    assert events[-2]["usage"]["input_tokens"] == 20


# Errors: (upstream's body, its status) -> what each client's error says

BAD, LIMITED, DOWN, DENIED = "Bad thing", "Slow down", "Overloaded", "No such key"
FAILURES: dict[str, dict[str, tuple[int, Wire]]] = {
    "bad_request": {
        CHAT: (
            400,
            {"error": {"message": BAD, "type": "invalid_request_error", "param": None, "code": None}},
        ),
        RESPONSES: (400, {"error": {"message": BAD, "type": "invalid_request_error", "code": None}}),
        ANTHROPIC: (400, {"type": "error", "error": {"type": "invalid_request_error", "message": BAD}}),
        GEMINI: (400, {"error": {"code": 400, "message": BAD, "status": "INVALID_ARGUMENT"}}),
    },
    "rate_limit": {
        CHAT: (429, {"error": {"message": LIMITED, "type": "requests", "code": "rate_limit_exceeded"}}),
        RESPONSES: (429, {"error": {"message": LIMITED, "type": "requests", "code": "rate_limit_exceeded"}}),
        ANTHROPIC: (429, {"type": "error", "error": {"type": "rate_limit_error", "message": LIMITED}}),
        GEMINI: (429, {"error": {"code": 429, "message": LIMITED, "status": "RESOURCE_EXHAUSTED"}}),
    },
    "overloaded": {
        CHAT: (503, {"error": {"message": DOWN, "type": "service_unavailable_error", "code": None}}),
        RESPONSES: (
            503,
            {"error": {"message": DOWN, "type": "server_error", "code": "server_is_overloaded"}},
        ),
        ANTHROPIC: (529, {"type": "error", "error": {"type": "overloaded_error", "message": DOWN}}),
        GEMINI: (503, {"error": {"code": 503, "message": DOWN, "status": "UNAVAILABLE"}}),
    },
    "unauthenticated": {
        CHAT: (
            401,
            {"error": {"message": DENIED, "type": "invalid_request_error", "code": "invalid_api_key"}},
        ),
        RESPONSES: (
            401,
            {"error": {"message": DENIED, "type": "invalid_request_error", "code": "invalid_api_key"}},
        ),
        ANTHROPIC: (401, {"type": "error", "error": {"type": "authentication_error", "message": DENIED}}),
        GEMINI: (401, {"error": {"code": 401, "message": DENIED, "status": "UNAUTHENTICATED"}}),
    },
}
STATUSES = {
    "bad_request": dict.fromkeys(PROTOCOLS, 400),
    "rate_limit": dict.fromkeys(PROTOCOLS, 429),
    "overloaded": {**dict.fromkeys(PROTOCOLS, 503), ANTHROPIC: 529},
    "unauthenticated": dict.fromkeys(PROTOCOLS, 401),
}
TYPES = {
    "bad_request": "invalid_request_error",
    "rate_limit": "rate_limit_error",
    "overloaded": "overloaded_error",
    "unauthenticated": "authentication_error",
}


def failed(client: str, upstream: str, status: int, body: Wire) -> tuple[int, Wire]:
    """What a gateway answers to an upstream's refusal."""
    exchange = dragoman.Exchange(client, upstream)
    failure = codec(upstream).decode_error(body, status)
    assert failure is not None
    out = exchange.error(failure)
    return exchange.status, out


@rows("client, upstream, kind", PAIRS, FAILURES)
def test_G34_an_error_speaks_the_clients_dialect(client: str, upstream: str, kind: str) -> None:
    status, body = FAILURES[kind][upstream]
    out_status, out = failed(client, upstream, status, body)
    assert out_status == STATUSES[kind][client]
    message = body["error"]["message"]
    assert message in out["error"]["message"]
    match client:
        case "anthropic":
            assert out["type"] == "error"
            assert out["error"]["type"] == TYPES[kind]
        case "gemini":
            assert out["error"]["status"] == FAILURES[kind][GEMINI][1]["error"]["status"]
            assert out["error"]["code"] == out_status
        case _:
            assert out["error"]["type"]


@rows("client, upstream", PAIRS)
def test_G34_a_whole_reply_that_is_an_error(client: str, upstream: str) -> None:
    """A status of 200 does not make it a success."""
    exchange = dragoman.Exchange(client, upstream)
    out = exchange.response(FAILURES["overloaded"][upstream][1])
    assert exchange.failure is not None
    assert DOWN in out["error"]["message"]


@rows("upstream", others(CHAT))
@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
def test_G35_what_may_be_tried_again_is_no_invalid_request(upstream: str, kind: str) -> None:
    _, body = FAILURES[kind][upstream]
    stream = dragoman.Exchange(CHAT, upstream).stream()
    event = {"type": "error", **body}
    data = named_sse(event) if upstream != GEMINI else sse(body)
    out = frames(stream.feed(data) + stream.close())[-1]["error"]
    assert out["type"] != "invalid_request_error"
    assert stream.failure is not None
    assert stream.failure.kind == kind


TOO_LONG: dict[str, Wire] = {
    CHAT: {
        "error": {
            "message": "This model's maximum context length is 128000 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    },
    RESPONSES: {
        "error": {
            "message": "Your input exceeds the context window of this model.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }
    },
    ANTHROPIC: {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 210000 tokens > 200000 maximum",
        },
    },
    GEMINI: {
        "error": {
            "code": 400,
            "message": "The input token count exceeds the maximum number of tokens allowed 1048576.",
            "status": "INVALID_ARGUMENT",
        }
    },
}


@every_pair
def test_G36_agents_recognise_that_the_context_is_full(client: str, upstream: str) -> None:
    _, out = failed(client, upstream, 400, TOO_LONG[upstream])
    match client:
        case "anthropic":
            assert "prompt is too long" in out["error"]["message"]
        case "gemini":
            assert "token count" in out["error"]["message"]
        case _:
            assert out["error"]["code"] == "context_length_exceeded"


EXCEEDING = {"prompt_tokens": 3670, "completion_tokens": 514, "total_tokens": 4184} | {
    "completion_tokens_details": {"reasoning_tokens": 553}
}


@pytest.mark.parametrize("beside, output", [(False, 514), (True, 1067)], ids=["OpenRouter", "Vercel"])
@pytest.mark.parametrize("client", others(CHAT))
def test_reasoning_that_exceeds_the_output_is_added_by_the_profile_alone(
    client: str, beside: bool, output: int
) -> None:
    body = whole_reply(CHAT, "Hi") | {"usage": EXCEEDING}
    for streamed in (False, True):
        exchange = dragoman.Exchange(client, CHAT, profile=ModelProfile(reasoning_beside_output=beside))
        data = dumps(body).encode()
        _ = through(exchange, data) if streamed else exchange.response_bytes(data)
        assert exchange.usage is not None
        assert exchange.usage.output == output
        assert exchange.usage.reasoning <= output
