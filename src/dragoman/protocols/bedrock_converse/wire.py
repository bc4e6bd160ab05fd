"""The wire of Bedrock's Converse: its objects as types, its words beside the neutral ones.

A block is a union: an object with one key, which says what it is. The types document the wire (service model
`bedrock-runtime` of botocore 1.44); bodies stay plain dicts, so that fields newer than this file survive.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Required, TypedDict

from dragoman.core.fields import Table, made_by, own, printer, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.model import Extras, FailureKind, StopReason, Value, Wire

PROTOCOL_NAME: Final = "bedrock-converse"
is_native = made_by(PROTOCOL_NAME)
printed = printer(PROTOCOL_NAME)
NO_EXTRAS: Extras = {PROTOCOL_NAME: {}}  # shared by the many values that have none; never written to


class ConverseRequest(TypedDict, total=False):
    """POST /model/{modelId}/converse, or /converse-stream. The URL names the model."""

    messages: Required[list[MessageBlock]]
    system: list[Wire]  # text, cachePoint, guardContent
    inferenceConfig: InferenceConfig
    toolConfig: ToolConfig
    outputConfig: Wire  # textFormat {type, structure {jsonSchema {schema: JSON text, name}}}, effort
    additionalModelRequestFields: Wire  # under the model's own names: thinking, top_k, anthropic_beta, …
    additionalModelResponseFieldPaths: list[str]
    requestMetadata: dict[str, str]
    serviceTier: Wire  # type: priority, default, flex, reserved
    performanceConfig: Wire
    guardrailConfig: Wire
    promptVariables: Wire


class MessageBlock(TypedDict):
    """Turns alternate, the first is the user's. All results of a turn stand in the next user message.

    A block has one of text, image, document, video, audio, toolUse, toolResult, reasoningContent, cachePoint,
    citationsContent, searchResult, guardContent, toolAddition, toolRemoval.
    """

    role: Literal["user", "assistant", "system"]
    content: list[Wire]


class InferenceConfig(TypedDict, total=False):
    maxTokens: int
    temperature: float
    topP: float
    stopSequences: list[str]


class ToolConfig(TypedDict, total=False):
    """Required where the history has calls. `toolChoice` has one key: auto, any, or tool {name}."""

    tools: Required[list[Wire]]  # toolSpec, systemTool, cachePoint
    toolChoice: Wire


class ToolSpec(TypedDict, total=False):
    name: Required[str]  # [a-zA-Z0-9_-]{1,64}
    description: str  # not empty
    inputSchema: Required[Wire]  # {json: schema}
    strict: bool


class ToolUse(TypedDict, total=False):
    toolUseId: Required[str]  # [a-zA-Z0-9_.:-]{1,64}
    name: Required[str]
    input: Required[Any]
    type: Literal["server_tool_use"]


class ToolResultWire(TypedDict, total=False):
    """`content` holds text, json, image, document, video and searchResult: no cachePoint, no audio."""

    toolUseId: Required[str]
    content: Required[list[Wire]]
    status: Literal["success", "error"]


class CachePoint(TypedDict, total=False):
    """A block behind what is cached. At most four; none of an hour behind one of five minutes."""

    type: Required[Literal["default"]]
    ttl: Literal["5m", "1h"]


class ConverseReply(TypedDict, total=False):
    """A reply has no id and does not name its model."""

    output: Required[Wire]  # message: MessageBlock
    stopReason: Required[str]
    usage: Required[TokenUsage]
    metrics: Required[Wire]  # latencyMs
    additionalModelResponseFields: Wire
    trace: Wire
    serviceTier: Wire
    performanceConfig: Wire


class TokenUsage(TypedDict, total=False):
    """The counts of a cache stand beside `inputTokens`."""

    inputTokens: Required[int]
    outputTokens: Required[int]
    totalTokens: Required[int]
    cacheReadInputTokens: int
    cacheWriteInputTokens: int
    cacheDetails: list[Wire]


class StreamEvents(TypedDict, total=False):
    """The name of an event is the type of its message; these are their payloads, in order.

    A text and a reasoning block have no contentBlockStart. An exception ends the stream.
    """

    messageStart: Wire  # role
    contentBlockStart: Wire  # contentBlockIndex, start: toolUse {toolUseId, name} | toolResult | image
    contentBlockDelta: Wire  # contentBlockIndex, delta: text | toolUse {input} | reasoningContent | citation
    contentBlockStop: Wire  # contentBlockIndex
    messageStop: Wire  # stopReason, additionalModelResponseFields
    metadata: Wire  # usage, metrics


STOP: Table[StopReason] = Table(
    ("end_turn", "end"),
    ("tool_use", "tool_calls"),
    ("max_tokens", "length"),
    ("stop_sequence", "stop_sequence"),
    ("content_filtered", "content_filter"),
    ("content_filtered", "refusal"),
    ("guardrail_intervened", "content_filter"),
    ("malformed_tool_use", "malformed_call"),
    ("model_context_window_exceeded", "context_full"),
    other=("end_turn", "other"),
)

# The names of exceptions <-> kinds of failure
ERRORS: Table[FailureKind] = Table(
    ("validationException", "bad_request"),
    ("validationException", "context_too_long"),
    ("validationException", "too_large"),
    ("validationException", "conflict"),
    ("accessDeniedException", "forbidden"),
    ("unrecognizedClientException", "unauthenticated"),
    ("expiredTokenException", "unauthenticated"),
    ("invalidSignatureException", "unauthenticated"),
    ("resourceNotFoundException", "not_found"),
    ("throttlingException", "rate_limit"),
    ("serviceQuotaExceededException", "billing"),
    ("modelTimeoutException", "timeout"),
    ("serviceUnavailableException", "overloaded"),
    ("modelNotReadyException", "overloaded"),
    ("modelStreamErrorException", "server"),
    ("internalServerException", "server"),
    ("modelStreamErrorException", "truncated"),
    other=("internalServerException", "server"),
)

IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
DOCUMENT_FORMATS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
VIDEO_FORMATS = {
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
AUDIO_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/opus": "opus",
    "audio/wav": "wav",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "mp4",
    "audio/ogg": "ogg",
    "audio/webm": "webm",
}

# Fields that no other protocol has and that nobody misses there: they are kept, but are no losses
QUIET_REPLY = word_set("metrics performanceConfig serviceTier trace output usage p")
QUIET_USAGE = word_set(
    "inputTokens outputTokens totalTokens cacheReadInputTokens cacheWriteInputTokens cacheDetails "
    "cacheReadInputTokenCount cacheWriteInputTokenCount"
)


# What stands in these is the model's or the client's: it is taken as it is now, never mixed with what came
_WHOLE = frozenset({"input", "json", "content"})


def as_it_came(value: Value, block: Wire) -> Wire:
    """`block`, with the fields that only Bedrock knows from the block that `value` was made of."""
    came = own(value.extras, PROTOCOL_NAME).get("block")
    return _merged(came, block) if is_object(came) and came.keys() >= block.keys() else block


def _merged(came: Wire, now: Wire) -> Wire:
    merged = came | now
    for key, value in now.items():
        if key not in _WHOLE and is_object(value) and is_object(before := came.get(key)):
            merged[key] = _merged(before, value)
    return merged


def lifetime(block: Wire) -> str:
    """Of the point that a cachePoint block sets."""
    point = block.get("cachePoint")
    return "1h" if is_object(point) and point.get("ttl") == "1h" else "5m"
