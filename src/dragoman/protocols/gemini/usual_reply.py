"""Responses of the usual shape, read in one step by a typed decoder: text, function calls, usage.

A field that is not declared here, or any other value, makes it another shape, which `decode_response` reads;
for those that are, both give the same reply (`tests/laws/test_usual_reply_laws.py`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman.core.jsontext import dumps, typed_reader
from dragoman.core.model import AnyPart, Response, Stop, Text, ToolCall, Usage
from dragoman.core.seal import unseal_state
from dragoman.protocols.gemini.wire import PROTOCOL_NAME
from dragoman.protocols.google import decode_time

_Count = Annotated[int, Meta(ge=0)]


class _FunctionCall(Struct, forbid_unknown_fields=True):
    name: str
    args: dict[str, Any] | None = None
    id: str = ""


class _CandidatePart(Struct, forbid_unknown_fields=True):
    """A text or a call."""

    text: str | None = None
    functionCall: _FunctionCall | None = None
    thoughtSignature: str = ""


class _CandidateContent(Struct, forbid_unknown_fields=True):
    parts: list[_CandidatePart]
    role: Literal["model"] = "model"


class _Candidate(Struct, forbid_unknown_fields=True):
    content: _CandidateContent
    finishReason: Literal["STOP"]
    index: Literal[0] = 0
    avgLogprobs: Raw = Raw()
    safetyRatings: Raw = Raw()
    finishMessage: Raw = Raw()


class _UsageMetadata(Struct, forbid_unknown_fields=True):
    promptTokenCount: _Count
    candidatesTokenCount: _Count = 0
    thoughtsTokenCount: _Count = 0
    toolUsePromptTokenCount: _Count = 0
    cachedContentTokenCount: _Count = 0
    totalTokenCount: Raw = Raw()
    promptTokensDetails: Raw = Raw()
    candidatesTokensDetails: Raw = Raw()
    cacheTokensDetails: Raw = Raw()
    trafficType: Raw = Raw()
    serviceTier: Raw = Raw()


class _GenerateContentResponse(Struct, forbid_unknown_fields=True):
    candidates: Annotated[list[_Candidate], Meta(min_length=1, max_length=1)]
    usageMetadata: _UsageMetadata
    modelVersion: str = ""
    responseId: str = ""
    createTime: str = ""


_read = typed_reader(_GenerateContentResponse)


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
    count = reply.usageMetadata
    thought = count.thoughtsTokenCount
    usage = Usage(
        count.promptTokenCount + count.toolUsePromptTokenCount,
        count.candidatesTokenCount + thought,
        count.cachedContentTokenCount,
        reasoning=thought,
    )
    stop = Stop("tool_calls" if called else "end", "STOP")
    created = decode_time(reply.createTime)
    return Response(reply.responseId, reply.modelVersion, tuple(parts), stop, usage, created)
