"""What goes in: for each scenario the client's request, the upstream's whole reply and its stream.

The words are few, so that the goldens can be read from beginning to end.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from goldens import converse, interactions
from goldens.pieces import (
    ANTHROPIC,
    CHAT,
    CITY,
    CONVERSE,
    GEMINI,
    INTERACTIONS,
    PNG,
    RESPONSES,
    TEXT_BLOCK,
    anthropic_stream,
    at,
    block,
    call_item,
    candidate,
    chat_call,
    chat_stream,
    chat_tool,
    completion,
    content,
    function_call,
    gemini_stream,
    json_delta,
    message,
    message_item,
    output_text,
    request_body,
    response,
    responses_stream,
    text_delta,
    tool_use,
    turn,
)
from seeds.wires import Wire, fragment


class Scenario(Struct, frozen=True):
    """`again`: the client then sends the reply back in its history, with results for its calls."""

    requests: dict[str, Wire] = {}
    replies: dict[str, Wire] = {}
    streams: dict[str, bytes] = {}
    again: bool = False


TEXT_ITEM = message_item(output_text("Hello there."))

# Scenarios

TEXT = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            turn("system", "Be brief."),
            turn("user", "Hi"),
            turn("assistant", "Hello."),
            turn("user", "Again?"),
            max_completion_tokens=200,
            temperature=0.5,
            stop=["END"],
            stream=True,
            stream_options={"include_usage": True},
        ),
        RESPONSES: request_body(
            RESPONSES,
            turn("user", "Hi"),
            turn("assistant", "Hello."),
            turn("user", "Again?"),
            instructions="Be brief.",
            max_output_tokens=200,
            temperature=0.5,
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            turn("user", "Hi"),
            turn("assistant", "Hello."),
            turn("user", "Again?"),
            system="Be brief.",
            max_tokens=200,
            temperature=0.5,
            stop_sequences=["END"],
        ),
        GEMINI: request_body(
            GEMINI,
            content("user", {"text": "Hi"}),
            content("model", {"text": "Hello."}),
            content("user", {"text": "Again?"}),
            systemInstruction={"parts": [{"text": "Be brief."}]},
            generationConfig={"maxOutputTokens": 200, "temperature": 0.5, "stopSequences": ["END"]},
        ),
    },
    replies={
        CHAT: completion({"content": "Hello there."}, "stop"),
        RESPONSES: response(TEXT_ITEM),
        ANTHROPIC: message({"type": "text", "text": "Hello there."}),
        GEMINI: candidate({"text": "Hello there."}),
    },
    streams={
        CHAT: chat_stream({"content": "Hello"}, {"content": " there."}),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item={**TEXT_ITEM, "status": "in_progress", "content": []}),
            at(0, "content_part.added", item_id="msg_1", content_index=0, part=output_text("")),
            at(0, "output_text.delta", item_id="msg_1", content_index=0, delta="Hello"),
            at(0, "output_text.delta", item_id="msg_1", content_index=0, delta=" there."),
            at(0, "output_text.done", item_id="msg_1", content_index=0, text="Hello there."),
            at(0, "content_part.done", item_id="msg_1", content_index=0, part=output_text("Hello there.")),
            at(0, "output_item.done", item=TEXT_ITEM),
            done=response(TEXT_ITEM),
        ),
        ANTHROPIC: anthropic_stream(*block(0, TEXT_BLOCK, text_delta("Hello"), text_delta(" there."))),
        GEMINI: gemini_stream({"text": "Hello"}, {"text": " there."}),
    },
)

PARIS = {"city": "Paris"}
SPOKEN = "Let me look."
ONE_ITEM = call_item("call_1", "get_weather", PARIS, id="fc_1", status="completed")

ONE_CALL = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            tools=[chat_tool("get_weather", "Tells the weather.", CITY)],
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            parallel_tool_calls=False,
        ),
        RESPONSES: request_body(
            RESPONSES,
            tools=[
                {
                    "type": "function",
                    "name": "get_weather",
                    "description": "Tells the weather.",
                    "parameters": CITY,
                    "strict": False,
                }
            ],
            tool_choice={"type": "function", "name": "get_weather"},
            parallel_tool_calls=False,
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            tools=[{"name": "get_weather", "description": "Tells the weather.", "input_schema": CITY}],
            tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
        ),
        GEMINI: request_body(
            GEMINI,
            tools=[
                {
                    "functionDeclarations": [
                        {
                            "name": "get_weather",
                            "description": "Tells the weather.",
                            "parametersJsonSchema": CITY,
                        }
                    ]
                }
            ],
            toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        ),
    },
    replies={
        CHAT: completion(
            {"content": SPOKEN, "tool_calls": [chat_call("call_1", "get_weather", PARIS)]}, "tool_calls"
        ),
        RESPONSES: response(message_item(output_text(SPOKEN)), ONE_ITEM),
        ANTHROPIC: message(
            {"type": "text", "text": SPOKEN}, tool_use("toolu_1", "get_weather", PARIS), stop="tool_use"
        ),
        GEMINI: candidate({"text": SPOKEN}, function_call("get_weather", PARIS)),
    },
    streams={
        CHAT: chat_stream(
            {"content": SPOKEN},
            fragment(0, "", "call_1", "get_weather"),
            fragment(0, '{"city":'),
            fragment(0, '"Paris"}'),
            finish="tool_calls",
        ),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item=message_item()),
            at(0, "output_text.delta", item_id="msg_1", content_index=0, delta=SPOKEN),
            at(0, "output_item.done", item=message_item(output_text(SPOKEN))),
            at(1, "output_item.added", item={**ONE_ITEM, "status": "in_progress", "arguments": ""}),
            at(1, "function_call_arguments.delta", item_id="fc_1", delta='{"city":'),
            at(1, "function_call_arguments.delta", item_id="fc_1", delta='"Paris"}'),
            at(1, "function_call_arguments.done", item_id="fc_1", arguments='{"city":"Paris"}'),
            at(1, "output_item.done", item=ONE_ITEM),
            done=response(message_item(output_text(SPOKEN)), ONE_ITEM),
        ),
        ANTHROPIC: anthropic_stream(
            *block(0, TEXT_BLOCK, text_delta(SPOKEN)),
            *block(1, tool_use("toolu_1", "get_weather", {}), json_delta('{"city":'), json_delta('"Paris"}')),
            stop="tool_use",
        ),
        GEMINI: gemini_stream({"text": SPOKEN}, function_call("get_weather", PARIS)),
    },
)

OSLO = {"city": "Oslo"}
FIRST, SECOND = (
    {**call_item(f"call_{n}", "get_weather", c, id=f"fc_{n}")} for n, c in ((1, PARIS), (2, OSLO))
)

CHOICES = ("tool_choice", "toolConfig", "parallel_tool_calls")
# The same tool twice. Chat and Responses interleave the fragments, Gemini says no ids, Chat ends with `stop`
PARALLEL_CALLS = Scenario(
    requests={
        protocol: {key: value for key, value in body.items() if key not in CHOICES}
        for protocol, body in ONE_CALL.requests.items()
    },
    replies={
        CHAT: completion(
            {
                "content": None,
                "tool_calls": [
                    chat_call("call_1", "get_weather", PARIS),
                    chat_call("call_2", "get_weather", OSLO),
                ],
            },
            "stop",
        ),
        RESPONSES: response(FIRST, SECOND),
        ANTHROPIC: message(
            tool_use("toolu_1", "get_weather", PARIS),
            tool_use("toolu_2", "get_weather", OSLO),
            stop="tool_use",
        ),
        GEMINI: candidate(function_call("get_weather", PARIS), function_call("get_weather", OSLO)),
    },
    streams={
        CHAT: chat_stream(
            {
                "tool_calls": [
                    *fragment(0, "", "call_1", "get_weather")["tool_calls"],
                    *fragment(1, "", "call_2", "get_weather")["tool_calls"],
                ]
            },
            fragment(1, '{"city":'),
            fragment(0, '{"city":'),
            fragment(1, '"Oslo"}'),
            fragment(0, '"Paris"}'),
            finish="stop",
        ),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item={**FIRST, "arguments": ""}),
            at(1, "output_item.added", item={**SECOND, "arguments": ""}),
            at(1, "function_call_arguments.delta", item_id="fc_2", delta='{"city":'),
            at(0, "function_call_arguments.delta", item_id="fc_1", delta='{"city":'),
            at(1, "function_call_arguments.done", item_id="fc_2", arguments='{"city":"Oslo"}'),
            at(0, "function_call_arguments.done", item_id="fc_1", arguments='{"city":"Paris"}'),
            at(1, "output_item.done", item=SECOND),
            at(0, "output_item.done", item=FIRST),
            done=response(FIRST, SECOND),
        ),
        ANTHROPIC: anthropic_stream(
            *block(0, tool_use("toolu_1", "get_weather", {}), json_delta('{"city":"Paris"}')),
            *block(1, tool_use("toolu_2", "get_weather", {}), json_delta('{"city":"Oslo"}')),
            stop="tool_use",
        ),
        GEMINI: gemini_stream(function_call("get_weather", PARIS), function_call("get_weather", OSLO)),
    },
)

RESULTS = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            turn("user", "Compare."),
            {
                **turn("assistant", SPOKEN),
                "tool_calls": [
                    chat_call("call_1", "get_weather", PARIS),
                    chat_call("call_2", "get_weather", OSLO),
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": '{"sky":"grey","wind":[3,4.0]}'},
            turn("user", "So?"),
        ),
        RESPONSES: request_body(
            RESPONSES,
            turn("user", "Compare."),
            turn("assistant", SPOKEN),
            call_item("call_1", "get_weather", PARIS),
            call_item("call_2", "get_weather", OSLO),
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            {
                "type": "function_call_output",
                "call_id": "call_2",
                "output": '{"sky":"grey","wind":[3,4.0]}',
            },
            turn("user", "So?"),
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            turn("user", "Compare."),
            turn(
                "assistant",
                [
                    {"type": "text", "text": SPOKEN},
                    tool_use("toolu_1", "get_weather", PARIS),
                    tool_use("toolu_2", "get_weather", OSLO),
                ],
            ),
            turn(
                "user",
                [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": [{"type": "text", "text": '{"sky":"grey","wind":[3,4.0]}'}],
                    },
                    {"type": "text", "text": "So?"},
                ],
            ),
        ),
        GEMINI: request_body(
            GEMINI,
            content("user", {"text": "Compare."}),
            content(
                "model",
                {"text": SPOKEN},
                function_call("get_weather", PARIS, thoughtSignature="c2lnbg=="),
                function_call("get_weather", OSLO),
            ),
            content(
                "user",
                {"functionResponse": {"name": "get_weather", "response": {"output": "sunny"}}},
                {"functionResponse": {"name": "get_weather", "response": {"sky": "grey", "wind": [3, 4.0]}}},
                {"text": "So?"},
            ),
        ),
    }
)

ERROR_RESULT = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            turn("user", "Weather?"),
            {**turn("assistant", None), "tool_calls": [chat_call("call_1", "get_weather", PARIS)]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Error: no such city"},
        ),
        RESPONSES: request_body(
            RESPONSES,
            turn("user", "Weather?"),
            call_item("call_1", "get_weather", PARIS),
            {"type": "function_call_output", "call_id": "call_1", "output": "Error: no such city"},
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            turn("user", "Weather?"),
            turn("assistant", [tool_use("toolu_1", "get_weather", PARIS)]),
            turn(
                "user",
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "no such city",
                        "is_error": True,
                    }
                ],
            ),
        ),
        GEMINI: request_body(
            GEMINI,
            content("user", {"text": "Weather?"}),
            content("model", function_call("get_weather", PARIS, "fc1")),
            content(
                "user",
                {
                    "functionResponse": {
                        "id": "fc1",
                        "name": "get_weather",
                        "response": {"error": "no such city"},
                    }
                },
            ),
        ),
    }
)

DATA_URL = f"data:image/png;base64,{PNG}"
IMAGE_RESULT = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            turn("user", "Look."),
            {**turn("assistant", None), "tool_calls": [chat_call("call_1", "screenshot", {})]},
            {"role": "tool", "tool_call_id": "call_1", "content": "See below."},
            turn("user", [{"type": "image_url", "image_url": {"url": DATA_URL}}]),
        ),
        RESPONSES: request_body(
            RESPONSES,
            turn("user", "Look."),
            call_item("call_1", "screenshot", {}),
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [
                    {"type": "input_text", "text": "The screen:"},
                    {"type": "input_image", "image_url": DATA_URL},
                ],
            },
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            turn("user", "Look."),
            turn("assistant", [tool_use("toolu_1", "screenshot", {})]),
            turn(
                "user",
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {"type": "text", "text": "The screen:"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                            },
                        ],
                    }
                ],
            ),
        ),
        GEMINI: request_body(
            GEMINI,
            content("user", {"text": "Look."}),
            content("model", function_call("screenshot", {}, "fc1")),
            content(
                "user",
                {
                    "functionResponse": {
                        "id": "fc1",
                        "name": "screenshot",
                        "response": {"output": "The screen:"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                    }
                },
            ),
        ),
    }
)

THOUGHT, SIGNATURE = "Paris, then.", "c2lnbmF0dXJl+/=="
THINKING: Wire = {"type": "thinking", "thinking": "", "signature": ""}
REASONED: Wire = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": THOUGHT}],
    "encrypted_content": SIGNATURE,
}
DETAILS: Wire = {"type": "reasoning.text", "text": THOUGHT, "signature": SIGNATURE, "format": "x", "index": 0}

# The state goes to the client, and comes back to its maker with the results
REASONING = Scenario(
    requests={
        CHAT: {**ONE_CALL.requests[CHAT], "reasoning_effort": "low", "tool_choice": "auto"},
        RESPONSES: {
            **ONE_CALL.requests[RESPONSES],
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "tool_choice": "auto",
        },
        ANTHROPIC: {
            **ONE_CALL.requests[ANTHROPIC],
            "max_tokens": 5000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "tool_choice": {"type": "auto"},
        },
        GEMINI: {
            **ONE_CALL.requests[GEMINI],
            "generationConfig": {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}},
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        },
    },
    replies={
        CHAT: completion(
            {
                "content": None,
                "reasoning": THOUGHT,
                "reasoning_details": [DETAILS],
                "tool_calls": [chat_call("call_1", "get_weather", PARIS)],
            },
            "tool_calls",
        ),
        RESPONSES: response(REASONED, ONE_ITEM),
        ANTHROPIC: message(
            {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
            {"type": "redacted_thinking", "data": "aGlkZGVu"},
            tool_use("toolu_1", "get_weather", PARIS),
            stop="tool_use",
        ),
        GEMINI: candidate(
            {"text": THOUGHT, "thought": True},
            function_call("get_weather", PARIS, thoughtSignature=SIGNATURE),
        ),
    },
    streams={
        CHAT: chat_stream(
            {"reasoning": THOUGHT, "reasoning_details": [{**DETAILS, "signature": None}]},
            {"reasoning_details": [{**DETAILS, "text": ""}]},
            fragment(0, '{"city":"Paris"}', "call_1", "get_weather"),
            finish="tool_calls",
        ),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item={**REASONED, "summary": []}),
            at(0, "reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta=THOUGHT),
            at(0, "output_item.done", item=REASONED),
            at(1, "output_item.added", item={**ONE_ITEM, "status": "in_progress", "arguments": ""}),
            at(1, "function_call_arguments.delta", item_id="fc_1", delta='{"city":"Paris"}'),
            at(1, "output_item.done", item=ONE_ITEM),
            done=response(REASONED, ONE_ITEM),
        ),
        ANTHROPIC: anthropic_stream(
            *block(
                0,
                THINKING,
                {"type": "thinking_delta", "thinking": THOUGHT},
                {"type": "signature_delta", "signature": SIGNATURE},
            ),
            *block(1, {"type": "redacted_thinking", "data": "aGlkZGVu"}),
            *block(2, tool_use("toolu_1", "get_weather", {}), json_delta('{"city":"Paris"}')),
            stop="tool_use",
        ),
        GEMINI: gemini_stream(
            {"text": THOUGHT, "thought": True},
            function_call("get_weather", PARIS, thoughtSignature=SIGNATURE),
        ),
    },
    again=True,
)

MOOD: Wire = {
    "type": "object",
    "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
STRUCTURED_OUTPUT = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "mood", "schema": MOOD, "strict": True},
            },
        ),
        RESPONSES: request_body(
            RESPONSES,
            text={"format": {"type": "json_schema", "name": "mood", "schema": MOOD, "strict": True}},
            store=False,
        ),
        ANTHROPIC: request_body(ANTHROPIC, output_config={"format": {"type": "json_schema", "schema": MOOD}}),
        GEMINI: request_body(
            GEMINI,
            generationConfig={"responseMimeType": "application/json", "responseJsonSchema": MOOD},
        ),
    },
    replies={
        CHAT: completion({"content": '{"mood":"good"}'}, "stop"),
        RESPONSES: response(message_item(output_text('{"mood":"good"}'))),
        ANTHROPIC: message({"type": "text", "text": '{"mood":"good"}'}),
        GEMINI: candidate({"text": '{"mood":"good"}'}),
    },
)

FOUND = "It rains in Oslo."
SOURCE = {"url": "https://a.test/oslo", "title": "Oslo"}
SEARCHED: Wire = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "oslo weather"},
}
HOSTED_TOOL = Scenario(
    requests={
        CHAT: request_body(
            CHAT,
            web_search_options={
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"country": "NO", "city": "Oslo"}},
            },
            model="gpt-4o-search-preview",
        ),
        RESPONSES: request_body(
            RESPONSES,
            tools=[
                {
                    "type": "web_search",
                    "filters": {"allowed_domains": ["a.test"]},
                    "user_location": {"type": "approximate", "country": "NO", "city": "Oslo"},
                    "search_context_size": "low",
                },
                {"type": "local_shell"},
            ],
            store=False,
        ),
        ANTHROPIC: request_body(
            ANTHROPIC,
            tools=[
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "max_uses": 3,
                    "allowed_domains": ["a.test"],
                    "user_location": {"type": "approximate", "country": "NO", "city": "Oslo"},
                },
                {"type": "bash_20250124", "name": "bash"},
            ],
        ),
        GEMINI: request_body(GEMINI, tools=[{"googleSearch": {}}, {"urlContext": {}}]),
    },
    replies={
        CHAT: completion(
            {
                "content": FOUND,
                "annotations": [
                    {"type": "url_citation", "url_citation": {**SOURCE, "start_index": 3, "end_index": 8}}
                ],
            },
            "stop",
        ),
        RESPONSES: response(
            SEARCHED,
            message_item(
                output_text(FOUND, {"type": "url_citation", **SOURCE, "start_index": 3, "end_index": 8})
            ),
        ),
        ANTHROPIC: message(
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "oslo weather"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {"type": "web_search_result", **SOURCE, "encrypted_content": "ZW5j", "page_age": None}
                ],
            },
            {
                "type": "text",
                "text": FOUND,
                "citations": [
                    {
                        "type": "web_search_result_location",
                        **SOURCE,
                        "encrypted_index": "aWR4",
                        "cited_text": "Rain in Oslo",
                    }
                ],
            },
        ),
        GEMINI: candidate(
            {"text": FOUND},
            groundingMetadata={
                "webSearchQueries": ["oslo weather"],
                "groundingChunks": [{"web": {"uri": SOURCE["url"], "title": SOURCE["title"]}}],
                "groundingSupports": [
                    {
                        "segment": {"startIndex": 3, "endIndex": 8, "text": "rains"},
                        "groundingChunkIndices": [0],
                    }
                ],
            },
        ),
    },
)

NO = "I cannot help with that."
REFUSED = message_item({"type": "refusal", "refusal": NO})
REFUSAL = Scenario(
    replies={
        CHAT: completion({"content": None, "refusal": NO}, "stop"),
        RESPONSES: response(REFUSED),
        ANTHROPIC: message({"type": "text", "text": NO}, stop="refusal"),
        GEMINI: candidate(finish="SAFETY"),
    },
    streams={
        CHAT: chat_stream({"refusal": "I cannot"}, {"refusal": " help with that."}),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item=message_item()),
            at(0, "refusal.delta", item_id="msg_1", content_index=0, delta=NO),
            at(0, "refusal.done", item_id="msg_1", content_index=0, refusal=NO),
            at(0, "output_item.done", item=REFUSED),
            done=response(REFUSED),
        ),
        ANTHROPIC: anthropic_stream(*block(0, TEXT_BLOCK, text_delta(NO)), stop="refusal"),
        GEMINI: gemini_stream({"text": "I"}, finish="SAFETY"),
    },
)

CUT = call_item("call_1", "get_weather", {}, id="fc_1", status="incomplete") | {"arguments": '{"city":"Pa'}
UNFINISHED = response(
    message_item(output_text(SPOKEN)),
    CUT,
    status="incomplete",
    incomplete_details={"reason": "max_output_tokens"},
)
# Out of tokens inside a call. Gemini's calls come whole, so it stops inside its text
TRUNCATION = Scenario(
    replies={
        CHAT: completion(
            {
                "content": SPOKEN,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Pa'},
                    }
                ],
            },
            "length",
        ),
        RESPONSES: UNFINISHED,
        ANTHROPIC: message(
            {"type": "text", "text": SPOKEN}, tool_use("toolu_1", "get_weather", {}), stop="max_tokens"
        ),
        GEMINI: candidate({"text": "Let me"}, finish="MAX_TOKENS"),
    },
    streams={
        CHAT: chat_stream(
            {"content": SPOKEN}, fragment(0, '{"city":"Pa', "call_1", "get_weather"), finish="length"
        ),
        RESPONSES: responses_stream(
            at(0, "output_item.added", item=message_item()),
            at(0, "output_text.delta", item_id="msg_1", content_index=0, delta=SPOKEN),
            at(0, "output_item.done", item=message_item(output_text(SPOKEN))),
            at(1, "output_item.added", item={**CUT, "status": "in_progress", "arguments": ""}),
            at(1, "function_call_arguments.delta", item_id="fc_1", delta='{"city":"Pa'),
            at(1, "output_item.done", item=CUT),
            done=UNFINISHED,
        ),
        ANTHROPIC: anthropic_stream(
            *block(0, TEXT_BLOCK, text_delta(SPOKEN)),
            *block(1, tool_use("toolu_1", "get_weather", {}), json_delta('{"city":"Pa')),
            stop="max_tokens",
        ),
        GEMINI: gemini_stream({"text": "Let"}, {"text": " me"}, finish="MAX_TOKENS"),
    },
)

_FOUR: dict[str, Scenario] = {
    "text": TEXT,
    "one_call": ONE_CALL,
    "parallel_calls": PARALLEL_CALLS,
    "results": RESULTS,
    "error_result": ERROR_RESULT,
    "image_result": IMAGE_RESULT,
    "reasoning": REASONING,
    "structured_output": STRUCTURED_OUTPUT,
    "hosted_tool": HOSTED_TOOL,
    "refusal": REFUSAL,
    "truncation": TRUNCATION,
    "broken_stream": Scenario(
        streams={protocol: stream[: len(stream) // 2] for protocol, stream in ONE_CALL.streams.items()}
    ),
}


def _of(made: dict[str, dict[str, Any]], scenario: str) -> dict[str, Any]:
    return {protocol: rows[scenario] for protocol, rows in made.items() if scenario in rows}


def _with_broken(streams: dict[str, bytes]) -> dict[str, bytes]:
    cut = streams["one_call"]
    return {**streams, "broken_stream": cut[: len(cut) // 2]}


_REQUESTS: dict[str, dict[str, Any]] = {INTERACTIONS: interactions.REQUESTS}
_REPLIES: dict[str, dict[str, Any]] = {INTERACTIONS: interactions.REPLIES, CONVERSE: converse.REPLIES}
_STREAMS: dict[str, dict[str, Any]] = {
    INTERACTIONS: _with_broken(interactions.STREAMS),
    CONVERSE: _with_broken(converse.STREAMS),
}
SCENARIOS = {
    name: replace(
        scenario,
        requests={**scenario.requests, **_of(_REQUESTS, name)},
        replies={**scenario.replies, **_of(_REPLIES, name)},
        streams={**scenario.streams, **_of(_STREAMS, name)},
    )
    for name, scenario in _FOUR.items()
}
