"""The scenarios on the wire of Gemini Interactions: steps, where the other protocols have messages."""

from __future__ import annotations

from typing import Any

from goldens.pieces import CITY, INTERACTIONS, MODELS, PNG
from seeds.wires import Wire, dumps, sse_of_events

PARIS, OSLO = {"city": "Paris"}, {"city": "Oslo"}
SPOKEN, THOUGHT, SIGNATURE = "Let me look.", "Paris, then.", "c2lnbmF0dXJl+/=="
# 20 tokens in, 8 of them from a cache; 9 out, 4 of them thought
USAGE: Wire = {
    "total_input_tokens": 20,
    "total_cached_tokens": 8,
    "total_output_tokens": 5,
    "total_thought_tokens": 4,
    "total_tool_use_tokens": 0,
    "total_tokens": 29,
}
WEATHER = {"type": "function", "name": "get_weather", "description": "Tells the weather.", "parameters": CITY}


def ask(*steps: Wire, **more: Any) -> Wire:
    """A request whose input is `steps`, or simply a greeting."""
    return {"model": MODELS[INTERACTIONS], "input": list(steps) or [said("Hi")], "store": False, **more}


def said(*blocks: Any) -> Wire:
    return {"type": "user_input", "content": [text(block) for block in blocks]}


def output(*blocks: Any) -> Wire:
    return {"type": "model_output", "content": [text(block) for block in blocks]}


def text(block: Any) -> Wire:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def call(id: str, name: str, arguments: Wire) -> Wire:
    return {"type": "function_call", "id": id, "name": name, "arguments": arguments}


def result(id: str, name: str, value: Any, **more: Any) -> Wire:
    return {"type": "function_result", "call_id": id, "name": name, "result": value, **more}


def thought(signature: str = SIGNATURE) -> Wire:
    return {"type": "thought", "signature": signature, "summary": [text(THOUGHT)]}


def interaction(status: str, *steps: Wire, **more: Any) -> Wire:
    head = {"id": "v1_1", "object": "interaction", "model": "gemini-3-pro", "status": status}
    moment = "2023-11-14T22:13:20Z"
    return {**head, "steps": list(steps), "usage": USAGE, "created": moment, "updated": moment, **more}


def stream(status: str, *steps: tuple[Wire, list[Wire]], cut: bool = False) -> bytes:
    """Each step with its deltas. `cut`: the last one is never stopped."""
    whole = interaction(status)
    del whole["steps"]
    begun = {key: whole[key] for key in ("id", "object", "model", "created")}
    events: list[Wire] = [
        {
            "event_type": "interaction.created",
            "interaction": {**begun, "status": "in_progress"},
            "event_id": "e1",
        },
        {"event_type": "interaction.status_update", "interaction_id": "v1_1", "status": "in_progress"},
    ]
    for index, (step, deltas) in enumerate(steps):
        events.append({"event_type": "step.start", "index": index, "step": step})
        events += [{"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas]
        if not (cut and index == len(steps) - 1):
            events.append({"event_type": "step.stop", "index": index})
    return sse_of_events(
        *events, {"event_type": "interaction.completed", "interaction": whole, "event_id": "e9"}
    )


def words(*pieces: str) -> tuple[Wire, list[Wire]]:
    return {"type": "model_output"}, [text(piece) for piece in pieces]


def pieces(id: str, name: str, *fragments: str) -> tuple[Wire, list[Wire]]:
    deltas: list[Wire] = [{"type": "arguments_delta", "arguments": piece} for piece in fragments]
    return call(id, name, {}), deltas


ASKED = ask(
    tools=[WEATHER],
    generation_config={"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}},
)
MOOD: Wire = {
    "type": "object",
    "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
FOUND = "It rains in Oslo."
CITED = {
    "type": "url_citation",
    "url": "https://a.test/oslo",
    "title": "Oslo",
    "start_index": 3,
    "end_index": 8,
}
SEARCHED = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["oslo weather"]}}
HINTS = [{"search_suggestions": "<b>oslo</b>"}]
SUGGESTED = {"type": "google_search_result", "call_id": "s1", "result": HINTS}
PICTURE = {"type": "image", "mime_type": "image/png", "data": PNG}
FILTERED = [{"code": "content_filter", "message": "a content filter stopped the answer"}]

REQUESTS: dict[str, Wire] = {
    "text": ask(
        said("Hi"),
        output("Hello."),
        said("Again?"),
        system_instruction="Be brief.",
        generation_config={"max_output_tokens": 200, "temperature": 0.5, "stop_sequences": ["END"]},
        stream=True,
    ),
    "one_call": ASKED,
    "parallel_calls": ask(tools=[WEATHER]),
    "results": ask(
        said("Compare."),
        output(SPOKEN),
        thought(),
        call("c1", "get_weather", PARIS),
        call("c2", "get_weather", OSLO),
        result("c1", "get_weather", "sunny"),
        result("c2", "get_weather", {"sky": "grey", "wind": [3, 4.0]}),
        said("So?"),
    ),
    "error_result": ask(
        said("Weather?"),
        call("c1", "get_weather", PARIS),
        result("c1", "get_weather", "no such city", is_error=True),
    ),
    "image_result": ask(
        said("Look."),
        call("c1", "screenshot", {}),
        result("c1", "screenshot", [text("The screen:"), PICTURE]),
    ),
    "reasoning": ask(
        tools=[WEATHER], generation_config={"thinking_level": "low", "thinking_summaries": "auto"}
    ),
    "structured_output": ask(
        response_format={"type": "text", "mime_type": "application/json", "schema": MOOD}
    ),
    "hosted_tool": ask(tools=[{"type": "google_search"}, {"type": "url_context"}]),
}
REPLIES: dict[str, Wire] = {
    "text": interaction("completed", output("Hello there.")),
    "one_call": interaction("requires_action", output(SPOKEN), call("c1", "get_weather", PARIS)),
    "parallel_calls": interaction(  # some replies with calls say `completed`
        "completed", call("c1", "get_weather", PARIS), call("c2", "get_weather", OSLO)
    ),
    "reasoning": interaction("requires_action", thought(), call("c1", "get_weather", PARIS)),
    "structured_output": interaction("completed", output('{"mood":"good"}')),
    "hosted_tool": interaction(
        "completed", SEARCHED, SUGGESTED, output({"type": "text", "text": FOUND, "annotations": [CITED]})
    ),
    "refusal": interaction("incomplete", output("I"), errors=FILTERED),
    "truncation": interaction("incomplete", output("Let me")),
}
STREAMS: dict[str, bytes] = {
    "text": stream("completed", words("Hello", " there.")),
    "one_call": stream("requires_action", words(SPOKEN), pieces("c1", "get_weather", '{"city":', '"Paris"}')),
    "parallel_calls": stream(
        "completed", pieces("c1", "get_weather", dumps(PARIS)), (call("c2", "get_weather", OSLO), [])
    ),
    "reasoning": stream(
        "requires_action",
        (
            {"type": "thought"},
            [
                {"type": "thought_summary", "content": text(THOUGHT)},
                {"type": "thought_signature", "signature": SIGNATURE},
            ],
        ),
        pieces("c1", "get_weather", dumps(PARIS)),
    ),
    "hosted_tool": stream(
        "completed",
        (
            {"type": "google_search_call", "id": "s1"},
            [{"type": "google_search_call", "arguments": {"queries": ["oslo weather"]}}],
        ),
        (
            {"type": "google_search_result", "call_id": "s1"},
            [{"type": "google_search_result", "result": HINTS}],
        ),
        ({"type": "model_output"}, [text(FOUND), {"type": "text_annotation_delta", "annotations": [CITED]}]),
    ),
    "refusal": stream("completed", words("I cannot", " help with that.")),
    "truncation": stream("incomplete", words(SPOKEN), pieces("c1", "get_weather", '{"city":"Pa'), cut=True),
}
