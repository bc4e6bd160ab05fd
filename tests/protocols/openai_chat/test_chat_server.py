"""Paths, headers and errors of Chat, and what its servers accept, by the name of the model."""

from typing import Any

import pytest

from dragoman.core.codec import OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.model import Failure, Wire
from dragoman.profiles import profile_of
from dragoman.protocols.openai_chat import CODEC


def test_where_a_request_goes() -> None:
    assert CODEC.http.path("gpt-5", False) == CODEC.http.path("gpt-5", True) == "/chat/completions"
    assert CODEC.http.authenticate(Credential(key="k"), OutgoingRequest("POST", "", {}, b"")) == {
        "authorization": "Bearer k"
    }
    assert CODEC.http.model_in_body


ERRORS: dict[str, tuple[Wire, int, Failure | None]] = {
    "bad request": (
        {
            "error": {
                "message": "no",
                "type": "invalid_request_error",
                "param": "x",
                "code": "unsupported_parameter",
            }
        },
        400,
        Failure("bad_request", "no", 400, "unsupported_parameter"),
    ),
    "bad key": (
        {"error": {"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"}},
        401,
        Failure("unauthenticated", "no", 401, "invalid_api_key"),
    ),
    "G36 context too long, by code": (
        {"error": {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}},
        400,
        Failure("context_too_long", "no", 400, "context_length_exceeded"),
    ),
    "G36 context too long, by words": (
        {"error": {"message": "This model's maximum context length is 4096 tokens", "code": None}},
        400,
        Failure("context_too_long", "This model's maximum context length is 4096 tokens", 400),
    ),
    "rate limit": (
        {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}},
        429,
        Failure("rate_limit", "slow", 429, "rate_limit_exceeded"),
    ),
    "quota": (
        {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}},
        429,
        Failure("billing", "pay", 429, "insufficient_quota"),
    ),
    "unknown model": (
        {"error": {"message": "no", "type": "invalid_request_error", "code": "model_not_found"}},
        404,
        Failure("not_found", "no", 404, "model_not_found"),
    ),
    "only a status": ({"error": {"message": "no"}}, 503, Failure("overloaded", "no", 503)),
    "only a type": (
        {"error": {"message": "no", "type": "rate_limit_error"}},
        0,
        Failure("rate_limit", "no", 429, "rate_limit_error"),
    ),
    "status as the code (OpenRouter)": (
        {"error": {"message": "no", "code": 429}},
        0,
        Failure("rate_limit", "no", 429),
    ),
    "status as a string": (
        {"error": {"message": "no", "code": "401"}},
        200,
        Failure("unauthenticated", "no", 401, "401"),
    ),
    "a word (Ollama)": ({"error": "model not found"}, 404, Failure("not_found", "model not found", 404)),
    "flat (vLLM)": (
        {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
        0,
        Failure("bad_request", "no", 400, "BadRequestError"),
    ),
    "detail (FastAPI)": (
        {"detail": [{"loc": ["body"]}]},
        422,
        Failure("bad_request", '[{"loc":["body"]}]', 422),
    ),
    "an object as message": ({"error": {"message": {"a": 1}}}, 500, Failure("server", '{"a":1}', 500)),
    "nothing given": ({}, 500, Failure("server", "{}", 500)),
    "no error": ({"choices": [{"index": 0}]}, 0, None),
    "no error, null": ({"choices": [{"index": 0}], "error": None}, 200, None),
    "no choices": ({"choices": []}, 200, Failure("server", "the upstream's reply has no choices", 502)),
    "detail with status 200": ({"detail": "why"}, 200, Failure("server", "why", 502)),
    "errors with status 200": ({"errors": [{"a": 1}]}, 200, Failure("server", '[{"a":1}]', 502)),
    "the last chunk of a stream": ({"choices": [], "error": None}, 0, None),
    "anything": ({"method": "POST"}, 0, None),
}


@pytest.mark.parametrize("row", ERRORS.values(), ids=ERRORS)
def test_what_an_error_means(row: tuple[Wire, int, Failure | None]) -> None:
    body, status, failure = row
    assert CODEC.decode_error(body, status) == failure


WRITTEN: dict[Any, tuple[int, str, str | None]] = {
    "bad_request": (400, "invalid_request_error", None),
    "context_too_long": (400, "invalid_request_error", "context_length_exceeded"),
    "too_large": (413, "invalid_request_error", "request_too_large"),
    "unauthenticated": (401, "invalid_request_error", "invalid_api_key"),
    "billing": (429, "insufficient_quota", "insufficient_quota"),
    "forbidden": (403, "permission_error", "permission_denied"),
    "not_found": (404, "invalid_request_error", "model_not_found"),
    "conflict": (409, "invalid_request_error", "conflict"),
    "rate_limit": (429, "rate_limit_error", "rate_limit_exceeded"),
    "server": (500, "server_error", None),
    "overloaded": (503, "overloaded_error", "overloaded"),
    "timeout": (504, "server_error", "timeout"),
    "truncated": (502, "server_error", "stream_truncated"),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_g34_g35_how_a_failure_is_written_and_read_again(kind: Any) -> None:
    status, name, code = WRITTEN[kind]
    message = "no context window" if kind == "context_too_long" else "what happened"
    failure = Failure(kind, message, 529, "overloaded_error")
    body = {"error": {"message": message, "type": name, "param": None, "code": code}}
    assert CODEC.encode_error(failure) == (status, body)
    for seen in (status, 0):  # in a stream there is no status
        back = CODEC.decode_error(body, seen)
        assert back is not None
        assert back.kind == kind


LIMITS: dict[str, tuple[str, bool, int, bool]] = {
    "OpenAI": ("gpt-5.1", True, 40, False),
    "OpenAI, o-series": ("o4-mini", True, 40, False),
    "OpenAI, fine-tuned": ("ft:gpt-4o:me", True, 40, False),
    "OpenAI, a search model": ("gpt-4o-search-preview", True, 40, True),
    "open weights": ("gpt-oss-20b", False, 40, False),
    "others": ("llama-4-maverick", False, 40, False),
    "a name that only looks so": ("olmo-3", False, 40, False),
    "G48 Mistral": ("mistral-large-2512", False, 9, False),
    "G48 Mistral, elsewhere": ("mistralai/Devstral-Small", False, 9, False),
}


@pytest.mark.parametrize("row", LIMITS.values(), ids=LIMITS)
def test_what_servers_accept(row: tuple[str, bool, int, bool]) -> None:
    model, custom, length, search = row
    limits = CODEC.limits(profile_of(model, "", "openai-chat"))
    assert (limits.custom_tools, limits.call_id_length) == (custom, length)
    assert ("web_search" in limits.hosted_tools) == search
    assert not limits.reasoning_state
    assert limits.schema_rules.vendor == "OpenAI"
    assert (limits.tool_name, limits.tool_name_length) == (r"[a-zA-Z0-9_-]+", 64)


def test_g97_calls_of_gemini_have_a_slot_for_their_signature() -> None:
    assert CODEC.limits(profile_of("google/gemini-3-pro")).call_state
    assert not CODEC.client_limits.call_state
    assert not CODEC.limits(profile_of("gpt-5")).call_state


def test_how_a_stream_ends_and_stays_alive() -> None:
    assert b"data: [DONE]" in CODEC.terminal
    assert CODEC.keep_alive.startswith(b":")
    assert CODEC.keep_alive.endswith(b"\n\n")
    assert CODEC.turns == "messages"
