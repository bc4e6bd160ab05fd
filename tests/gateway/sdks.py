"""The official SDKs, each behind the same few methods: a conversation, its turns and its tools.

What an SDK gave is appended to the history as that SDK's users append it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

from dragoman.core import jsontext
from gateway.stands import CLIENT_KEY
from seeds.wires import gather_interactions

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
TOOLS = {
    "take_picture": ("Takes a picture of a city.", ["city"]),
    "get_weather": ("Tells the weather of a city.", ["city"]),
}


@dataclass(frozen=True)
class Output:
    """What a tool answers."""

    text: str
    image: bytes = b""
    failed: bool = False


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """A reply: what it says, what it calls, and itself as the SDK gave it."""

    text: str
    calls: list[Call]
    thought: str
    raw: Any = field(repr=False)


def schema(required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in required},
        "required": required,
    }


def data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


class Chat:
    def __init__(self, url: str, key: str) -> None:
        options: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": key, "max_retries": 0}
        self.sync, self.asynchronous = openai.OpenAI(**options), lambda: openai.AsyncOpenAI(**options)

    def user(self, text: str) -> list[Any]:
        return [{"role": "user", "content": text}]

    def request(self, model: str, history: list[Any], tools: bool = True) -> dict[str, Any]:
        declared = [
            {
                "type": "function",
                "function": {"name": name, "description": words, "parameters": schema(required)},
            }
            for name, (words, required) in TOOLS.items()
        ]
        return {"model": model, "messages": history, **({"tools": declared} if tools else {})}

    def whole(self, request: dict[str, Any]) -> Turn:
        return self.turn(self.sync.chat.completions.create(**request))

    def streamed(self, request: dict[str, Any]) -> Turn:
        with self.sync.chat.completions.stream(**request) as stream:
            return self.turn(stream.get_final_completion())

    async def awhole(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client:
            return self.turn(await client.chat.completions.create(**request))

    async def astreamed(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client, client.chat.completions.stream(**request) as stream:
            return self.turn(await stream.get_final_completion())

    def turn(self, completion: Any) -> Turn:
        message = completion.choices[0].message
        calls = [
            Call(call.id, call.function.name, jsontext.decode(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        assert completion.choices[0].finish_reason == ("tool_calls" if calls else "stop")
        return Turn(message.content or "", calls, getattr(message, "reasoning_content", "") or "", message)

    def results(self, turn: Turn, outputs: list[Output]) -> list[Any]:
        """Chat has no word for a failed result."""
        return [turn.raw] + [
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": [
                    {"type": "text", "text": output.text},
                    *(
                        [{"type": "image_url", "image_url": {"url": data_url(output.image)}}]
                        if output.image
                        else []
                    ),
                ],
            }
            for call, output in zip(turn.calls, outputs, strict=True)
        ]

    def reply_turns(self, turn: Turn) -> list[Any]:
        return [turn.raw]


class Responses(Chat):
    def request(self, model: str, history: list[Any], tools: bool = True) -> dict[str, Any]:
        declared = [
            {
                "type": "function",
                "name": name,
                "description": words,
                "parameters": schema(required),
                "strict": False,
            }
            for name, (words, required) in TOOLS.items()
        ]
        request = {
            "model": model,
            "input": history,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        return {**request, **({"tools": declared} if tools else {})}

    def whole(self, request: dict[str, Any]) -> Turn:
        return self.turn(self.sync.responses.create(**request))

    def streamed(self, request: dict[str, Any]) -> Turn:
        with self.sync.responses.stream(**request) as stream:
            return self.turn(stream.get_final_response())

    async def awhole(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client:
            return self.turn(await client.responses.create(**request))

    async def astreamed(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client, client.responses.stream(**request) as stream:
            return self.turn(await stream.get_final_response())

    def turn(self, completion: Any) -> Turn:
        items = completion.output
        calls = [
            Call(item.call_id, item.name, jsontext.decode(item.arguments))
            for item in items
            if item.type == "function_call"
        ]
        thoughts = [part.text for item in items if item.type == "reasoning" for part in item.summary]
        assert completion.status == "completed"
        assert completion.usage.total_tokens > 0
        return Turn(completion.output_text, calls, "".join(thoughts), items)

    def results(self, turn: Turn, outputs: list[Output]) -> list[Any]:
        return list(turn.raw) + [
            {
                "type": "function_call_output",
                "call_id": call.id,
                "output": [
                    {"type": "input_text", "text": output.text},
                    *([{"type": "input_image", "image_url": data_url(output.image)}] if output.image else []),
                ],
            }
            for call, output in zip(turn.calls, outputs, strict=True)
        ]

    def reply_turns(self, turn: Turn) -> list[Any]:
        return list(turn.raw)


class Anthropic:
    def __init__(self, url: str, key: str) -> None:
        options: dict[str, Any] = {"base_url": url, "api_key": key, "max_retries": 0}
        self.sync, self.asynchronous = (
            anthropic.Anthropic(**options),
            lambda: anthropic.AsyncAnthropic(**options),
        )

    def user(self, text: str) -> list[Any]:
        return [{"role": "user", "content": text}]

    def request(self, model: str, history: list[Any], tools: bool = True) -> dict[str, Any]:
        declared = [
            {"name": name, "description": words, "input_schema": schema(required)}
            for name, (words, required) in TOOLS.items()
        ]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        request = {"model": model, "messages": history, "max_tokens": 2048, "thinking": thinking}
        return {**request, **({"tools": declared} if tools else {})}

    def whole(self, request: dict[str, Any]) -> Turn:
        return self.turn(self.sync.messages.create(**request))

    def streamed(self, request: dict[str, Any]) -> Turn:
        with self.sync.messages.stream(**request) as stream:
            return self.turn(stream.get_final_message())

    async def awhole(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client:
            return self.turn(await client.messages.create(**request))

    async def astreamed(self, request: dict[str, Any]) -> Turn:
        async with self.asynchronous() as client, client.messages.stream(**request) as stream:
            return self.turn(await stream.get_final_message())

    def turn(self, message: Any) -> Turn:
        calls = [
            Call(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"
        ]
        texts = [block.text for block in message.content if block.type == "text"]
        thoughts = [block.thinking for block in message.content if block.type == "thinking"]
        assert message.stop_reason == ("tool_use" if calls else "end_turn")
        assert message.usage.output_tokens > 0
        return Turn("".join(texts), calls, "".join(thoughts), message)

    def results(self, turn: Turn, outputs: list[Output]) -> list[Any]:
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "is_error": output.failed,
                "content": [{"type": "text", "text": output.text}, *_anthropic_image(output.image)],
            }
            for call, output in zip(turn.calls, outputs, strict=True)
        ]
        return [*self.reply_turns(turn), {"role": "user", "content": blocks}]

    def reply_turns(self, turn: Turn) -> list[Any]:
        return [{"role": "assistant", "content": turn.raw.content}]


def _anthropic_image(image: bytes) -> list[Any]:
    data = base64.b64encode(image).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return [{"type": "image", "source": source}] if image else []


class Gemini:
    def __init__(self, url: str, key: str) -> None:
        self.sync = genai.Client(api_key=key, http_options={"base_url": url})
        self.asynchronous = lambda: genai.Client(api_key=key, http_options={"base_url": url}).aio

    def user(self, text: str) -> list[Any]:
        return [types.Content(role="user", parts=[types.Part(text=text)])]

    def request(self, model: str, history: list[Any], tools: bool = True) -> dict[str, Any]:
        declared = [
            types.FunctionDeclaration(name=name, description=words, parameters_json_schema=schema(required))
            for name, (words, required) in TOOLS.items()
        ]
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=declared)] if tools else None,
            thinking_config=types.ThinkingConfig(include_thoughts=True),
        )
        return {"model": model, "contents": history, "config": config}

    def whole(self, request: dict[str, Any]) -> Turn:
        return self.turn([self.sync.models.generate_content(**request)])

    def streamed(self, request: dict[str, Any]) -> Turn:
        return self.turn(list(self.sync.models.generate_content_stream(**request)))

    async def awhole(self, request: dict[str, Any]) -> Turn:
        client = self.asynchronous()
        try:
            return self.turn([await client.models.generate_content(**request)])
        finally:
            await client.aclose()

    async def astreamed(self, request: dict[str, Any]) -> Turn:
        client = self.asynchronous()
        try:
            return self.turn(
                [chunk async for chunk in await client.models.generate_content_stream(**request)]
            )
        finally:
            await client.aclose()

    def turn(self, chunks: list[Any]) -> Turn:
        contents = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
        parts = [part for content in contents if content for part in content.parts or ()]
        calls = [
            Call(part.function_call.id or "", part.function_call.name, dict(part.function_call.args))
            for part in parts
            if part.function_call
        ]
        assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
        assert chunks[-1].usage_metadata.total_token_count > 0
        text = "".join(part.text or "" for part in parts if not part.thought)
        return Turn(text, calls, "".join(part.text or "" for part in parts if part.thought), parts)

    def results(self, turn: Turn, outputs: list[Output]) -> list[Any]:
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id or None,
                    name=call.name,
                    response={"error" if output.failed else "output": output.text},
                    parts=[_gemini_image(output.image)] if output.image else None,
                )
            )
            for call, output in zip(turn.calls, outputs, strict=True)
        ]
        return [*self.reply_turns(turn), types.Content(role="user", parts=parts)]

    def reply_turns(self, turn: Turn) -> list[Any]:
        return [types.Content(role="model", parts=turn.raw)]


def _gemini_image(image: bytes) -> types.FunctionResponsePart:
    blob = types.FunctionResponseBlob(mime_type="image/png", data=image)
    return types.FunctionResponsePart(inline_data=blob)


class FailedStream(Exception):
    """google-genai hands over the error event of an interaction and raises nothing."""


class Interactions:
    """google-genai's client of Interactions. The history is the row of steps."""

    def __init__(self, url: str, key: str) -> None:
        options: Any = {"base_url": url, "retry_options": types.HttpRetryOptions(attempts=1)}
        self.sync = genai.Client(api_key=key, http_options=options)
        self.asynchronous = lambda: genai.Client(api_key=key, http_options=options).aio

    def user(self, text: str) -> list[Any]:
        return [{"type": "user_input", "content": [{"type": "text", "text": text}]}]

    def request(self, model: str, history: list[Any], tools: bool = True) -> dict[str, Any]:
        declared = [
            {"type": "function", "name": name, "description": words, "parameters": schema(required)}
            for name, (words, required) in TOOLS.items()
        ]
        config = {"thinking_level": "low", "thinking_summaries": "auto"}
        request = {"model": model, "input": history, "store": False, "generation_config": config}
        return {**request, **({"tools": declared} if tools else {})}

    def whole(self, request: dict[str, Any]) -> Turn:
        return self.turn(plain(self.sync.interactions.create(**request)))

    def streamed(self, request: dict[str, Any]) -> Turn:
        events = [plain(event) for event in self.sync.interactions.create(**request, stream=True)]
        return self.gathered(events)

    async def awhole(self, request: dict[str, Any]) -> Turn:
        client = self.asynchronous()
        try:
            return self.turn(plain(await client.interactions.create(**request)))
        finally:
            await client.aclose()

    async def astreamed(self, request: dict[str, Any]) -> Turn:
        client = self.asynchronous()
        try:
            stream: Any = await client.interactions.create(**request, stream=True)
            return self.gathered([plain(event) async for event in stream])
        finally:
            await client.aclose()

    def gathered(self, events: list[dict[str, Any]]) -> Turn:
        if events[-1]["event_type"] == "error":
            raise FailedStream(events[-1]["error"]["message"])
        return self.turn(gather_interactions(events))

    def turn(self, interaction: dict[str, Any]) -> Turn:
        steps = interaction["steps"]
        calls = [
            Call(step["id"], step["name"], step["arguments"])
            for step in steps
            if step["type"] == "function_call"
        ]
        said = [block for step in steps if step["type"] == "model_output" for block in step["content"]]
        thought = [entry for step in steps if step["type"] == "thought" for entry in step.get("summary", ())]
        assert interaction["status"] == ("requires_action" if calls else "completed")
        assert interaction["usage"]["total_tokens"] > 0
        texts, thoughts = ("".join(block["text"] for block in blocks) for blocks in (said, thought))
        return Turn(texts, calls, thoughts, steps)

    def results(self, turn: Turn, outputs: list[Output]) -> list[Any]:
        results = [
            {
                "type": "function_result",
                "call_id": call.id,
                "name": call.name,
                "result": [{"type": "text", "text": output.text}, *_interactions_image(output.image)],
                "is_error": output.failed,
            }
            for call, output in zip(turn.calls, outputs, strict=True)
        ]
        return [*turn.raw, *results]

    def reply_turns(self, turn: Turn) -> list[Any]:
        return list(turn.raw)


def _interactions_image(image: bytes) -> list[Any]:
    data = base64.b64encode(image).decode()
    return [{"type": "image", "mime_type": "image/png", "data": data}] if image else []


def plain(value: Any) -> dict[str, Any]:
    """What an SDK gave, as its users put it into a file."""
    return value.model_dump(mode="json", exclude_none=True)


SDKS: dict[str, Any] = {
    "openai-chat": Chat,
    "openai-responses": Responses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "gemini-interactions": Interactions,
}
MODES = ("whole", "streamed", "awhole", "astreamed")


@cache
def sdk_of(client: str, url: str, key: str = CLIENT_KEY) -> Any:
    return SDKS[client](url, key)


def speaking(sdk: Any, mode: str) -> Callable[[dict[str, Any]], Turn]:
    """One turn in this mode."""
    speak = getattr(sdk, mode)
    return (lambda request: asyncio.run(speak(request))) if mode.startswith("a") else speak
