"""Conversations with tool calls, in the layouts that datasets are published in; some rows are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

READ = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


def messages(number: int) -> list[dict[str, Any]]:
    """A question, a call, its result, an answer."""
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "read_file", "arguments": f'{{"path":"/f{number}","n":1.10}}'},
    }
    return [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": f"What is in file {number}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"line {number}"},
        {"role": "assistant", "content": f"It holds line {number}."},
    ]


def body(number: int) -> Any:
    """A request; every tenth has a field that only Chat knows, and the sixth is wrong."""
    if number == 5:
        return {"model": "m", "messages": 7}
    extra = {"logit_bias": {"50256": -100}} if number % 10 == 0 else {}
    return {"model": "m", "messages": messages(number), "tools": [READ], **extra}


SHAREGPT = {
    "conversations": [
        {"from": "human", "value": "What is in /f?"},
        {"from": "function_call", "value": '{"name": "read_file", "arguments": {"path": "/f", "n": 1.10}}'},
        {"from": "observation", "value": "a line"},
        {"from": "gpt", "value": "It holds a line."},
    ],
    "system": "You are terse.",
    "tools": json.dumps([READ["function"]]),
}


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: list[Any], group: int = 7) -> Path:
    table = pa.table(
        {"id": range(len(rows)), "body": [json.dumps(row) for row in rows], "score": [0.5] * len(rows)}
    )
    pq.write_table(table, path, row_group_size=group)
    return path


def ids(folder: Path) -> list[str]:
    """Of all rows in the shards of a job, in the order of the files."""
    found: list[str] = []
    for part in sorted(folder.glob("part-*")):
        if part.suffix == ".parquet":
            found += map(str, pq.read_table(part, columns=["id"]).column("id").to_pylist())
        else:
            found += [str(json.loads(line)["id"]) for line in part.read_text().splitlines()]
    return found
