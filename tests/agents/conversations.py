"""One conversation with a tool, by each official SDK: a question, the result of a call, an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ASK = "What is the weather in Oslo? Use the tool."
ABOUT = "Tells the weather in a city."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = "rain, 7 degrees"
GO_ON = "And what should I wear?"
LONGEST = 60


@dataclass(frozen=True)
class Turn:
    """What the model said: a call or a text."""

    text: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0


def chat(url: str, model: str, stream: bool) -> list[Turn]:
    from openai import OpenAI
    from openai.lib.streaming.chat import ChatCompletionStreamState

    client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    function = {"name": "get_weather", "description": ABOUT, "parameters": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": ASK}]
    said: list[Turn] = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": LONGEST}
        asked["tools"] = [{"type": "function", "function": function}]
        reply: Any
        if stream:
            state = ChatCompletionStreamState()
            for chunk in client.chat.completions.create(
                **asked, stream=True, stream_options={"include_usage": True}
            ):
                state.handle_chunk(chunk)
            reply = state.current_completion_snapshot
        else:
            reply = client.chat.completions.create(**asked)
        message = reply.choices[0].message
        calls = message.tool_calls or []
        pairs = [(call.function.name, call.function.arguments) for call in calls]
        said.append(turn(message.content, pairs, reply.usage.total_tokens))
        messages.append({"role": "assistant", "content": message.content})
        if calls:
            messages[-1]["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call, (name, arguments) in zip(calls, pairs, strict=True)
            ]
        results = [{"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in calls]
        messages += results or [{"role": "user", "content": GO_ON}]
    return said


def responses(url: str, model: str, stream: bool) -> list[Turn]:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    function = {"type": "function", "name": "get_weather", "description": ABOUT, "parameters": SCHEMA}
    items: list[Any] = [{"role": "user", "content": ASK}]
    said: list[Turn] = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": model, "input": items, "max_output_tokens": LONGEST, "store": False}
        asked["tools"] = [{**function, "strict": False}]
        reply: Any
        if stream:
            events: list[Any] = list(client.responses.create(**asked, stream=True))
            reply = events[-1].response  # completed, or incomplete where the model did not come to an end
        else:
            reply = client.responses.create(**asked)
        calls = [item for item in reply.output if item.type == "function_call"]
        said.append(
            turn(reply.output_text, [(call.name, call.arguments) for call in calls], reply.usage.total_tokens)
        )
        items += [item.model_dump(exclude_none=True) for item in reply.output]
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": RESULT} for call in calls
        ]
        items += results or [{"role": "user", "content": GO_ON}]
    return said


def anthropic(url: str, model: str, stream: bool) -> list[Turn]:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="any", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": ASK}]
    said: list[Turn] = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": LONGEST}
        asked["tools"] = [{"name": "get_weather", "description": ABOUT, "input_schema": SCHEMA}]
        reply: Any
        if stream:
            with client.messages.stream(**asked) as events:
                reply = events.get_final_message()
        else:
            reply = client.messages.create(**asked)
        calls = [block for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        pairs = [(call.name, json.dumps(call.input)) for call in calls]
        said.append(turn(text, pairs, reply.usage.output_tokens))
        blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in reply.content]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results or GO_ON}]
    return said


def gemini(url: str, model: str, stream: bool) -> list[Turn]:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url))
    function = types.FunctionDeclaration(name="get_weather", description=ABOUT, parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        max_output_tokens=LONGEST, tools=[types.Tool(function_declarations=[function])]
    )
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=ASK)])]
    said: list[Turn] = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": model, "contents": contents, "config": config}
        chunks: list[Any]
        if stream:
            chunks = list(client.models.generate_content_stream(**asked))
        else:
            chunks = [client.models.generate_content(**asked)]
        found = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
        parts: list[Any] = [part for content in found if content for part in content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text or "" for part in parts if not part.thought)
        pairs = [(call.name, json.dumps(call.args)) for call in calls]
        said.append(turn(text, pairs, chunks[-1].usage_metadata.total_token_count))
        results = [
            types.Part.from_function_response(name=call.name, response={"output": RESULT}) for call in calls
        ]
        contents.append(types.Content(role="model", parts=parts))
        contents.append(types.Content(role="user", parts=results or [types.Part(text=GO_ON)]))
    return said


def turn(text: str | None, calls: list[tuple[str, str]], tokens: int) -> Turn:
    name, arguments = calls[0] if calls else ("", "{}")
    return Turn(text or "", name, json.loads(arguments), tokens)


CLIENTS: dict[str, Callable[[str, str, bool], list[Turn]]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
