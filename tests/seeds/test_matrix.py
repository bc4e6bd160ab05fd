"""Seed 001: six tools in four protocols, each conversation translated into each of the others."""

from __future__ import annotations

from typing import Any

import pytest

import dragoman
from seeds import examples
from seeds.examples import MODELS, TOOLS, Wire
from seeds.wires import (
    ALL_PAIRS,
    PAIRS,
    PROTOCOLS,
    Call,
    gathered,
    read_calls,
    rows,
    streamed_reply,
    unstrict,
    whole_reply,
)

every_tool_and_pair = rows("name, source, target", TOOLS, PAIRS)
every_pair = rows("source, target", PAIRS)

TURNS = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}


def bare(protocol: str, turns: Any) -> Any:
    """The turns without what the seed leaves unsaid: Responses' messages may name their type."""
    if protocol != "openai-responses":
        return turns
    return [{k: v for k, v in item.items() if (k, v) != ("type", "message")} for item in turns]


@every_tool_and_pair
def test_a_conversation_becomes_what_the_seed_shows(name: str, source: str, target: str) -> None:
    exchange = dragoman.Exchange(source, target)
    out = exchange.request(examples.request(source, name), model=MODELS[target])
    text, id = examples.seed_text(source, name), examples.seed_id(source, name)
    expected = examples.request(target, name, text, id)
    field = TURNS[target]
    assert bare(target, out[field]) == expected[field]
    assert unstrict(out["tools"]) == expected["tools"]
    assert [loss for loss in exchange.losses if loss.kind != "invented"] == []


@rows("name, protocol", TOOLS, PROTOCOLS)
def test_a_conversation_stays_as_it_is_within_its_protocol(name: str, protocol: str) -> None:
    body = examples.request(protocol, name)
    assert dragoman.Exchange(protocol, protocol).request(body) == body


@rows("name, source, target", TOOLS, ALL_PAIRS)
def test_declarations_alone(name: str, source: str, target: str) -> None:
    translated = dragoman.translate_tools(examples.declaration(source, name), source, target)
    assert unstrict(translated) == examples.declaration(target, name)


@pytest.mark.parametrize("target", PROTOCOLS)
def test_a_declaration_with_strict_null(target: str) -> None:
    (tool,) = examples.declaration("openai-responses", "run_shell_command")
    translated = dragoman.translate_tools([{**tool, "strict": None}], "openai-responses", target)
    expected = examples.declaration(target, "run_shell_command")
    assert [without_null_strict(tool) for tool in translated] == expected


def without_null_strict(tool: Wire) -> Wire:
    return {key: value for key, value in tool.items() if key != "strict" or value}


@pytest.mark.parametrize("target", [name for name in PROTOCOLS if name != "gemini"])
def test_a_gemini_request_in_the_form_of_its_sdk(target: str) -> None:
    """The seed writes tools and system instruction inside `config`, as the JavaScript SDK takes them."""
    body = examples.request("gemini", "run_shell_command")
    body["config"] = {"tools": body.pop("tools"), "systemInstruction": "Be brief."}
    out = dragoman.Exchange("gemini", target).request(body, model=MODELS[target])
    assert unstrict(out["tools"]) == examples.declaration(target, "run_shell_command")
    assert system_text(target, out) == "Be brief."


def system_text(protocol: str, body: Wire) -> str:
    match protocol:
        case "openai-chat":
            assert body["messages"][0]["role"] == "system"
            return body["messages"][0]["content"]
        case "openai-responses":
            return body["instructions"]
        case "anthropic":
            return body["system"]
        case _:
            (part,) = body["systemInstruction"]["parts"]
            return part["text"]


SYSTEM: dict[str, Wire] = {
    "openai-chat": {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    },
    "openai-responses": {"instructions": "Be brief.", "input": [{"role": "user", "content": "Hi"}]},
    "anthropic": {
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 9,
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    },
}


@every_pair
def test_at_a_glance_where_system_text_and_turns_stand(source: str, target: str) -> None:
    body = {"model": "m", **SYSTEM[source]} if source != "gemini" else SYSTEM[source]
    out = dragoman.Exchange(source, target).request(body, model="m")
    assert system_text(target, out) == "Be brief."
    assert TURNS[target] in out
    assert not ({*TURNS.values()} - {TURNS[target]}) & out.keys()


# Identifier mapping: the field of the call, the field of the result, and where the result is placed


def call_id(protocol: str, body: Wire) -> str:
    match protocol:
        case "anthropic":
            return body["messages"][1]["content"][-1]["id"]
        case "openai-responses":
            (item,) = [item for item in body["input"] if item.get("type") == "function_call"]
            return item["call_id"]
        case "openai-chat":
            return body["messages"][1]["tool_calls"][0]["id"]
        case _:
            return body["contents"][1]["parts"][-1]["functionCall"]["id"]


def result_id(protocol: str, body: Wire) -> str:
    """From the place that the seed's table names: the last turn, which holds nothing else."""
    match protocol:
        case "anthropic":
            last = body["messages"][-1]
            assert last["role"] == "user"
            (block,) = last["content"]
            assert block["type"] == "tool_result"
            return block["tool_use_id"]
        case "openai-responses":
            assert body["input"][-1]["type"] == "function_call_output"
            return body["input"][-1]["call_id"]
        case "openai-chat":
            assert body["messages"][-1]["role"] == "tool"
            return body["messages"][-1]["tool_call_id"]
        case _:
            last = body["contents"][-1]
            assert last["role"] == "user"
            (part,) = last["parts"]
            return part["functionResponse"]["id"]


@every_tool_and_pair
def test_identifiers(name: str, source: str, target: str) -> None:
    out = dragoman.Exchange(source, target).request(examples.request(source, name), model=MODELS[target])
    assert call_id(target, out) == result_id(target, out) == examples.seed_id(source, name)


# Replies: the model of one protocol calls, the client of another executes


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@every_tool_and_pair
def test_a_call_reaches_its_client_and_its_result_comes_back(
    name: str, source: str, target: str, streamed: bool
) -> None:
    """`source` is the client here, `target` its upstream."""
    call = Call("call_9", name, examples.arguments(name))
    exchange = dragoman.Exchange(source, target)
    first = examples.request(source, name)
    first[TURNS[source]] = first[TURNS[source]][:1]
    exchange.request(first, model=MODELS[target])
    if streamed:
        stream = exchange.stream()
        data = stream.feed(streamed_reply(target, "", [call])) + stream.close()
        (got,) = read_calls(source, gathered(source, data))
    else:
        (got,) = read_calls(source, exchange.response(whole_reply(target, "", [call])))
    assert (got.name, got.arguments) == (name, examples.arguments(name))
    again = dragoman.Exchange(source, target)
    out = again.request(examples.request(source, name, "", got.id), model=MODELS[target])
    assert call_id(target, out) == result_id(target, out) == "call_9"
    assert bare(target, out[TURNS[target]]) == examples.request(target, name, "", "call_9")[TURNS[target]]
