"""Every field of Interactions that the types of google-genai name: requests, replies and streams, of which
each step and each setting has one to itself. The taint law and the fuzzer read them."""

from __future__ import annotations

from typing import Any

from goldens.interactions import PICTURE, USAGE

Wire = dict[str, Any]
PNG = PICTURE["data"]
SAID: Wire = {"type": "model_output", "content": [{"type": "text", "text": "Hi."}]}
FUNCTION: Wire = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
HOSTED: list[Wire] = [
    {"type": "google_search", "search_types": ["web_search"]},
    {"type": "url_context"},
    {"type": "code_execution"},
    {"type": "google_maps", "latitude": 1.5, "longitude": 2.5, "enable_widget": True},
    {"type": "file_search", "file_search_store_names": ["s"], "top_k": 3, "metadata_filter": "a=b"},
    {
        "type": "computer_use",
        "environment": "browser",
        "excluded_predefined_functions": ["open"],
        "disabled_safety_policies": ["all"],
        "enable_prompt_injection_detection": True,
    },
    {
        "type": "mcp_server",
        "name": "m",
        "url": "https://m.test/mcp",
        "headers": {"Authorization": "Bearer q"},
        "allowed_tools": [{"mode": "any", "tools": ["t"]}],
    },
    {
        "type": "retrieval",
        "retrieval_types": ["vertex_ai_search"],
        "vertex_ai_search_config": {"engine": "e"},
    },
]
MEDIA: list[Wire] = [
    {"type": "image", "data": PNG, "mime_type": "image/png", "resolution": "high"},
    {"type": "image", "uri": "https://a.test/x.png", "mime_type": "image/png", "resolution": "ultra_high"},
    {"type": "document", "data": PNG, "mime_type": "application/pdf"},
    {"type": "audio", "data": PNG, "mime_type": "audio/wav", "sample_rate": 16000, "channels": 1},
    {
        "type": "video",
        "uri": "https://a.test/x.mp4",
        "mime_type": "video/mp4",
        "resolution": "low",
        "processing": {"type": "static", "fps": 1.5},
    },
]
NOTES: list[Wire] = [
    {"type": "url_citation", "url": "https://e.org", "title": "E", "start_index": 0, "end_index": 3},
    {
        "type": "file_citation",
        "document_uri": "files/a",
        "file_name": "f.pdf",
        "source": "s",
        "page_number": 3,
        "media_id": "m",
        "custom_metadata": {"a": "b"},
        "start_index": 0,
        "end_index": 3,
    },
    {
        "type": "place_citation",
        "place_id": "p",
        "name": "Cafe",
        "url": "https://maps.test/p",
        "review_snippets": [{"title": "t", "url": "https://r.test", "review_id": "r"}],
        "start_index": 1,
        "end_index": 2,
    },
    {"type": "speech_annotation", "start_index": 0, "end_index": 2, "words": [{"word": "Let"}]},
]
ERROR: Wire = {"code": 3, "message": "bad", "details": [{"a": "b"}]}
THOUGHT: Wire = {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Need"}]}
PICTURED: Wire = {**THOUGHT, "summary": [*THOUGHT["summary"], PICTURE]}
CALL: Wire = {
    "type": "function_call",
    "id": "c1",
    "name": "get_weather",
    "arguments": {"city": "Paris"},
    "signature": "c2ln",
}
_SIGNED: Wire = {"signature": "c2ln"}
OF_SERVERS: list[list[Wire]] = [
    [
        {
            "type": "google_search_call",
            "id": "s1",
            "arguments": {"queries": ["q"]},
            "search_type": "web_search",
            **_SIGNED,
        },
        {
            "type": "google_search_result",
            "call_id": "s1",
            "result": [{"search_suggestions": "<b>"}],
            "is_error": False,
        },
    ],
    [
        {"type": "url_context_call", "id": "u1", "arguments": {"urls": ["https://u.test"]}, **_SIGNED},
        {
            "type": "url_context_result",
            "call_id": "u1",
            "result": [{"url": "https://u.test", "status": "success"}],
        },
    ],
    [
        {
            "type": "code_execution_call",
            "id": "x1",
            "arguments": {"code": "print(1)", "language": "python"},
        },
        {"type": "code_execution_result", "call_id": "x1", "result": "1", "is_error": False, **_SIGNED},
    ],
    [
        {"type": "file_search_call", "id": "f1", **_SIGNED},
        {
            "type": "file_search_result",
            "call_id": "f1",
            "result": [{"title": "t", "text": "x", "file_search_store": "s"}],
        },
    ],
    [
        {"type": "google_maps_call", "id": "g1", "arguments": {"queries": ["cafe"]}},
        {
            "type": "google_maps_result",
            "call_id": "g1",
            "result": [
                {
                    "places": [{"place_id": "p", "name": "n", "url": "https://m.test"}],
                    "widget_context_token": "w",
                }
            ],
        },
    ],
    [
        {
            "type": "retrieval_call",
            "id": "r1",
            "arguments": {"queries": ["q"]},
            "retrieval_type": "vertex_ai_search",
        },
        {"type": "retrieval_result", "call_id": "r1", "is_error": False},
    ],
    [{"type": "processing_call", "id": "p1"}, {"type": "processing_result", "call_id": "p1"}],
    [
        {
            "type": "mcp_server_tool_call",
            "id": "m1",
            "name": "t",
            "server_name": "m",
            "arguments": {"a": 1},
            **_SIGNED,
        },
        {
            "type": "mcp_server_tool_result",
            "call_id": "m1",
            "name": "t",
            "server_name": "m",
            "result": "ok",
        },
    ],
]


def _cited(note: Wire) -> Wire:
    return {"type": "model_output", "content": [{"type": "text", "text": "Let me.", "annotations": [note]}]}


STEPS: list[list[Wire]] = [
    [THOUGHT],
    [PICTURED],
    [CALL],
    [CALL, {**CALL, "id": "c2", "arguments": {}}],
    [{**SAID, "error": ERROR}],
    [{"type": "model_output", "content": [PICTURE]}],
    *([_cited(note)] for note in NOTES),
    *([*steps, SAID] for steps in OF_SERVERS),
]


# Requests


def ask(input: Any = "Hi", **more: Any) -> Wire:
    return {"model": "m", "input": input, "store": False, **more}


def _said(*blocks: Wire) -> Wire:
    return {"type": "user_input", "content": list(blocks)}


def _result(result: Any, **more: Any) -> Wire:
    return {"type": "function_result", "call_id": "c1", "name": "get_weather", "result": result, **more}


_HI = _said({"type": "text", "text": "Hi"})
_CONFIGS: list[Wire] = [
    {"max_output_tokens": 100, "stop_sequences": ["x"], "seed": 3, "temperature": 0.5, "top_p": 0.5},
    {"thinking_level": "low", "thinking_summaries": "auto"},
    {"speech_config": [{"voice": "v", "language": "en", "speaker": "s"}]},
    {"speech_config": {"speakers": [{"voice": "v"}]}, "video_config": {"task": "t"}},
    {"transcription_config": {"mode": {"type": "verbatim"}}, "image_config": {"aspect_ratio": "1:1"}},
]
_FORMATS: list[Any] = [
    {"type": "text", "mime_type": "application/json", "schema": FUNCTION["parameters"]},
    {"type": "text", "mime_type": "application/json"},
    {"type": "text", "mime_type": "text/plain"},
    {"type": "object", "properties": {"a": {"type": "string", "description": "d"}}},
    [
        {
            "type": "image",
            "aspect_ratio": "1:1",
            "image_size": "1K",
            "delivery": "uri",
            "mime_type": "image/jpeg",
        }
    ],
    [{"type": "audio", "mime_type": "audio/wav", "sample_rate": 8000, "bit_rate": 64}],
]
REQUESTS: list[Wire] = [
    ask(system_instruction="Be brief."),
    *(ask(PICTURE if block is MEDIA[0] else [_said(block)]) for block in MEDIA),
    *(ask([_HI, *steps, _said({"type": "text", "text": "And?"})]) for steps in STEPS if CALL not in steps),
    ask([_HI, THOUGHT, CALL, _result("18 C", is_error=True)], tools=[FUNCTION]),
    ask([_HI, CALL, _result([{"type": "text", "text": "18"}, PICTURE, MEDIA[2]])], tools=[FUNCTION]),
    ask([_HI, CALL, _said(_result({"t": 18}))], tools=[FUNCTION]),
    ask([{"role": role, "content": role} for role in ("user", "model", "user")]),
    *(ask(tools=[tool]) for tool in HOSTED),
    *(ask(generation_config=config) for config in _CONFIGS),
    *(
        ask(tools=[FUNCTION], generation_config={"tool_choice": choice})
        for choice in ("any", "validated", {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}})
    ),
    *(ask(response_format=format) for format in _FORMATS),
    ask(response_mime_type="application/json", response_modalities=["text", "image"]),
    ask(safety_settings=[{"type": "hate_speech", "threshold": "block_none", "method": "severity"}]),
    ask(service_tier="flex", labels={"team": "a"}, cached_content="cachedContents/a"),
    ask(webhook_config={"uris": ["https://w.test"]}, environment={"type": "remote", "env": [{"a": "b"}]}),
    ask(
        agent="deep-research-preview-04-2026", agent_config={"type": "deep-research", "visualization": "off"}
    ),
    ask(previous_interaction_id="int_1"),
    {"model": "m", "continuation_token": "t", "previous_interaction_id": "int_1"},
]

# Replies

_HEAD: Wire = {
    "id": "v1_a",
    "object": "interaction",
    "model": "m",
    "created": "2026-11-16T00:00:00Z",
    "updated": "2026-11-16T00:00:01Z",
    "service_tier": "standard",
}
_COUNTS: Wire = {
    **USAGE,
    "total_tool_use_tokens": 4,
    "input_tokens_by_modality": [{"modality": "text", "tokens": 53}],
    "grounding_tool_count": [{"type": "google_search", "count": 1}],
    "initial_input_tokens": 3,
    "raw_prompt_token": 50,
}
_ECHO: Wire = {
    "previous_interaction_id": "v1_b",
    "system_instruction": "s",
    "tools": [FUNCTION],
    "generation_config": _CONFIGS[0],
    "response_format": _FORMATS[0],
    "labels": {"a": "b"},
    "environment_id": "e",
}
_WHY: list[Wire] = [{"code": "https://e.test/recitation", "message": "why"}]
# status -> fields beside it
_ENDS: dict[str, Wire] = {
    "completed": _ECHO,
    "incomplete": {"errors": _WHY},
    "requires_continuation": {"continuation_token": "t"},
    "budget_exceeded": {},
    "failed": {"errors": _WHY},
}


def reply(steps: list[Wire], status: str = "completed", **more: Any) -> Wire:
    return {**_HEAD, "status": status, "steps": steps, "usage": _COUNTS, **more}


def _status(steps: list[Wire]) -> str:
    return "requires_action" if CALL in steps else "completed"


REPLIES: list[Wire] = [
    *(reply(steps, _status(steps)) for steps in STEPS),
    *(reply([SAID], status, **more) for status, more in _ENDS.items()),
    reply([{**SAID, "content": [], "error": ERROR}], "failed"),
    reply([{"type": "thought"}, {"type": "model_output", "content": []}, {"type": "new", "x": 1}]),
]

# Streams: a frame is its name and its data


def _frame(kind: str, **body: Any) -> tuple[str, Any]:
    return kind, {"event_type": kind, **body}


def _streamed(step: Wire) -> tuple[Wire, list[Wire]]:
    """What starts a step, and its deltas."""
    kind = step["type"]
    if kind == "thought":
        said = [{"type": "thought_summary", "content": entry} for entry in step["summary"]]
        return {"type": kind}, [*said, {"type": "thought_signature", "signature": step["signature"]}]
    if kind == "model_output":
        deltas: list[Wire] = []
        for block in step["content"]:
            deltas.append({key: block[key] for key in block if key != "annotations"})
            if "annotations" in block:
                deltas.append({"type": "text_annotation_delta", "annotations": block["annotations"]})
        return {key: step[key] for key in step if key != "content"}, deltas
    if kind == "function_call":
        pieces = ('{"city":', '"Paris"}') if step["arguments"] else ()
        fragments: list[Wire] = [{"type": "arguments_delta", "arguments": piece} for piece in pieces]
        return {**step, "arguments": {}}, fragments
    named = {key: step[key] for key in ("type", "id", "call_id", "name", "server_name") if key in step}
    return named, [{"type": kind, **{key: step[key] for key in step if key not in named}}]


def stream(steps: list[Wire], status: str = "completed", **more: Any) -> list[tuple[str, Any]]:
    created = _frame("interaction.created", interaction={**_HEAD, "status": "in_progress"}, event_id="e1")
    frames = [created, _frame("interaction.status_update", interaction_id="v1_a", status="in_progress")]
    for index, step in enumerate(steps):
        begun, deltas = _streamed(step)
        frames.append(_frame("step.start", index=index, step=begun))
        frames += [_frame("step.delta", index=index, delta=delta) for delta in deltas]
        frames.append(_frame("step.stop", index=index))
    ended = {**_HEAD, "status": status, "usage": _COUNTS, **more}
    return [*frames, _frame("interaction.completed", interaction=ended, event_id="e9"), ("done", "[DONE]")]


_CHECKPOINT = {"metadata": {"total_usage": _COUNTS}}
STREAMS: list[list[tuple[str, Any]]] = [
    *(stream(steps, _status(steps)) for steps in STEPS),
    *(stream([SAID], status, **more) for status, more in _ENDS.items()),
    [*stream([SAID])[:-2], _frame("error", error={"code": "https://e.test/unavailable", "message": "busy"})],
    [(name, {**data, **_CHECKPOINT} if name == "step.delta" else data) for name, data in stream([SAID])],
    [
        (name, {**data, "usage": _COUNTS, "step_usage": _COUNTS} if name == "step.stop" else data)
        for name, data in stream([SAID])
    ],
]
