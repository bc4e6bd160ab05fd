"""Tool search: deferred tools stay out of the prompt until the model looks for them.

Two forms, as Anthropic has them: a regular expression over names, descriptions and arguments, or words that
are ranked by BM25 (Robertson and Zaragoza, 2009; k1 and b as usual). Expressions run in the linear engine of
jsonschema-rs: Python's `re` takes exponential time for some, and holds the whole process meanwhile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Any

import jsonschema_rs

from dragoman.core.hosted import HostedResult, tools_in_words
from dragoman.core.jsontext import is_object
from dragoman.core.model import HostedKind, HostedTool, Text, ToolCall, ToolDeclaration
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.web_search import read_argument

FOUND = 5  # tools that a search loads
LONGEST_PATTERN = 200  # characters, as Anthropic has it
_K1, _B = 1.5, 0.75
_WORD = re.compile(r"[a-z]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _declaration(argument: str, meaning: str) -> ToolDeclaration:
    return ToolDeclaration(
        "tool_search",
        "Find tools that are not loaded yet. You can call those that it finds.",
        {
            "type": "object",
            "properties": {argument: {"type": "string", "description": meaning}},
            "required": [argument],
        },
    )


BY_WORDS = _declaration("query", "What the tool should do, in a few words")
BY_PATTERN = _declaration("pattern", "A regular expression for names, descriptions or arguments of tools")


class ToolSearchExecutor:
    kind: HostedKind = "tool_search"

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        return DeclaredFunctions((BY_PATTERN if is_by_pattern(tool) else BY_WORDS,))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        if not is_by_pattern(tool):
            query = read_argument(call, "query")
            found = rank(query, context.deferred)
        else:
            query = read_argument(call, "pattern")
            if len(query) > LONGEST_PATTERN:
                return failure("query_too_long", f"a pattern has at most {LONGEST_PATTERN} characters")
            try:
                found = match(query, context.deferred)
            except ValueError as error:
                return failure("invalid_input", str(error))
        if not query:
            return failure("invalid_input", "tool_search needs what to look for")
        return HostedResult((Text(tools_in_words(tool.name for tool in found)),), loaded=tuple(found))

    async def close(self) -> None:
        """It holds nothing."""


def is_by_pattern(tool: HostedTool) -> bool:
    return "regex" in tool.name


def match(pattern: str, tools: Sequence[ToolDeclaration]) -> list[ToolDeclaration]:
    """The tools whose text the pattern finds, in their order."""
    schema = {"type": "string", "pattern": pattern}
    try:
        options = jsonschema_rs.RegexOptions(size_limit=1_000_000)
        matches = jsonschema_rs.Draft202012Validator(schema, pattern_options=options).is_valid
    except (ValueError, jsonschema_rs.ValidationError):
        raise ValueError(f"{pattern!r} is not a regular expression") from None
    return [tool for tool in tools if matches(_text(tool))][:FOUND]


def rank(query: str, tools: Sequence[ToolDeclaration]) -> list[ToolDeclaration]:
    """The best tools first; those that share no word with the query are left out."""
    documents = [Counter(_words(_text(tool))) for tool in tools]
    if not documents:
        return []
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / len(lengths) or 1.0
    scores = [0.0] * len(documents)
    for word in set(_words(query)):
        holding = sum(word in document for document in documents)
        weight = log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
        for i, document in enumerate(documents):
            if count := document[word]:
                scores[i] += weight * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * lengths[i] / average))
    best = sorted(range(len(tools)), key=lambda i: -scores[i])[:FOUND]
    return [tools[i] for i in best if scores[i] > 0]


def _text(tool: ToolDeclaration) -> str:
    """What is searched: name, description, and the arguments with their descriptions."""
    parameters: dict[str, Any] = tool.parameters or {}
    properties = parameters.get("properties")
    if not is_object(properties):
        properties = {}
    arguments = [
        f"{name} {schema.get('description') or '' if is_object(schema) else ''}"
        for name, schema in properties.items()
    ]
    return "\n".join((tool.name, tool.description, *arguments))


def _words(text: str) -> list[str]:
    """Words in lower case; camelCase and snake_case are taken apart, and a plural counts as its singular."""
    words = _WORD.findall(_CAMEL.sub(" ", text).lower())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words]
