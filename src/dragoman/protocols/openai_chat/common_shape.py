"""Completions of the common shape, read and written in one step as the Structs of `wire`.

A field that these do not declare, or any other value, makes it another shape, for which `decode_response` and
`encode_response` are; for the common one both ways give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.fields import ABSENT, whole_seconds
from dragoman.core.jsontext import typed_reader
from dragoman.core.model import AnyPart, Reasoning, Request, Response, Stop, Text, ToolCall
from dragoman.protocols.openai_chat.response import (
    counted,
    declares_functions,
    encode_id,
    encode_stop,
    usage_of,
)
from dragoman.protocols.openai_chat.wire import (
    STOP,
    CalledFunction,
    Completion,
    CompletionCall,
    CompletionChoice,
    CompletionMessage,
    ReceivedCompletion,
)

_REASONING = "choices[0].message.reasoning_content"
_CONTENT, _CALLS = "choices[0].message.content", "choices[0].message.tool_calls"
_COMMON_STOPS = frozenset({"stop", "tool_calls"})
_read = typed_reader(ReceivedCompletion)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None or not reply.choices:
        return None
    choice = reply.choices[0]
    if not choice.message or choice.finish_reason not in _COMMON_STOPS:
        return None
    if b"true" in bytes(choice.content_filter_results or b"") + bytes(reply.prompt_filter_results or b""):
        return None  # a filter may have found something
    message = choice.message
    parts: list[AnyPart] = []
    if message.reasoning_content:
        parts.append(Reasoning(message.reasoning_content, where=_REASONING))
    if message.content:
        parts.append(Text(message.content, where=_CONTENT))
    for i, call in enumerate(message.tool_calls or ()):
        function = call.function
        if not function:
            return None
        parts.append(ToolCall(call.id, function.name, function.arguments, where=f"{_CALLS}[{i}]"))
    return Response(
        reply.id,
        reply.model,
        tuple(parts),
        Stop(STOP.decode(choice.finish_reason), choice.finish_reason),
        usage_of(reply.usage) if reply.usage else None,
        whole_seconds(reply.created),
    )


def write_usual_reply(response: Response, request: Request | None, echo: bytes = b"") -> Completion | None:
    """For a client that declares `tools`."""
    message = _common_message(response.parts)
    if message is None or request is None or declares_functions(request):
        return None
    finish = encode_stop(response.stop, refused=False, legacy=False) or "stop"
    return Completion(
        encode_id(response.id),
        "chat.completion",
        response.created,
        response.model or request.model,
        (CompletionChoice(0, message, finish),),
        counted(response.usage) if response.usage else ABSENT,
    )


def _common_message(parts: Sequence[AnyPart]) -> CompletionMessage | None:
    """Thoughts, then a text, then calls of functions."""
    text, thought = None, ABSENT
    calls: list[CompletionCall] = []
    for part in parts:
        if part.state is not None:
            return None
        if type(part) is ToolCall and _is_common(part):
            calls.append(CompletionCall(part.id, "function", CalledFunction(part.name, part.arguments)))
        elif type(part) is Text and part.text and not (part.citations or text or calls):
            text = part.text
        elif type(part) is Reasoning and part.text and thought is ABSENT:
            thought = part.text
        else:
            return None
    return CompletionMessage("assistant", text, None, (), thought, calls or ABSENT)


def _is_common(call: ToolCall) -> bool:
    return call.complete and call.kind == "function" and call.arguments.strip() != ""
