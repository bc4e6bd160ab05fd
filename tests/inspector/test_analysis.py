"""What the page says about recordings: counterparts, the broken prefix, the window, turns, totals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.codec import Frame
from dragoman.core.losses import Loss
from dragoman.exchange import Exchange
from dragoman.framing.aws_events import AWS_CHUNKS
from dragoman.inspector.analysis import (
    count_repeated,
    decode_request,
    prefix_break,
    tools_difference,
    tools_of,
    window,
)
from dragoman.inspector.conversation import conversation_view
from dragoman.inspector.export import squeeze
from dragoman.inspector.overview import overview
from dragoman.inspector.pairs import URL, find_repeated, reply_pairs, request_pairs, silent_fields
from dragoman.inspector.sessions import conversation
from dragoman.inspector.views import Context, snippets, stream_view, window_view
from dragoman.recording.outline import main_argument, outline, prompt_text
from dragoman.recording.streams import assemble_reply, client_framing, reply_parts, timeline
from dragoman.recording.values import (
    RecordedAttempt,
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingSummary,
)

TOOL = {
    "name": "Bash",
    "description": "Run.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
}
# The shape of a later turn of Claude Code
CLAUDE: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "stream": True,
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "metadata": {"user_id": "u_session_0a1b2c3d"},
    "system": [
        {"type": "text", "text": "You are Claude Code."},
        {"type": "text", "text": "Working directory: /tmp", "cache_control": {"type": "ephemeral"}},
    ],
    "tools": [TOOL, {**TOOL, "name": "Read"}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Fix the tests."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "1 failed",
                    "is_error": True,
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
    ],
}


@pytest.mark.parametrize("upstream", ["gemini", "openai-chat", "openai-responses", "anthropic"])
def test_every_field_of_an_agents_turn_has_a_counterpart_or_a_loss(upstream: str) -> None:
    exchange = Exchange("anthropic", upstream)
    got = exchange.request(CLAUDE, model="model-x")
    pairs = request_pairs("anthropic", CLAUDE, upstream, got, exchange.losses)
    assert silent_fields(CLAUDE, pairs, exchange.losses) == []
    assert dict(pairs)["model"] == (URL if upstream == "gemini" else "model")


def test_settings_are_paired_by_the_tables_of_the_codecs() -> None:
    exchange = Exchange("anthropic", "gemini")
    got = exchange.request(CLAUDE, model="model-x")
    pairs = dict(request_pairs("anthropic", CLAUDE, "gemini", got))
    assert pairs["max_tokens"] == "generationConfig.maxOutputTokens"
    assert pairs["thinking.budget_tokens"].startswith("generationConfig.thinkingConfig.")
    assert pairs["messages[2].content[0]"].startswith("contents[2].parts[0]")
    assert pairs["tools[1]"] == "tools[0].functionDeclarations[1]"
    assert pairs["system[1].text"] == "systemInstruction.parts[1].text"
    assert pairs["messages[0].role"] == "contents[0].role"


def test_a_loss_with_a_target_is_a_pair() -> None:
    losses = [Loss("changed", "output_config.effort", "", target="reasoning_effort")]
    assert ("output_config.effort", "reasoning_effort") in request_pairs(
        "anthropic", {"output_config": {"effort": "max"}}, "openai-chat", {"reasoning_effort": "high"}, losses
    )


def test_arguments_correspond_however_they_are_spelled() -> None:
    call = {"arguments": '{"path": "a.py"}'}
    assert reply_pairs(call, {"arguments": '{"path":"a.py"}'}) == [("arguments", "arguments")]
    assert reply_pairs(call, {"content": [{"input": {"path": "a.py"}}]}) == [
        ("arguments", "content[0].input")
    ]


def test_what_is_repeated_is_found_across_protocols() -> None:
    """The turn before was sent in another protocol, so that there is no array to compare with."""
    exchange = Exchange("anthropic", "gemini")
    got = exchange.request(CLAUDE, model="model-x")
    pairs = request_pairs("anthropic", CLAUDE, "gemini", got)
    assert find_repeated(pairs, {"messages": 2, "tools": 2}) == {"contents": 2}
    assert find_repeated(pairs, {}) == {}


def changed(**fields: object) -> dict[str, Any]:
    more = [*CLAUDE["messages"], {"role": "assistant", "content": "Done."}]
    return {**CLAUDE, "messages": more, **fields}


@pytest.mark.parametrize(
    "after, path",
    [
        (changed(), ""),
        (CLAUDE, ""),
        (changed(model="other", max_tokens=5), ""),
        (changed(system="Today is Tuesday."), "system"),
        (
            changed(system=[{"type": "text", "text": "You are Claude Code!"}, CLAUDE["system"][1]]),
            "system[0].text",
        ),
        (changed(tools=CLAUDE["tools"][::-1], system="Tuesday"), "tools[0].name"),
        (changed(tools=CLAUDE["tools"][:1]), "tools[1]"),
        (changed(messages=[{"role": "user", "content": "At 12:01"}]), "messages[0].content"),
        (changed(messages=CLAUDE["messages"][:1]), "messages[1]"),
    ],
    ids=[
        "grew",
        "same",
        "settings",
        "system",
        "system text",
        "tools first",
        "fewer tools",
        "message",
        "shorter",
    ],
)
def test_the_prefix_is_compared_in_cache_order(after: dict[str, Any], path: str) -> None:
    found = prefix_break(CLAUDE, after)
    assert found.path == path
    assert 0 <= found.same <= found.total


def test_marks_for_a_cache_move_and_break_nothing() -> None:
    moved = json.loads(json.dumps(CLAUDE))
    del moved["system"][1]["cache_control"]
    moved["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert prefix_break(CLAUDE, moved).path == ""
    assert count_repeated(CLAUDE, moved) == {"system": 2, "tools": 2, "messages": 3}
    assert count_repeated(CLAUDE, {**CLAUDE, "messages": ["other"]})["tools"] == 2


def test_the_window_is_listed_piece_by_piece() -> None:
    request = decode_request("anthropic", CLAUDE)
    kinds = {(segment.kind, segment.label): segment for segment in window(request)}
    assert kinds["tool", "Bash"].used
    assert not kinds["tool", "Read"].used
    assert kinds["result", "Bash"].tokens == 2
    assert window(None) == []


def exchange(id: str, body: object, reply: object, time: float = 0.0, **summary: Any) -> Recording:
    data = json.dumps(body).encode()
    return Recording(
        summary=RecordingSummary(id=id, time=time, client="anthropic", **summary),
        request=RecordedMessage("POST", "/v1/messages", 0, {}, RecordedBody(data)),
        reply=RecordedMessage("", "", 200, {}, RecordedBody(json.dumps(reply).encode())),
        attempts=(RecordedAttempt("p", "anthropic", "m", 0.0, RecordedMessage(body=RecordedBody(data))),),
    )


def test_a_conversation_has_turns_with_calls_and_results() -> None:
    call = {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": "a/b.py"}}
    reply = {"type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use"}
    result = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "text"}
    news = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    follow = changed(messages=[*CLAUDE["messages"], *news])
    first = RecordingSummary(id="e1", time=0.0, messages=1, turn=1)
    recording = exchange("e2", CLAUDE, reply, 1.0, messages=3, turn=2, ms=10.0)
    view = conversation_view(recording, [first, recording.summary], exchange("e3", follow, {}, 2.0, turn=3))
    assert [(turn["number"], turn["exchange"], turn["gave"]) for turn in view["turns"]] == [
        (1, "e1", "Bash pytest"),
        (2, None, ""),
    ]
    (came,) = view["turns"][1]["came"]
    assert (came["name"], came["about"], came["failed"]) == ("Bash", "pytest", True)
    assert view["reply"][0]["about"] == "b.py"
    assert view["answers"]["toolu_2"]["turn"] == 3
    lives = {life["id"]: life for life in view["lives"]}
    assert (lives["toolu_1"]["born"], lives["toolu_1"]["answered"]) == (1, 2)
    assert (lives["toolu_2"]["born"], lives["toolu_2"]["answered"]) == (2, None)
    assert len(view["system"]["parts"]) == len(view["system"]["tools"]) == 2


def test_the_window_says_where_the_prefix_broke() -> None:
    before = exchange("e1", CLAUDE, {}, provider="p")
    after = exchange("e2", changed(system="other"), {}, provider="p")
    view = window_view(after, Context([], before))
    assert view["prefix"]["path"] == "system"
    assert window_view(after, Context([], None))["prefix"] is None


def test_what_is_copied_has_the_key_as_a_variable() -> None:
    headers = {"x-api-key": "***", "x-claude-code-session-id": "***", "anthropic-version": "2023-06-01"}
    request = RecordedMessage(
        "POST", "https://api.anthropic.com/v1/messages", 0, headers, RecordedBody(b"{}")
    )
    made = exchange("e1", CLAUDE, {})
    found = snippets(replace(made, attempts=(replace(made.attempts[0], request=request),)))
    for name in ("curl, upstream side", "Python"):
        assert all(each in found[name] for each in ("x-api-key", "$API_KEY", "2023-06-01"))
        assert "session" not in found[name]
    compile(found["Python"], "snippet", "exec")


def test_what_an_exchange_is_about() -> None:
    body = json.dumps(CLAUDE).encode()
    reply = json.dumps(
        {"content": [{"type": "tool_use", "id": "t", "name": "Edit", "input": {"file_path": "src/x.py"}}]}
    )
    made = outline("anthropic", body, reply.encode())
    assert (made.prompt, made.preview, made.messages, made.turn) == (
        "Fix the tests.",
        "Bash failed → Edit x.py",
        3,
        2,
    )
    text = json.dumps({"content": [{"type": "text", "text": "All pass.\n\n| what | how |"}]}).encode()
    assert outline("anthropic", body, text).preview == "Bash failed → All pass."
    assert outline("anthropic", b"no json", b"").preview == ""
    assert prompt_text("<system-reminder>x</system-reminder>") == ""
    assert prompt_text("<system-reminder>x</system-reminder>\nFix it") == "Fix it"
    assert main_argument('{"n": 1, "command": ["ls", "-l"]}') == "ls -l"
    assert main_argument("not json") == "not json"


def loop(prompt: str, turns: int, answer: str) -> list[RecordingSummary]:
    """An SDK that calls a tool in each turn and names no session."""
    messages: list[object] = [{"role": "user", "content": prompt}]
    found: list[RecordingSummary] = []
    for turn in range(turns):
        made = outline("openai-chat", json.dumps({"model": "m", "messages": messages}).encode(), b"")
        found.append(
            RecordingSummary(
                id=f"{answer}{turn}", time=0.0, client="openai-chat", start=made.start, run=made.run
            )
        )
        call = {"id": f"{answer}{turn}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"{answer}{turn}", "content": "x"},
        ]
    return found


def test_loops_without_a_session_are_found_by_their_common_prefix() -> None:
    """Two of them with the same prompt, one after the other, and a single request with it."""
    rows = [*loop("Go", 3, "a"), *loop("Go", 2, "b"), *loop("Go", 1, "c"), *loop("Else", 2, "d")]
    rows = [replace(row, time=float(at)) for at, row in enumerate(rows)]
    named = {row.id: [each.id for each in conversation(rows, row)] for row in rows}
    assert named["a0"] == named["a2"] == ["a0", "a1", "a2"]
    assert named["b0"] == named["b1"] == ["b0", "b1"]
    assert named["c0"] == ["c0"]
    assert named["d1"] == ["d0", "d1"]


def test_totals_have_the_unit_that_they_say() -> None:
    now = 10_000.0
    usual = RecordingSummary(
        id="", time=0.0, state="done", provider="p", target="m", key="ada", status=200, input=100, cached=40,
        output=10, cost=0.5, ms=100.0, losses={"material": 2}, codes=("tool.strict.changed",),
        code_counts={"tool.strict.changed": 2},
    )  # fmt: skip
    rows = [replace(usual, id=str(n), time=now - 31 * n, first_ms=10.0 * n) for n in range(6)]
    rows[0], rows[3] = replace(rows[0], cost=None), replace(rows[3], state="failed", status=429)
    made = overview(
        [*rows, RecordingSummary(id="old", time=0.0, state="done")], {"p": "gemini"}, {}, now, 3600
    )
    assert (made["totals"]["requests"], made["totals"]["failed"], made["recorded"]) == (6, 1, 7)
    assert made["bucket_seconds"] == 60
    assert sum(bucket["requests"] for bucket in made["buckets"]) == 6
    assert made["buckets"][-1]["requests"] == 2, "in the last minute"
    assert made["codes"] == [
        {"code": "tool.strict.changed", "count": 12, "exchanges": 6, "severity": "material"}
    ]
    assert (made["models"][0]["cost"], made["models"][0]["unpriced"]) == (2.5, 1)
    assert made["keys"][0]["name"] == "ada"
    assert made["providers"][0]["last_failure"]["what"] == "429"
    assert overview([], {}, {}, now)["totals"]["cost"] is None


def test_a_long_stream_is_thinned_and_its_text_kept() -> None:
    start, delta = (
        f"event: {kind}\ndata: " + json.dumps({"type": kind, "index": 0, **rest}) + "\n\n"
        for kind, rest in (
            ("content_block_start", {"content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"delta": {"type": "text_delta", "text": "%d "}}),
        )
    )
    data = (start + "".join([delta % n for n in range(9000)])).encode()
    recording = exchange("e", CLAUDE, {}, stream=True)
    attempt = RecordedAttempt("p", "anthropic", "m", reply=RecordedMessage(body=RecordedBody(data)))
    view = stream_view(replace(recording, attempts=(attempt,)), Context())
    assert len(view["ticks"]) < 4000 < view["frames"]
    text = "".join([it["text"].partition(" ")[2] for it in view["ticks"] if it["name"] == "PartDelta"])
    assert text == "".join([f"{n} " for n in range(9000)])


def test_a_stream_is_put_together_as_a_whole_reply() -> None:
    frame = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
    data = frame % b"Hi " + frame % b"you"
    made = assemble_reply("openai-chat", data)
    assert made is not None
    assert made["choices"][0]["message"]["content"] == "Hi you", "also one that was cut off"
    assert assemble_reply("openai-chat", b'{"choices": []}') is None


def test_tools_are_compared() -> None:
    before, after = tools_of(decode_request("anthropic", CLAUDE)), {"Bash": "else", "new": "x"}
    assert tools_difference(before, after) == {"added": ["new"], "removed": ["Read"], "changed": ["Bash"]}


def test_parts_of_broken_replies_are_nothing() -> None:
    assert reply_parts("openai-chat", b"<html>") == ()
    assert reply_parts("anthropic", b'{"type":"error","error":{"message":"x"}}') == ()


def test_a_binary_stream_is_taken_apart_as_its_path_demands() -> None:
    """A client of Bedrock: the events are in binary frames, which its path tells and not their first byte."""
    event = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}'
    data = AWS_CHUNKS.encoder().feed(Frame("content_block_delta", event))
    recording = Recording(
        summary=RecordingSummary(id="x", time=0.0, client="anthropic", stream=True),
        request=RecordedMessage("POST", "/model/m/invoke-with-response-stream"),
        reply=RecordedMessage(body=RecordedBody(b"".join(data))),
    )
    assert client_framing(recording) is AWS_CHUNKS
    assert [(tick.track, tick.name, tick.text) for tick in timeline(recording)] == [
        ("client", "content_block_delta", event.decode())
    ]


SCRIPTS = {
    "spaces around signs": ("const a = (b, c) => b + c;\n", "let a=(b,c)=>b+c;"),
    "one parameter": ("each((it) => it.x);\n", "each(it=>it.x);"),
    "an async function keeps its brackets": ("each(async (it) => it);\n", "each(async(it)=>it);"),
    "a comment, and an import": ('import { h } from "./dom.js";\n// Why.\nh(); // there\n', "h();"),
    "texts": (
        'h("a, b // c", `d, ${e ? `f; ${g}` : ""} => h`);\n',
        'h("a, b // c",`d, ${e ? `f; ${g}` : ""} => h`);',
    ),
    "a regular expression": ('it.replace(/ \\(.*/, "");\n', 'it.replace(/ \\(.*/,"");'),
    "a division": ("a = (b / 2) / (c / d);\n", "a=(b/2)/(c/d);"),
    "a last comma": ("f(\n  a,\n  b,\n);\n", "f(a,b);"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_squeezed(name: str) -> None:
    script, expected = SCRIPTS[name]
    assert squeeze(script).strip() == expected
