"""Paths, keys and errors of the Gemini API."""

from typing import Any

import pytest

from dragoman.core.codec import OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.model import Failure, FailureKind
from dragoman.core.model_profile import UNKNOWN
from dragoman.protocols.gemini import CODEC, LIMITS
from dragoman.protocols.gemini.settings import SPELLING

PATHS = {
    "whole": ("gemini-3-pro", False, "/v1beta/models/gemini-3-pro:generateContent"),
    "streamed": ("gemini-3-pro", True, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
    "with its collection": ("models/gemini-3-pro", False, "/v1beta/models/gemini-3-pro:generateContent"),
    "tuned": ("tunedModels/mine", False, "/v1beta/tunedModels/mine:generateContent"),
    "of a publisher": (
        "publishers/google/models/x",
        False,
        "/v1beta/publishers/google/models/x:generateContent",
    ),
    "a name with a slash": ("google/gemini", False, "/v1beta/models/google%2Fgemini:generateContent"),
    "a project that would leave the path": (
        "projects/../../x",
        False,
        "/v1beta/models/projects%2F..%2F..%2Fx:generateContent",
    ),
    "a name that would leave the path": (
        "../x?a=b#c",
        False,
        "/v1beta/models/..%2Fx%3Fa%3Db%23c:generateContent",
    ),
    "a resource that would leave the path": (
        "tunedModels/x?a#b é",
        False,
        "/v1beta/tunedModels/x%3Fa%23b%20%C3%A9:generateContent",
    ),
}


@pytest.mark.parametrize("model, stream, path", PATHS.values(), ids=PATHS)
def test_paths(model: str, stream: bool, path: str):
    assert CODEC.http.path(model, stream) == path


def test_the_key_and_what_the_url_says():
    assert CODEC.http.authenticate(Credential(key="k"), OutgoingRequest("POST", "", {}, b"")) == {
        "x-goog-api-key": "k"
    }
    assert CODEC.http.model_in_body is False


def error(code: int, status: str, message: str = "m", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, **more}}


ERRORS = {
    "bad request": (
        error(400, "INVALID_ARGUMENT"),
        400,
        Failure("bad_request", "m", 400, "INVALID_ARGUMENT"),
    ),
    "G36 too long": (
        error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        400,
        Failure(
            "context_too_long",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            400,
            "INVALID_ARGUMENT",
        ),
    ),
    "bad key": (
        error(400, "INVALID_ARGUMENT", details=[{"@type": "x", "reason": "API_KEY_INVALID"}]),
        400,
        Failure("unauthenticated", "m", 400, "INVALID_ARGUMENT"),
    ),
    "no key": (error(401, "UNAUTHENTICATED"), 401, Failure("unauthenticated", "m", 401, "UNAUTHENTICATED")),
    "forbidden": (error(403, "PERMISSION_DENIED"), 403, Failure("forbidden", "m", 403, "PERMISSION_DENIED")),
    "unknown model": (error(404, "NOT_FOUND"), 404, Failure("not_found", "m", 404, "NOT_FOUND")),
    "quota": (
        error(
            429,
            "RESOURCE_EXHAUSTED",
            details=[{"violations": []}, {"@type": "x.RetryInfo", "retryDelay": "34.07s"}],
        ),
        429,
        Failure("rate_limit", "m", 429, "RESOURCE_EXHAUSTED", 34.07),
    ),
    "overloaded": (error(503, "UNAVAILABLE"), 503, Failure("overloaded", "m", 503, "UNAVAILABLE")),
    "timeout": (error(504, "DEADLINE_EXCEEDED"), 504, Failure("timeout", "m", 504, "DEADLINE_EXCEEDED")),
    "internal": (error(500, "INTERNAL"), 500, Failure("server", "m", 500, "INTERNAL")),
    "in a stream: no HTTP status": (
        error(503, "UNAVAILABLE"),
        0,
        Failure("overloaded", "m", 503, "UNAVAILABLE"),
    ),
    "in an array": (
        [error(429, "RESOURCE_EXHAUSTED")],
        429,
        Failure("rate_limit", "m", 429, "RESOURCE_EXHAUSTED"),
    ),
    "without a status word": ({"error": {"code": 429, "message": "m"}}, 0, Failure("rate_limit", "m", 429)),
    "the HTTP status counts": (error(400, "NOT_FOUND"), 404, Failure("not_found", "m", 404, "NOT_FOUND")),
    "nothing as it should be": (
        {"error": {"code": ["x"], "message": {"a": 1}, "status": 5, "details": {}}},
        429,
        Failure("server", "{'a': 1}", 429, "5"),
    ),
    "a code that is no status": ({"error": {"code": 7, "message": "m"}}, 0, Failure("server", "m", 500)),
    "only a message": ({"error": {"message": "m"}}, 0, Failure("server", "m", 500)),
    "an odd delay": (
        error(429, "RESOURCE_EXHAUSTED", details=[{"retryDelay": "soon"}, 1]),
        429,
        Failure("rate_limit", "m", 429, "RESOURCE_EXHAUSTED"),
    ),
}


@pytest.mark.parametrize("body, status, failure", ERRORS.values(), ids=ERRORS)
def test_errors(body: Any, status: int, failure: Failure):
    assert CODEC.decode_error(body, status) == failure


@pytest.mark.parametrize("body", [{}, {"error": None}, {"candidates": []}, [], [{}, {}], 1], ids=str)
def test_not_errors(body: Any):
    assert CODEC.decode_error(body, 500) is None


ENCODED: dict[str, tuple[FailureKind, int, str]] = {
    "bad request": ("bad_request", 400, "INVALID_ARGUMENT"),
    "too long": ("context_too_long", 400, "INVALID_ARGUMENT"),
    "too large": ("too_large", 413, "INVALID_ARGUMENT"),
    "unauthenticated": ("unauthenticated", 401, "UNAUTHENTICATED"),
    "billing": ("billing", 429, "RESOURCE_EXHAUSTED"),
    "forbidden": ("forbidden", 403, "PERMISSION_DENIED"),
    "not found": ("not_found", 404, "NOT_FOUND"),
    "conflict": ("conflict", 409, "ABORTED"),
    "rate limit": ("rate_limit", 429, "RESOURCE_EXHAUSTED"),
    "server": ("server", 500, "INTERNAL"),
    "overloaded": ("overloaded", 503, "UNAVAILABLE"),
    "timeout": ("timeout", 504, "DEADLINE_EXCEEDED"),
    "truncated": ("truncated", 502, "INTERNAL"),
}


@pytest.mark.parametrize("kind, status, word", ENCODED.values(), ids=ENCODED)
def test_errors_of_others(kind: FailureKind, status: int, word: str):
    """G34: the class by our status, the message as it was."""
    code, body = CODEC.encode_error(Failure(kind, "what happened", 529, "overloaded_error"))
    assert code == status
    assert list(body) == ["error"]
    assert (body["error"]["code"], body["error"]["status"]) == (status, word)
    assert body["error"]["message"].endswith("what happened")


NO_REPLIES = {
    "nothing": ({}, "the upstream's reply has no candidates"),
    "an error that is null": ({"error": None}, "the upstream's reply has no candidates"),
    "no candidates": ({"candidates": [], "usageMetadata": {}}, "the upstream's reply has no candidates"),
    "a prompt that nobody blocked": ({"promptFeedback": {}}, "the upstream's reply has no candidates"),
    "a proxy's detail": ({"detail": "no key"}, "no key"),
    "errors": ({"errors": ["quota"]}, '["quota"]'),
    "an error as text": ({"error": "model crashed"}, "model crashed"),
}


@pytest.mark.parametrize("body, message", NO_REPLIES.values(), ids=NO_REPLIES)
def test_a_body_that_is_no_reply_is_a_failure(body: dict[str, Any], message: str):
    failure = CODEC.decode_error(body, 200)
    assert failure is not None
    assert (failure.kind, failure.message) == ("server", message)


def test_a_blocked_prompt_is_a_reply():
    assert CODEC.decode_error({"promptFeedback": {"blockReason": "SAFETY"}}, 200) is None


def test_too_long_uses_the_words_that_agents_know():
    _, body = CODEC.encode_error(Failure("context_too_long", "prompt is too long"))
    back = CODEC.decode_error(body, 400)
    assert back is not None
    assert back.kind == "context_too_long"
    assert "input token count" in body["error"]["message"]


def test_when_to_try_again():
    _, body = CODEC.encode_error(Failure("rate_limit", "m", retry_after=34.5))
    assert body["error"]["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    ]
    back = CODEC.decode_error(body, 429)
    assert back is not None
    assert back.retry_after == 34.5


def test_facts():
    assert CODEC.limits(UNKNOWN) is CODEC.client_limits is LIMITS
    assert LIMITS.call_state
    assert LIMITS.text_state
    assert LIMITS.schema_rules.vendor == "Gemini"
    assert CODEC.turns == "contents"
    assert SPELLING["top_k"] == "generationConfig.topK"
