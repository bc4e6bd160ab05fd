"""What is sent and answered: a small request with three tools, one of 150 kB, and the upstream's replies.

A reply is text and one call. Whole it is short; streamed it is 200 text deltas and a call in 30 fragments.
"""

import json
from collections.abc import Iterator
from functools import cache

from bench.conversation import Conversation, Json, Tool, make_conversation
from bench.gateway.pairs import STREAM, Kind
from bench.requests import SPELL as REQUESTS
from bench.streams import CALL_ID, TOOL, Reply, chunk, frame, make_reply, responses_events, stream_frames

SHORT = make_reply(texts=2, fragments=3)
LONG = make_reply(texts=200, fragments=30)
FIRST_TEXT = b"word0"
LARGE_ROUNDS = 46


def small() -> Conversation:
    text = {"type": "string", "description": "Text"}
    path = {"type": "string", "description": "A path below the working directory"}
    return Conversation(
        system="You are a careful assistant that edits files.",
        tools=(
            Tool(TOOL, "Write a file, replacing what it held", schema(path=path, content=text)),
            Tool("read_file", "Read a file and return its text", schema(path=path)),
            Tool("bash", "Run a command in a shell and return its output", schema(command=text)),
        ),
        prompt="Add one line to src/a.py.",
        rounds=(),
    )


def schema(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


@cache
def large() -> Conversation:
    return make_conversation(rounds=LARGE_ROUNDS)


def request_body(client: str, model: str, kind: Kind, talk: Conversation) -> bytes:
    body = REQUESTS[client](talk)
    if client != "gemini":  # it names both in the path
        body = {**body, "model": model, "stream": kind != "whole"}
    if client == "openai-chat" and kind == "whole":
        del body["stream_options"]
    return json.dumps(body, ensure_ascii=False).encode()


def frames(upstream: str) -> list[bytes]:
    match upstream:
        case "hermes":
            return [*(frame(event, named=False) for event in hermes(LONG)), b"data: [DONE]\n\n"]
        case "gemini":  # ends its lines so, and Portkey counts on it
            return [made.replace(b"\n", b"\r\n") for made in stream_frames(upstream, LONG)]
        case _:
            return stream_frames(upstream, LONG)


def whole(upstream: str) -> bytes:
    return json.dumps(WHOLE_REPLIES[upstream](SHORT)).encode()


def reply_of(kind: Kind) -> Reply:
    return LONG if kind == STREAM else SHORT


def hermes(reply: Reply) -> Iterator[Json]:
    yield chunk({"role": "assistant", "content": ""})
    for text in (*reply.texts, *hermes_fragments(reply)):
        yield chunk({"content": text})
    yield chunk({}, finish_reason="stop")
    usage = {"prompt_tokens": 25000, "completion_tokens": 430, "total_tokens": 25430}
    yield {**chunk({}), "choices": [], "usage": usage}


def hermes_fragments(reply: Reply) -> list[str]:
    opening, *middle, closing = reply.fragments
    head = f'<tool_call>\n{{"name": "{TOOL}", "arguments": {opening}'
    return [head, *middle, f"{closing}}}\n</tool_call>"]


def chat_whole(reply: Reply) -> Json:
    function = {"name": TOOL, "arguments": reply.arguments}
    call = {"id": CALL_ID, "type": "function", "function": function}
    return completion({"content": reply.text, "tool_calls": [call]}, "tool_calls")


def hermes_whole(reply: Reply) -> Json:
    return completion({"content": reply.text + "".join(hermes_fragments(reply))}, "stop")


def completion(message: Json, finish: str) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 250, "completion_tokens": 30, "total_tokens": 280}
    reply = {"id": "chatcmpl-BvFZ0123456789", "object": "chat.completion", "created": 1762000000}
    return {**reply, "model": "some-model", "choices": [choice], "usage": usage}


def anthropic_whole(reply: Reply) -> Json:
    call: Json = {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": json.loads(reply.arguments)}
    message: Json = {"id": "msg_0123456789", "type": "message", "role": "assistant", "model": "some-model"}
    message["content"] = [{"type": "text", "text": reply.text}, call]
    stop: Json = {"stop_reason": "tool_use", "stop_sequence": None}
    return {**message, **stop, "usage": {"input_tokens": 250, "output_tokens": 30}}


def responses_whole(reply: Reply) -> Json:
    *_, completed = responses_events(reply)
    return completed["response"]


def gemini_whole(reply: Reply) -> Json:
    call = {"id": CALL_ID, "name": TOOL, "args": json.loads(reply.arguments)}
    parts = [{"text": reply.text}, {"functionCall": call}]
    usage = {"promptTokenCount": 250, "candidatesTokenCount": 30, "totalTokenCount": 280}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "some-model",
        "responseId": "r-0123456789",
    }


WHOLE_REPLIES = {
    "openai-chat": chat_whole,
    "hermes": hermes_whole,
    "anthropic": anthropic_whole,
    "gemini": gemini_whole,
    "openai-responses": responses_whole,
}
