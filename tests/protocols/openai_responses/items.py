"""Responses requests for tests: decode, encode, and items that several files use."""

from typing import Any

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Request, ToolResult, Wire
from dragoman.protocols.openai_responses import CODEC

OWN = "openai-responses"
SEARCH = {"type": "tool_search", "execution": "client"}
PNG = "data:image/png;base64,iVBORw0KGgo="


def decode(items: Any) -> tuple[Request, list[str]]:
    losses = Losses()
    body = {"model": "gpt-5", "input": items, "tools": [SEARCH]}
    return CODEC.decode_request(body, losses), [str(loss) for loss in losses]


def encode(*messages: Message, **more: Any) -> tuple[list[Wire], list[str]]:
    losses = Losses()
    body = CODEC.encode_request(Request("some-model", messages, **more), losses)
    return body["input"], [str(loss) for loss in losses]


def bare(parts: tuple[AnyPart, ...]) -> list[AnyPart]:
    """Parts without what only their own protocol reads."""
    kept: list[Any] = []
    for part in parts:
        if isinstance(part, ToolResult):
            part = replace(part, content=tuple(bare(part.content)))
        kept.append(replace(part, extras=None))
    return kept


USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1.10}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAAA",
}
REPLY = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "well", "annotations": [], "logprobs": []}],
}
