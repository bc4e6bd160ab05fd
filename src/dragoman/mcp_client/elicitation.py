"""Questions that an MCP server asks the user while a tool runs (elicitation), answered by a function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from dragoman.core.jsontext import is_object

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

# The question, and a JSON Schema of the answer -> the fields of the answer; None: the user gives none
Elicit = Callable[[str, dict[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]


def answerer(elicit: Elicit) -> Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]:
    """`elicit` as the official client calls it. A function that is not async runs in a thread: it may wait
    for the user. Fields that it leaves out get their defaults (SEP-1034). What does not fit the schema is not
    sent."""
    from mcp.types import ElicitRequestFormParams, ElicitResult

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        if not isinstance(params, ElicitRequestFormParams):  # an address that the user should visit
            return ElicitResult(action="decline")
        schema = params.requested_schema
        given = await asyncio.to_thread(elicit, params.message, schema)
        if isawaitable(given):
            given = await given
        if given is None:
            return ElicitResult(action="decline")
        content = {**_defaults(schema), **given}
        if not jsonschema_rs.is_valid(schema, content):
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=content)

    return answer


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    fields = properties.items() if is_object(properties) else ()
    return {name: each["default"] for name, each in fields if is_object(each) and "default" in each}
