"""Responses of the common shape, read and written in one step as the Structs of `wire`.

A field that these do not declare, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for the common one both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from dragoman.core.caches import with_encoded_tools
from dragoman.core.fields import whole_seconds
from dragoman.core.jsontext import encode, typed_reader
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Reasoning, Request, Response, Stop, Text, ToolCall, Usage
from dragoman.core.seal import unseal_state
from dragoman.protocols.openai_responses.hosted import TOOL_SEARCH
from dragoman.protocols.openai_responses.response import (
    counted,
    encode_id,
    encode_item,
    encode_stop,
    frame_response,
    id_stem,
    item_id,
    usage_of,
)
from dragoman.protocols.openai_responses.wire import (
    PROTOCOL_NAME,
    FunctionCallItem,
    MessageItem,
    OutputText,
    ReceivedCallItem,
    ReceivedMessageItem,
    ReceivedReasoningItem,
    ReceivedResponse,
    WrittenResponse,
)

_read = typed_reader(ReceivedResponse)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None or b"true" in bytes(reply.content_filters or b""):  # a filter may have found something
        return None
    parts: list[AnyPart] = []
    called = False
    for i, item in enumerate(reply.output):
        where = f"output[{i}]"
        if type(item) is ReceivedMessageItem:
            parts += [Text(part.text, where=f"{where}.content[{n}]") for n, part in enumerate(item.content)]
        elif type(item) is ReceivedCallItem:
            parts.append(ToolCall(item.call_id, item.name, item.arguments, where=where))
            called = True
        elif type(item) is ReceivedReasoningItem:
            parts.append(_reasoning(item, where))
    stop = Stop("tool_calls" if called else "end", "completed")
    usage = usage_of(reply.usage) if reply.usage else None
    return Response(reply.id, reply.model, tuple(parts), stop, usage, whole_seconds(reply.created_at))


def _reasoning(item: ReceivedReasoningItem, where: str) -> Reasoning:
    text = "\n\n".join([section.text for section in item.summary if section.text])
    encrypted = item.encrypted_content
    state = unseal_state(encrypted, PROTOCOL_NAME, item.id) if encrypted else None
    return Reasoning(text, hidden=state is not None and not text, state=state, where=where)


def write_usual_reply(response: Response, request: Request | None, echo: bytes = b"") -> Raw | None:
    """Texts, thoughts and calls of functions. `echo` is what the response repeats of its request."""
    id = encode_id(response.id)
    stem = id_stem(id)
    output: list[Any] = []
    for part in response.parts:
        if type(part) is Text and not part.citations and part.state is None:
            if part.text:
                text = OutputText(type="output_text", annotations=(), logprobs=(), text=part.text)
                name = f"msg_{stem}_{len(output)}"
                output.append(MessageItem(name, "message", "completed", "assistant", (text,)))
        elif type(part) is ToolCall and _is_plain(part):
            name = f"fc_{stem}_{len(output)}"
            output.append(
                FunctionCallItem(name, "completed", "function_call", part.id, part.name, part.arguments)
            )
        elif type(part) is Reasoning:
            item = encode_item(part, item_id(part, id, len(output)), Losses())
            output += [item] if item else []
        else:
            return None
    stop = encode_stop(response.stop, response.created)
    written = WrittenResponse(
        id,
        "response",
        response.created,
        stop.get("completed_at"),
        stop["status"],
        None,
        stop["incomplete_details"],
        response.model or (request.model if request else ""),
        output,
        counted(response.usage or Usage()),
    )
    return Raw(b"%b,%b" % (encode(written)[:-1], echo or print_echo(request)))


def print_echo(request: Request | None) -> bytes:
    """What a response repeats of its request, as the text behind its own fields."""
    frame = frame_response("", "", 0, request)
    echo = {name: value for name, value in frame.items() if name not in WrittenResponse.__struct_fields__}
    return encode(with_encoded_tools(echo, request.tools if request else ()))[1:]


def _is_plain(call: ToolCall) -> bool:
    return (
        call.complete
        and call.kind == "function"
        and call.state is None
        and call.name != TOOL_SEARCH
        and not call.namespace
        and call.arguments.strip() != ""
    )
