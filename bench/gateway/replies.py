"""The text and the call in a reply, whole or streamed: checked before anything is measured."""

import json
from collections.abc import Iterator

from bench.conversation import Json
from bench.gateway.pairs import Kind
from bench.streams import TOOL, Reply


class WrongReply(Exception):
    """The reply differs from the one that the upstream sent; the message says in what."""


def check(client: str, kind: Kind, body: bytes, reply: Reply) -> None:
    try:
        text, name, arguments = text_and_call(client, kind, body)
        value = json.loads(arguments)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise WrongReply(f"no call in {body[:300]!r}") from error
    if name != TOOL or value != json.loads(reply.arguments):
        raise WrongReply(f"called {name}({arguments[:100]})")
    if text.strip() != reply.text.strip():
        raise WrongReply(f"text {text[:100]!r}")


def text_and_call(client: str, kind: Kind, body: bytes) -> tuple[str, str, str]:
    if kind == "whole":
        return WHOLE[client](json.loads(body))
    text, name, arguments = "", "", ""
    for event in events(body):
        more, called, fragment = PIECES[client](event)
        text, name, arguments = text + more, name or called, arguments + fragment
    return text, name, arguments


def events(body: bytes) -> Iterator[Json]:
    for line in body.decode().splitlines():
        if line.startswith("data:") and not line.endswith("[DONE]"):
            yield json.loads(line[5:])


def chat_whole(reply: Json) -> tuple[str, str, str]:
    message = reply["choices"][0]["message"]
    function = message["tool_calls"][0]["function"]
    return message["content"], function["name"], function["arguments"]


def anthropic_whole(reply: Json) -> tuple[str, str, str]:
    text, call = reply["content"]
    return text["text"], call["name"], json.dumps(call["input"])


def responses_whole(reply: Json) -> tuple[str, str, str]:
    message, call = reply["output"]
    return message["content"][0]["text"], call["name"], call["arguments"]


def gemini_whole(reply: Json) -> tuple[str, str, str]:
    text, name, arguments = "", "", ""
    for part in reply["candidates"][0]["content"]["parts"]:
        call = part.get("functionCall", {})
        text, name = text + part.get("text", ""), name or call.get("name", "")
        arguments += json.dumps(call["args"]) if "args" in call else ""
    return text, name, arguments


def chat_piece(event: Json) -> tuple[str, str, str]:
    delta: Json = event["choices"][0]["delta"] if event["choices"] else {}
    calls: list[Json] = delta.get("tool_calls") or [{"function": {}}]
    function: Json = calls[0]["function"]
    return delta.get("content") or "", function.get("name") or "", function.get("arguments") or ""


def anthropic_piece(event: Json) -> tuple[str, str, str]:
    name = event.get("content_block", {}).get("name", "")
    delta = event.get("delta", {})
    return delta.get("text", ""), name, delta.get("partial_json", "")


def responses_piece(event: Json) -> tuple[str, str, str]:
    match event["type"]:
        case "response.output_text.delta":
            return event["delta"], "", ""
        case "response.function_call_arguments.delta":
            return "", "", event["delta"]
        case "response.output_item.added":
            return "", event["item"].get("name", ""), ""
        case _:
            return "", "", ""


WHOLE = {
    "openai-chat": chat_whole,
    "anthropic": anthropic_whole,
    "openai-responses": responses_whole,
    "gemini": gemini_whole,
}
PIECES = {
    "openai-chat": chat_piece,
    "anthropic": anthropic_piece,
    "openai-responses": responses_piece,
    "gemini": gemini_whole,  # a chunk is a small reply
}
