"""G37-G68: messages, the pairing of calls and results, ids, and arguments."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import dragoman
from gotchas.exchanges import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    others,
    reply,
    request_body,
    sent,
    tools,
    translated,
)
from seeds.wires import (
    PAIRS,
    PROTOCOLS,
    Call,
    Wire,
    chunk,
    dumps,
    fragment,
    gathered,
    read_calls,
    rows,
    sse,
    streamed_reply,
    whole_reply,
)

every_pair = rows("client, upstream", PAIRS)


# Conversations, one protocol each


def user(protocol: str, text: str) -> Wire:
    return (
        {"role": "user", "parts": [{"text": text}]}
        if protocol == GEMINI
        else {"role": "user", "content": text}
    )


def calls(protocol: str, *made: Call, text: str = "") -> list[Wire]:
    """A turn of the model."""
    match protocol:
        case "openai-chat":
            listed = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": dumps(c.arguments)},
                }
                for c in made
            ]
            return [{"role": "assistant", "content": text or None, "tool_calls": listed}]
        case "openai-responses":
            spoken = [{"role": "assistant", "content": text}] if text else []
            return [
                *spoken,
                *(
                    {
                        "type": "function_call",
                        "call_id": c.id,
                        "name": c.name,
                        "arguments": dumps(c.arguments),
                    }
                    for c in made
                ),
            ]
        case "anthropic":
            blocks = [{"type": "text", "text": text}] if text else []
            blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in made]
            return [{"role": "assistant", "content": blocks}]
        case _:
            parts: list[Wire] = [{"text": text}] if text else []
            parts += [
                {"functionCall": ({"id": c.id} if c.id else {}) | {"name": c.name, "args": c.arguments}}
                for c in made
            ]
            return [{"role": "model", "parts": parts}]


def result(protocol: str, id: str, text: str, name: str = "f") -> Wire:
    match protocol:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": id, "content": text}
        case "openai-responses":
            return {"type": "function_call_output", "call_id": id, "output": text}
        case "anthropic":
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}
        case _:
            answer = ({"id": id} if id else {}) | {"name": name, "response": {"output": text}}
            return {"role": "user", "parts": [{"functionResponse": answer}]}


# ... and what a server reads in one: (who, what) in order


def read(protocol: str, body: Wire) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    match protocol:
        case "openai-chat":
            for turn in body["messages"]:
                if turn["role"] == "tool":
                    found.append(("result", (turn["tool_call_id"], turn["content"])))
                    continue
                if turn.get("content"):
                    found.append((turn["role"], turn["content"]))
                found += [("call", (c["id"], c["function"]["name"])) for c in turn.get("tool_calls") or ()]
        case "openai-responses":
            for entry in body["input"]:
                match entry.get("type", "message"):
                    case "function_call":
                        found.append(("call", (entry["call_id"], entry["name"])))
                    case "function_call_output":
                        found.append(("result", (entry["call_id"], entry["output"])))
                    case _:
                        found.append((entry["role"], entry["content"]))
        case "anthropic":
            for turn in body["messages"]:
                blocks = turn["content"]
                for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
                    match block["type"]:
                        case "tool_use":
                            found.append(("call", (block["id"], block["name"])))
                        case "tool_result":
                            found.append(("result", (block["tool_use_id"], block["content"])))
                        case _:
                            found.append((turn["role"], block["text"]))
        case _:
            for turn in body["contents"]:
                for part in turn["parts"]:
                    if "functionCall" in part:
                        found.append(("call", (part["functionCall"]["id"], part["functionCall"]["name"])))
                    elif "functionResponse" in part:
                        answer = part["functionResponse"]
                        output = answer["response"].get("output")
                        found.append(("result", (answer["id"], output)))
                    else:
                        found.append(("assistant" if turn["role"] == "model" else "user", part["text"]))
    return found


A, B = Call("call_a", "f", {}), Call("call_b", "f", {})
PAIRED = [
    ("user", "Go"),
    ("call", ("call_a", "f")),
    ("call", ("call_b", "f")),
    ("result", ("call_a", "one")),
    ("result", ("call_b", "two")),
]


@every_pair
def test_G37_results_in_messages_of_their_own(client: str, upstream: str) -> None:
    turns = [
        user(client, "Go"),
        *calls(client, A, B),
        result(client, "call_a", "one"),
        result(client, "call_b", "two"),
    ]
    out = sent(client, upstream, request_body(client, *turns))
    assert read(upstream, out) == PAIRED
    if upstream == ANTHROPIC:
        (last,) = out["messages"][2:]
        assert [block["type"] for block in last["content"]] == ["tool_result", "tool_result"]


@every_pair
def test_G37_text_between_the_results(client: str, upstream: str) -> None:
    turns = [
        user(client, "Go"),
        *calls(client, A, B),
        result(client, "call_a", "one"),
        user(client, "Hurry."),
        result(client, "call_b", "two"),
    ]
    out = sent(client, upstream, request_body(client, *turns))
    assert read(upstream, out) == [*PAIRED, ("user", "Hurry.")]


@every_pair
def test_G38_a_call_without_a_result(client: str, upstream: str) -> None:
    turns = [user(client, "Go"), *calls(client, A, B), result(client, "call_b", "two"), user(client, "Well?")]
    out, losses = translated(client, upstream, request_body(client, *turns))
    seen = read(upstream, out)
    assert [who for who, _ in seen] == ["user", "call", "call", "result", "result", "user"]
    assert seen[3][1][0] == "call_a"
    assert seen[4] == ("result", ("call_b", "two"))
    assert any("no result" in loss for loss in losses)


@every_pair
def test_G38_a_result_without_a_call(client: str, upstream: str) -> None:
    turns = [user(client, "Go"), result(client, "call_z", "lost"), user(client, "Well?")]
    out, losses = translated(client, upstream, request_body(client, *turns))
    seen = read(upstream, out)
    assert {who for who, _ in seen} == {"user"}
    assert "lost" in dumps(seen)
    assert any("has no call for this result" in loss for loss in losses)


@every_pair
def test_G39_a_second_result_for_one_call(client: str, upstream: str) -> None:
    turns = [
        user(client, "Go"),
        *calls(client, A),
        result(client, "call_a", "one"),
        result(client, "call_a", "again"),
    ]
    out, losses = translated(client, upstream, request_body(client, *turns))
    assert read(upstream, out) == [PAIRED[0], PAIRED[1], PAIRED[3]]
    assert any("second result" in loss for loss in losses)


@pytest.mark.parametrize("client", others(GEMINI))
def test_G40_as_many_responses_as_calls_in_one_content(client: str) -> None:
    turns = [
        user(client, "Go"),
        *calls(client, A, B),
        result(client, "call_b", "two"),
        result(client, "call_a", "one"),
    ]
    out = sent(client, GEMINI, request_body(client, *turns))
    model, answers = out["contents"][1:]
    assert len(model["parts"]) == len(answers["parts"]) == 2
    assert [part["functionResponse"]["id"] for part in answers["parts"]] == ["call_a", "call_b"]


@pytest.mark.parametrize("upstream", others(GEMINI))
def test_G41_gemini_text_before_the_result(upstream: str) -> None:
    answer = result(GEMINI, "call_a", "one")
    answer["parts"].insert(0, {"text": "Here:"})
    out = sent(GEMINI, upstream, request_body(GEMINI, user(GEMINI, "Go"), *calls(GEMINI, A), answer))
    assert read(upstream, out) == [*PAIRED[:2], PAIRED[3], ("user", "Here:")]


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
@pytest.mark.parametrize("first", [True, False], ids=["G43 before", "G42 after"])
def test_G42_G43_messages_text_beside_the_result(upstream: str, first: bool) -> None:
    answer = result(ANTHROPIC, "call_a", "one")
    answer["content"].insert(0 if first else 1, {"type": "text", "text": "Also this."})
    out = sent(
        ANTHROPIC, upstream, request_body(ANTHROPIC, user(ANTHROPIC, "Go"), *calls(ANTHROPIC, A), answer)
    )
    assert read(upstream, out) == [*PAIRED[:2], PAIRED[3], ("user", "Also this.")]


def test_G44_text_around_calls_keeps_its_place() -> None:
    blocks = [
        {"type": "text", "text": "First"},
        {"type": "tool_use", "id": "call_a", "name": "f", "input": {}},
        {"type": "text", "text": "then"},
        {"type": "tool_use", "id": "call_b", "name": "f", "input": {}},
    ]
    answers = [result(ANTHROPIC, "call_a", "one"), result(ANTHROPIC, "call_b", "two")]
    turns = [user(ANTHROPIC, "Go"), {"role": "assistant", "content": blocks}, *answers]
    for upstream in (RESPONSES, GEMINI):
        seen = read(upstream, sent(ANTHROPIC, upstream, request_body(ANTHROPIC, *turns)))
        assert [who for who, _ in seen] == [
            "user",
            "assistant",
            "call",
            "assistant",
            "call",
            "result",
            "result",
        ]
    _, losses = translated(ANTHROPIC, CHAT, request_body(ANTHROPIC, *turns))
    assert any("before its calls" in loss for loss in losses)


@pytest.mark.parametrize("client", others(GEMINI))
def test_G45_a_function_response_has_the_name_of_its_call(client: str) -> None:
    made = Call("call_a", "get_weather", {})
    out = sent(
        client,
        GEMINI,
        request_body(client, user(client, "Go"), *calls(client, made), result(client, "call_a", "one")),
    )
    (part,) = out["contents"][-1]["parts"]
    assert part["functionResponse"]["name"] == "get_weather"


@pytest.mark.parametrize("upstream", others(GEMINI))
def test_G46_same_named_calls_without_ids(upstream: str) -> None:
    turns = [
        user(GEMINI, "Go"),
        *calls(GEMINI, Call("", "f", {"n": 1}), Call("", "g", {}), Call("", "f", {"n": 2})),
        result(GEMINI, "", "first f", "f"),
        result(GEMINI, "", "second f", "f"),
        result(GEMINI, "", "the g", "g"),
    ]
    seen = read(upstream, sent(GEMINI, upstream, request_body(GEMINI, *turns)))
    ids = [what[0] for who, what in seen if who == "call"]
    assert len(set(ids)) == 3
    assert [what for who, what in seen if who == "result"] == list(
        zip(ids, ["first f", "the g", "second f"], strict=True)
    )


@pytest.mark.parametrize("client", others(GEMINI))
def test_G46_same_named_calls_of_gemini_get_ids_of_their_own(client: str) -> None:
    body = whole_reply(GEMINI, "", [Call("", "f", {"n": 1}), Call("", "f", {"n": 2})])
    for part in body["candidates"][0]["content"]["parts"]:
        del part["functionCall"]["id"]
    first, second = read_calls(client, dragoman.Exchange(client, GEMINI).response(body))
    assert first.id != second.id
    assert (first.arguments, second.arguments) == ({"n": 1}, {"n": 2})


@every_pair
def test_G47_an_id_that_comes_again_in_a_later_turn(client: str, upstream: str) -> None:
    """Kimi counts its calls anew in every turn."""
    again = Call("functions.f:0", "f", {})
    turns = [
        user(client, "Go"),
        *calls(client, again),
        result(client, again.id, "one"),
        user(client, "More"),
        *calls(client, again),
        result(client, again.id, "two"),
    ]
    seen = read(upstream, sent(client, upstream, request_body(client, *turns)))
    ids = [what[0] for who, what in seen if who == "call"]
    assert len(set(ids)) == 2
    assert [what for who, what in seen if who == "result"] == [(ids[0], "one"), (ids[1], "two")]
    assert seen == read(upstream, sent(client, upstream, request_body(client, *turns)))  # the same every time


def test_G47_invented_ids_go_on_counting() -> None:
    """The second reply without ids must not repeat what the first one was given."""
    bare: Wire = {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]
    }
    (first,) = read_calls(CHAT, dragoman.Exchange(CHAT, GEMINI).response(bare))
    exchange = dragoman.Exchange(CHAT, GEMINI)
    turns = [user(CHAT, "Go"), *calls(CHAT, Call(first.id, "f", {})), result(CHAT, first.id, "one")]
    exchange.request(request_body(CHAT, *turns), model="m")
    (second,) = read_calls(CHAT, exchange.response(bare))
    assert first.id != second.id


LEGAL = {
    ANTHROPIC: re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    CHAT: re.compile(r"[\x21-\x7e]{1,40}"),
    RESPONSES: re.compile(r"[\x21-\x7e]{1,64}"),
    GEMINI: re.compile(r"[\x21-\x7e]{1,128}"),
}
ODD_IDS = {
    "long": "call_" + "x" * 300,
    "punctuation": "functions.read/file:0",
    "not ASCII": "ruf_äöü",
    "spaces": "a b",
}


@rows("client, upstream, what", PAIRS, ODD_IDS)
def test_G48_ids_are_legal_and_stay_apart(client: str, upstream: str, what: str) -> None:
    one, two = Call(ODD_IDS[what], "f", {}), Call(ODD_IDS[what] + "!", "f", {})
    turns = [
        user(client, "Go"),
        *calls(client, one, two),
        result(client, two.id, "2"),
        result(client, one.id, "1"),
    ]
    seen = read(upstream, sent(client, upstream, request_body(client, *turns)))
    ids = [what[0] for who, what in seen if who == "call"]
    assert all(LEGAL[upstream].fullmatch(id) for id in ids)
    assert len(set(ids)) == 2
    assert [what for who, what in seen if who == "result"] == [(ids[0], "1"), (ids[1], "2")]


def test_G48_mistral_takes_nine_alphanumerics() -> None:
    turns = [user(ANTHROPIC, "Go"), *calls(ANTHROPIC, A, B), result(ANTHROPIC, "call_a", "1")]
    out = sent(ANTHROPIC, CHAT, request_body(ANTHROPIC, *turns), model="mistral-large-latest")
    ids = [what[0] for who, what in read(CHAT, out) if who == "call"]
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in ids)
    assert len(set(ids)) == 2


@rows("client, upstream, what", [pair for pair in PAIRS if pair[1] != RESPONSES], ODD_IDS)
def test_G48_the_upstream_gets_its_own_id_back(client: str, upstream: str, what: str) -> None:
    """Whatever the upstream calls its calls, if it is legal there it comes back unchanged."""
    made = Call(ODD_IDS[what] if LEGAL[upstream].fullmatch(ODD_IDS[what]) else "toolu_01.x", "f", {})
    (got,) = read_calls(
        client, dragoman.Exchange(client, upstream).response(whole_reply(upstream, "", [made]))
    )
    turns = [user(client, "Go"), *calls(client, got), result(client, got.id, "1")]
    seen = read(upstream, sent(client, upstream, request_body(client, *turns)))
    if LEGAL[upstream].fullmatch(made.id):
        assert [what[0] for who, what in seen if who == "call"] == [made.id]


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G49_items_have_ids_of_their_own_with_prefixes(upstream: str) -> None:
    body = whole_reply(upstream, "Look:", [A])
    out = dragoman.Exchange(RESPONSES, upstream).response(body)
    message, call = out["output"]
    assert message["id"].startswith("msg_")
    assert call["id"].startswith("fc_")
    assert call["call_id"] == "call_a"
    assert out["id"].startswith("resp_")


@pytest.mark.parametrize("client", others(RESPONSES))
def test_G49_foreign_items_go_to_responses_without_ids(client: str) -> None:
    turns = [user(client, "Go"), *calls(client, A, text="Look:"), result(client, "call_a", "one")]
    out = sent(client, RESPONSES, request_body(client, *turns))
    assert all("id" not in item for item in out["input"])


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G50_messages_clients_see_toolu(upstream: str) -> None:
    body = whole_reply(upstream, "", [A, Call("toolu_1", "f", {})])
    first, second = read_calls(ANTHROPIC, dragoman.Exchange(ANTHROPIC, upstream).response(body))
    assert first.id.startswith("toolu_")
    assert second.id == "toolu_1"
    turns = [user(ANTHROPIC, "Go"), *calls(ANTHROPIC, first, second), result(ANTHROPIC, first.id, "1")]
    seen = read(upstream, sent(ANTHROPIC, upstream, request_body(ANTHROPIC, *turns)))
    assert [what[0] for who, what in seen if who == "call"] == ["call_a", "toolu_1"]


@pytest.mark.parametrize("client", others(ANTHROPIC))
def test_G51_no_empty_text_goes_to_messages(client: str) -> None:
    empty = (
        {"role": "model", "parts": [{"text": ""}]}
        if client == GEMINI
        else {"role": "assistant", "content": ""}
    )
    turns = [user(client, "Go"), empty, user(client, ""), user(client, "On.")]
    out = sent(client, ANTHROPIC, request_body(client, *turns))
    assert [text for _, text in read(ANTHROPIC, out)] == ["Go", "On."]


@pytest.mark.parametrize("client", others(CHAT))
def test_G52_a_turn_of_calls_alone_has_content_null(client: str) -> None:
    out = sent(
        client,
        CHAT,
        request_body(client, user(client, "Go"), *calls(client, A), result(client, "call_a", "one")),
    )
    turn = out["messages"][1]
    assert "content" in turn
    assert turn["content"] is None


@pytest.mark.parametrize("client", others(ANTHROPIC))
def test_G53_a_prefill_ends_without_white_space(client: str) -> None:
    prefill = {"role": "model", "parts": [{"text": "Sure: \n"}]}
    if client != GEMINI:
        prefill = {"role": "assistant", "content": "Sure: \n"}
    body = request_body(client, user(client, "Go"), prefill)
    out, losses = translated(client, ANTHROPIC, body, model="claude-3-5-sonnet-latest")
    assert read(ANTHROPIC, out)[-1] == ("assistant", "Sure:")
    assert any("white space" in loss for loss in losses)


def test_G53_a_model_that_takes_no_prefill_gets_none() -> None:
    body = request_body(CHAT, user(CHAT, "Go"), {"role": "assistant", "content": "Sure:"})
    out, losses = translated(CHAT, ANTHROPIC, body, model="claude-opus-4-7")
    assert out["messages"][-1]["role"] == "user"
    assert any("a conversation ends with the user" in loss for loss in losses)


LATER = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
NEW_RULE = {"role": "system", "content": [{"type": "text", "text": "New rule."}]}


def test_G54_system_text_in_the_middle() -> None:
    body = request_body(ANTHROPIC, *LATER, {"role": "user", "content": "Go"}, NEW_RULE)
    chat = sent(ANTHROPIC, CHAT, body)["messages"]
    assert chat[-1] == {"role": "system", "content": "New rule."}
    responses = sent(ANTHROPIC, RESPONSES, body)["input"]
    assert responses[-1]["role"] in ("system", "developer")
    assert "New rule." in dumps(responses[-1])
    gemini, losses = translated(ANTHROPIC, GEMINI, body)
    assert "New rule." in dumps(gemini)
    assert "New rule." not in dumps([turn for turn in gemini["contents"] if turn["role"] == "model"])
    assert any("system text" in loss for loss in losses)


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_G55_every_system_part_arrives(upstream: str) -> None:
    parts = [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]
    body = request_body(GEMINI, systemInstruction={"parts": parts})
    printed = dumps(sent(GEMINI, upstream, body))
    assert all(part["text"] in printed for part in parts)


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_G56_the_developer_role(client: str) -> None:
    body = request_body(client, {"role": "developer", "content": "Rules."}, user(client, "Hi"))
    chat = sent(RESPONSES, CHAT, body) if client == RESPONSES else None
    if chat:
        assert chat["messages"][0] in (
            {"role": "system", "content": "Rules."},
            {"role": "developer", "content": "Rules."},
        )
        local = sent(RESPONSES, CHAT, body, model="qwen3-coder")
        assert local["messages"][0]["role"] == "system"
    assert sent(client, ANTHROPIC, body)["system"] == "Rules."
    assert sent(client, GEMINI, body)["systemInstruction"]["parts"] == [{"text": "Rules."}]


def test_G57_items_of_one_turn_are_one_chat_message() -> None:
    turns = [
        user(RESPONSES, "Go"),
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"role": "assistant", "content": "Look:"},
        *calls(RESPONSES, A, B),
        result(RESPONSES, "call_a", "one"),
        result(RESPONSES, "call_b", "two"),
    ]
    out = sent(RESPONSES, CHAT, request_body(RESPONSES, *turns))
    assert [turn["role"] for turn in out["messages"]] == ["user", "assistant", "tool", "tool"]
    assert len(out["messages"][1]["tool_calls"]) == 2
    assert out["messages"][1]["content"] == "Look:"


BILLING = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.1; cch=00000;"}


@pytest.mark.parametrize("upstream", others(ANTHROPIC))
def test_G58_the_attribution_of_claude_code_stays_at_home(upstream: str) -> None:
    body = request_body(ANTHROPIC, system=[BILLING, {"type": "text", "text": "Be brief."}])
    out, losses = translated(ANTHROPIC, upstream, body)
    assert "billing" not in dumps(out)
    assert "Be brief." in dumps(out)
    assert any("billing header" in loss for loss in losses)


def test_G58_and_is_kept_there() -> None:
    body = request_body(ANTHROPIC, system=[BILLING, {"type": "text", "text": "Be brief."}])
    assert sent(ANTHROPIC, ANTHROPIC, body)["system"] == body["system"]


@pytest.mark.parametrize("upstream", [ANTHROPIC, GEMINI])
@pytest.mark.parametrize("arguments", ["[1,2]", '"text"', "7", "null"])
def test_G59_arguments_that_are_no_object(upstream: str, arguments: str) -> None:
    turn = calls(CHAT, A)[0]
    turn["tool_calls"][0]["function"]["arguments"] = arguments
    out, losses = translated(
        CHAT, upstream, request_body(CHAT, user(CHAT, "Go"), turn, result(CHAT, "call_a", "one"))
    )
    given = (
        out["messages"][1]["content"][0]["input"]
        if upstream == ANTHROPIC
        else out["contents"][1]["parts"][0]["functionCall"]["args"]
    )
    assert isinstance(given, dict)
    assert given == {"_raw_arguments": arguments}
    assert any("arguments" in loss for loss in losses)


@pytest.mark.parametrize("text", ["[1,2]", '"text"', "7", "null", "plain"])
def test_G59_results_that_are_no_object(text: str) -> None:
    turns = [user(CHAT, "Go"), *calls(CHAT, A), result(CHAT, "call_a", text)]
    (part,) = sent(CHAT, GEMINI, request_body(CHAT, *turns))["contents"][-1]["parts"]
    response = part["functionResponse"]["response"]
    assert response == {"output": [1, 2] if text == "[1,2]" else text}


@pytest.mark.parametrize("upstream", others(GEMINI))
def test_G60_a_function_response_with_keys_of_its_own(upstream: str) -> None:
    answer = result(GEMINI, "call_a", "")
    answer["parts"][0]["functionResponse"]["response"] = {"files": ["a", "b"], "total": 2}
    out = sent(GEMINI, upstream, request_body(GEMINI, user(GEMINI, "Go"), *calls(GEMINI, A), answer))
    (found,) = [what[1] for who, what in read(upstream, out) if who == "result"]
    assert json.loads(found) == {"files": ["a", "b"], "total": 2}


CHOICES: dict[str, Wire] = {
    CHAT: {"tool_choice": "auto", "parallel_tool_calls": True},
    RESPONSES: {"tool_choice": "auto", "parallel_tool_calls": True},
    ANTHROPIC: {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    GEMINI: {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
}
NONE: dict[str, Wire] = {
    CHAT: {"tool_choice": "none"},
    RESPONSES: {"tool_choice": "none"},
    ANTHROPIC: {"tool_choice": {"type": "none"}},
    GEMINI: {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
}


@every_pair
@pytest.mark.parametrize("empty", [{}, {"tools": []}], ids=["absent", "empty"])
def test_G61_no_choice_without_tools(client: str, upstream: str, empty: Wire) -> None:
    out = sent(client, upstream, request_body(client, **CHOICES[client], **empty))
    assert not {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"} & out.keys()


@every_pair
def test_G62_the_choice_of_none_keeps_the_tools(client: str, upstream: str) -> None:
    out = sent(client, upstream, request_body(client, **NONE[client], tools=tools(client)))
    assert out["tools"]
    assert {key: out[key] for key in NONE[upstream]} == NONE[upstream]


@rows("client, upstream", [pair for pair in PAIRS if pair[0] in (CHAT, RESPONSES)])
def test_G63_parallel_null_is_the_default(client: str, upstream: str) -> None:
    out = sent(client, upstream, request_body(client, tools=tools(client), parallel_tool_calls=None))
    assert out.get("parallel_tool_calls") is not False
    assert "disable_parallel_tool_use" not in dumps(out)


@pytest.mark.parametrize("client", others(CHAT))
@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_G64_a_call_without_arguments_in_a_reply(client: str, arguments: str) -> None:
    data = sse(chunk(fragment(0, arguments, "c0", "f")), chunk({}, "tool_calls"), "[DONE]")
    assert [(c.name, c.arguments) for c in read_calls(client, reply(client, CHAT, data))] == [("f", {})]
    body = whole_reply(CHAT, "", [Call("c0", "f", {})])
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    assert [
        (c.name, c.arguments) for c in read_calls(client, dragoman.Exchange(client, CHAT).response(body))
    ] == [("f", {})]


@pytest.mark.parametrize("upstream", others(CHAT))
def test_G64_a_call_without_arguments_in_a_history(upstream: str) -> None:
    turn = calls(CHAT, A)[0]
    turn["tool_calls"][0]["function"]["arguments"] = ""
    out = sent(CHAT, upstream, request_body(CHAT, user(CHAT, "Go"), turn, result(CHAT, "call_a", "one")))
    assert [who for who, _ in read(upstream, out)] == ["user", "call", "result"]
    assert '"arguments":""' not in dumps(out)


FORMS = {"an object": {"city": "Paris"}, "a string": '{"city":"Paris"}', "twice": dumps('{"city":"Paris"}')}


@pytest.mark.parametrize("client", others(CHAT))
@pytest.mark.parametrize("form", FORMS)
def test_G65_arguments_in_any_form(client: str, form: str) -> None:
    body = whole_reply(CHAT, "", [Call("c0", "get_weather", {})])
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = FORMS[form]
    exchange = dragoman.Exchange(client, CHAT)
    exchange.request(request_body(client, tools=tools(client)), model="m")
    (call,) = read_calls(client, exchange.response(body))
    assert call.arguments == {"city": "Paris"}


@pytest.mark.parametrize("upstream", others(CHAT))
def test_G66_broken_arguments_keep_the_call_and_its_result(upstream: str) -> None:
    turn = calls(CHAT, A)[0]
    turn["tool_calls"][0]["function"]["arguments"] = '{"city": "Par'
    out = sent(CHAT, upstream, request_body(CHAT, user(CHAT, "Go"), turn, result(CHAT, "call_a", "one")))
    assert [who for who, _ in read(upstream, out)] == ["user", "call", "result"]
    assert "Par" in dumps(out)


SPELLED = {"city": "Zürich", "say": "東京 🌍", "quote": 'a"b\\c', "line": "one\ntwo\t\u2028"}


@every_pair
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_G67_arguments_keep_their_characters(client: str, upstream: str, streamed: bool) -> None:
    made = [Call("c0", "f", SPELLED)]
    stream = dragoman.Exchange(client, upstream).stream()
    data = streamed_reply(upstream, "", made) if streamed else dumps(whole_reply(upstream, "", made)).encode()
    out = stream.feed(data) + stream.close()
    assert read_calls(client, gathered(client, out))[0].arguments == SPELLED
    assert "Zürich".encode() in out
    assert b"\\u00fc" not in out


NUMBERS = '{"whole":10,"tenth":10.0,"big":12345678901234567890123,"exp":1e5,"tiny":1.10,"huge":1e400}'


def raw(protocol: str, arguments: str) -> bytes:
    """A whole reply that calls f with these very arguments."""
    body = dumps(whole_reply(protocol, "", [Call("c0", "f", "@")]))
    quoted = protocol in (CHAT, RESPONSES)
    return body.replace(
        dumps(dumps("@")) if quoted else '"@"', dumps(arguments) if quoted else arguments
    ).encode()


@every_pair
def test_G68_numbers_keep_their_spelling(client: str, upstream: str) -> None:
    stream = dragoman.Exchange(client, upstream).stream()
    out = (stream.feed(raw(upstream, NUMBERS)) + stream.close()).decode()
    printed = dumps(NUMBERS)[1:-1] if client != GEMINI else NUMBERS
    assert printed in out


def test_G68_an_integer_by_its_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    exchange = dragoman.Exchange(ANTHROPIC, GEMINI)
    exchange.request(request_body(ANTHROPIC, tools=tools(ANTHROPIC, "f", schema)), model="m")
    out = exchange.response(whole_reply(GEMINI, "", [Call("c0", "f", {"n": 10.0})]))
    (call,) = read_calls(ANTHROPIC, out)
    assert call.arguments == {"n": 10}
    assert isinstance(call.arguments["n"], int)


@pytest.mark.parametrize(
    ("client", "body"),
    [
        (
            "openai-chat",
            {"messages": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "x"}]},
        ),
        (
            "openai-responses",
            {"input": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "x"}]},
        ),
        (
            "gemini",
            {
                "contents": [
                    {"role": "model", "parts": [{"text": "hi"}]},
                    {"role": "user", "parts": [{"text": "x"}]},
                ]
            },
        ),
    ],
)
def test_an_invented_turn_is_reported_at_the_field_that_holds_the_conversation(
    client: str, body: dict[str, Any]
) -> None:
    exchange = dragoman.Exchange(client, "anthropic")
    exchange.request(body, model="m")
    (loss,) = [loss for loss in exchange.losses if loss.code == "message.filler.invented"]
    assert [loss.where] == list(body)
