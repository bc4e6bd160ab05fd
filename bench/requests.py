"""One conversation as a request body of each protocol."""

import json
from collections.abc import Callable

from bench.conversation import Conversation, Json, Round


def anthropic(talk: Conversation) -> Json:
    return {
        "model": "some-model",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": talk.system, "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in talk.tools
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": talk.prompt}]},
            *(message for round in talk.rounds for message in anthropic_round(round)),
        ],
    }


def anthropic_round(round: Round) -> tuple[Json, Json]:
    call = {"type": "tool_use", "id": round.call_id, "name": round.tool, "input": round.arguments}
    result = {"type": "tool_result", "tool_use_id": round.call_id, "content": round.result}
    if round.is_interrupted:
        result = {"type": "text", "text": round.result}
    return (
        {"role": "assistant", "content": [{"type": "text", "text": round.text}, call]},
        {"role": "user", "content": [result]},
    )


def openai_chat(talk: Conversation) -> Json:
    return {
        "model": "some-model",
        "max_completion_tokens": 32000,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": talk.system},
            {"role": "user", "content": talk.prompt},
            *(message for round in talk.rounds for message in openai_chat_round(round)),
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in talk.tools
        ],
    }


def openai_chat_round(round: Round) -> tuple[Json, Json]:
    function = {"name": round.tool, "arguments": json.dumps(round.arguments)}
    call = {"id": round.call_id, "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": round.call_id, "content": round.result}
    if round.is_interrupted:
        result = {"role": "user", "content": round.result}
    return {"role": "assistant", "content": round.text, "tool_calls": [call]}, result


def openai_responses(talk: Conversation) -> Json:
    return {
        "model": "some-model",
        "max_output_tokens": 32000,
        "stream": True,
        "store": False,
        "instructions": talk.system,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": talk.prompt}]},
            *(item for round in talk.rounds for item in openai_responses_round(round)),
        ],
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in talk.tools
        ],
    }


def openai_responses_round(round: Round) -> tuple[Json, Json, Json]:
    text: Json = {"type": "output_text", "text": round.text, "annotations": []}
    result: Json = {"type": "function_call_output", "call_id": round.call_id, "output": round.result}
    if round.is_interrupted:
        said = {"type": "input_text", "text": round.result}
        result = {"type": "message", "role": "user", "content": [said]}
    return (
        {"type": "message", "role": "assistant", "content": [text]},
        {
            "type": "function_call",
            "call_id": round.call_id,
            "name": round.tool,
            "arguments": json.dumps(round.arguments),
        },
        result,
    )


def gemini(talk: Conversation) -> Json:
    declarations = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
        for tool in talk.tools
    ]
    return {
        "systemInstruction": {"parts": [{"text": talk.system}]},
        "contents": [
            {"role": "user", "parts": [{"text": talk.prompt}]},
            *(content for round in talk.rounds for content in gemini_round(round)),
        ],
        "tools": [{"functionDeclarations": declarations}],
        "generationConfig": {"maxOutputTokens": 32000},
    }


def gemini_round(round: Round) -> tuple[Json, Json]:
    call = {"id": round.call_id, "name": round.tool, "args": round.arguments}
    result = {"id": round.call_id, "name": round.tool, "response": {"output": round.result}}
    part: Json = {"text": round.result} if round.is_interrupted else {"functionResponse": result}
    return (
        {"role": "model", "parts": [{"text": round.text}, {"functionCall": call}]},
        {"role": "user", "parts": [part]},
    )


SPELL: dict[str, Callable[[Conversation], Json]] = {
    "anthropic": anthropic,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "gemini": gemini,
}


def request_body(protocol: str, talk: Conversation) -> bytes:
    return json.dumps(SPELL[protocol](talk), ensure_ascii=False).encode()
