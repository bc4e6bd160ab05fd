"""`dragoman translate`: what goes to stdout, what to stderr, and with which exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman import dialects, protocols
from dragoman.cli import main

ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "What is in the README?"}],
    "tools": [
        {
            "name": "read.file",
            "description": "Reads a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
    ],
}
CALLED: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path":"README.md"}'},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(**function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


STREAMED = b"".join(
    (
        chunk({"role": "assistant", "content": "I look. "}),
        chunk(call(name="read_file", arguments='{"path":')),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"README.md"}'}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    )
)


def translate(what: str, source: str, target: str, stdin: Any, *options: str) -> Result:
    text = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
    return CliRunner().invoke(
        main, ["translate", what, "--from", source, "--to", target, *options], input=text
    )


@pytest.fixture
def request_file(tmp_path: Path) -> str:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(ASKED))
    return str(file)


def test_a_request_goes_to_stdout_and_its_losses_to_stderr():
    result = translate("request", "anthropic", "openai-chat", {**ASKED, "top_k": 3})
    body = json.loads(result.stdout)
    assert result.exit_code == 0
    assert body["messages"] == [{"role": "user", "content": "What is in the README?"}]
    assert body["tools"][0]["function"]["name"] == "read_file"
    assert [line.split(":")[0].split() for line in result.stderr.splitlines()] == [["dropped", "top_k"]]


def test_a_file_a_dash_and_stdin_are_the_same(request_file: str):
    outputs = [translate("request", "anthropic", "gemini", ASKED, *file).stdout for file in ((), ("-",))]
    outputs.append(translate("request", "anthropic", "gemini", b"", request_file).stdout)
    assert len(set(outputs)) == 1
    assert json.loads(outputs[0])["contents"]


def test_without_losses_nothing_is_printed():
    result = translate("request", "anthropic", "openai-chat", ASKED)
    assert (result.exit_code, result.stderr) == (0, "")


def test_json_holds_body_and_losses():
    result = translate("request", "anthropic", "openai-chat", {**ASKED, "top_k": 3}, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert document.keys() == {"body", "losses"}
    assert document["body"]["model"] == "m"
    fields = {"kind", "where", "why", "code", "severity", "value", "target"}
    assert [loss.keys() for loss in document["losses"]] == [fields]
    assert (document["losses"][0]["kind"], document["losses"][0]["where"]) == ("dropped", "top_k")


def test_strict_refuses_and_prints_no_body():
    result = translate("request", "anthropic", "openai-chat", {**ASKED, "top_k": 3}, "--strict", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "top_k" in result.stderr


def test_strict_accepts_what_loses_nothing():
    assert translate("request", "anthropic", "openai-chat", ASKED, "--strict").exit_code == 0


def test_numbers_stay_as_they_were_spelled():
    body = json.dumps(ASKED)[:-1].encode() + b', "temperature": 1.10}'
    result = translate("request", "anthropic", "openai-chat", body)
    assert '"temperature": 1.10' in result.stdout


def test_a_request_takes_model_and_stream_from_options():
    gemini = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    result = translate("request", "gemini", "anthropic", gemini, "--model", "claude-x", "--stream")
    body = json.loads(result.stdout)
    assert (body["model"], body["stream"]) == ("claude-x", True)


def test_no_stream_overrides_the_body():
    body = json.loads(
        translate("request", "anthropic", "openai-chat", {**ASKED, "stream": True}, "--no-stream").stdout
    )
    assert not body.get("stream")


def test_the_path_is_printed_on_request():
    result = translate("request", "anthropic", "gemini", ASKED, "--show-path", "--model", "g-1", "--stream")
    assert result.stderr.splitlines()[0] == "POST /v1beta/models/g-1:streamGenerateContent?alt=sse"
    assert json.loads(result.stdout)["contents"]


def test_a_response_comes_back_to_the_client():
    result = translate("response", "openai-chat", "anthropic", CALLED)
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert body["stop_reason"] == "tool_use"
    assert body["content"][-1]["name"] == "read_file"


def test_with_its_request_a_response_has_its_names_again(request_file: str):
    result = translate("response", "openai-chat", "anthropic", CALLED, "--request", request_file)
    assert json.loads(result.stdout)["content"][-1]["name"] == "read.file"


def test_what_the_request_loses_is_not_the_response_s_loss(tmp_path: Path):
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**ASKED, "top_k": 3}))
    result = translate(
        "response", "openai-chat", "anthropic", CALLED, "--request", str(file), "--strict", "--json"
    )
    assert result.exit_code == 0
    assert "top_k" not in result.stdout


def test_an_error_body_is_translated_too():
    error = {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
    result = translate("response", "openai-chat", "anthropic", error)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["error"] == {"type": "rate_limit_error", "message": "slow down"}


def test_a_stream_is_raw_bytes(request_file: str):
    result = translate("stream", "openai-chat", "anthropic", STREAMED, "--request", request_file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("event: message_start\ndata: {")
    assert '"name":"read.file"' in result.stdout
    assert result.stdout.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_a_stream_as_json_is_its_text():
    plain = translate("stream", "openai-chat", "anthropic", STREAMED)
    document = json.loads(translate("stream", "openai-chat", "anthropic", STREAMED, "--json").stdout)
    assert document["body"] == plain.stdout
    assert document["losses"] == []


def test_a_strict_stream_stops_where_it_loses_something():
    odd = STREAMED.replace(b'"role": "assistant"', b'"role": "assistant", "mood": "gay"')
    result = translate("stream", "openai-chat", "anthropic", odd, "--strict")
    assert result.exit_code == 1
    assert "mood" in result.stderr
    assert "message_stop" not in result.stdout


def test_tools_alone_as_an_array_or_inside_a_body():
    listed = translate("tools", "anthropic", "openai-chat", ASKED["tools"])
    held = translate("tools", "anthropic", "openai-chat", ASKED)
    assert json.loads(listed.stdout) == json.loads(held.stdout)
    assert json.loads(listed.stdout)[0]["function"]["name"] == "read_file"
    assert listed.stderr == held.stderr == ""


def test_tools_report_the_losses_of_tools_only():
    odd = [{**ASKED["tools"][0], "mood": "gay"}]
    document = json.loads(translate("tools", "openai-chat", "anthropic", [], "--json").stdout)
    assert document == {"body": [], "losses": []}
    document = json.loads(translate("tools", "anthropic", "openai-chat", odd, "--json").stdout)
    assert [(loss["kind"], loss["where"]) for loss in document["losses"]] == [("dropped", "tools[0].mood")]
    assert translate("tools", "anthropic", "openai-chat", odd, "--strict").exit_code == 1


@pytest.mark.parametrize("source", protocols())
@pytest.mark.parametrize("target", protocols())
def test_declarations_survive_the_round(source: str, target: str):
    declared = [{**ASKED["tools"][0], "name": "read_file"}]
    there = json.loads(translate("tools", "anthropic", source, declared).stdout)
    further = json.loads(translate("tools", source, target, there).stdout)
    assert json.loads(translate("tools", target, "anthropic", further).stdout) == declared


@pytest.mark.parametrize("dialect", dialects())
def test_a_dialect_puts_the_tools_into_the_prompt(dialect: str):
    result = translate("request", "anthropic", "openai-chat", ASKED, "--dialect", dialect)
    body = json.loads(result.stdout)
    assert result.exit_code == 0
    assert "tools" not in body
    assert "read" in json.dumps(body["messages"][0])


def test_images_in_results_can_be_summarised():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    turns = [
        *ASKED["messages"],
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "read.file", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}]},
    ]
    body = {**ASKED, "messages": turns}
    native = translate("request", "anthropic", "openai-chat", body)
    summary = translate("request", "anthropic", "openai-chat", body, "--images", "summary")
    assert "iVBORw0KGgo=" in native.stdout
    assert "iVBORw0KGgo=" not in summary.stdout
    assert "Binary content of type image/png was processed." in summary.stdout
    assert "changed" in summary.stderr


BROKEN = {
    "not JSON": ("request", b"{", "anthropic: body: "),
    "not an object": ("request", b"7", "anthropic: body: "),
    "wrong type": ("request", {**ASKED, "messages": 7}, "anthropic: messages: "),
    "deep": ("request", b"[" * 100_000, "anthropic: body: "),
    "invalid UTF-8": ("response", b'"\xff"', "anthropic: body: "),
    "empty": ("response", b"", "anthropic: body: "),
    "tools not JSON": ("tools", b"{", "anthropic: body: "),
    "tools not an array": ("tools", b'{"tools": 7}', "anthropic: tools: expected an array, got the number 7"),
    "a tool not an object": ("tools", b"[7]", "anthropic: tools[0]: "),
}


@pytest.mark.parametrize("what, stdin, message", BROKEN.values(), ids=BROKEN)
def test_broken_wire_is_one_line_that_names_protocol_and_path(what: str, stdin: Any, message: str):
    result = translate(what, "anthropic", "gemini", stdin)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"dragoman: {message}")
    assert result.stderr.count("\n") == 1


def test_a_request_that_names_no_model_is_told():
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    untold = translate("request", "gemini", "anthropic", body)
    assert "the request names no model. Pass --model." in untold.stderr
    assert "names no model" not in translate("request", "gemini", "anthropic", body, "--model", "m").stderr
