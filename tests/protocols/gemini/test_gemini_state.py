"""Thought signatures in Gemini requests: calls that Gemini did not make, and state that comes back."""

from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from dragoman.core.model import Message, Reasoning, State, Text, ToolCall, ToolResult, Wire
from dragoman.core.seal import seal_state
from protocols.gemini.requests import HELLO, assistant, bare, contents, decode, encode, request_of, user

# G97, G99: signatures


SENTINEL = "skip_thought_signature_validator"
MADE = State("gemini", "c2ln")


def call(id: str, state: State | None = None) -> ToolCall:
    return ToolCall(id, "f", "{}", state=state)


def result(id: str, *beside: Any) -> Message:
    return user(ToolResult(id, "f", (Text("ok"),)), *beside)


SIGNED = {
    "the first call of every step of the turn": (
        [user(Text("a")), assistant(call("1"), call("2")), result("1"), assistant(call("3")), result("3")],
        [[SENTINEL, None], [SENTINEL]],
    ),
    "its own signature stays": (
        [user(Text("a")), assistant(call("1", MADE), call("2")), result("1")],
        [["c2ln", None]],
    ),
    "earlier turns too, or the prefix would change": (
        [
            user(Text("a")),
            assistant(call("1")),
            result("1"),
            assistant(Text("b")),
            user(Text("c")),
            assistant(call("2")),
            result("2"),
        ],
        [[SENTINEL], [SENTINEL]],
    ),
    "text beside a result does not begin a turn": (
        [user(Text("a")), assistant(call("1")), result("1", Text("and")), assistant(call("2")), result("2")],
        [[SENTINEL], [SENTINEL]],
    ),
}


@pytest.mark.parametrize("messages, signatures", SIGNED.values(), ids=SIGNED)
def test_calls_that_gemini_did_not_make(messages: list[Message], signatures: list[list[str | None]]):
    body, losses = encode(request_of(*messages))
    found = [
        [part.get("thoughtSignature") for part in content["parts"] if "functionCall" in part]
        for content in body["contents"]
        if content["role"] == "model" and any("functionCall" in part for part in content["parts"])
    ]
    assert found == signatures
    invented = [loss for loss in losses if loss.startswith("invented")]
    assert invented == [
        f"invented f: Gemini did not make this call, so there is no signature. {SENTINEL} was sent."
    ] * (str(signatures).count(SENTINEL) > 0)


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-1.5-flash", "models/gemini-2.0-flash-001"])
def test_older_models_want_no_signature(model: str):
    body = contents(user(Text("a")), assistant(call("1")), result("1"), model=model)
    assert "thoughtSignature" not in body[1]["parts"][0]


# State that we streamed in a part of its own

SEAL = seal_state(State("anthropic", "sig"), "gemini")
TRAILERS = {
    "after the pieces of a thought": (
        [
            [
                {"text": "a", "thought": True},
                {"text": "b", "thought": True},
                {"text": "", "thought": True, "thoughtSignature": SEAL},
            ]
        ],
        [Reasoning("ab", state=State("anthropic", "sig"))],
    ),
    "a content for every chunk": (
        [
            [{"text": "a", "thought": True}],
            [{"text": "b", "thought": True}],
            [{"text": "", "thought": True, "thoughtSignature": SEAL}],
            [{"text": "c"}],
        ],
        [Reasoning("ab", state=State("anthropic", "sig")), Text("c")],
    ),
    "after nothing": (
        [[{"text": "", "thought": True, "thoughtSignature": SEAL}]],
        [Reasoning("", hidden=True, state=State("anthropic", "sig"))],
    ),
    "not across another part": (
        [
            [
                {"text": "a", "thought": True},
                {"text": "b"},
                {"text": "", "thought": True, "thoughtSignature": SEAL},
            ]
        ],
        [Reasoning("a"), Text("b"), Reasoning("", hidden=True, state=State("anthropic", "sig"))],
    ),
    "of a text": (
        [[{"text": "a"}, {"text": "", "thoughtSignature": SEAL}]],
        [Text("a", state=State("anthropic", "sig"))],
    ),
    "Gemini's own is never moved": (
        [[{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}]],
        [Text("a"), Text("", state=State("gemini", "c2ln"))],
    ),
}


@pytest.mark.parametrize("model_contents, parts", TRAILERS.values(), ids=TRAILERS)
def test_state_comes_back_to_its_text(model_contents: list[list[Wire]], parts: list[Any]):
    body = {"contents": [HELLO, *({"role": "model", "parts": parts} for parts in model_contents)]}
    request, _ = decode(body)
    assert [bare(part) for message in request.messages[1:] for part in message.parts] == parts


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}, "thoughtSignature": "c2ln"}


@pytest.mark.parametrize("client", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_signature_of_an_image_is_reported(client: str, streamed: bool):
    """Gemini's image models sign the images that they make; no client has a slot for it."""
    exchange = dragoman.Exchange(client, "gemini")
    body = {"candidates": [{"content": {"role": "model", "parts": [IMAGE]}, "finishReason": "STOP"}]}
    if streamed:
        exchange.stream().feed(b"data: %b\n\n" % jsontext.encode(body))
    else:
        exchange.response(body)
    (loss,) = exchange.losses
    assert (loss.code, loss.where) == ("reasoning.signature.dropped", "candidates[0].content.parts[0]")
