"""`generate` over tables: a reply or an error for every row, kept in a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dragoman import AuthenticationError, ConfigError, Provider, Tool, tool
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
    assert generate(TABLE.to_pylist(), "demo:any").to_pylist() == rows
    assert generate(TABLE.to_pydict(), "demo:any").to_pylist() == rows
    with pytest.raises(ConfigError, match="Use JSON text"):
        generate([{"prompt": "a"}, {"prompt": [{"role": "user", "content": "a"}]}], "demo:any")


def test_what_is_in_the_checkpoint_is_not_sent_again(tmp_path: Path) -> None:
    first = generate(TABLE, "demo:any", checkpoint=tmp_path / "replies.jsonl")
    assert generate(TABLE, GONE.model("any"), checkpoint=tmp_path / "replies.jsonl") == first
    again = generate(TABLE, GONE.model("any"), checkpoint=tmp_path / "replies.jsonl", retry_failed=True)
    assert again["error"][3].as_py() != "demo: bad request"
    assert again["content"][0].as_py() == "You said: Hello"


OTHERS: dict[str, dict[str, Any]] = {
    "prompts": {"table": pa.table({"prompt": ["a", "c"]})},
    "model": {"model": "demo:other"},
    "settings": {"temperature": 1.0},
    "tools": {"tools": [Tool("f", "Another description.", {"type": "object"})]},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_belongs_to_its_prompts_model_and_settings(other: Any, tmp_path: Path) -> None:
    """Rows without names are numbered, so another table would get its replies."""
    asked: Any = {
        "table": pa.table({"prompt": ["a", "b"]}),
        "model": "demo:any",
        "temperature": 0.5,
        "tools": [Tool("f", "A description.", {"type": "object"})],
        "checkpoint": tmp_path / "replies.jsonl",
    }
    first = generate(**asked)["content"].to_pylist()
    fewer = generate(**asked | {"table": asked["table"].slice(0, 1), "model": GONE.model("any"), "tries": 2})
    assert fewer["content"].to_pylist() == first[:1]
    with pytest.raises(ConfigError, match=r"replies.jsonl: the reply of row '\d' is to another prompt"):
        generate(**asked | other)


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
