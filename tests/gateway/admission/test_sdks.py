"""What the official SDKs make of limits: their own errors, and their own retries, which go well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types
from google.genai._gaos.lib import compat_errors

from dragoman.gateway.admission.control import Admission
from dragoman.gateway.admission.counters import Decision, RateLimitState
from dragoman.gateway.admission.load_shedding import gateway_busy, over_limit
from gateway.sdks import MODES, SDKS, sdk_of, speaking
from gateway.stands import CLIENT_KEY, Stand, gateway

LIMITED: dict[str, tuple[type[Exception], int, str]] = {
    "openai-chat": (openai.RateLimitError, 429, "rate_limit_exceeded"),
    "openai-responses": (openai.RateLimitError, 429, "rate_limit_exceeded"),
    "anthropic": (anthropic.RateLimitError, 429, "rate_limit_error"),
    "gemini": (errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    "gemini-interactions": (compat_errors.RateLimitError, 429, "RESOURCE_EXHAUSTED"),
}
OVERLOADED: dict[str, tuple[type[Exception], int, str]] = {
    "openai-chat": (openai.InternalServerError, 503, ""),
    "openai-responses": (openai.InternalServerError, 503, ""),
    "anthropic": (anthropic.InternalServerError, 529, "overloaded_error"),
    "gemini": (errors.ServerError, 503, "UNAVAILABLE"),
    "gemini-interactions": (compat_errors.InternalServerError, 503, "UNAVAILABLE"),
}
each_client = pytest.mark.parametrize("client", SDKS)
each_mode = pytest.mark.parametrize("mode", MODES)
RATE = Decision("rate", RateLimitState(0.05, 0, 60.0))


@pytest.fixture(scope="module")
def running() -> Iterator[Stand]:
    with gateway(f'[keys.alice]\nkey = "{CLIENT_KEY}"\nrequests_per_minute = 100000\n') as stand:
        yield stand


@pytest.fixture
def stand(running: Stand) -> Stand:
    running.begin()
    return running


def turned_away(stand: Stand, patch: pytest.MonkeyPatch, reason: str, times: int) -> None:
    """So many requests from now on are refused, with a short Retry-After."""
    limits, left = stand.gateway.admission, [times]
    arrive = Admission.arrive

    def refuse(admission: Any) -> None:
        if not left[0]:
            return arrive(admission)
        left[0] -= 1
        raise over_limit(admission._caller, RATE) if reason == "rate" else gateway_busy(limits.semaphore)

    patch.setattr(Admission, "arrive", refuse)


@each_mode
@each_client
@pytest.mark.parametrize("reason", ["rate", "gateway"])
def test_a_typed_error(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, client: str, mode: str, reason: str
) -> None:
    turned_away(stand, monkeypatch, reason, 1)
    sdk = sdk_of(client, stand.url)
    kind, status, word = (LIMITED if reason == "rate" else OVERLOADED)[client]
    with pytest.raises(kind) as caught:
        speaking(sdk, mode)(sdk.request("demo:m", sdk.user("hello")))
    error: Any = caught.value
    assert (error.code if client == "gemini" else error.status_code) == status
    assert word in f"{error} {getattr(error, 'body', '')}"
    assert ("a minute" if reason == "rate" else "is busy") in str(error)
    assert speaking(sdk, mode)(sdk.request("demo:m", sdk.user("hello"))).text == "You said: hello"


def patient(client: str, url: str) -> Any:
    """The SDK with its own retries. Gemini's must be configured for them, and ignores Retry-After."""
    sdk = SDKS[client](url, CLIENT_KEY)
    if not client.startswith("gemini"):
        sdk.sync = sdk.sync.with_options(max_retries=2)
        return sdk
    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.05, max_delay=0.1)
    options = types.HttpOptions(base_url=url, retry_options=retries)
    sdk.sync = genai.Client(api_key=CLIENT_KEY, http_options=options)
    return sdk


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@each_client
def test_their_own_retry_goes_well(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, client: str, mode: str
) -> None:
    turned_away(stand, monkeypatch, "rate", 1)
    sdk = patient(client, stand.url)
    assert speaking(sdk, mode)(sdk.request("demo:m", sdk.user("hello"))).text == "You said: hello"
    stand.last()
    assert [line["status"] for line in stand.records] == [429, 200]


@pytest.mark.parametrize("client", ["openai-chat", "openai-responses", "anthropic"])
def test_they_read_what_is_left(stand: Stand, client: str) -> None:
    sdk = sdk_of(client, stand.url)
    request = sdk.request("demo:m", sdk.user("hello"))
    create = {
        "openai-chat": lambda: sdk.sync.chat.completions.with_raw_response.create(**request),
        "openai-responses": lambda: sdk.sync.responses.with_raw_response.create(**request),
        "anthropic": lambda: sdk.sync.messages.with_raw_response.create(**request),
    }[client]
    headers = create().headers
    prefix = "anthropic-ratelimit-requests-" if client == "anthropic" else "x-ratelimit-"
    suffix = "" if client == "anthropic" else "-requests"
    assert headers[f"{prefix}limit{suffix}"] == "100000"
    assert 0 < int(headers[f"{prefix}remaining{suffix}"]) < 100000
