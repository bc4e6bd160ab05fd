"""Wires written and read by hand, without the code under test: replies to feed, and readers of replies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple, cast

import pytest

from spoken import SPOKEN, Wire

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "gemini")
PAIRS = [(a, b) for a in PROTOCOLS for b in PROTOCOLS if a != b]
ALL_PAIRS = [(a, b) for a in PROTOCOLS for b in PROTOCOLS]
EVERY_PAIR = [(a, b) for a in SPOKEN for b in SPOKEN if a != b]


class Call(NamedTuple):
    id: str
    name: str
    arguments: Any


def rows(names: str, *values: Iterable[Any]) -> pytest.MarkDecorator:
    """Every combination, named by its words."""
    cases = [
        [word for item in case for word in ([item] if isinstance(item, str) else item)]
        for case in product(*values)
    ]
    found = [case[0] if len(case) == 1 else tuple(case) for case in cases]
    return pytest.mark.parametrize(names, found, ids=["-".join(case) for case in cases])


def unstrict(tools: list[Wire]) -> list[Wire]:
    """Responses takes silence for strict, so that the translation says it; the seed says null."""
    return [
        {key: value for key, value in tool.items() if (key, value) != ("strict", False)} for tool in tools
    ]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def whole_reply(protocol: str, reply_text: str = "", calls: Iterable[Call] = ()) -> Wire:
    """A whole reply as the protocol's own server sends it."""
    calls = tuple(calls)
    match protocol:
        case "openai-chat":
            message: Wire = {"role": "assistant", "content": reply_text or None}
            if calls:
                message["tool_calls"] = [
                    {
                        "id": c.id,
                        "type": "function",
                        "function": {"name": c.name, "arguments": dumps(c.arguments)},
                    }
                    for c in calls
                ]
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
            return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice]}
        case "openai-responses":
            items = [_message_item(reply_text)] if reply_text else []
            items += [_call_item(c, i) for i, c in enumerate(calls)]
            return {
                "id": "resp_1",
                "object": "response",
                "model": "m",
                "status": "completed",
                "output": items,
            }
        case "anthropic":
            blocks: list[Wire] = [{"type": "text", "text": reply_text}] if reply_text else []
            blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
            return {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": blocks,
                "stop_reason": "tool_use" if calls else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 3, "output_tokens": 5},
            }
        case "gemini-interactions":
            steps = [_output_step(reply_text)] if reply_text else []
            steps += [_call_step(call) for call in calls]
            status = "requires_action" if calls else "completed"
            return {"id": "int_1", "object": "interaction", "model": "m", "status": status, "steps": steps}
        case _:
            parts: list[Wire] = [{"text": reply_text}] if reply_text else []
            parts += [{"functionCall": {"id": c.id, "name": c.name, "args": c.arguments}} for c in calls]
            candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
            return {"candidates": [candidate], "modelVersion": "m", "responseId": "r-1"}


def streamed_reply(protocol: str, reply_text: str = "", calls: Iterable[Call] = ()) -> bytes:
    """The same reply as a stream, arguments in two fragments where the protocol has fragments."""
    calls = tuple(calls)
    match protocol:
        case "openai-chat":
            return sse(*_chat_chunks(reply_text, calls), "[DONE]")
        case "openai-responses":
            events = enumerate(_responses_events(reply_text, calls))
            return named_sse(*({**event, "sequence_number": number} for number, event in events))
        case "anthropic":
            return named_sse(*_anthropic_events(reply_text, calls))
        case "gemini-interactions":
            return sse_of_events(*_interactions_events(reply_text, calls))
        case _:
            return sse(whole_reply("gemini", reply_text, calls))


def sse(*frames: Any) -> bytes:
    """`data:` lines only, as Chat and Gemini stream."""
    return "".join(f"data: {f if isinstance(f, str) else dumps(f)}\n\n" for f in frames).encode()


def named_sse(*frames: Wire) -> bytes:
    """Events named by their `type`, as Messages and Responses stream."""
    return "".join(f"event: {f['type']}\ndata: {dumps(f)}\n\n" for f in frames).encode()


def sse_of_events(*frames: Wire) -> bytes:
    """Events named by their `event_type`, as Interactions streams."""
    events = [f"event: {f['event_type']}\ndata: {dumps(f)}\n\n" for f in frames]
    return "".join([*events, "event: done\ndata: [DONE]\n\n"]).encode()


def chunk(delta: Wire | None = None, finish: str | None = None, **more: Any) -> Wire:
    """A chunk of a Chat stream."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


def fragment(index: int, arguments: str = "", id: str = "", name: str = "") -> Wire:
    """A delta with one fragment of one call of a Chat stream."""
    function = ({"name": name} if name else {}) | {"arguments": arguments}
    return {
        "tool_calls": [
            {"index": index, **({"id": id, "type": "function"} if id else {}), "function": function}
        ]
    }


def frames(data: bytes) -> list[Any]:
    """The data of a stream's events, parsed; `[DONE]` as it is."""
    found: list[Any] = []
    for event in data.decode().split("\n\n"):
        lines = [line[6:] for line in event.split("\n") if line.startswith("data: ")]
        if lines:
            found.append("[DONE]" if lines == ["[DONE]"] else json.loads("\n".join(lines)))
    return found


def read_calls(protocol: str, body: Wire) -> list[Call]:
    """The calls of a whole reply."""
    match protocol:
        case "openai-chat":
            calls = body["choices"][0]["message"].get("tool_calls") or []
            return [
                Call(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls
            ]
        case "openai-responses":
            items = [item for item in body["output"] if item["type"] == "function_call"]
            return [Call(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]
        case "anthropic":
            blocks = [block for block in body["content"] if block["type"] == "tool_use"]
            return [Call(block["id"], block["name"], block["input"]) for block in blocks]
        case "gemini-interactions":
            steps = [step for step in body["steps"] if step["type"] == "function_call"]
            return [Call(step["id"], step["name"], step["arguments"]) for step in steps]
        case _:
            parts = body["candidates"][0]["content"]["parts"]
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            return [Call(c.get("id", ""), c["name"], c.get("args", {})) for c in calls]


def read_text(protocol: str, body: Wire) -> str:
    """What a whole reply says to its reader."""
    match protocol:
        case "openai-chat":
            return body["choices"][0]["message"].get("content") or ""
        case "openai-responses":
            parts = [p for item in body["output"] if item["type"] == "message" for p in item["content"]]
            return "".join(part.get("text", "") for part in parts)
        case "anthropic":
            return "".join(block["text"] for block in body["content"] if block["type"] == "text")
        case "gemini-interactions":
            blocks = [b for step in body["steps"] if step["type"] == "model_output" for b in step["content"]]
            return "".join(block.get("text", "") for block in blocks)
        case _:
            parts = body["candidates"][0]["content"]["parts"]
            return "".join(p["text"] for p in parts if "text" in p and not p.get("thought"))


def read_stop(protocol: str, body: Wire) -> str:
    """The protocol's own word for why a whole reply ended."""
    match protocol:
        case "openai-chat":
            return body["choices"][0]["finish_reason"]
        case "openai-responses":
            details = body.get("incomplete_details")
            return details["reason"] if details else body["status"]
        case "anthropic":
            return body["stop_reason"]
        case "gemini-interactions":
            return body["status"]
        case _:
            return body["candidates"][0]["finishReason"]


def gathered(protocol: str, data: bytes) -> Wire:
    """A stream put together as its readers do it, into the whole reply that it stands for."""
    events = frames(data)
    match protocol:
        case "openai-chat":
            return _gather_chat([event for event in events if event != "[DONE]"])
        case "openai-responses":
            return events[-1]["response"]
        case "anthropic":
            return _gather_anthropic(events)
        case "gemini-interactions":
            return gather_interactions([event for event in events if event != "[DONE]"])
        case _:
            return _gather_gemini(events)


def _gather_chat(chunks: list[Wire]) -> Wire:
    message: Wire = {"role": "assistant", "content": None}
    calls: dict[int, Wire] = {}
    finish, usage = None, None
    for piece in chunks:
        if "error" in piece:
            return piece
        usage = piece.get("usage") or usage
        for choice in piece["choices"]:
            finish = choice.get("finish_reason") or finish
            delta = choice["delta"]
            for key in ("content", "refusal", "reasoning_content"):
                if delta.get(key) is not None:
                    message[key] = (message.get(key) or "") + delta[key]
            for entry in delta.get("tool_calls") or ():
                call = calls.setdefault(entry["index"], {"function": {"name": "", "arguments": ""}})
                call |= {key: entry[key] for key in ("id", "type") if key in entry}
                function = entry.get("function") or {}
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    if calls:
        message["tool_calls"] = list(calls.values())
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _gather_anthropic(events: list[Wire]) -> Wire:
    message: Wire = {}
    spelled: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        spelled[event["index"]] = spelled.get(event["index"], "") + delta["partial_json"]
                    case _:
                        pass
            case "message_delta":
                message |= event["delta"]
                message["usage"] = {**message["usage"], **event["usage"]}
            case "error":
                return event
            case _:
                pass
    for index, text in spelled.items():
        message["content"][index]["input"] = json.loads(text or "{}")
    return message


def _gather_gemini(chunks: list[Wire]) -> Wire:
    parts: list[Wire] = []
    candidate: Wire = {"content": {"role": "model", "parts": parts}}
    body: Wire = {"candidates": [candidate]}
    for piece in chunks:
        if "error" in piece:
            return piece
        body |= {key: value for key, value in piece.items() if key != "candidates"}
        for found in piece.get("candidates") or ():
            parts += found.get("content", {}).get("parts") or ()
            candidate |= {key: value for key, value in found.items() if key != "content"}
    return body


def gather_interactions(events: list[Wire]) -> Wire:
    steps: list[Wire] = []
    body: Wire = {}
    for event in events:
        match event["event_type"]:
            case "step.start":
                assert event["index"] == len(steps)
                steps.append({**event["step"]})
            case "step.delta":
                _add_delta(steps[event["index"]], event["delta"])
            case "step.stop":
                step = steps[event["index"]]
                if "spelled" in step:
                    step["arguments"] = json.loads(step.pop("spelled") or "{}")
            case "interaction.completed":
                body = event["interaction"]
            case "error":
                return event
            case _:
                pass
    return {**body, "steps": [step for step in steps if "spelled" not in step]}  # without a call that was cut


def _add_delta(step: Wire, delta: Wire) -> None:
    match delta["type"]:
        case "text":
            content = step.setdefault("content", [])
            if not content or content[-1]["type"] != "text":
                content.append({"type": "text", "text": ""})
            content[-1]["text"] += delta["text"]
        case "text_annotation_delta":
            step["content"][-1].setdefault("annotations", []).extend(delta["annotations"])
        case "arguments_delta":
            step["spelled"] = step.get("spelled", "") + delta["arguments"]
        case "thought_summary":
            summary = step.setdefault("summary", [{"type": "text", "text": ""}])
            summary[0]["text"] += delta["content"]["text"]
        case "thought_signature":
            step["signature"] = delta["signature"]
        case _:
            step.setdefault("content", []).append(delta)


def _output_step(reply_text: str) -> Wire:
    return {"type": "model_output", "content": [{"type": "text", "text": reply_text}]}


def _call_step(call: Call) -> Wire:
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def _interactions_events(reply_text: str, calls: tuple[Call, ...]) -> Iterable[Wire]:
    body = whole_reply("gemini-interactions", reply_text, calls)
    frame = {key: value for key, value in body.items() if key != "steps"}
    yield {"event_type": "interaction.created", "interaction": {**frame, "status": "in_progress"}}
    for place, step in enumerate(body["steps"]):
        if step["type"] == "model_output":
            yield {"event_type": "step.start", "index": place, "step": {"type": "model_output"}}
            yield {"event_type": "step.delta", "index": place, "delta": {"type": "text", "text": reply_text}}
        else:
            yield {"event_type": "step.start", "index": place, "step": {**step, "arguments": {}}}
            for half in _halves(Call(step["id"], step["name"], step["arguments"])):
                delta = {"type": "arguments_delta", "arguments": half}
                yield {"event_type": "step.delta", "index": place, "delta": delta}
        yield {"event_type": "step.stop", "index": place}
    yield {"event_type": "interaction.completed", "interaction": frame}


def _message_item(reply_text: str) -> Wire:
    content = [{"type": "output_text", "text": reply_text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def _call_item(call: Call, number: int) -> Wire:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": dumps(call.arguments),
    }


def _halves(call: Call) -> tuple[str, str]:
    text = dumps(call.arguments)
    return text[: len(text) // 2], text[len(text) // 2 :]


def _chat_chunks(reply_text: str, calls: tuple[Call, ...]) -> Iterable[Wire]:
    yield chunk({"role": "assistant", "content": ""})
    if reply_text:
        yield chunk({"content": reply_text})
    for i, call in enumerate(calls):
        first, second = _halves(call)
        yield chunk(fragment(i, first, call.id, call.name))
        yield chunk(fragment(i, second))
    yield chunk({}, "tool_calls" if calls else "stop")


def _responses_events(reply_text: str, calls: tuple[Call, ...]) -> Iterable[Wire]:
    body = whole_reply("openai-responses", reply_text, calls)
    yield {"type": "response.created", "response": {**body, "status": "in_progress", "output": []}}
    for place, item in enumerate(body["output"]):
        here = {"output_index": place, "item_id": item["id"]}
        if item["type"] == "message":
            empty = {**item, "status": "in_progress", "content": []}
            yield {"type": "response.output_item.added", "output_index": place, "item": empty}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **here, "content_index": 0, "part": part}
            yield {"type": "response.output_text.delta", **here, "content_index": 0, "delta": reply_text}
            yield {"type": "response.output_text.done", **here, "content_index": 0, "text": reply_text}
        else:
            text = item["arguments"]
            empty = {**item, "status": "in_progress", "arguments": ""}
            yield {"type": "response.output_item.added", "output_index": place, "item": empty}
            for half in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield {"type": "response.function_call_arguments.delta", **here, "delta": half}
            yield {"type": "response.function_call_arguments.done", **here, "arguments": text}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": body}


def _anthropic_events(reply_text: str, calls: tuple[Call, ...]) -> Iterable[Wire]:
    body = whole_reply("anthropic", reply_text, calls)
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    for i, block in enumerate(body["content"]):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        yield {"type": "content_block_start", "index": i, "content_block": empty}
        if text:
            yield {
                "type": "content_block_delta",
                "index": i,
                "delta": {"type": "text_delta", "text": reply_text},
            }
        else:
            printed = dumps(block["input"])
            for half in (printed[: len(printed) // 2], printed[len(printed) // 2 :]):
                delta = {"type": "input_json_delta", "partial_json": half}
                yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def scribble(value: Any) -> None:
    """Write into everything that can be written into."""
    if isinstance(value, dict):
        written = cast(dict[str, Any], value)
        for item in list(written.values()):
            scribble(item)
        written["scribble"] = True
    elif isinstance(value, list):
        listed = cast(list[Any], value)
        for item in listed:
            scribble(item)
        listed.append("scribble")
