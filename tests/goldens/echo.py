"""What a client sends next: the reply in its history as its SDK keeps it, and a result for each call."""

from __future__ import annotations

from seeds.wires import Wire, read_calls


def next_request(protocol: str, request: Wire, reply: Wire) -> Wire:
    calls = read_calls(protocol, reply)
    match protocol:
        case "openai-chat":
            message = reply["choices"][0]["message"]
            results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls]
            return {**request, "messages": [*request["messages"], message, *results]}
        case "openai-responses":
            outputs = [{"type": "function_call_output", "call_id": c.id, "output": "sunny"} for c in calls]
            return {**request, "input": [*request["input"], *reply["output"], *outputs]}
        case "anthropic":
            blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in calls]
            turns = [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": blocks}]
            return {**request, "messages": [*request["messages"], *turns]}
        case "gemini-interactions":
            steps = [
                {"type": "function_result", "call_id": call.id, "name": call.name, "result": "sunny"}
                for call in calls
            ]
            return {**request, "input": [*request["input"], *reply["steps"], *steps]}
        case _:
            parts = [
                {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": "sunny"}}}
                for call in calls
            ]
            content = reply["candidates"][0]["content"]
            return {**request, "contents": [*request["contents"], content, {"role": "user", "parts": parts}]}
