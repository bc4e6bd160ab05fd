"""Objects of the wire, read by their camelCase keys.

Gemini's servers take snake_case as well, and the official SDK mixes both in one body. Only the keys
of Gemini's own objects are respelled; what users put inside (arguments, results, labels) is not touched.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields
from dragoman.core.model import Extras, Value, Wire
from dragoman.protocols.gemini.wire import PROTOCOL_NAME

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

NO_EXTRAS: Extras = {PROTOCOL_NAME: {}}  # of the many values that have none; never written to

CAMEL = {re.sub("([A-Z])", lambda letter: f"_{letter[1].lower()}", key): key for key in _KEYS}
_SNAKE = frozenset(CAMEL)


def camel(wire: Wire) -> Wire:
    """`wire` with its own keys in camelCase; itself where they are."""
    if _SNAKE.isdisjoint(wire):
        return wire
    return {CAMEL.get(key, key): value for key, value in wire.items()}


def opened(value: Any, where: str) -> Fields:
    """One of Gemini's objects, to be taken apart by its camelCase keys."""
    fields = Fields(value, where, PROTOCOL_NAME)
    if not _SNAKE.isdisjoint(fields.rest):
        fields.rest = camel(fields.rest)
    return fields


def inner(fields: Fields, key: str) -> Fields | None:
    """An object inside another one, or None where there is none."""
    value = fields.any(key)
    return None if value is None else opened(value, fields.path(key))


def is_native(value: Value) -> bool:
    """Whether it came from Gemini's wire, to which it goes back as it came."""
    return value.extras is not None and PROTOCOL_NAME in value.extras


def printed(value: Any, where: str) -> str:
    """JSON text; a caller's dict may hold what JSON cannot say."""
    try:
        return jsontext.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(PROTOCOL_NAME, where, f"expected JSON, got {error}") from None
