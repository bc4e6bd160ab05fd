"""Replies of the common shape, read in one step as the Structs of `wire`: text, function calls, usage.

A field that these do not declare, or any other value, makes it another shape, for which `decode_response` is;
for the common one both give the same (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from dragoman.core.jsontext import dumps, typed_reader
from dragoman.core.model import AnyPart, Response, Stop, Text, ToolCall
from dragoman.core.seal import unseal_state
from dragoman.protocols.gemini.response import usage_of
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, GenerateContentReply
from dragoman.protocols.google import decode_time

_read = typed_reader(GenerateContentReply)


def read_usual_reply(body: bytes) -> Response | None:
    reply = _read(body)
    if reply is None:
        return None
    parts: list[AnyPart] = []
    called = False
    for i, part in enumerate(reply.candidates[0].content.parts):
        call, where = part.functionCall, f"candidates[0].content.parts[{i}]"
        state = unseal_state(part.thoughtSignature, PROTOCOL_NAME) if part.thoughtSignature else None
        if call is None and part.text is not None:
            parts.append(Text(part.text, where=where, state=state))
        elif call is not None and part.text is None:
            arguments = "" if call.args is None else dumps(call.args)
            parts.append(ToolCall(call.id, call.name, arguments, where=where, state=state))
            called = True
        else:
            return None
    stop = Stop("tool_calls" if called else "end", "STOP")
    usage, created = usage_of(reply.usageMetadata), decode_time(reply.createTime)
    return Response(reply.responseId, reply.modelVersion, tuple(parts), stop, usage, created)
