"""Failures as the SDKs' own errors: the right class and status for each client over each upstream."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors
from google.genai._gaos.lib import compat_errors

from gateway.sdks import MODES, SDKS, FailedStream, sdk_of, speaking
from gateway.stands import MODELS, UPSTREAMS, Stand
from waiting import wait_until

OPENAI: dict[str, tuple[type[Exception], int]] = {
    "400": (openai.BadRequestError, 400),
    "401": (openai.AuthenticationError, 401),
    "404": (openai.NotFoundError, 404),
    "429": (openai.RateLimitError, 429),
    "500": (openai.InternalServerError, 500),
    "529": (openai.InternalServerError, 503),
}
TYPED: dict[str, dict[str, tuple[type[Exception], int]]] = {
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "anthropic": {
        "400": (anthropic.BadRequestError, 400),
        "401": (anthropic.AuthenticationError, 401),
        "404": (anthropic.NotFoundError, 404),
        "429": (anthropic.RateLimitError, 429),
        "500": (anthropic.InternalServerError, 500),
        "529": (anthropic.InternalServerError, 529),
    },
    "gemini": {
        "400": (errors.ClientError, 400),
        "401": (errors.ClientError, 401),
        "404": (errors.ClientError, 404),
        "429": (errors.ClientError, 429),
        "500": (errors.ServerError, 500),
        "529": (errors.ServerError, 503),
    },
}
TYPED["gemini-interactions"] = {
    "400": (compat_errors.BadRequestError, 400),
    "401": (compat_errors.AuthenticationError, 401),
    "404": (compat_errors.NotFoundError, 404),
    "429": (compat_errors.RateLimitError, 429),
    "500": (compat_errors.InternalServerError, 500),
    "529": (compat_errors.InternalServerError, 503),
}
BROKEN: dict[str, Any] = {
    "openai-chat": openai.APIError,
    "openai-responses": openai.APIError,
    "anthropic": anthropic.APIStatusError,
    "gemini": errors.APIError,
    "gemini-interactions": (compat_errors.APIError, FailedStream),
}
each_client = pytest.mark.parametrize("client", SDKS)
each_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)
each_mode = pytest.mark.parametrize("mode", MODES)


def status_of(error: Any) -> int:
    return error.code if isinstance(error, errors.APIError) else error.status_code


@each_mode
@each_upstream
@each_client
def test_a_status(stand: Stand, client: str, upstream: str, mode: str) -> None:
    sdk = sdk_of(client, stand.url)
    for fault, (kind, status) in TYPED[client].items():
        request = sdk.request(f"{upstream}:{MODELS[upstream]}", sdk.user(f"hello [[fault: {fault}]]"))
        with pytest.raises(kind, match="demo: ") as caught:
            speaking(sdk, mode)(request)
        forwarded = client == upstream or (client, upstream) == ("openai-chat", "hermes")
        assert status_of(caught.value) == (int(fault) if forwarded else status)  # else in the client's terms
    retried = [line["tries"] for line in stand.finished()]
    assert retried == [1, 1, 1, 1, 3, 3]  # 429 says when to come back, and this gateway does not wait


@each_mode
@each_upstream
@each_client
def test_a_cut(stand: Stand, client: str, upstream: str, mode: str) -> None:
    """A stream that broke is an error in the middle of it; a whole answer that broke is a bad gateway."""
    sdk = sdk_of(client, stand.url)
    request = sdk.request(f"{upstream}:{MODELS[upstream]}", sdk.user("hello [[fault: cut]]"))
    if client == "openai-responses" and "streamed" in mode:
        failed_response(sdk, request)
    else:
        with pytest.raises(BROKEN[client], match="before its answer ended") as caught:
            speaking(sdk, mode)(request)
        if "streamed" not in mode:
            assert status_of(caught.value) == 502
    last = stand.last()
    assert "before its answer ended" in last["error"]
    assert last["status"] == (200 if "streamed" in mode else 502)
    wait_until(lambda: stand.gateway.keep_alives.__len__() == 0)


def failed_response(sdk: Any, request: dict[str, Any]) -> None:
    """The Responses API tells of it in an event of its own, which the SDK hands over."""
    events = list(sdk.sync.responses.create(**request, stream=True))
    assert events[-1].type == "response.failed"
    assert "before its answer ended" in events[-1].response.error.message
