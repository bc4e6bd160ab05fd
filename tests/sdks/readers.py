"""The official SDKs as readers: each with a server that sends a given answer.

What they give back is what an agent built on them would see. Their own types are checked strictly on the
way: a wire that an SDK takes only because it looks away is not good enough.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
from anthropic.types import Message, RawMessageStreamEvent
from google import genai
from google.genai import types
from google.genai._gaos.types.interactions.interaction import Interaction
from google.genai._gaos.types.interactions.interactionsseevent import (
    InteractionSSEEvent,
    UnknownInteractionSSEEvent,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from seeds.wires import frames, gather_interactions


class Seen(NamedTuple):
    """What an agent sees: refusals are text."""

    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    stop: str


class Server:
    """Answers with `body`; `streamed` says as what."""

    def __init__(self) -> None:
        self.body, self.streamed = b"", False

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        kind = "text/event-stream" if self.streamed else "application/json"
        return httpx2.Response(200, content=self.body, headers={"content-type": kind})


SERVER = Server()
_transport = httpx2.MockTransport(SERVER.answer)
_openai = openai.OpenAI(
    api_key="k", base_url="http://a.test", max_retries=0, http_client=httpx2.Client(transport=_transport)
)
_anthropic = anthropic.Anthropic(
    api_key="k", base_url="http://a.test", max_retries=0, http_client=httpx2.Client(transport=_transport)
)
_google = genai.Client(
    api_key="k",
    http_options=types.HttpOptions(base_url="http://a.test", client_args={"transport": _transport}),
)
_chunk = TypeAdapter(ChatCompletionChunk)
_responses_event: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_anthropic_event: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_interaction_event: TypeAdapter[Any] = TypeAdapter(InteractionSSEEvent)


def read(protocol: str, body: bytes, streamed: bool) -> Seen:
    """`body` as the official SDK of `protocol` reads it."""
    SERVER.body, SERVER.streamed = body, streamed
    whole, stream = _READERS[protocol]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return stream() if streamed else whole()


def _chat() -> Seen:
    ChatCompletion.model_validate_json(SERVER.body)
    found = _openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    return _of_completion(found)


def _chat_stream() -> Seen:
    for frame in frames(SERVER.body):
        if frame != "[DONE]":
            _chunk.validate_python(frame)
    with _openai.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Hi"}]) as stream:
        for _ in stream:
            pass
        return _of_completion(stream.current_completion_snapshot)


def _of_completion(completion: Any) -> Seen:
    (choice,) = completion.choices
    message = choice.message
    made = [] if choice.finish_reason == "length" else message.tool_calls or ()
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in made]
    thoughts = (message.model_extra or {}).get("reasoning_content") or ""
    return Seen((message.content or "") + (message.refusal or ""), thoughts, calls, choice.finish_reason)


def _responses() -> Seen:
    Response.model_validate_json(SERVER.body)
    return _of_response(_openai.responses.create(model="m", input="Hi"))


def _responses_stream() -> Seen:
    for frame in frames(SERVER.body):
        _responses_event.validate_python(frame)
    with _openai.responses.stream(model="m", input="Hi") as stream:
        events = list(stream)
    last: Any = events[-1]
    done: Any = [event for event in events if event.type == "response.output_item.done"]
    seen = _of_response(last.response)
    streamed = [(e.item.name, json.loads(e.item.arguments)) for e in done if e.item.type == "function_call"]
    assert streamed == seen.calls  # Codex reads the items, others the final response
    return seen


def _of_response(response: Any) -> Seen:
    text = thoughts = ""
    calls: list[tuple[str, Any]] = []
    for item in response.output:
        match item.type:
            case "message":
                text += "".join(
                    getattr(part, "text", "") or getattr(part, "refusal", "") for part in item.content
                )
            case "reasoning":
                thoughts += "".join(part.text for part in item.summary)
            case "function_call" if item.status == "completed":
                calls.append((item.name, json.loads(item.arguments)))
            case _:
                pass
    stop = response.incomplete_details.reason if response.incomplete_details else response.status
    return Seen(text, thoughts, calls, stop)


def _messages() -> Seen:
    Message.model_validate_json(SERVER.body)
    found = _anthropic.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    return _of_message(found)


def _messages_stream() -> Seen:
    for frame in frames(SERVER.body):
        if frame["type"] != "ping":
            _anthropic_event.validate_python(frame)
    with _anthropic.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        return _of_message(stream.get_final_message())


def _of_message(message: Any) -> Seen:
    blocks = message.content
    text = "".join(block.text for block in blocks if block.type == "text")
    thoughts = "".join(block.thinking for block in blocks if block.type == "thinking")
    calls = [(block.name, block.input) for block in blocks if block.type == "tool_use"]
    return Seen(text, thoughts, calls, message.stop_reason)


def _gemini() -> Seen:
    return _of_chunks([_google.models.generate_content(model="m", contents="Hi")])


def _gemini_stream() -> Seen:
    return _of_chunks(list(_google.models.generate_content_stream(model="m", contents="Hi")))


def _of_chunks(chunks: list[types.GenerateContentResponse]) -> Seen:
    text = thoughts = stop = ""
    calls: list[tuple[str, Any]] = []
    for chunk in chunks:
        assert chunk.candidates
        (candidate,) = chunk.candidates
        stop = candidate.finish_reason.value if candidate.finish_reason else stop
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call:
                calls.append((part.function_call.name or "", part.function_call.args))
            elif part.thought:
                thoughts += part.text or ""
            else:
                text += part.text or ""
    return Seen(text, thoughts, calls, stop)


def _interaction() -> Seen:
    Interaction.model_validate_json(SERVER.body)
    return _of_interaction(_google.interactions.create(model="m", input="Hi"))


def _interaction_stream() -> Seen:
    for frame in frames(SERVER.body):
        if frame != "[DONE]":
            assert not isinstance(_interaction_event.validate_python(frame), UnknownInteractionSSEEvent)
    events: list[Any] = list(_google.interactions.create(model="m", input="Hi", stream=True))
    raw = [event.model_dump(exclude_none=True) for event in events]
    return _of_interaction(Interaction.model_validate(gather_interactions(raw)))


def _of_interaction(interaction: Any) -> Seen:
    text = thoughts = ""
    calls: list[tuple[str, Any]] = []
    for step in interaction.steps:
        match step.type:
            case "model_output":
                text += "".join(getattr(block, "text", "") for block in step.content or ())
            case "thought":
                thoughts += "".join(getattr(entry, "text", "") for entry in step.summary or ())
            case "function_call":
                calls.append((step.name, step.arguments))
            case _:
                pass
    return Seen(text, thoughts, calls, interaction.status)


_READERS: dict[str, tuple[Callable[[], Seen], Callable[[], Seen]]] = {
    "openai-chat": (_chat, _chat_stream),
    "openai-responses": (_responses, _responses_stream),
    "anthropic": (_messages, _messages_stream),
    "gemini": (_gemini, _gemini_stream),
    "gemini-interactions": (_interaction, _interaction_stream),
}
