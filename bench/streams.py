"""One streamed reply, text and then a tool call in fragments, as the SSE frames of each protocol."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.conversation import Json

TOOL = "write_file"
CALL_ID = "call_0123456789"


@dataclass(frozen=True, slots=True)
class Reply:
    texts: tuple[str, ...]
    fragments: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)


def make_reply(texts: int = 200, fragments: int = 30) -> Reply:
    """Arguments are an object whose one long string is spread over the fragments."""
    middle = tuple(f"line {number}: x += 1\\n" for number in range(fragments - 2))
    return Reply(
        texts=tuple(f"word{number} and " for number in range(texts)),
        fragments=('{"path": "src/a.py", "content": "', *middle, '"}'),
    )


def openai_chat(reply: Reply) -> Iterator[Json]:
    yield chunk({"role": "assistant", "content": ""})
    for text in reply.texts:
        yield chunk({"content": text})
    function = {"name": TOOL, "arguments": ""}
    yield chunk({"tool_calls": [{"index": 0, "id": CALL_ID, "type": "function", "function": function}]})
    for fragment in reply.fragments:
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]})
    yield chunk({}, finish_reason="tool_calls")
    usage = {"prompt_tokens": 25000, "completion_tokens": 430, "total_tokens": 25430}
    yield {**chunk({}), "choices": [], "usage": usage}


def chunk(delta: Json, finish_reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-BvFZ0123456789",
        "object": "chat.completion.chunk",
        "created": 1762000000,
        "model": "some-model",
        "system_fingerprint": "fp_0123456789",
        "choices": [choice],
    }


def anthropic(reply: Reply) -> Iterator[Json]:
    message: Json = {"id": "msg_0123456789", "type": "message", "role": "assistant", "model": "some-model"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    message["usage"] = {"input_tokens": 25000, "output_tokens": 1}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for text in reply.texts:
        yield block_delta(0, {"type": "text_delta", "text": text})
    yield {"type": "content_block_stop", "index": 0}
    call: Json = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": {}}
    yield {"type": "content_block_start", "index": 1, "content_block": call}
    for fragment in reply.fragments:
        yield block_delta(1, {"type": "input_json_delta", "partial_json": fragment})
    yield {"type": "content_block_stop", "index": 1}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 430}}
    yield {"type": "message_stop"}


def block_delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def openai_responses(reply: Reply) -> Iterator[Json]:
    for number, event in enumerate(responses_events(reply)):
        yield {**event, "sequence_number": number}


def responses_events(reply: Reply) -> Iterator[Json]:
    response: Json = {"id": "resp_0123456789", "object": "response", "created_at": 1762000000}
    response |= {"status": "in_progress", "model": "some-model", "output": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant"}
    yield item_event("added", 0, {**message, "status": "in_progress", "content": []})
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **place, "part": part}
    for text in reply.texts:
        yield {"type": "response.output_text.delta", **place, "delta": text}
    whole: Json = {**part, "text": reply.text}
    yield {"type": "response.output_text.done", **place, "text": reply.text}
    yield {"type": "response.content_part.done", **place, "part": whole}
    message |= {"status": "completed", "content": [whole]}
    yield item_event("done", 0, message)
    call: Json = {"id": "fc_1", "type": "function_call", "call_id": CALL_ID, "name": TOOL}
    yield item_event("added", 1, {**call, "status": "in_progress", "arguments": ""})
    place = {"item_id": "fc_1", "output_index": 1}
    for fragment in reply.fragments:
        yield {"type": "response.function_call_arguments.delta", **place, "delta": fragment}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": reply.arguments}
    call |= {"status": "completed", "arguments": reply.arguments}
    yield item_event("done", 1, call)
    usage = {"input_tokens": 25000, "output_tokens": 430, "total_tokens": 25430}
    response |= {"status": "completed", "output": [message, call], "usage": usage}
    yield {"type": "response.completed", "response": response}


def item_event(step: str, index: int, item: Json) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": item}


def gemini(reply: Reply) -> Iterator[Json]:
    """Calls arrive whole here, so the fragments are one chunk."""
    for text in reply.texts:
        yield candidate({"text": text})
    call = {"id": CALL_ID, "name": TOOL, "args": json.loads(reply.arguments)}
    yield candidate({"functionCall": call}, finishReason="STOP")


def candidate(part: Json, **more: str) -> Json:
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, **more}],
        "usageMetadata": {"promptTokenCount": 25000, "candidatesTokenCount": 430, "totalTokenCount": 25430},
        "modelVersion": "some-model",
        "responseId": "r-0123456789",
    }


SPELL: dict[str, Callable[[Reply], Iterator[Json]]] = {
    "openai-chat": openai_chat,
    "anthropic": anthropic,
    "openai-responses": openai_responses,
    "gemini": gemini,
}
NAMED_EVENTS = frozenset({"anthropic", "openai-responses"})


def stream_frames(protocol: str, reply: Reply) -> list[bytes]:
    frames = [frame(event, protocol in NAMED_EVENTS) for event in SPELL[protocol](reply)]
    return [*frames, b"data: [DONE]\n\n"] if protocol == "openai-chat" else frames


def frame(event: Json, named: bool) -> bytes:
    name = f"event: {event['type']}\n" if named else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def frame_data(frame: bytes) -> bytes:
    """The JSON in one of our frames: what a transport hands to a converter that does no framing itself."""
    return frame[frame.index(b"data: ") + 6 :].rstrip(b"\n")
