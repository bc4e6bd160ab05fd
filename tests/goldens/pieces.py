"""Pieces of the wires, written by hand as the protocols' own clients and servers write them."""

from __future__ import annotations

from typing import Any

from seeds.wires import Wire, chunk, dumps, named_sse, sse

CHAT, RESPONSES, ANTHROPIC, GEMINI = "openai-chat", "openai-responses", "anthropic", "gemini"
INTERACTIONS, CONVERSE = "gemini-interactions", "bedrock-converse"
MODELS = {
    CHAT: "gpt-4.1",
    RESPONSES: "gpt-5.1",
    ANTHROPIC: "claude-sonnet-4-5",
    GEMINI: "gemini-3-pro",
    INTERACTIONS: "gemini-3-pro",
    CONVERSE: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}


PNG = "iVBORw0KGgo="
CITY: Wire = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def request_body(protocol: str, *turns: Any, **more: Any) -> Wire:
    """A request whose conversation is `turns`, or simply a greeting."""
    if not turns:
        turns = ({"role": "user", "parts": [{"text": "Hi"}]} if protocol == GEMINI else turn("user", "Hi"),)
    field = {CHAT: "messages", RESPONSES: "input", ANTHROPIC: "messages", GEMINI: "contents"}[protocol]
    model = {} if protocol == GEMINI else {"model": MODELS[protocol]}
    limit = {"max_tokens": 500} if protocol == ANTHROPIC else {}
    return {**model, **limit, field: list(turns), **more}


def turn(role: str, content: Any) -> Wire:
    return {"role": role, "content": content}


def content(role: str, *parts: Wire) -> Wire:
    """A content of Gemini."""
    return {"role": role, "parts": list(parts)}


def chat_call(id: str, name: str, arguments: Any) -> Wire:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": dumps(arguments)}}


def chat_tool(name: str, description: str, schema: Wire) -> Wire:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def call_item(call_id: str, name: str, arguments: Any, **more: Any) -> Wire:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": dumps(arguments), **more}


def tool_use(id: str, name: str, input: Any) -> Wire:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def function_call(name: str, args: Any, id: str = "", **more: Any) -> Wire:
    return {"functionCall": ({"id": id} if id else {}) | {"name": name, "args": args}, **more}


def completion(message: Wire, finish: str, usage: Wire | None = None) -> Wire:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4.1-2025"}
    return {**head, "choices": [choice], "usage": usage or CHAT_USAGE}


def response(*output: Wire, **more: Any) -> Wire:
    head = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5.1-2025"}
    return {**head, "status": "completed", "output": list(output), "usage": RESPONSES_USAGE, **more}


def message(*blocks: Wire, stop: str = "end_turn", **more: Any) -> Wire:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929"}
    ended = {"stop_reason": stop, "stop_sequence": None, "usage": ANTHROPIC_USAGE}
    return {**head, "content": list(blocks), **ended, **more}


def candidate(*parts: Wire, finish: str = "STOP", **more: Any) -> Wire:
    first: Wire = {"finishReason": finish, "index": 0, **more}
    if parts:
        first = {"content": content("model", *parts), **first}
    head = {"modelVersion": "gemini-3-pro", "responseId": "r1"}
    return {"candidates": [first], "usageMetadata": GEMINI_USAGE, **head}


def message_item(*parts: Wire) -> Wire:
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": list(parts),
    }


def output_text(text: str, *annotations: Wire) -> Wire:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


# 20 tokens in, 8 of them from a cache; 9 out, 4 of them thought
CHAT_USAGE: Wire = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
RESPONSES_USAGE: Wire = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}
ANTHROPIC_USAGE: Wire = {"input_tokens": 12, "cache_read_input_tokens": 8, "output_tokens": 9}
GEMINI_USAGE: Wire = {
    "promptTokenCount": 20,
    "cachedContentTokenCount": 8,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 29,
}


# Streams


def chat_stream(*deltas: Wire, finish: str = "stop") -> bytes:
    usage = {**chunk(usage=CHAT_USAGE), "choices": []}
    return sse(
        chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, finish), usage, "[DONE]"
    )


def responses_stream(*events: Wire, done: Wire) -> bytes:
    begun = {**done, "status": "in_progress", "output": [], "usage": None}
    kind = "response.incomplete" if done["status"] == "incomplete" else "response.completed"
    frames = ({"type": "response.created", "response": begun}, *events, {"type": kind, "response": done})
    return named_sse(*({**event, "sequence_number": number} for number, event in enumerate(frames)))


def at(place: int, kind: str, **more: Any) -> Wire:
    """An event about the item at `place`."""
    return {"type": f"response.{kind}", "output_index": place, **more}


def anthropic_stream(*events: Wire, stop: str = "end_turn", **more: Any) -> bytes:
    usage = {**ANTHROPIC_USAGE, "output_tokens": 1}
    begun = {**message(), "stop_reason": None, "usage": usage}
    ended = {"stop_reason": stop, "stop_sequence": None, **more}
    return named_sse(
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        *events,
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


def block(index: int, empty: Wire, *deltas: Wire) -> list[Wire]:
    """A content block from its start to its stop."""
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_delta(text: str) -> Wire:
    return {"type": "text_delta", "text": text}


def json_delta(text: str) -> Wire:
    return {"type": "input_json_delta", "partial_json": text}


def gemini_stream(*parts: Wire, finish: str | None = "STOP", **more: Any) -> bytes:
    """One part in each chunk; the finish reason stands in the last one."""
    head = {"modelVersion": "gemini-3-pro", "responseId": "r1"}
    chunks: list[Wire] = [
        {"candidates": [{"content": content("model", part), "index": 0}], **head} for part in parts
    ]
    if finish:
        chunks.append(
            {
                "candidates": [{"finishReason": finish, "index": 0, **more}],
                "usageMetadata": GEMINI_USAGE,
                **head,
            }
        )
    return sse(*chunks)


TEXT_BLOCK: Wire = {"type": "text", "text": ""}
