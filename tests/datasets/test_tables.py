"""`translate` over tables: JSON text, structs and dicts in, the same out; a wrong row is a value."""

from __future__ import annotations

import json
import pickle
from typing import Any

import cloudpickle
import polars
import pyarrow as pa
import pytest

from datasets.conversations import READ, SHAREGPT, body, messages
from dragoman import ConfigError, Exchange
from dragoman.core import jsontext
from dragoman.datasets import RowTranslator, Translation, report, translate

ROWS = [body(number) for number in range(20)]
TEXTS = [json.dumps(row) for row in ROWS]


def expected(row: Any, target: str = "anthropic") -> Any:
    return Exchange("openai-chat", target, transcript=True).request(row)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_text_comes_back_as_text(kind: Any) -> None:
    table = pa.table({"id": range(20), "body": pa.array(TEXTS).cast(kind)})
    made = translate(table, "openai-chat", "anthropic", "body")
    assert made.schema.names == ["id", "body", "losses", "error"]
    assert made.schema.field("body").type == (kind.value_type if pa.types.is_dictionary(kind) else kind)
    assert [made["body"][i].as_py() is None for i in range(20)] == [i == 5 for i in range(20)]
    assert json.loads(made["body"][3].as_py()) == expected(ROWS[3])


def test_losses_and_errors_are_columns() -> None:
    rows = translate(pa.table({"body": TEXTS}), "openai-chat", "anthropic", "body").to_pylist()
    assert {"code": "field.unknown.dropped", "severity": "minor", "where": "logit_bias"} in rows[10]["losses"]
    assert [row["error"] for row in rows if row["error"]] == [
        "openai-chat: messages: expected an array, got the number 7"
    ]


def test_numbers_keep_their_spelling() -> None:
    made = translate(pa.table({"body": TEXTS[:1]}), "openai-chat", "gemini", "body")
    assert '"n":1.10' in made["body"][0].as_py()


def test_messages_alone_take_their_tools_from_another_column() -> None:
    whole = {"messages": messages(1), "tools": [READ]}
    for tools in ([READ], json.dumps([READ])):
        table = pa.table({"messages": [json.dumps(messages(1))], "tools": [tools], "score": [1]})
        made = translate(table, "openai-chat", "anthropic")
        assert made.schema.names == ["score", "body", "losses", "error"]
        assert json.loads(made["body"][0].as_py()) == expected(whole)


@pytest.mark.parametrize("system", ["S", "[S] is your name", "{", '[{"type": "text", "text": "S"}]'])
def test_system_text_is_text_or_blocks_as_json(system: str) -> None:
    table = pa.table({"messages": [messages(1)[1:2]], "system": [system]})
    [text] = translate(table, "anthropic", "openai-chat", body="text")["body"].to_pylist()
    want = "S" if system.startswith("[{") else system
    assert json.loads(text)["messages"][0]["content"] == want


def test_structs_lose_the_nulls_that_arrow_added() -> None:
    plain = [messages(1), messages(2)[:2]]
    table = pa.table({"messages": plain, "tools": [[READ], None]})
    assert table["messages"][0].as_py()[0]["tool_calls"] is None  # Arrow added it
    made = translate(table, "openai-chat", "anthropic", body="text")
    want = [expected({"messages": plain[0], "tools": [READ]}), expected({"messages": plain[1]})]
    assert [json.loads(text) for text in made["body"].to_pylist()] == want


def test_structs_come_back_as_structs() -> None:
    table = pa.table({"messages": [messages(1)]})
    made = translate(table, "openai-chat", "openai-responses")
    assert pa.types.is_struct(made.schema.field("body").type)
    assert "What is in file 1?" in [each["content"] for each in made["body"][0].as_py()["input"]]
    with pytest.raises(ConfigError, match="Use body='text'"):
        translate(pa.table({"messages": [messages(1)]}), "openai-chat", "anthropic")


def test_dicts_of_lists() -> None:
    made = translate({"n": [1], "messages": [messages(1)]}, "openai-chat", "anthropic")
    assert (made["n"], made["error"]) == ([1], [None])
    assert made["body"] == [expected({"messages": messages(1)})]
    assert translate({"messages": TEXTS[:1]}, "openai-chat", "anthropic")["body"] == [
        jsontext.dumps(expected(ROWS[0]))
    ]


def test_a_list_of_dicts() -> None:
    """As json.load gives them: rows need not have the same fields, and a body has the form of its row."""
    rows = [{"n": 1, "messages": messages(1)}, {"messages": TEXTS[0], "tools": None}, {"error": "old"}]
    first, second, third = translate(rows, "openai-chat", "anthropic")
    assert first == {"n": 1, "body": expected({"messages": messages(1)}), "losses": [], "error": None}
    assert second["body"] == jsontext.dumps(expected(ROWS[0]))
    assert third["error"] == "openai-chat: messages: expected a conversation, got null"
    [text, *_] = translate(rows, "openai-chat", "anthropic", body="text")
    assert text["body"] == jsontext.dumps(first["body"])
    assert translate([], "openai-chat", "anthropic") == []
    found = report([{"id": "a", "messages": [7]}, {"messages": messages(1)}], "openai-chat", "anthropic")
    assert (found.rows, [*found.errors]) == (2, ["a"])
    mixed = report({"messages": [messages(1), "x", None]}, "openai-chat", "anthropic")
    assert (mixed.rows, [*mixed.errors]) == (3, ["1", "2"])


class MixedFrame:
    """As pandas keeps lists and texts in one column."""

    def __arrow_c_stream__(self, _: object = None) -> object:
        raise pa.ArrowInvalid("a list and a text", "of messages")


NO_TABLES: dict[str, tuple[Any, str]] = {
    "one row": ({"messages": messages(1), "n": 1}, "all of one length. A row is a dict in a list"),
    "columns of different lengths": ({"messages": [1], "n": [1, 2]}, "all of one length"),
    "a text for a column": ({"messages": "abc"}, "a list for each column"),
    "a list of texts": (["abc"], "expected a list of dicts, got a list with str"),
    "another column in dicts": ([{"text": "abc"}], "no column 'messages': the table has text"),
    "two columns of one name": (pa.table([["x"], ["y"]], ["messages", "messages"]), "several columns are"),
    "a column of any types": (MixedFrame(), "^of messages: a list and a text. Use JSON text"),
}


@pytest.mark.parametrize(("table", "problem"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_is_one_sentence(table: Any, problem: str) -> None:
    for ask in (translate, report):
        with pytest.raises(ConfigError, match=problem):
            ask(table, "openai-chat", "anthropic")


def test_other_frames() -> None:
    made = translate(polars.DataFrame({"body": TEXTS[:2]}), "openai-chat", "anthropic", "body")
    assert polars.DataFrame(made)["body"].to_list()[1] == jsontext.dumps(expected(ROWS[1]))
    with pytest.raises(ConfigError, match="got str"):
        translate("a,b", "openai-chat", "anthropic")
    with pytest.raises(ConfigError, match="body is 'same' or 'text', not 'json'"):
        translate([], "openai-chat", "anthropic", body="json")  # type: ignore[arg-type] - wrong


WRONG: list[Any] = [
    None,
    "",
    "{",
    "7",
    "[",
    '"text"',
    "[]]",
    "{}",
    "[7]",
    "[" * 5000,
    '{"messages": [{}]}',
    "\udcff",
]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "gemini", "openai-responses", "sharegpt"])
def test_a_wrong_row_is_a_value(value: Any, source: str) -> None:
    row = RowTranslator(Translation(source, "openai-chat", "c"))({"c": value})
    assert (row.body is None) == (row.error is not None)
    assert not (row.error or "").startswith("internal")


def test_a_map_with_a_key_twice_is_the_error_of_its_row() -> None:
    pairs = [[("role", "user"), ("content", "Hello")]]
    kind = pa.list_(pa.map_(pa.string(), pa.string()))
    table = pa.table({"messages": pa.array([pairs, [pairs[0] * 2], None], kind)})
    made = translate(table, "openai-chat", "anthropic")
    assert made["body"][0].as_py() == {"messages": [{"role": "user", "content": "Hello"}]}
    assert made["error"].to_pylist() == [
        None,
        "openai-chat: messages[0]: expected an object, got an array",
        "openai-chat: messages: expected a conversation, got null",
    ]


def test_the_report_counts_and_names_rows() -> None:
    table = pa.table({"name": [f"row {i}" for i in range(20)], "body": TEXTS})
    found = report(table, "openai-chat", "anthropic", "body", id="name")
    dropped = found.codes["field.unknown.dropped"]
    assert (found.rows, found.failed, dropped.count, dropped.rows) == (20, 1, 2, ["row 0", "row 10"])
    assert found.errors == {"row 5": "openai-chat: messages: expected an array, got the number 7"}


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no column 'messages': the table has a, b"):
        translate(pa.table({"a": [1], "b": [2]}), "openai-chat", "anthropic")
    with pytest.raises(ConfigError, match="Unknown layout 'shargpt'"):
        translate(pa.table({"a": [1]}), "shargpt", "anthropic")


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_the_map_goes_to_another_process(dumps: Any) -> None:
    made = RowTranslator(Translation("openai-chat", "anthropic"))
    again = pickle.loads(dumps(made))
    assert again.translate_text(TEXTS[0].encode()) == made.translate_text(TEXTS[0].encode())


HERMES = [
    {"from": "human", "value": "What is in /f and /g?"},
    {
        "from": "gpt",
        "value": "I will look.\n"
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "/f", "n": 1.10}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "/g"}}\n</tool_call>',
    },
    {
        "from": "tool",
        "value": '<tool_response>\n{"name": "read_file", "content": {"lines": 1.0}}\n</tool_response>\n'
        '<tool_response>\n{"name": "read_file", "content": "two lines"}\n</tool_response>\n',
    },
    {"from": "gpt", "value": "Three lines."},
]


def test_calls_that_stand_in_texts() -> None:
    """As Hermes' datasets hold them, and logs of models without tools of their own."""
    made = translate({"conversations": [HERMES]}, "sharegpt", "openai-chat", source_dialect="hermes")
    assert (made["losses"], made["error"]) == ([[]], [None])
    _, called, *results, answer = made["body"][0]["messages"]
    calls = called["tool_calls"]
    assert called["content"] == "I will look."
    assert [call["function"]["arguments"] for call in calls] == ['{"path":"/f","n":1.10}', '{"path":"/g"}']
    assert [each["content"] for each in results] == ['{"lines": 1.0}', "two lines"]
    assert [each["tool_call_id"] for each in results] == [call["id"] for call in calls]
    assert answer["content"] == "Three lines."


def test_calls_become_text_and_calls_again() -> None:
    there = RowTranslator(Translation("openai-chat", "openai-chat", dialect="hermes"))({"messages": TEXTS[1]})
    assert there.body
    assert b'"tool_calls"' not in there.body
    back = RowTranslator(Translation("openai-chat", "openai-chat", source_dialect="hermes"))
    made = back.translate_text(there.body)
    assert made.body
    _, *want = messages(1)
    system, *got = json.loads(made.body)["messages"]
    assert system["content"].startswith("You are terse.")
    assert [each["role"] for each in got] == [each["role"] for each in want]
    assert [each.get("content") for each in got] == [each["content"] for each in want]
    assert got[1]["tool_calls"][0]["function"] == want[1]["tool_calls"][0]["function"]


def test_a_broken_call_stays_text_and_is_reported() -> None:
    broken = [{"from": "gpt", "value": '<tool_call>\n{"name": "read_file", "argu'}]
    made = translate({"conversations": [broken]}, "sharegpt", "openai-chat", source_dialect="hermes")
    assert made["body"][0]["messages"][0]["content"] == broken[0]["value"]
    assert [(each["code"], each["where"]) for each in made["losses"][0]] == [
        ("dialect.call.changed", "conversations[0].value")
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"source_dialect": "hermess"}, "Did you mean 'hermes'"),
        ({"dialect": "hermess"}, "Did you mean 'hermes'"),
        ({"target": "sharegpt", "dialect": "hermes"}, "sharegpt has no text dialects"),
    ],
)
def test_a_dialect_that_cannot_be(options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RowTranslator(Translation(**{"source": "sharegpt", "target": "openai-chat", **options}))


def test_sharegpt_in() -> None:
    made = translate({name: [value] for name, value in SHAREGPT.items()}, "sharegpt", "openai-chat")
    [got] = made["body"]
    assert [each["role"] for each in got["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    [call] = got["messages"][2]["tool_calls"]
    assert call["function"] == {"name": "read_file", "arguments": '{"path":"/f","n":1.10}'}
    assert got["messages"][3]["tool_call_id"] == call["id"]
    assert got["tools"][0]["function"]["name"] == "read_file"


@pytest.mark.parametrize(
    ("speaker", "role"),
    [("Human", "user"), ("bard", "assistant"), ("tool_call", "assistant"), ("function-response", "tool")],
)
def test_other_words_for_speakers(speaker: str, role: str) -> None:
    turn = {"from": speaker, "value": '{"name": "f", "arguments": {}}'}
    [got] = translate({"conversations": [[turn]]}, "sharegpt", "openai-chat")["body"]
    assert [each["role"] for each in got["messages"]] == [role]


def test_what_a_call_of_sharegpt_says_arrives_or_is_reported() -> None:
    turn = {"from": "function_call", "value": '{"name": "f", "parameters": {"a": 1}, "thought": "why"}'}
    made = translate({"conversations": [[turn]]}, "sharegpt", "openai-chat")
    assert made["body"][0]["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert [each["where"] for each in made["losses"][0]] == ["conversations[0].value.thought"]


@pytest.mark.parametrize("source", ["openai-chat", "anthropic", "gemini", "openai-responses"])
def test_sharegpt_out_and_in_again(source: str) -> None:
    wire = Exchange("openai-chat", source).request({"messages": messages(3), "tools": [READ]})
    [row] = translate({"c": [json.dumps(wire)]}, source, "sharegpt", "c")["body"]
    made = json.loads(row)
    assert [turn["from"] for turn in made["conversations"] if turn["from"] != "system"][:4] == [
        *("human", "function_call", "observation", "gpt")
    ]
    assert json.loads(made["tools"])[0]["name"] == "read_file"
    back = translate({name: [value] for name, value in made.items()}, "sharegpt", "openai-chat")
    assert back["body"][0]["messages"][2]["tool_calls"][0]["function"]["name"] == "read_file"


def test_what_sharegpt_cannot_say_is_reported() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
    failed = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    turns = [
        {"role": "user", "content": [picture, {"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [failed]},
    ]
    row = {"messages": [{"messages": turns, "temperature": 0.5}]}
    [losses] = translate(row, "anthropic", "sharegpt")["losses"]
    assert [(each["code"], each["where"]) for each in losses] == [
        ("setting.temperature.dropped", "temperature"),
        ("media.image.dropped", "messages[0].content[0]"),
        ("result.error.dropped", "messages[2].content[0]"),
    ]
