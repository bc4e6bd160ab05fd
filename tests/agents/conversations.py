"""One conversation with a tool, by each official SDK: a question, a call that it must get, an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ASK = 'What is the weather in Oslo? Use the tool with "Oslo".'
ABOUT = "Tells the weather in a city."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = "rain, 7 degrees"
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

    client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    function = {"name": "get_weather", "description": ABOUT, "parameters": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": ASK}]
    turns: list[Turn] = []
    for choice in ("required", "none"):
        request: dict[str, Any] = {
            "model": model, "messages": messages, "max_tokens": LONGEST, "temperature": 0,
            "tools": [{"type": "function", "function": function}], "tool_choice": choice,
        }  # fmt: skip
        reply: Any
        if stream:
            with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
                reply = events.get_final_completion()
        else:
            reply = client.chat.completions.create(**request)
        message = reply.choices[0].message
        calls = message.tool_calls or []
        pairs = [(call.function.name, call.function.arguments) for call in calls]
        turns.append(turn(message.content, pairs, reply.usage.total_tokens))
        messages.append({"role": "assistant", "content": message.content})
        messages[-1]["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call, (name, arguments) in zip(calls, pairs, strict=True)
        ]
        messages += [{"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in calls]
    return turns


def responses(url: str, model: str, stream: bool) -> list[Turn]:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    function = {"type": "function", "name": "get_weather", "description": ABOUT, "parameters": SCHEMA}
    items: list[Any] = [{"role": "user", "content": ASK}]
    turns: list[Turn] = []
    for choice in ("required", "none"):
        request: dict[str, Any] = {
            "model": model, "input": items, "max_output_tokens": LONGEST, "temperature": 0, "store": False,
            "tools": [{**function, "strict": False}], "tool_choice": choice,
        }  # fmt: skip
        reply: Any
        if stream:  # the helper, which puts the pieces together by their numbers, and its last event
            with client.responses.stream(**request) as events:
                reply = list(events)[-1]
            reply = reply.response  # completed, or incomplete where the model did not come to an end
        else:
            reply = client.responses.create(**request)
        calls = [item for item in reply.output if item.type == "function_call"]
        pairs = [(call.name, call.arguments) for call in calls]
        turns.append(turn(reply.output_text, pairs, reply.usage.total_tokens))
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in reply.output]
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": RESULT} for call in calls
        ]
    return turns


def anthropic(url: str, model: str, stream: bool) -> list[Turn]:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="any", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": ASK}]
    turns: list[Turn] = []
    for choice in ("any", "none"):
        request: dict[str, Any] = {
            "model": model, "messages": messages, "max_tokens": LONGEST, "extra_body": {"temperature": 0},
            "tools": [{"name": "get_weather", "description": ABOUT, "input_schema": SCHEMA}],
            "tool_choice": {"type": choice},
        }  # fmt: skip
        reply: Any
        if stream:
            with client.messages.stream(**request) as events:
                reply = events.get_final_message()
        else:
            reply = client.messages.create(**request)
        calls = [block for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        pairs = [(call.name, json.dumps(call.input)) for call in calls]
        turns.append(turn(text, pairs, reply.usage.output_tokens))
        blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in reply.content]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    return turns


def gemini(url: str, model: str, stream: bool) -> list[Turn]:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url))
    function = types.FunctionDeclaration(name="get_weather", description=ABOUT, parameters_json_schema=SCHEMA)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=ASK)])]
    turns: list[Turn] = []
    for mode in (types.FunctionCallingConfigMode.ANY, types.FunctionCallingConfigMode.NONE):
        config = types.GenerateContentConfig(
            max_output_tokens=LONGEST,
            temperature=0,
            tools=[types.Tool(function_declarations=[function])],
            tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=mode)),
        )
        request: dict[str, Any] = {"model": model, "contents": contents, "config": config}
        chunks: list[Any]
        if stream:
            chunks = list(client.models.generate_content_stream(**request))
        else:
            chunks = [client.models.generate_content(**request)]
        found = [chunk.candidates[0].content for chunk in chunks if chunk.candidates]
        parts: list[Any] = [part for content in found if content for part in content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text or "" for part in parts if not part.thought)
        pairs = [(call.name, json.dumps(call.args)) for call in calls]
        turns.append(turn(text, pairs, chunks[-1].usage_metadata.total_token_count))
        results = [
            types.Part.from_function_response(name=call.name, response={"output": RESULT}) for call in calls
        ]
        contents.append(types.Content(role="model", parts=parts))
        contents.append(types.Content(role="user", parts=results))
    return turns


def turn(text: str | None, calls: list[tuple[str, str]], tokens: int) -> Turn:
    name, arguments = calls[0] if calls else ("", "{}")
    return Turn(text or "", name, json.loads(arguments), tokens)


CLIENTS: dict[str, Callable[[str, str, bool], list[Turn]]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
