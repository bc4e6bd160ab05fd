"""Several turns: the upstream gets its own turns back, in its order, however little a Chat client echoes.

Most Chat clients send back the text and the calls of a message and nothing else, so all state comes in ids.
"""

from __future__ import annotations

from typing import Any

import pytest

import dragoman

Wire = dict[str, Any]

ANTHROPIC = [
    {"type": "thinking", "thinking": "hm", "signature": "EqoB+/sig=="},
    {"type": "redacted_thinking", "data": "REDACTED+/=="},
    {"type": "text", "text": "Let me look."},
    {"type": "tool_use", "id": "toolu_A", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "toolu_B", "name": "f", "input": {}},
]
INTERLEAVED = [ANTHROPIC[2], ANTHROPIC[0], ANTHROPIC[3]]
RESPONSES = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA-_1==",
    },
    {"type": "message", "role": "assistant", "content": "Let me look."},
    {"type": "function_call", "call_id": "call_A", "name": "f", "arguments": '{"a":1}'},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA-_2=="},
    {"type": "function_call", "call_id": "call_B", "name": "f", "arguments": "{}"},
]
GEMINI = [
    {"text": "Let me look.", "thoughtSignature": "VEVYVA=="},
    {"functionCall": {"id": "A", "name": "f", "args": {"a": 1}}, "thoughtSignature": "Q0FMTA=="},
    {"functionCall": {"id": "B", "name": "f", "args": {}}},
]


def anthropic(content: list[Wire]) -> Wire:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": content, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}


def responses(output: list[Wire]) -> Wire:
    texts = {"id": "msg_1", "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]}
    output = [item | texts if item["type"] == "message" else item for item in output]
    return {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output}


def gemini(parts: list[Wire]) -> Wire:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


# name: (upstream, its reply, its turn as it comes back)
CASES = {
    "anthropic": ("anthropic", anthropic(ANTHROPIC), ANTHROPIC),
    "anthropic, thinking after the text": ("anthropic", anthropic(INTERLEAVED), INTERLEAVED),
    "openai-responses": ("openai-responses", responses(RESPONSES), RESPONSES),
    "gemini": ("gemini", gemini(GEMINI), GEMINI),
}
PLAIN = {"role", "content", "tool_calls"}
ECHOED = {
    "all": PLAIN | {"reasoning_content", "reasoning_details"},
    "thoughts": PLAIN | {"reasoning_content"},
    "plain": PLAIN,
}


def sent_turn(upstream: str, body: Wire) -> list[Wire]:
    if upstream == "anthropic":
        return body["messages"][1]["content"]
    if upstream == "gemini":
        return body["contents"][1]["parts"]
    return [item for item in body["input"][1:] if not item["type"].endswith("output")]


@pytest.mark.parametrize("origin", ["", "an account"])
@pytest.mark.parametrize("keys", ECHOED.values(), ids=ECHOED)
@pytest.mark.parametrize("upstream, reply, texts", CASES.values(), ids=CASES)
def test_the_upstream_gets_its_own_turn_back(
    upstream: str, reply: Wire, texts: list[Wire], keys: set[str], origin: str
) -> None:
    request_in: Wire = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
    first = dragoman.Exchange("openai-chat", upstream, origin=origin)
    first.request(request_in)
    message = first.response(reply)["choices"][0]["message"]
    echoed = {key: value for key, value in message.items() if key in keys}
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in message["tool_calls"]]
    again = {**request_in, "messages": [*request_in["messages"], echoed, *results]}
    second = dragoman.Exchange("openai-chat", upstream, origin=origin)
    assert sent_turn(upstream, second.request(again)) == texts
    assert [loss for loss in second.losses if loss.code != "tool.declaration.invented"] == []


@pytest.mark.parametrize("keeps_thoughts", [True, False])
@pytest.mark.parametrize("case", [name for name in CASES if name != "gemini"])
def test_the_upstream_gets_its_own_turn_back_from_a_gemini_client(case: str, keeps_thoughts: bool) -> None:
    """Gemini CLI takes thoughts out of its history."""
    upstream, reply, texts = CASES[case]
    request_in: Wire = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    first = dragoman.Exchange("gemini", upstream)
    first.request(request_in, model="m")
    content = first.response(reply)["candidates"][0]["content"]
    parts = [part for part in content["parts"] if keeps_thoughts or not part.get("thought")]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [
        {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "ok"}}}
        for call in calls
    ]
    turns = [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]
    second = dragoman.Exchange("gemini", upstream)
    again = {"contents": [*request_in["contents"], *turns], "generationConfig": {"maxOutputTokens": 10}}
    assert sent_turn(upstream, second.request(again, model="m")) == texts
    assert [loss for loss in second.losses if loss.code != "tool.declaration.invented"] == []


@pytest.mark.parametrize("upstream, reply, texts", CASES.values(), ids=CASES)
def test_nobody_else_hears_its_state(upstream: str, reply: Wire, texts: list[Wire]) -> None:
    message = dragoman.Exchange("openai-chat", upstream).response(reply)["choices"][0]["message"]
    body = {"model": "m", "messages": [{key: message[key] for key in PLAIN}]}
    for other in set(dragoman.protocols()) - {upstream}:
        exchange = dragoman.Exchange("openai-chat", other)
        sent = str(exchange.request(body))
        secrets = ("EqoB", "REDACTED", "gAAA", "VEVYVA", "Q0FMTA", "ZHJhZ29t")
        assert not [secret for secret in secrets if secret in sent]
        assert [loss for loss in exchange.losses if upstream in loss.why]


# The same protocol on both sides, where the body must be taken apart nevertheless


def nested(namespace: str, kind: str) -> Wire:
    schema = {"type": "object", "properties": {"n": {"type": kind}}}
    tools = [{"type": "function", "name": "read", "parameters": schema}]
    return {"type": "namespace", "name": namespace, "description": namespace, "tools": tools}


def test_the_same_name_in_two_namespaces_is_two_tools() -> None:
    body: Wire = {
        "model": "m",
        "input": [{"role": "user", "content": "Hi"}],
        "tools": [nested("a", "integer"), nested("b", "string")],
    }
    exchange = dragoman.Exchange("openai-responses", "openai-responses", recover=True)
    assert exchange.request(body)["tools"] == body["tools"]
    for namespace, expected in {"a": '{"n":5}', "b": '{"n":"5"}'}.items():
        call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"n":"5"}'}
        (item,) = exchange.response(responses([{**call, "namespace": namespace}]))["output"]
        assert (item["namespace"], item["arguments"]) == (namespace, expected)


def test_what_comes_back_in_extras_is_not_lost() -> None:
    body: Wire = {
        "model": "m",
        "max_tokens": 9,
        "context_management": {"edits": []},
        "messages": [{"role": "user", "content": "Hi"}],
    }
    exchange = dragoman.Exchange("anthropic", "anthropic", recover=True)
    assert exchange.request(body) == body
    assert exchange.losses == []


def test_the_output_of_a_local_shell_keeps_both_its_ids() -> None:
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {"type": "local_shell_call", "id": "ls_1", "call_id": "c", "status": "completed", "action": action}
    output = {"type": "local_shell_call_output", "id": "lo_1", "call_id": "c", "output": "{}"}
    exchange = dragoman.Exchange("openai-responses", "openai-responses", recover=True)
    assert exchange.request({"model": "m", "input": [call, output]})["input"] == [call, output]
