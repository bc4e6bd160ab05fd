"""The wire of Gemini (generateContent): each object declared once, words beside the neutral ones, how it is
read.

Structs say the common shape of a reply (`common_shape`). Any other shape, and all that is a TypedDict here,
is a plain dict, read by taking, so that fields newer than this file survive. Gemini's servers take snake_case
as well as camelCase, and google-genai mixes both in one body: keys of Gemini's own objects are read in
camelCase; what users put inside (arguments, results, labels) is not touched.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from msgspec import Meta, Raw, Struct

from dragoman.core.fields import ABSENT, Fields, Table, made_by, printer, unread_fields, word_set
from dragoman.core.model import Extras, StopReason, Wire

PROTOCOL_NAME: Final = "gemini"
is_native = made_by(PROTOCOL_NAME)
printed = printer(PROTOCOL_NAME)
NO_EXTRAS: Extras = {PROTOCOL_NAME: {}}  # shared by the many values that have none; never written to


# Requests


class GenerateContentRequest(TypedDict, total=False):
    """POST /{version}/models/{model}:generateContent. Model and streaming stand in the URL."""

    contents: Required[list[GeminiContent]]
    systemInstruction: GeminiContent
    tools: list[GeminiTool]
    toolConfig: Wire  # functionCallingConfig {mode, allowedFunctionNames}, includeServerSideToolInvocations
    generationConfig: GenerationConfig
    safetySettings: list[Wire]
    cachedContent: str
    labels: dict[str, str]
    serviceTier: Literal["unspecified", "standard", "flex", "priority"]
    store: bool
    continuationToken: str


class GenerationConfig(TypedDict, total=False):
    temperature: float  # 0 to 2
    topP: float
    topK: int
    candidateCount: int
    maxOutputTokens: int  # includes thoughts
    stopSequences: list[str]  # five at most
    seed: int
    presencePenalty: float
    frequencyPenalty: float
    responseLogprobs: bool
    logprobs: int
    responseMimeType: Literal["text/plain", "application/json", "text/x.enum"]
    responseJsonSchema: Wire  # or responseSchema, a subset of OpenAPI 3.0
    thinkingConfig: Wire  # includeThoughts, and thinkingBudget (2.5) or thinkingLevel (3 and later)


class GeminiContent(TypedDict, total=False):
    """A turn. All results of a turn with N calls stand in the one content after it."""

    role: Literal["user", "model"]
    parts: list[GeminiPart]


class GeminiPart(TypedDict, total=False):
    """One data field, and metadata."""

    text: str  # with `thought`: a summary of thinking
    inlineData: Wire  # mimeType, data (base64 in either alphabet), displayName
    fileData: Wire  # fileUri, mimeType
    functionCall: Wire  # GeminiCall; Vertex streams partialArgs (assignments to JSON paths), willContinue
    functionResponse: GeminiFunctionResponse
    executableCode: Wire  # language, code
    codeExecutionResult: Wire  # outcome, output
    toolCall: Wire  # of a hosted tool; clients echo it
    toolResponse: Wire
    thought: bool
    thoughtSignature: str  # base64; goes back with its part, unmerged
    mediaResolution: Wire


class GeminiFunctionResponse(TypedDict, total=False):
    """`output` alone is the result, `error` alone the failure; any other object is the result as a whole."""

    id: str
    name: Required[str]
    response: Required[Wire]
    parts: list[Wire]  # inlineData and fileData, Gemini 3 and later


class GeminiTool(TypedDict, total=False):
    """An entry of `tools`: functions, or a hosted tool, or both."""

    functionDeclarations: list[GeminiFunction]
    googleSearch: Wire
    urlContext: Wire
    codeExecution: Wire
    googleMaps: Wire
    fileSearch: Wire
    computerUse: Wire
    mcpServers: list[Wire]  # name, streamableHttpTransport {url, headers, timeout}


class GeminiFunction(TypedDict, total=False):
    """`parametersJsonSchema` is JSON Schema, `parameters` a subset of OpenAPI 3.0."""

    name: Required[str]  # begins with a letter or _
    description: str
    parametersJsonSchema: Wire
    parameters: Wire


# Replies


Count = Annotated[int, Meta(ge=0)]


class GeminiCall(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    args: dict[str, Any] | None = None
    id: str = ""  # Gemini 3 and later


class ReplyPart(Struct, forbid_unknown_fields=True, gc=False):
    """A text or a call. The fields of GeminiPart may stand in a reply, too."""

    text: str | None = None
    functionCall: GeminiCall | None = None
    thoughtSignature: str = ""


class ReplyContent(Struct, forbid_unknown_fields=True, gc=False):
    parts: list[ReplyPart]
    role: Literal["model"] = "model"


class Candidate(Struct, forbid_unknown_fields=True, gc=False):
    """A field of type Raw means nothing to others. `groundingMetadata` has the sources of the text."""

    content: ReplyContent
    finishReason: Literal["STOP"]
    index: Literal[0] = 0
    avgLogprobs: Raw = ABSENT
    safetyRatings: Raw = ABSENT
    score: Raw = ABSENT
    tokenCount: Raw = ABSENT
    finishMessage: Raw = ABSENT


class UsageMetadata(Struct, forbid_unknown_fields=True, gc=False):
    """`totalTokenCount` is the sum of prompt, candidates, thoughts and tool use."""

    promptTokenCount: Count  # includes cached
    candidatesTokenCount: Count = 0  # without thoughts
    thoughtsTokenCount: Count = 0
    toolUsePromptTokenCount: Count = 0
    cachedContentTokenCount: Count = 0
    totalTokenCount: Raw = ABSENT
    promptTokensDetails: Raw = ABSENT
    candidatesTokensDetails: Raw = ABSENT
    cacheTokensDetails: Raw = ABSENT
    toolUsePromptTokensDetails: Raw = ABSENT
    thoughtsTokensDetails: Raw = ABSENT
    billablePromptUsage: Raw = ABSENT
    trafficType: Raw = ABSENT
    serviceTier: Raw = ABSENT


class GenerateContentReply(Struct, forbid_unknown_fields=True, gc=False):
    """Whole, and one chunk of a stream: chunks hold only new parts, the last one the finishReason.

    A blocked prompt has a `promptFeedback` {blockReason} and no candidate. `error` {code, message, status,
    details} is the first key of a chunk, or google-genai overlooks it.
    """

    candidates: Annotated[list[Candidate], Meta(min_length=1, max_length=1)]
    usageMetadata: UsageMetadata
    modelVersion: str = ""
    responseId: str = ""
    createTime: str = ""
    modelStatus: Raw = ABSENT
    turnToken: Raw = ABSENT


# Words

# finishReason <-> stop reason. There is none for tool calls: a call in the content is the only sign (G26).
STOP: Table[StopReason] = Table(
    ("STOP", "end"),
    ("STOP", "tool_calls"),
    ("STOP", "stop_sequence"),
    ("MAX_TOKENS", "length"),
    ("MAX_TOKENS", "context_full"),
    ("SAFETY", "content_filter"),
    ("SAFETY", "refusal"),
    ("RECITATION", "content_filter"),
    ("LANGUAGE", "content_filter"),
    ("BLOCKLIST", "content_filter"),
    ("PROHIBITED_CONTENT", "content_filter"),
    ("SPII", "content_filter"),
    ("IMAGE_SAFETY", "content_filter"),
    ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
    ("IMAGE_RECITATION", "content_filter"),
    ("MODEL_ARMOR", "content_filter"),
    ("JAILBREAK", "content_filter"),
    ("ESCALATION", "content_filter"),
    ("PUP_LIMITED_DISABLED", "content_filter"),  # the account broke the policy of prohibited uses
    ("MALFORMED_FUNCTION_CALL", "malformed_call"),
    ("UNEXPECTED_TOOL_CALL", "malformed_call"),
    ("TOO_MANY_TOOL_CALLS", "malformed_call"),
    ("MALFORMED_RESPONSE", "malformed_call"),
    ("OTHER", "other"),
    ("MISSING_THOUGHT_SIGNATURE", "other"),
    ("OTHER", "pause"),  # CONTINUATION is not among the values that SDKs know; only Google may send it
    ("CONTINUATION", "pause"),
    other=("OTHER", "other"),
)

# Google's Go clients write enums as numbers (`$alt=json;enum-encoding=int`); the values of google.ai's protos
FINISH_REASONS = (
    "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE",
    "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
)  # fmt: skip
BLOCK_REASONS = (
    "BLOCK_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY",
)  # fmt: skip
SCHEMA_TYPES = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
CALLING_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")

MODES: Table[Literal["auto", "none", "required"]] = Table(
    ("AUTO", "auto"), ("NONE", "none"), ("ANY", "required"), other=("AUTO", "auto")
)

# Google's documented signature for a call that Gemini did not make (G97: opencode#4832, cline#7974).
# Letters and _ are base64 too.
SENTINEL = "skip_thought_signature_validator"

CUT_CALL = "The reply was cut inside this call, so it must not run."

# Fields that no other protocol has and that nobody misses there: they are kept, but are no losses
QUIET_RESPONSE = unread_fields(GenerateContentReply) | word_set("usageMetadata promptFeedback createTime")
QUIET_USAGE = frozenset(
    UsageMetadata.__struct_fields__
)  # counts that are read, and the kinds of tokens in them
QUIET_CANDIDATE = unread_fields(Candidate) | word_set("index groundingMetadata")
QUIET_CONTENT = word_set("role parts")
QUIET_PART = word_set("thought thoughtSignature")

# Reading

_KEYS = (
    # of a request
    "systemInstruction", "toolConfig", "generationConfig", "safetySettings", "cachedContent",
    "serviceTier", "continuationToken", "modelArmorConfig",
    # of a part
    "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse", "thoughtSignature", "videoMetadata", "mediaResolution", "mediaProcessing",
    "partMetadata", "mimeType", "displayName", "fileUri", "partialArgs", "willContinue",
    # of tools
    "functionDeclarations", "googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "urlContext",
    "codeExecution", "googleMaps", "fileSearch", "computerUse", "mcpServers", "parallelAiSearch",
    "exaAiSearch", "excludeDomains", "streamableHttpTransport", "parametersJsonSchema",
    "responseJsonSchema", "functionCallingConfig", "allowedFunctionNames", "retrievalConfig",
    "includeServerSideToolInvocations", "streamFunctionCallArguments",
    # of generationConfig
    "topP", "topK", "candidateCount", "maxOutputTokens", "stopSequences", "presencePenalty",
    "frequencyPenalty", "responseLogprobs", "responseMimeType", "responseSchema", "responseModalities",
    "speechConfig", "imageConfig", "thinkingConfig", "includeThoughts", "thinkingBudget", "thinkingLevel",
    # of a schema
    "anyOf", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
    "propertyOrdering", "additionalProperties",
)  # fmt: skip
_CAMEL = {re.sub("([A-Z])", lambda letter: f"_{letter[1].lower()}", key): key for key in _KEYS}
_SNAKE = frozenset(_CAMEL)


def camel(wire: Wire) -> Wire:
    """`wire` with its own keys in camelCase; `wire` itself where they are already.

    Of a field that is spelled both ways the second stays as it is, and is reported as unknown.
    """
    if _SNAKE.isdisjoint(wire):
        return wire
    both = wire.keys() & map(_CAMEL.get, _SNAKE & wire.keys())
    return {key if _CAMEL.get(key) in both else _CAMEL.get(key, key): value for key, value in wire.items()}


def opened(value: Any, where: str) -> Fields:
    """One of Gemini's objects, to be read by its camelCase keys."""
    fields = Fields(value, where, PROTOCOL_NAME)
    if not _SNAKE.isdisjoint(fields.rest):
        fields.rest = camel(fields.rest)
    return fields


def inner(fields: Fields, key: str) -> Fields | None:
    """An object inside another one, or None where there is none."""
    value = fields.any(key)
    return None if value is None else opened(value, fields.path(key))


def enum_name(value: Any, names: tuple[str, ...]) -> Any:
    """The name of an enum value that came as a number; any other value as it is."""
    return names[value] if type(value) is int and 0 <= value < len(names) else value
