"""What is sent to clouds, and their errors: the wire is a vendor's, around it are a cloud's own rules."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from dragoman.protocols import upstream
from goldens.pieces import MODELS
from goldens.scenarios import SCENARIOS
from spoken import SPOKEN

Wire = dict[str, Any]
CLAUDE, GEMINI = MODELS["anthropic"], MODELS["gemini"]
# cloud: (whose wire, what the body has besides, the fields it lacks, path whole and streamed)
CLOUDS: dict[str, tuple[str, Wire, tuple[str, ...], tuple[str, str]]] = {
    "azure-openai": ("openai-chat", {}, (), ("/chat/completions", "/chat/completions")),
    "azure-responses": ("openai-responses", {}, (), ("/responses", "/responses")),
    "vertex-gemini": (
        "gemini",
        {},
        (),
        (
            f"/publishers/google/models/{GEMINI}:generateContent",
            f"/publishers/google/models/{GEMINI}:streamGenerateContent?alt=sse",
        ),
    ),
    "vertex-claude": (
        "anthropic",
        {"anthropic_version": "vertex-2023-10-16"},
        ("model",),
        (
            f"/publishers/anthropic/models/{CLAUDE}:rawPredict",
            f"/publishers/anthropic/models/{CLAUDE}:streamRawPredict",
        ),
    ),
    "bedrock-invoke": (
        "anthropic",
        {"anthropic_version": "bedrock-2023-05-31"},
        ("model", "stream"),
        (f"/model/{CLAUDE}/invoke", f"/model/{CLAUDE}/invoke-with-response-stream"),
    ),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", SPOKEN)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_request_is_the_vendors_with_the_rules_of_the_cloud(
    cloud: str, client: str, streamed: bool
) -> None:
    """The vendor's bodies and losses are those of the goldens."""
    vendor, added, missing, paths = CLOUDS[cloud]
    for name, scenario in SCENARIOS.items():
        if client not in scenario.requests or name == "hosted_tool":  # see below
            continue
        exchange, known = dragoman.Exchange(client, cloud), dragoman.Exchange(client, vendor)
        body = exchange.request(scenario.requests[client], model=MODELS[vendor], stream=streamed)
        usual = known.request(scenario.requests[client], model=MODELS[vendor], stream=streamed)
        expected = {**added, **{key: usual[key] for key in usual if key not in missing}}
        assert without_state(body) == without_state(expected), name
        assert exchange.path == paths[streamed]
        assert [loss.code for loss in exchange.losses] == [
            *(loss.code for loss in known.losses)
        ] or client == vendor


def without_state(value: Any) -> Any:
    """Claude's signatures belong to the cloud that made them, so the vendor's are withheld there."""
    if isinstance(value, list):
        return [without_state(entry) for entry in value if not _is_thinking(entry)]
    if isinstance(value, dict):
        return {key: without_state(value[key]) for key in value if key != "thoughtSignature"}
    return value


def _is_thinking(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in ("thinking", "redacted_thinking")


# The errors that their pages and forums show: (status, body) -> (kind, code, words)
_QUOTA = {"code": 429, "message": "Quota exceeded for requests.", "status": "RESOURCE_EXHAUSTED"}
_WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
_FILTERED = {
    "message": "The response was filtered due to the prompt triggering the content management policy.",
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}},
}
_SKEWED = "Signature expired: 20261118T100000Z is now earlier than 20261118T101000Z"
ERRORS: dict[str, tuple[str, int, Wire, tuple[str, str, str]]] = {
    "azure: a filter": (
        "azure-openai",
        400,
        {"error": _FILTERED},
        ("bad_request", "content_filter", "filtered"),
    ),
    "azure: no such deployment": (
        "azure-openai",
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The deployment does not exist."}},
        ("not_found", "DeploymentNotFound", "does not exist"),
    ),
    "azure: a key": (
        "azure-openai",
        401,
        {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}},
        ("unauthenticated", "401", "invalid subscription key"),
    ),
    "azure: a token": (
        "azure-openai",
        401,
        {"statusCode": 401, "message": "Unauthorized. Access token is missing, invalid or expired."},
        ("unauthenticated", "", "Access token is missing"),
    ),
    "azure: a rate": (
        "azure-openai",
        429,
        {"error": {"code": "429", "message": "Requests have exceeded the call rate limit."}},
        ("rate_limit", "429", "call rate limit"),
    ),
    "gemini at vertex: a quota": (
        "vertex-gemini",
        429,
        {"error": _QUOTA},
        ("rate_limit", "RESOURCE_EXHAUSTED", "Quota exceeded"),
    ),
    "gemini at vertex: rights": (
        "vertex-gemini",
        403,
        {"error": {"code": 403, "message": "Permission denied on resource", "status": "PERMISSION_DENIED"}},
        ("forbidden", "PERMISSION_DENIED", "Permission denied"),
    ),
    "claude at vertex: a quota of the platform": (
        "vertex-claude",
        429,
        {"error": {**_QUOTA, "details": [_WAIT]}},
        ("rate_limit", "RESOURCE_EXHAUSTED", "Quota exceeded"),
    ),
    "claude at vertex: no such model": (
        "vertex-claude",
        404,
        {"error": {"code": 404, "message": "Publisher Model was not found", "status": "NOT_FOUND"}},
        ("not_found", "NOT_FOUND", "Publisher Model"),
    ),
    "claude at vertex: of Claude itself": (
        "vertex-claude",
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 3"}},
        ("context_too_long", "invalid_request_error", "prompt is too long"),
    ),
    "bedrock: rights": (
        "bedrock-invoke",
        403,
        {"Message": "User is not authorized to perform bedrock:InvokeModel"},
        ("forbidden", "", "not authorized"),
    ),
    "bedrock: a rate": (
        "bedrock-invoke",
        429,
        {"message": "Too many requests, please wait before trying again."},
        ("rate_limit", "", "Too many requests"),
    ),
    "bedrock: a clock": (
        "bedrock-invoke",
        403,
        {"message": _SKEWED},
        ("forbidden", "", "the clock of this machine is off by more than five minutes"),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error(name: str) -> None:
    cloud, status, body, (kind, code, words) = ERRORS[name]
    failure = upstream(cloud).decode_error(body, status)
    assert failure
    assert (failure.kind, failure.code, failure.status) == (kind, code, status)
    assert words in failure.message


def test_the_wait_that_google_asks_for() -> None:
    failure = upstream("vertex-claude").decode_error({"error": {**_QUOTA, "details": [_WAIT]}}, 429)
    assert failure
    assert failure.retry_after == 7


@pytest.mark.parametrize("given", ["context-1m-2025-08-07, new-beta", ["context-1m-2025-08-07", "new-beta"]])
@pytest.mark.parametrize("cloud", ["vertex-claude", "bedrock-invoke"])
def test_betas_are_in_the_body_and_those_that_a_cloud_refuses_are_not_sent(cloud: str, given: Any) -> None:
    request = {"model": CLAUDE, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    exchange = dragoman.Exchange("anthropic", cloud)
    sent = exchange.request({**request, "anthropic_beta": given})
    assert sent["anthropic_beta"] == ["context-1m-2025-08-07"]
    assert [(loss.where, loss.why.rpartition(" ")[2].rstrip(".")) for loss in exchange.losses] == [
        ("anthropic_beta", "new-beta")
    ]


HOSTED = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "code_execution": {"type": "code_execution_20250522", "name": "code_execution"},
    "mcp": {"type": "mcp_toolset", "mcp_server_name": "a"},
    "bash": {"type": "bash_20250124", "name": "bash"},
    "tool_search": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
}


@pytest.mark.parametrize(
    "cloud, kept",
    [("vertex-claude", ["web_search", "bash", "tool_search"]), ("bedrock-invoke", ["bash", "tool_search"])],
)
def test_tools_that_only_anthropic_runs_are_not_sent(cloud: str, kept: list[str]) -> None:
    request = {
        "model": CLAUDE,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [*HOSTED.values()],
        "mcp_servers": [{"type": "url", "name": "a", "url": "https://a.test"}],
    }
    exchange = dragoman.Exchange("anthropic", cloud)
    sent = exchange.request(request)
    assert sent["tools"] == [HOSTED[name] for name in kept]
    assert "mcp_servers" not in sent
    assert {loss.code for loss in exchange.losses} == {
        f"hosted.{name}.dropped" for name in HOSTED if name not in kept
    }


def test_tools_that_converse_lacks_are_reported() -> None:
    tools = [tool for name, tool in HOSTED.items() if name != "bash"]
    exchange = dragoman.Exchange("anthropic", "bedrock-converse")
    request = {"model": CLAUDE, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    assert "toolConfig" not in exchange.request({**request, "tools": tools})
    assert {loss.code for loss in exchange.losses} == {
        f"hosted.{name}.dropped" for name in HOSTED if name != "bash"
    }
