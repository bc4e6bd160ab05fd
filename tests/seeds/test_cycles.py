"""Seed 000: request, call, result, answer; from any client to any upstream, whole and streamed.

The seed shows the four steps of three clients, each with tools of its own; Chat's are written here. A cycle
takes the client's wire from its own example. The upstream answers as its example does, but for the client's
tools: with ids of its own, which must come back to it unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy

import pytest

import dragoman
from seeds.examples import CYCLES, MODELS, Wire
from seeds.wires import (
    PAIRS,
    PROTOCOLS,
    Call,
    dumps,
    gathered,
    named_sse,
    read_calls,
    read_text,
    rows,
    streamed_reply,
    whole_reply,
)

STEPS = ("request", "call", "submission", "answer")


def chat_cycle(user: str, tool: Wire, id: str, arguments: Wire, output: str, answer: str) -> Wire:
    """The steps as a Chat client takes them."""
    function = {"name": tool["name"], "arguments": dumps(arguments)}
    call = {"role": "assistant", "content": None}
    call["tool_calls"] = [{"id": id, "type": "function", "function": function}]
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": user}]}
    request["tools"] = [{"type": "function", "function": tool}]
    result = {"role": "tool", "tool_call_id": id, "content": output}
    return {
        "request": request,
        "call": {"choices": [{"index": 0, "message": call, "finish_reason": "tool_calls"}]},
        "submission": {**request, "messages": [*request["messages"], call, result]},
        "answer": {"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]},
    }


def with_string(name: str) -> Wire:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


CHAT: dict[str, Wire] = {
    "shell": chat_cycle(
        "Please list the files in the current directory.",
        {"name": "shell", "description": "Runs a shell command.", "parameters": with_string("command")},
        "call_12345",
        {"command": "ls -F"},
        "README.md\nsrc/\npackage.json\n",
        "README.md, src/ and package.json.",
    ),
    "read_file": chat_cycle(
        "What is in the README?",
        {"name": "read_file", "description": "Reads a file.", "parameters": with_string("path")},
        "call_67890",
        {"path": "/path/to/README.md"},
        "# Project Title\nThis is a sample project.",
        "A title and a description.",
    ),
}
EXAMPLES: dict[str, dict[str, Wire]] = {
    name: {"openai-chat": CHAT[name], **deepcopy(CYCLES[name])} for name in ("shell", "read_file")
}
TURNS = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}
# Ids as each upstream of the seed makes them
IDS = {
    "openai-chat": "call_12345",
    "openai-responses": "call_12345",
    "anthropic": "tool-use-12345",
    "gemini": "fc-12345",
}


# The seed's wires, read by hand


def text_of(protocol: str, step: Wire) -> str:
    """The text of a model's step."""
    match protocol:
        case "openai-responses":
            item = step["item"]
            return "".join(p["text"] for p in item["content"]) if item["type"] == "message" else ""
        case "gemini":
            return "".join(p.get("text", "") for p in step["candidates"][0]["content"]["parts"])
        case "anthropic":
            return "".join(block.get("text", "") for block in step["content"])
        case _:
            return step["choices"][0]["message"]["content"] or ""


def called(protocol: str, step: Wire) -> Call:
    if protocol == "openai-responses":
        item = step["item"]
        return Call(item["call_id"], item["name"], json.loads(item["arguments"]))
    (call,) = read_calls(protocol, step)
    return call


def output(protocol: str, submission: Wire) -> str:
    """The text of the result that the client submits."""
    last = submission[TURNS[protocol]][-1]
    match protocol:
        case "openai-chat":
            return last["content"]
        case "openai-responses":
            return last["output"]
        case "anthropic":
            return last["content"][0]["content"]
        case _:
            return last["parts"][0]["functionResponse"]["response"]["output"]


def resubmitted(protocol: str, submission: Wire, id: str) -> Wire:
    """The client's submission with the id that it was given."""
    body = deepcopy(submission)
    call, result = body[TURNS[protocol]][-2:]
    match protocol:
        case "openai-chat":
            call["tool_calls"][0]["id"] = result["tool_call_id"] = id
        case "openai-responses":
            call["call_id"] = result["call_id"] = id
        case "anthropic":
            call["content"][-1]["id"] = result["content"][0]["tool_use_id"] = id
        case _:
            call["parts"][0]["functionCall"]["id"] = result["parts"][0]["functionResponse"]["id"] = id
    return body


def expected_turns(protocol: str, text: str, call: Call, result: object) -> list[Wire]:
    """The call and its result as the upstream's example has them."""
    match protocol:
        case "openai-chat":
            function = {"name": call.name, "arguments": dumps(call.arguments)}
            message = {"role": "assistant", "content": text or None}
            message["tool_calls"] = [{"id": call.id, "type": "function", "function": function}]
            return [message, {"role": "tool", "tool_call_id": call.id, "content": result}]
        case "openai-responses":
            item = {"type": "function_call", "call_id": call.id, "name": call.name}
            spoken = [{"type": "message", "role": "assistant", "content": text}] * bool(text)
            done = {"type": "function_call_output", "call_id": call.id, "output": result}
            return [*spoken, {**item, "arguments": dumps(call.arguments)}, done]
        case "anthropic":
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            blocks = [{"type": "text", "text": text}] * bool(text) + [block]
            answer = {"type": "tool_result", "tool_use_id": call.id, "content": result}
            return [{"role": "assistant", "content": blocks}, {"role": "user", "content": [answer]}]
        case _:
            part = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
            response = {"output": result}
            if isinstance(result, str) and result.startswith("{"):  # JSON goes as JSON
                value = json.loads(result)
                response = value if set(value) == {"output"} else {"output": value}
            done = {"functionResponse": {"id": call.id, "name": call.name, "response": response}}
            spoken = [{"text": text}] * bool(text)
            return [{"role": "model", "parts": [*spoken, part]}, {"role": "user", "parts": [done]}]


def normal(protocol: str, turns: list[Wire]) -> list[Wire]:
    """Arguments compared as values: each client spaces its JSON in its own way."""
    turns = deepcopy(turns)
    for turn in turns:
        if protocol == "openai-chat" and turn.get("tool_calls"):
            function = turn["tool_calls"][0]["function"]
            function["arguments"] = json.loads(function["arguments"])
        elif protocol == "openai-responses" and turn.get("type") == "function_call":
            turn["arguments"] = json.loads(turn["arguments"])
    return turns


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@rows("client, upstream, tool", PAIRS, EXAMPLES)
def test_the_four_steps(client: str, upstream: str, tool: str, streamed: bool) -> None:
    steps = EXAMPLES[tool][client]
    calls, wanted = called(client, steps["call"]), text_of(client, steps["call"])

    # 1. the user asks
    exchange = dragoman.Exchange(client, upstream)
    sent = exchange.request(steps["request"], model=MODELS[upstream], stream=streamed)
    assert calls.name in dumps(sent["tools"])

    # 2. the model calls
    made = Call(IDS[upstream], calls.name, calls.arguments)
    (got,) = read_calls(client, replied(exchange, client, upstream, streamed, wanted, [made]))
    assert (got.name, got.arguments) == (calls.name, calls.arguments)

    # 3. the client submits the result under the id it was given; the upstream gets its own id back
    exchange = dragoman.Exchange(client, upstream)
    body = resubmitted(client, steps["submission"], got.id)
    submitted = exchange.request(body, model=MODELS[upstream], stream=streamed)
    expected = expected_turns(upstream, wanted, made, output(client, steps["submission"]))
    turns = submitted[TURNS[upstream]]
    assert normal(upstream, turns[-len(expected) :]) == normal(upstream, expected)

    # 4. the model answers
    answer = text_of(client, steps["answer"])
    assert read_text(client, replied(exchange, client, upstream, streamed, answer)) == answer


def replied(
    exchange: dragoman.Exchange,
    client: str,
    upstream: str,
    streamed: bool,
    text: str,
    calls: Iterable[Call] = (),
) -> Wire:
    """The upstream's reply as the client puts it together."""
    if not streamed:
        return exchange.response(whole_reply(upstream, text, calls))
    stream = exchange.stream()
    return gathered(client, stream.feed(streamed_reply(upstream, text, calls)) + stream.close())


@rows("tool, protocol, step", EXAMPLES, PROTOCOLS, ("request", "submission"))
def test_within_a_protocol_the_seeds_requests_pass_unchanged(tool: str, protocol: str, step: str) -> None:
    body = EXAMPLES[tool][protocol][step]
    assert dragoman.Exchange(protocol, protocol).request(body, model=MODELS[protocol]) == {
        **body,
        **({} if protocol == "gemini" else {"model": MODELS[protocol]}),
    }


# The model's steps as the seed writes them: short of everything that a real server says beside


@rows("tool, client, upstream", EXAMPLES, [pair for pair in PAIRS if pair[1] != "openai-responses"])
def test_the_seeds_replies_are_read_as_they_stand(tool: str, client: str, upstream: str) -> None:
    steps = EXAMPLES[tool][upstream]
    exchange = dragoman.Exchange(client, upstream)
    (got,) = read_calls(client, exchange.response(steps["call"]))
    calls = called(upstream, steps["call"])
    assert (got.name, got.arguments) == (calls.name, calls.arguments)
    assert read_text(client, exchange.response(steps["call"])) == text_of(upstream, steps["call"])
    assert read_text(client, exchange.response(steps["answer"])) == text_of(upstream, steps["answer"])


@rows("tool, client", EXAMPLES, [name for name in PROTOCOLS if name != "openai-responses"])
def test_the_seeds_stream_events_are_read_as_they_stand(tool: str, client: str) -> None:
    """Codex shows the event that ends an item, and nothing around it."""
    steps = EXAMPLES[tool]["openai-responses"]
    end = {"type": "response.completed", "response": {"status": "completed"}}
    stream = dragoman.Exchange(client, "openai-responses").stream()
    (got,) = read_calls(client, gathered(client, stream.feed(named_sse(steps["call"], end)) + stream.close()))
    calls = called("openai-responses", steps["call"])
    assert (got.name, got.arguments) == (calls.name, calls.arguments)
    stream = dragoman.Exchange(client, "openai-responses").stream()
    data = stream.feed(named_sse(steps["answer"], end)) + stream.close()
    assert read_text(client, gathered(client, data)) == text_of("openai-responses", steps["answer"])


@pytest.mark.parametrize("upstream", [name for name in PROTOCOLS if name != "openai-responses"])
def test_codex_gets_the_event_that_the_seed_shows(upstream: str) -> None:
    """The finished item, with the id and the status that a real one has."""
    expected = EXAMPLES["shell"]["openai-responses"]["call"]
    call = called("openai-responses", expected)
    stream = dragoman.Exchange("openai-responses", upstream).stream()
    data = stream.feed(streamed_reply(upstream, "", [call])) + stream.close()
    events = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]
    (done,) = [event for event in events if event["type"] == "response.output_item.done"]
    item = done["item"]
    assert item["id"].startswith("fc_")
    assert item["status"] == "completed"
    shown = {key: item[key] for key in expected["item"]}
    assert normal("openai-responses", [shown]) == normal("openai-responses", [expected["item"]])
