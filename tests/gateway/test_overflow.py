"""A conversation that does not fit the model, in the words of each vendor, becomes the error at which the
client's agents compact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.http.client.retries import read_failure
from dragoman.protocols import codec
from gateway.canned import Answer, Canned, provider
from gateway.plain import ask
from gateway.running import running
from gateway.stands import PROTOCOLS, Stand, gateway


def openai(message: str, code: str | None = None, type: str = "invalid_request_error") -> Wire:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(message: str, type: str = "invalid_request_error") -> Wire:
    return {"type": "error", "error": {"type": type, "message": message}}


def gemini(message: str) -> Wire:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


# (protocol, status, body)
VENDORS: dict[str, tuple[str, int, Any]] = {
    "Anthropic": ("anthropic", 400, anthropic("prompt is too long: 210000 tokens > 200000 maximum")),
    "Anthropic, with the reply": (
        "anthropic",
        400,
        anthropic("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
    ),
    "Anthropic as 413": ("anthropic", 413, anthropic("Prompt is too long", "request_too_large")),
    "Bedrock": ("anthropic", 400, anthropic("Input is too long for requested model.")),
    "Z.ai": ("anthropic", 400, anthropic("Prompt exceeds max length")),
    "OpenAI Chat": (
        "openai-chat",
        400,
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages need 130001.",
            "context_length_exceeded",
        ),
    ),
    "OpenAI Responses": (
        "openai-responses",
        400,
        openai(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "context_length_exceeded",
        ),
    ),
    "OpenAI, more than a minute allows": (
        "openai-chat",
        429,
        openai(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "
            "Requested 40000. The input or output tokens must be reduced in order to run successfully.",
            "rate_limit_exceeded",
            "tokens",
        ),
    ),
    "vLLM, an encoder and a decoder": (
        "openai-chat",
        400,
        openai("The decoder prompt (length 9000) is longer than the maximum model length of 8192", "x"),
    ),
    "TGI": ("openai-chat", 422, openai("`inputs` must have less than 4095 tokens. Given: 9000", "x")),
    "Google": (
        "gemini",
        400,
        gemini("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    ),
    "xAI": (
        "openai-chat",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "Groq": (
        "openai-chat",
        400,
        openai("Please reduce the length of the messages or completion.", "context_length_exceeded"),
    ),
    "OpenRouter": (
        "openai-chat",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072, not 140000",
                "code": 400,
            }
        },
    ),
    "GitHub Copilot": (
        "openai-chat",
        400,
        openai(
            "prompt token count of 140000 exceeds the limit of 128000", "model_max_prompt_tokens_exceeded"
        ),
    ),
    "vLLM": (
        "openai-chat",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. You requested 5000.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (
        "openai-chat",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "LM Studio": (
        "openai-chat",
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
    ),
    "SGLang": (
        "openai-chat",
        400,
        {
            "object": "error",
            "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "code": 400,
        },
    ),
    "Moonshot": (
        "openai-chat",
        400,
        openai("Invalid request: Your request exceeded model token limit: 131072"),
    ),
    "MiniMax": ("openai-chat", 400, openai("invalid params, context window exceeds limit (2013)")),
    "DashScope": ("openai-chat", 400, openai("Range of input length should be [1, 129024]")),
    "Together": (
        "openai-chat",
        422,
        openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000"),
    ),
    "Cohere": ("openai-chat", 400, {"message": "too many tokens: size limit exceeded by 1000 tokens."}),
    "a server that wraps it": (
        "openai-chat",
        500,
        openai("maximum context length is 8192", None, "server_error"),
    ),
}
# What else is refused, and must not make an agent compact
OTHERS: dict[str, tuple[str, int, Any]] = {
    "rate": (
        "openai-chat",
        429,
        openai(
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000",
            "rate_limit_exceeded",
            "tokens",
        ),
    ),
    "Bedrock's rate": (
        "anthropic",
        429,
        anthropic("Too many tokens, please wait before trying again.", "rate_limit_error"),
    ),
    "a long file": ("anthropic", 413, anthropic("Request exceeds the maximum size", "request_too_large")),
    "max_tokens": (
        "anthropic",
        400,
        anthropic("max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens"),
    ),
    "Google's rate": (
        "gemini",
        429,
        {"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}},
    ),
}


@pytest.mark.parametrize("row", VENDORS.values(), ids=VENDORS)
def test_the_words_of_a_vendor(row: tuple[str, int, Any]) -> None:
    protocol, status, body = row
    assert read_failure(codec(protocol), status, jsontext.encode(body), {}).kind == "context_too_long"


@pytest.mark.parametrize("row", OTHERS.values(), ids=OTHERS)
def test_other_refusals(row: tuple[str, int, Any]) -> None:
    protocol, status, body = row
    assert read_failure(codec(protocol), status, jsontext.encode(body), {}).kind != "context_too_long"


def test_words_without_json() -> None:
    body = b"litellm.ContextWindowExceededError: maximum context length is 8192 tokens"
    assert read_failure(codec("openai-chat"), 400, body, {}).kind == "context_too_long"


def recognised(client: str, error: Wire) -> bool:
    """What the agents of each protocol look for: Claude Code, Codex, OpenCode and Cline, Gemini CLI."""
    message = error["message"]
    match client:
        case "anthropic":
            return error["type"] == "invalid_request_error" and (
                "prompt is too long" in message.lower() or "exceed context limit" in message
            )
        case "gemini" | "gemini-interactions":
            return error["status"] == "INVALID_ARGUMENT" and "token count" in message
        case _:
            words = message.lower()
            return error["code"] == "context_length_exceeded" and (
                "context window" in words or "context length" in words
            )


@pytest.fixture(scope="module")
def overflowing() -> Iterator[tuple[Stand, Canned]]:
    """One upstream that speaks every protocol, behind a gateway."""
    upstream = Canned(Answer(500))
    with running(upstream) as url:
        rows = [provider(name, url, name) for name in PROTOCOLS]
        with gateway("\n".join(rows)) as stand:
            yield stand, upstream


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_each_client_gets_its_own_words(overflowing: tuple[Stand, Canned], client: str, stream: bool) -> None:
    stand, upstream = overflowing
    for vendor, (protocol, status, body) in VENDORS.items():
        upstream.answers = [Answer(status, jsontext.encode(body))]
        got = ask(stand.url, client, "hi", f"{protocol}:m", stream)
        if client == "openai-responses" and stream:  # Codex takes a status for the end of its work
            assert got.status == 200, vendor
            failed = got.body.split(b"event: response.failed\ndata: ")[1].split(b"\n\n")[0]
            error = jsontext.decode(failed)["response"]["error"]
        else:
            assert got.status in (400, status), vendor
            error = got.json["error"]
        assert recognised(client, error), (vendor, error)


EVENTS: dict[str, Wire] = {
    "openai-chat": {
        "error": {"message": "maximum context length is 9", "type": "BadRequestError", "code": 400}
    },
    "anthropic": anthropic("Input is too long."),
    "openai-responses": {
        "type": "response.failed",
        "sequence_number": 1,
        "response": {
            "id": "r",
            "object": "response",
            "status": "failed",
            "output": [],
            "error": {"code": "context_length_exceeded", "message": "too long"},
        },
    },
    "gemini": gemini("The input token count (9) exceeds 8"),
}


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("protocol", EVENTS)
def test_an_event_of_a_stream(overflowing: tuple[Stand, Canned], protocol: str, client: str) -> None:
    """It comes first in the stream, with status 200, and is answered like a status."""
    stand, upstream = overflowing
    event = EVENTS[protocol]
    data = b"event: %b\ndata: %b\n\n" % (event.get("type", "").encode(), jsontext.encode(event))
    upstream.answers = [Answer(200, data, content_type="text/event-stream")]
    got = ask(stand.url, client, "hi", f"{protocol}:m", stream=True)
    if client == "openai-responses":
        assert got.failure(client).code == "context_length_exceeded"
    else:
        assert (got.status, recognised(client, got.json["error"])) == (400, True)
