"""What the Open Responses schema requires of replies and events, as JSON Schemas.

Facts of the specification of 2026-04-24 (openresponses.org): every event that holds a response holds all of
it, and an event of any other type than these fails.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

Schema = dict[str, Any]

_ANY: Schema = {}
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}


def _object(required: Schema, **optional: Schema) -> Schema:
    """Fields that must be there, and fields that may be; others are ignored."""
    return {"type": "object", "required": [*required], "properties": {**required, **optional}}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _is(*values: Any) -> Schema:
    return {"enum": [*values]}


_STATUS = _is("in_progress", "completed", "incomplete")
_CITATION = _object(
    {"type": _is("url_citation"), "url": _TEXT, "title": _TEXT, "start_index": _COUNT, "end_index": _COUNT}
)
_CONTENT: Schema = {
    "anyOf": [
        _object(
            {"type": _is("output_text"), "text": _TEXT, "annotations": _array(_CITATION)},
            logprobs=_array(_ANY),
        ),
        _object({"type": _is("refusal"), "refusal": _TEXT}),
        _object({"type": _is("input_text", "summary_text", "reasoning_text", "text"), "text": _TEXT}),
        _object({"type": _is("input_image", "input_file")}),
    ]
}
_ITEM: Schema = {
    "anyOf": [
        _object(
            {
                "type": _is("message"),
                "id": _TEXT,
                "status": _STATUS,
                "role": _TEXT,
                "content": _array(_CONTENT),
            },
            phase=_is("commentary", "final_answer"),
        ),
        _object(
            {
                "type": _is("function_call"),
                "id": _TEXT,
                "call_id": _TEXT,
                "name": _TEXT,
                "arguments": _TEXT,
                "status": _STATUS,
            }
        ),
        _object(
            {
                "type": _is("function_call_output"),
                "id": _TEXT,
                "call_id": _TEXT,
                "output": _ANY,
                "status": _STATUS,
            }
        ),
        _object(
            {"type": _is("reasoning"), "id": _TEXT, "summary": _array(_CONTENT)},
            content=_array(_CONTENT),
            encrypted_content=_TEXT,
        ),
        _object({"type": _is("compaction"), "id": _TEXT, "encrypted_content": _TEXT}, created_by=_TEXT),
    ]
}
_TOOL = _object(
    {
        "type": _is("function"),
        "name": _TEXT,
        "description": _maybe(_TEXT),
        "parameters": _ANY,
        "strict": _maybe(_FLAG),
    }
)
_USAGE = _object(
    {
        "input_tokens": _COUNT,
        "output_tokens": _COUNT,
        "total_tokens": _COUNT,
        "input_tokens_details": _object({"cached_tokens": _COUNT}),
        "output_tokens_details": _object({"reasoning_tokens": _COUNT}),
    }
)
RESPONSE = _object(
    {
        "id": _TEXT,
        "object": _is("response"),
        "created_at": _COUNT,
        "completed_at": _maybe(_COUNT),
        "status": _is("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
        "incomplete_details": _maybe(_object({"reason": _TEXT})),
        "model": _TEXT,
        "previous_response_id": _maybe(_TEXT),
        "instructions": _maybe(_TEXT),
        "output": _array(_ITEM),
        "error": _maybe(_object({"code": _TEXT, "message": _TEXT})),
        "tools": _array(_TOOL),
        "tool_choice": {
            "anyOf": [_is("none", "auto", "required"), _object({"type": _is("function", "allowed_tools")})]
        },
        "truncation": _is("auto", "disabled"),
        "parallel_tool_calls": _FLAG,
        "text": _object({"format": _object({"type": _TEXT})}, verbosity=_is("low", "medium", "high")),
        "top_p": _NUMBER,
        "presence_penalty": _NUMBER,
        "frequency_penalty": _NUMBER,
        "top_logprobs": _COUNT,
        "temperature": _NUMBER,
        "reasoning": _maybe(_object({"effort": _ANY, "summary": _ANY})),
        "usage": _maybe(_USAGE),
        "max_output_tokens": _maybe(_COUNT),
        "max_tool_calls": _maybe(_COUNT),
        "store": _FLAG,
        "background": _FLAG,
        "service_tier": _TEXT,
        "metadata": _ANY,
        "safety_identifier": _maybe(_TEXT),
        "prompt_cache_key": _maybe(_TEXT),
    }
)
COMPACTION = _object(
    {
        "id": _TEXT,
        "object": _is("response.compaction"),
        "created_at": _COUNT,
        "output": _array(_ITEM),
        "usage": _USAGE,
    }
)
_PLACE = {"item_id": _TEXT, "output_index": _COUNT}
_INNER = {**_PLACE, "content_index": _COUNT}
_SUMMARY = {**_PLACE, "summary_index": _COUNT}
_EVENTS: dict[str, Schema] = {
    **{
        f"response.{step}": {"response": RESPONSE}
        for step in ("created", "queued", "in_progress", "completed", "failed", "incomplete")
    },
    **{f"response.output_item.{step}": {"output_index": _COUNT, "item": _ITEM} for step in ("added", "done")},
    **{f"response.content_part.{step}": {**_INNER, "part": _CONTENT} for step in ("added", "done")},
    **{
        f"response.reasoning_summary_part.{step}": {**_SUMMARY, "part": _CONTENT}
        for step in ("added", "done")
    },
    "response.output_text.delta": {**_INNER, "delta": _TEXT},
    "response.output_text.done": {**_INNER, "text": _TEXT},
    "response.output_text.annotation.added": {**_INNER, "annotation_index": _COUNT, "annotation": _CITATION},
    "response.refusal.delta": {**_INNER, "delta": _TEXT},
    "response.refusal.done": {**_INNER, "refusal": _TEXT},
    "response.reasoning.delta": {**_INNER, "delta": _TEXT},
    "response.reasoning.done": {**_INNER, "text": _TEXT},
    "response.reasoning_summary_text.delta": {**_SUMMARY, "delta": _TEXT},
    "response.reasoning_summary_text.done": {**_SUMMARY, "text": _TEXT},
    "response.function_call_arguments.delta": {**_PLACE, "delta": _TEXT},
    "response.function_call_arguments.done": {**_PLACE, "arguments": _TEXT},
}
_ERROR = _object(
    {"type": _is("error"), "status": _COUNT, "error": _object({"code": _TEXT, "message": _TEXT})}
)
_CHECKS = {
    name: jsonschema_rs.validator_for(_object({"type": _is(name), "sequence_number": _COUNT, **fields}))
    for name, fields in _EVENTS.items()
}
_SOCKET_ERROR = jsonschema_rs.validator_for(_ERROR)


def problems(schema: Schema, value: Any) -> list[str]:
    return [
        f"{list(error.instance_path)}: {error.message}"[:300]
        for error in jsonschema_rs.iter_errors(schema, value)
    ]


def event_problems(event: Any) -> list[str]:
    """`event` is one of a stream, or of a WebSocket, which has errors of its own shape."""
    check = _SOCKET_ERROR if event.get("type") == "error" else _CHECKS.get(event.get("type", ""))
    if check is None:
        return [f"an event of type {event.get('type')}"]
    return [
        f"{event['type']} {list(error.instance_path)}: {error.message}"[:300]
        for error in check.iter_errors(event)
    ]
