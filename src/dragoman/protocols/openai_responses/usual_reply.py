"""Responses of the usual shape, read and written in one step as structs: messages, reasoning, calls, usage.

A field that is not declared here, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for those that are, both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, defstruct

from dragoman.core.caches import with_encoded_tools
from dragoman.core.jsontext import encode, typed_reader
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
    whole_usage,
)
from dragoman.core.seal import unseal_state
from dragoman.protocols.openai_responses.hosted import TOOL_SEARCH
from dragoman.protocols.openai_responses.response import (
    encode_id,
    encode_item,
    encode_stop,
    frame_response,
    id_stem,
    item_id,
)
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_RESPONSE

_Count = Annotated[int, Meta(ge=0)]
_Empty = Annotated[list[Raw], Meta(max_length=0)]


class _OutputText(Struct, forbid_unknown_fields=True):
    type: Literal["output_text"]
    text: str
    annotations: _Empty | None = None
    logprobs: _Empty | None = None


class _MessageItem(Struct, forbid_unknown_fields=True, tag_field="type", tag="message"):
    content: Annotated[list[_OutputText], Meta(min_length=1)]
    role: Literal["assistant"] = "assistant"
    id: str = ""
    status: Literal["completed"] = "completed"


class _FunctionCallItem(Struct, forbid_unknown_fields=True, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: str
    id: str = ""
    status: Literal["completed"] = "completed"


class _SummaryText(Struct, forbid_unknown_fields=True):
    text: str
    type: Raw = Raw()


class _ReasoningItem(Struct, forbid_unknown_fields=True, tag_field="type", tag="reasoning"):
    summary: list[_SummaryText]
    id: str = ""
    status: Literal["completed"] | None = None
    encrypted_content: str | None = None
    content: _Empty | None = None


class _InputTokensDetails(Struct, forbid_unknown_fields=True):
    cached_tokens: _Count = 0
    cache_write_tokens: _Count = 0


class _OutputTokensDetails(Struct, forbid_unknown_fields=True):
    reasoning_tokens: _Count = 0


class _ResponseUsage(Struct, forbid_unknown_fields=True):
    input_tokens: _Count
    output_tokens: _Count
    input_tokens_details: _InputTokensDetails | None = None
    output_tokens_details: _OutputTokensDetails | None = None
    total_tokens: Raw = Raw()
    context_details: Raw = Raw()
    cost: Raw = Raw()
    cost_details: Raw = Raw()
    cost_in_usd_ticks: Raw = Raw()
    is_byok: Raw = Raw()


_ResponseMetadata = defstruct("_ResponseMetadata", [(name, Raw, Raw()) for name in sorted(QUIET_RESPONSE)])


class _UsualResponse(_ResponseMetadata, forbid_unknown_fields=True, kw_only=True):  # pyright: ignore[reportGeneralTypeIssues] - made of names
    output: list[_MessageItem | _FunctionCallItem | _ReasoningItem]
    status: Literal["completed"]
    id: str = ""
    model: str = ""
    created_at: int = 0
    error: None = None
    object: Literal["response"] = "response"
    incomplete_details: None = None
    usage: _ResponseUsage | None = None


_read = typed_reader(_UsualResponse)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None:
        return None
    parts: list[AnyPart] = []
    called = False
    for i, item in enumerate(reply.output):
        where = f"output[{i}]"
        if type(item) is _MessageItem:
            parts += [Text(part.text, where=f"{where}.content[{n}]") for n, part in enumerate(item.content)]
        elif type(item) is _FunctionCallItem:
            parts.append(ToolCall(item.call_id, item.name, item.arguments, where=where))
            called = True
        elif type(item) is _ReasoningItem:
            parts.append(_reasoning(item, where))
    stop = Stop("tool_calls" if called else "end", "completed")
    usage = _usage(reply.usage) if reply.usage else None
    return Response(reply.id, reply.model, tuple(parts), stop, usage, reply.created_at)


def _reasoning(item: _ReasoningItem, where: str) -> Reasoning:
    text = "\n\n".join([section.text for section in item.summary if section.text])
    encrypted = item.encrypted_content
    state = unseal_state(encrypted, PROTOCOL_NAME, item.id) if encrypted else None
    return Reasoning(text, hidden=state is not None and not text, state=state, where=where)


def _usage(counts: _ResponseUsage) -> Usage:
    before, after = counts.input_tokens_details, counts.output_tokens_details
    return whole_usage(
        counts.input_tokens,
        counts.output_tokens,
        before.cached_tokens if before else 0,
        before.cache_write_tokens if before else 0,
        after.reasoning_tokens if after else 0,
    )


class _WrittenText(Struct, gc=False):
    type: str
    annotations: tuple[()]
    logprobs: tuple[()]
    text: str


class _WrittenMessageItem(Struct, gc=False):
    id: str
    type: str
    status: str
    role: str
    content: tuple[_WrittenText]


class _WrittenCallItem(Struct, gc=False):
    id: str
    status: str
    type: str
    call_id: str
    name: str
    arguments: str


class _WrittenResponseUsage(Struct, gc=False):
    input_tokens: int
    input_tokens_details: _InputTokensDetails
    output_tokens: int
    output_tokens_details: _OutputTokensDetails
    total_tokens: int


class _WrittenResponse(Struct, gc=False):
    """The fields of a response that do not repeat the request."""

    id: str
    object: str
    created_at: int
    completed_at: int | None
    status: str
    error: None
    incomplete_details: Wire | None
    model: str
    output: list[Any]
    usage: _WrittenResponseUsage


def write_usual_reply(response: Response, request: Request | None, echo: bytes = b"") -> Raw | None:
    """`echo` is what it repeats of its request."""
    """Texts, thoughts and calls of functions."""
    id = encode_id(response.id)
    stem = id_stem(id)
    output: list[Any] = []
    for part in response.parts:
        if type(part) is Text and not part.citations and part.state is None:
            if part.text:
                content = (_WrittenText("output_text", (), (), part.text),)
                name = f"msg_{stem}_{len(output)}"
                output.append(_WrittenMessageItem(name, "message", "completed", "assistant", content))
        elif type(part) is ToolCall and _is_plain(part):
            name = f"fc_{stem}_{len(output)}"
            output.append(
                _WrittenCallItem(name, "completed", "function_call", part.id, part.name, part.arguments)
            )
        elif type(part) is Reasoning:
            item = encode_item(part, item_id(part, id, len(output)), Losses())
            output += [item] if item else []
        else:
            return None
    usage, created, stop = (
        response.usage or Usage(),
        response.created,
        encode_stop(response.stop, response.created),
    )
    counted = _WrittenResponseUsage(
        usage.input,
        _InputTokensDetails(usage.cached, usage.cache_write),
        usage.output,
        _OutputTokensDetails(usage.reasoning),
        usage.input + usage.output,
    )
    written = _WrittenResponse(
        id,
        "response",
        created,
        stop.get("completed_at"),
        stop["status"],
        None,
        stop["incomplete_details"],
        response.model or (request.model if request else ""),
        output,
        counted,
    )
    return Raw(b"%b,%b" % (encode(written)[:-1], echo or print_echo(request)))


def print_echo(request: Request | None) -> bytes:
    """What a response repeats of its request, as the text behind its own fields."""
    frame = frame_response("", "", 0, request)
    echo = {name: value for name, value in frame.items() if name not in _WrittenResponse.__struct_fields__}
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
