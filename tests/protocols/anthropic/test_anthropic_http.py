"""Paths, keys and errors."""

from typing import Any

import pytest

from dragoman.core.codec import OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.model import Failure, FailureKind, Wire
from dragoman.core.model_profile import UNKNOWN
from dragoman.protocols.anthropic import CODEC, LIMITS


def test_where_requests_go() -> None:
    assert CODEC.http.path("m", True) == CODEC.http.path("m", False) == "/v1/messages"
    assert CODEC.http.headers == {"anthropic-version": "2023-06-01"}
    assert CODEC.http.authenticate(
        Credential(key="sk-ant-api03-x"), OutgoingRequest("POST", "", {}, b"")
    ) == {"x-api-key": "sk-ant-api03-x"}
    assert CODEC.http.authenticate(
        Credential(key="sk-ant-oat01-x"), OutgoingRequest("POST", "", {}, b"")
    ) == {"authorization": "Bearer sk-ant-oat01-x"}


def test_what_servers_accept() -> None:
    assert CODEC.limits(UNKNOWN) is CODEC.client_limits is LIMITS
    assert (LIMITS.tool_name_length, LIMITS.call_id_prefix) == (128, "toolu_")
    assert not LIMITS.custom_tools
    assert {"web_search", "bash", "mcp"} <= LIMITS.hosted_tools


def error(name: Any, message: Any = "m") -> Wire:
    return {"type": "error", "error": {"type": name, "message": message}}


# name: (body, status, failure)
ERRORS: dict[str, tuple[Wire, int, Failure | None]] = {
    "bad request": (
        error("invalid_request_error"),
        400,
        Failure("bad_request", "m", 400, "invalid_request_error"),
    ),
    "G36 too long": (
        error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        400,
        Failure(
            "context_too_long",
            "prompt is too long: 210000 tokens > 200000 maximum",
            400,
            "invalid_request_error",
        ),
    ),
    "key": (error("authentication_error"), 401, Failure("unauthenticated", "m", 401, "authentication_error")),
    "billing": (error("billing_error"), 402, Failure("billing", "m", 402, "billing_error")),
    "permission": (error("permission_error"), 403, Failure("forbidden", "m", 403, "permission_error")),
    "not found": (error("not_found_error"), 404, Failure("not_found", "m", 404, "not_found_error")),
    "conflict": (error("conflict_error"), 409, Failure("conflict", "m", 409, "conflict_error")),
    "too large": (error("request_too_large"), 413, Failure("too_large", "m", 413, "request_too_large")),
    "rate": (error("rate_limit_error"), 429, Failure("rate_limit", "m", 429, "rate_limit_error")),
    "server": (error("api_error"), 500, Failure("server", "m", 500, "api_error")),
    "timeout": (error("timeout_error"), 504, Failure("timeout", "m", 504, "timeout_error")),
    "overloaded": (error("overloaded_error"), 529, Failure("overloaded", "m", 529, "overloaded_error")),
    "inside a stream, where there is no status": (
        error("overloaded_error"),
        0,
        Failure("overloaded", "m", 529, "overloaded_error"),
    ),
    "the type wins over the status": (
        error("rate_limit_error"),
        500,
        Failure("rate_limit", "m", 500, "rate_limit_error"),
    ),
    "G34 an unknown type": (error("mystery"), 429, Failure("rate_limit", "m", 429, "mystery")),
    "an unknown type, and no status": (error("mystery"), 0, Failure("server", "m", 500, "mystery")),
    "no type": (error(None), 404, Failure("not_found", "m", 404)),
    "words that are none": (error(5, {"a": 1}), 400, Failure("bad_request", "{'a': 1}", 400, "5")),
    "a code in the details": (
        {"type": "error", "error": {**error("x")["error"], "details": {"error_code": "thread_not_found"}}},
        404,
        Failure("not_found", "m", 404, "thread_not_found"),
    ),
    "as others say it": ({"error": {"message": "m", "type": "x"}}, 403, Failure("forbidden", "m", 403, "x")),
    "a mere string": ({"error": "no"}, 503, Failure("overloaded", "no", 503)),
    "nothing inside": ({"type": "error"}, 500, Failure("server", "", 500)),
    "a reply is no error": ({"type": "message", "content": [], "error": None}, 200, None),
    "a reply with an odd field is none": ({"type": "message", "content": [], "error": "x"}, 200, None),
    "an empty body is no reply": ({}, 200, Failure("server", "the upstream's reply has no content", 502)),
    "nor is a proxy's detail": ({"detail": "no key"}, 200, Failure("server", "no key", 502)),
    "nor are errors": ({"errors": ["quota"]}, 200, Failure("server", '["quota"]', 502)),
    "but an event of a stream may be anything": ({}, 0, None),
    "an unknown body with an error status is left to the caller": ({"detail": "x"}, 500, None),
}


@pytest.mark.parametrize(("body", "status", "failure"), ERRORS.values(), ids=ERRORS)
def test_errors_are_read(body: Wire, status: int, failure: Failure | None) -> None:
    assert CODEC.decode_error(body, status) == failure


# kind: (status, type)
KINDS: dict[FailureKind, tuple[int, str]] = {
    "bad_request": (400, "invalid_request_error"),
    "too_large": (413, "request_too_large"),
    "unauthenticated": (401, "authentication_error"),
    "billing": (402, "billing_error"),
    "forbidden": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "conflict": (409, "conflict_error"),
    "rate_limit": (429, "rate_limit_error"),
    "server": (500, "api_error"),
    "overloaded": (529, "overloaded_error"),
    "timeout": (504, "timeout_error"),
    "truncated": (502, "api_error"),
}


@pytest.mark.parametrize(("kind", "expected"), KINDS.items(), ids=KINDS)
def test_g34_g35_errors_use_the_types_of_the_clients_protocol(
    kind: FailureKind, expected: tuple[int, str]
) -> None:
    status, body = CODEC.encode_error(Failure(kind, "m", 418, "their_code"))
    assert (status, body) == (expected[0], error(expected[1]))


def test_sdks_send_the_whole_conversation_again_after_this_error_detail() -> None:
    _, body = CODEC.encode_error(Failure("bad_request", "m", 400, "thread_unsupported_request"))
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_g36_claude_code_knows_these_words() -> None:
    status, body = CODEC.encode_error(Failure("context_too_long", "maximum context length is 8192"))
    assert (status, body) == (
        400,
        error("invalid_request_error", "prompt is too long: maximum context length is 8192"),
    )
    _, body = CODEC.encode_error(Failure("context_too_long", "Prompt is too long: 5"))
    assert body["error"]["message"] == "Prompt is too long: 5"
