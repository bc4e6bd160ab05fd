"""G97-G108: reasoning, and the state that only its maker may see."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dragoman
from dragoman.core import jsontext
from goldens.echo import next_request
from gotchas.exchanges import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    others,
    reply,
    request_body,
    sent,
    through,
    tools,
    translated,
)
from seeds.wires import (
    PAIRS,
    PROTOCOLS,
    Wire,
    chunk,
    dumps,
    gathered,
    read_calls,
    read_text,
    rows,
    sse,
)

SIGNATURE = "c2lnbmF0dXJlLW9mLWl0cy1tYWtlcg+/=="
PARIS = {"city": "Paris"}


def model(*parts: Wire) -> Wire:
    """A whole reply of Gemini."""
    return {
        "candidates": [
            {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", "index": 0}
        ]
    }


def call(name: str = "get_weather", **more: Any) -> Wire:
    return {"functionCall": {"name": name, "args": PARIS}, **more}


SIGNED = model(call(thoughtSignature=SIGNATURE), call())
# How each maker signs: a whole reply in which it calls a tool
STATEFUL: dict[str, Wire] = {
    GEMINI: SIGNED,
    ANTHROPIC: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": PARIS},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SIGNATURE},
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "get_weather",
                "arguments": dumps(PARIS),
                "status": "completed",
            },
        ],
    },
}
over_gemini = pytest.mark.parametrize("client", others(GEMINI))
streams = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def translated_reply(client: str, upstream: str, body: Wire, streamed: bool = False) -> Wire:
    exchange = dragoman.Exchange(client, upstream)
    return gathered(client, through(exchange, dumps(body).encode())) if streamed else exchange.response(body)


def history(client: str, body: Wire) -> Wire:
    """The client's next request: the reply that it got, and the results."""
    return next_request(client, request_body(client, tools=tools(client)), body)


@over_gemini
@streams
def test_G97_G99_the_signature_of_a_call_comes_back_to_gemini_once(client: str, streamed: bool) -> None:
    body = history(client, translated_reply(client, GEMINI, SIGNED, streamed))
    out, losses = translated(client, GEMINI, body, "gemini-3-pro")
    first, second = out["contents"][1]["parts"]
    assert first["thoughtSignature"] == SIGNATURE
    assert "thoughtSignature" not in second  # the first call of a step only, and one copy
    assert not any("skip_thought" in loss for loss in losses)


@over_gemini
@streams
def test_G97_the_signature_of_a_text_comes_back_too(client: str, streamed: bool) -> None:
    body = model({"text": "Hello.", "thoughtSignature": SIGNATURE})
    body_out = translated_reply(client, GEMINI, body, streamed)
    assert read_text(client, body_out) == "Hello."
    out = sent(client, GEMINI, history(client, body_out), "gemini-3-pro")
    texts = [part for turn in out["contents"] if turn["role"] == "model" for part in turn["parts"]]
    signed = {"text": "Hello.", "thoughtSignature": SIGNATURE}
    if client == CHAT and streamed:
        signed = {"text": "Hello."}  # what puts the stream together here keeps no fields but Chat's own
    assert texts == [signed]


@over_gemini
def test_G97_a_call_that_gemini_did_not_make_gets_the_documented_word_and_a_report(client: str) -> None:
    maker = RESPONSES if client == ANTHROPIC else ANTHROPIC
    body = history(
        client, translated_reply(client, maker, STATEFUL[maker]) if client != maker else STATEFUL[maker]
    )
    out, losses = translated(client, GEMINI, body, "gemini-3-pro")
    (first,) = [part for turn in out["contents"] for part in turn["parts"] if "functionCall" in part]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert any("skip_thought_signature_validator" in loss for loss in losses)


@streams
@pytest.mark.parametrize("maker", [ANTHROPIC, RESPONSES])
def test_G97_a_gemini_client_that_comes_from_another_model(maker: str, streamed: bool) -> None:
    """After a change of the model, or a fallback in the midst of a turn."""
    body = history(GEMINI, translated_reply(GEMINI, maker, STATEFUL[maker], streamed))
    out, losses = translated(GEMINI, GEMINI, body, "gemini-3-pro")
    (first,) = [part for turn in out["contents"] for part in turn["parts"] if "functionCall" in part]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert any("skip_thought_signature_validator" in loss for loss in losses)


def test_G97_a_gemini_client_that_comes_from_another_account_at_gemini() -> None:
    reply = dragoman.Exchange(GEMINI, GEMINI, origin="first").response_bytes(dumps(SIGNED).encode())
    body = history(GEMINI, jsontext.decode(reply))
    for origin, signature in (("first", SIGNATURE), ("second", "skip_thought_signature_validator")):
        out = dragoman.Exchange(GEMINI, GEMINI, origin=origin).request(body, model="gemini-3-pro")
        calls = [part for turn in out["contents"] for part in turn["parts"] if "functionCall" in part]
        assert [part.get("thoughtSignature") for part in calls] == [signature, None]


def test_G97_an_unsigned_call_of_a_gemini_client_passes_as_it_is() -> None:
    body = history(GEMINI, model(call(), call()))
    assert sent(GEMINI, GEMINI, body, "gemini-3-pro")["contents"] == body["contents"]


LEGAL = {CHAT: r"[\x21-\x7e]{1,40}", RESPONSES: r"[\x21-\x7e]{1,64}", ANTHROPIC: r"[a-zA-Z0-9_-]{1,128}"}


@rows("client, later", [pair for pair in PAIRS if GEMINI not in pair])
def test_G98_an_id_that_carries_a_signature_is_stripped_for_another_vendor(client: str, later: str) -> None:
    """The conversation began at Gemini and goes on elsewhere."""
    body = history(client, translated_reply(client, GEMINI, SIGNED))
    out = sent(client, later, body)
    assert SIGNATURE not in dumps(out)
    ids = re.findall(r'"(?:tool_)?(?:call_id|tool_use_id|tool_call_id|id)":"([^"]+)"', dumps(out))
    assert ids
    assert all(re.fullmatch(LEGAL[later], id) for id in ids)
    assert len(set(ids)) == 2


@rows("client, maker", [(client, maker) for maker in STATEFUL for client in PROTOCOLS if client != maker])
@streams
def test_G100_G106_state_goes_to_its_maker_and_to_nobody_else(
    client: str, maker: str, streamed: bool
) -> None:
    body = history(client, translated_reply(client, maker, STATEFUL[maker], streamed))
    assert SIGNATURE in dumps(sent(client, maker, body, "gemini-3-pro" if maker == GEMINI else "m"))
    for other in PROTOCOLS:
        if other != maker and other != client:
            out, losses = translated(client, other, body)
            assert SIGNATURE not in dumps(out)
            assert "ZHJhZ29t" not in dumps(out)  # nor in our wrapping
            assert any(maker in loss for loss in losses)


def test_G100_a_foreign_signature_is_not_replayed_to_the_clients_own_vendor() -> None:
    """Claude Code spoke to Gemini through us, and now speaks to Anthropic."""
    body = history(ANTHROPIC, translated_reply(ANTHROPIC, RESPONSES, STATEFUL[RESPONSES]))
    out, losses = translated(ANTHROPIC, ANTHROPIC, body)
    assert SIGNATURE not in dumps(out)
    assert "thinking" not in dumps(out)
    assert [turn["role"] for turn in out["messages"]] == ["user", "assistant", "user"]
    assert any("openai-responses" in loss for loss in losses)


@pytest.mark.parametrize("space", ["", " ", "\n  "])
def test_G101_opaque_blocks_pass_byte_for_byte_within_messages(space: str) -> None:
    blocks = (
        f'[{{{space}"type":"thinking",{space}"thinking":"Zo\\u00eb \\/ 1.0e5","signature":"{SIGNATURE}"}},'
        '{"type":"redacted_thinking","data":"a+/="}]'
    )
    body = (
        '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"},'
        f'{{"role":"assistant","content":{blocks}}},{{"role":"user","content":"Go"}}]}}'
    ).encode()
    assert dragoman.Exchange(ANTHROPIC, ANTHROPIC).request_bytes(body) == body


THINKING = {"type": "enabled", "budget_tokens": 2000}


@pytest.mark.parametrize("name", ["deepseek-reasoner", "kimi-k2-thinking", "mimo-v2"])
def test_G102_reasoning_goes_back_on_every_turn_where_it_is_demanded(name: str) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "text", "text": "Yes?"},
            ],
        },
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks"},
    ]
    out, losses = translated(ANTHROPIC, CHAT, request_body(ANTHROPIC, *turns, thinking=THINKING), name)
    first, second = [turn for turn in out["messages"] if turn["role"] == "assistant"]
    assert first["reasoning_content"] == "Hm."
    assert second["reasoning_content"]
    assert any("invented" in loss and "reasoning" in loss for loss in losses)


FIELDS: dict[str, Wire] = {
    "reasoning_content": {"reasoning_content": "Hm."},
    "reasoning": {"reasoning": "Hm."},
    "reasoning_details": {
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0, "signature": None}]
    },
}


def thoughts(client: str, body: Wire) -> str:
    match client:
        case "openai-responses":
            items = [item for item in body["output"] if item["type"] == "reasoning"]
            return "".join(part["text"] for item in items for part in item["summary"])
        case "anthropic":
            return "".join(block["thinking"] for block in body["content"] if block["type"] == "thinking")
        case _:
            return "".join(p["text"] for p in body["candidates"][0]["content"]["parts"] if p.get("thought"))


@pytest.mark.parametrize("client", others(CHAT))
@pytest.mark.parametrize("field", FIELDS)
def test_G103_reasoning_in_any_field(client: str, field: str) -> None:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "So.", **FIELDS[field]},
        "finish_reason": "stop",
    }
    translated = translated_reply(client, CHAT, {"id": "c", "model": "m", "choices": [choice]})
    assert (thoughts(client, translated), read_text(client, translated)) == ("Hm.", "So.")
    data = sse(chunk(FIELDS[field]), chunk({"content": "So."}), chunk({}, "stop"), "[DONE]")
    translated = reply(client, CHAT, data)
    assert (thoughts(client, translated), read_text(client, translated)) == ("Hm.", "So.")


@pytest.mark.parametrize("client", others(CHAT))
def test_G103_a_tag_in_the_text_stays_text(client: str) -> None:
    """It may be what the user asked about."""
    data = sse(chunk({"content": "Write <think>x</think>."}), chunk({}, "stop"), "[DONE]")
    assert read_text(client, reply(client, CHAT, data)) == "Write <think>x</think>."


def test_G104_a_reasoning_item_is_nobodys_speech() -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "SECRET"}]},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Go"},
    ]
    out, losses = translated(RESPONSES, CHAT, request_body(RESPONSES, *turns))
    assert [turn["content"] for turn in out["messages"]] == ["Hi", "Yes?", "Go"]
    assert "SECRET" not in dumps([turn["content"] for turn in out["messages"]])
    assert "SECRET" in dumps(out) or any("reasoning" in loss for loss in losses)


@pytest.mark.parametrize("upstream", [RESPONSES, GEMINI])
def test_G104_thinking_is_nobodys_speech_either(upstream: str) -> None:
    turns = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "SECRET", "signature": "x"},
                {"type": "text", "text": "Yes?"},
            ],
        },
        {"role": "user", "content": "Go"},
    ]
    out = sent(ANTHROPIC, upstream, request_body(ANTHROPIC, *turns))
    spoken = (
        dumps(out["input"])
        if upstream == RESPONSES
        else dumps([part for turn in out["contents"] for part in turn["parts"] if not part.get("thought")])
    )
    assert "SECRET" not in spoken


@pytest.mark.parametrize("client", others(ANTHROPIC))
@streams
def test_G105_redacted_thinking_is_carried(client: str, streamed: bool) -> None:
    body = {**STATEFUL[ANTHROPIC]}
    body["content"] = [{"type": "redacted_thinking", "data": SIGNATURE}, *body["content"]]
    translated = translated_reply(client, ANTHROPIC, body, streamed)
    assert len(read_calls(client, translated)) == 1
    out = sent(client, ANTHROPIC, history(client, translated))
    assert out["messages"][1]["content"][:2] == body["content"][:2]


def test_G106_encrypted_content_of_openai_is_withheld_from_others() -> None:
    """Codex brings its own, made by OpenAI, and the upstream is another."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SIGNATURE}
    turns = [
        {"role": "user", "content": "Hi"},
        item,
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Go"},
    ]
    for upstream in others(RESPONSES):
        out, losses = translated(RESPONSES, upstream, request_body(RESPONSES, *turns))
        assert SIGNATURE not in dumps(out)
        assert any("openai-responses" in loss for loss in losses)
    assert SIGNATURE in dumps(sent(RESPONSES, RESPONSES, request_body(RESPONSES, *turns)))


EFFORTS: dict[str, tuple[str, Wire, str, str, Wire]] = {
    "off": (
        ANTHROPIC,
        {"thinking": {"type": "disabled"}},
        RESPONSES,
        "gpt-5.1",
        {"reasoning": {"effort": "none"}},
    ),
    "off, for a model that cannot": (
        ANTHROPIC,
        {"thinking": {"type": "disabled"}},
        RESPONSES,
        "gpt-5",
        {"reasoning": {"effort": "minimal"}},
    ),
    "none": (
        CHAT,
        {"reasoning_effort": "none"},
        ANTHROPIC,
        "claude-sonnet-4-5",
        {"thinking": {"type": "disabled"}},
    ),
    "budget beyond max_tokens": (
        CHAT,
        {"reasoning_effort": "high", "max_completion_tokens": 4000},
        ANTHROPIC,
        "claude-sonnet-4-5",
        {"thinking": {"type": "enabled", "budget_tokens": 3200}},
    ),
    "xhigh for a model that knows less": (
        RESPONSES,
        {"reasoning": {"effort": "xhigh"}},
        CHAT,
        "o3",
        {"reasoning_effort": "high"},
    ),
    "a budget is a level": (
        ANTHROPIC,
        {"thinking": {"type": "enabled", "budget_tokens": 1500}},
        GEMINI,
        "gemini-3-pro",
        {
            "generationConfig": {
                "maxOutputTokens": 1024,
                "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
            }
        },
    ),
}


@pytest.mark.parametrize("row", EFFORTS.values(), ids=EFFORTS)
def test_G107_efforts_and_budgets(row: tuple[str, Wire, str, str, Wire]) -> None:
    client, settings, upstream, name, expected = row
    out, _ = translated(client, upstream, request_body(client, **settings), name)
    assert {key: out.get(key) for key in expected} == expected


def test_G107_no_budget_beside_a_forced_choice() -> None:
    body = request_body(CHAT, tools=tools(CHAT), tool_choice="required", reasoning_effort="high")
    out, losses = translated(CHAT, ANTHROPIC, body, "claude-sonnet-4-5")
    assert out["tool_choice"] == {"type": "any"}
    assert "thinking" not in out
    assert any("forced" in loss for loss in losses)


def test_G108_reasoning_goes_back_to_responses_whole() -> None:
    """With `store: false` an id alone names nothing."""
    body = history(ANTHROPIC, translated_reply(ANTHROPIC, RESPONSES, STATEFUL[RESPONSES]))
    out = sent(ANTHROPIC, RESPONSES, body)
    assert out["store"] is False
    assert "reasoning.encrypted_content" in out["include"]
    (item,) = [item for item in out["input"] if item.get("type") == "reasoning"]
    assert item["encrypted_content"] == SIGNATURE
    assert "item_reference" not in dumps(out)


@pytest.mark.parametrize("upstream", others(RESPONSES))
def test_G108_a_reference_to_an_item_is_reported(upstream: str) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "rs_1"}]
    out, losses = translated(RESPONSES, upstream, request_body(RESPONSES, *turns))
    assert "rs_1" not in dumps(out)
    assert any("input[1]" in loss for loss in losses)
