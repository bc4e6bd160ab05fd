"""`generate` over tables: a reply or an error for every row, kept in a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from dragoman import AuthenticationError, ConfigError, Provider, tool
from dragoman.datasets import generate

PROMPTS = ["Hello", "", '[{"role": "user", "content": "Hi there"}]', "[[fault: 400]]", "[1, 2]"]
TABLE = pa.table({"id": ["a", "b", "c", "d", "e"], "prompt": PROMPTS, "score": [1, 2, 3, 4, 5]})
GONE = Provider("demo", protocol="anthropic", base_url="http://127.0.0.1:9", api_key="k", tries=1)


def test_every_row_has_a_reply_or_an_error() -> None:
    rows = generate(TABLE, "demo:any", concurrency=2).to_pylist()
    assert [row["content"] for row in rows] == [
        *("You said: Hello", None, "You said: Hi there", None, "You said: [1, 2]")
    ]
    assert [row["error"] for row in rows if row["error"]] == [
        "The prompt is empty. Pass a text, a message or a list of messages.",
        "demo: bad request",
    ]
    assert (rows[0]["score"], rows[0]["finish_reason"], rows[0]["input_tokens"] > 0) == (1, "stop", True)
    assert "prompt" not in rows[0]


def test_what_is_in_the_checkpoint_is_not_sent_again(tmp_path: Path) -> None:
    first = generate(TABLE, "demo:any", checkpoint=tmp_path / "replies.jsonl")
    assert generate(TABLE, GONE.model("any"), checkpoint=tmp_path / "replies.jsonl") == first
    again = generate(TABLE, GONE.model("any"), checkpoint=tmp_path / "replies.jsonl", retry_failed=True)
    assert again["error"][3].as_py() != "demo: bad request"
    assert again["content"][0].as_py() == "You said: Hello"


def test_calls_are_json_text() -> None:
    @tool
    def weather(city: str) -> str:
        "The weather in a city."
        return city

    messages = [[{"role": "user", "content": "What is the weather in Paris?"}]]
    [row] = generate(pa.table({"messages": messages}), "demo:any", "messages", tools=[weather]).to_pylist()
    assert json.loads(row["tool_calls"])[0]["function"]["name"] == "weather"


def test_what_no_row_survives_raises() -> None:
    with pytest.raises(AuthenticationError):
        generate(pa.table({"prompt": ["[[fault: 401]]"]}), "demo:any")
    with pytest.raises(ConfigError, match="two rows have the same id"):
        generate(pa.table({"id": [1, 1], "prompt": ["a", "b"]}), "demo:any")
    with pytest.raises(ConfigError, match="no column 'prompt'"):
        generate(pa.table({"text": ["a"]}), "demo:any")
