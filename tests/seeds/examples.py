"""The examples of the seeds as data: what each protocol's wire looks like when these tools are declared,
called and answered. `cycles.json` holds the whole exchanges of seed 000, `matrix.json` the turns of seed 001.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

Wire = dict[str, Any]
PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "gemini")
HERE = Path(__file__).parent
CYCLES: dict[str, dict[str, Wire]] = json.loads((HERE / "cycles.json").read_text())
MATRIX: dict[str, Wire] = json.loads((HERE / "matrix.json").read_text())
MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5",
    "anthropic": "claude-3-opus-20240229",
    "gemini": "gemini-1.5-pro",
}


def _parameters(required: str, **properties: Wire) -> Wire:
    return {"type": "object", "properties": properties, "required": required.split()}


STRING, WHOLE = {"type": "string"}, {"type": "integer"}
STRINGS = {"type": "array", "items": STRING}

# name -> description, schema; the seed writes out the first one and tells the others in words
TOOLS: dict[str, tuple[str, Wire]] = {
    "run_shell_command": (
        "Execute a shell command",
        _parameters("command", command=STRING, directory=STRING, description=STRING),
    ),
    "read_file": (
        "Read a file",
        _parameters("absolute_path", absolute_path=STRING, offset=WHOLE, limit=WHOLE),
    ),
    "read_many_files": ("Read several files", _parameters("paths", paths=STRINGS, include=STRINGS)),
    "write_file": ("Write a file", _parameters("file_path content", file_path=STRING, content=STRING)),
    "replace": (
        "Edit a file",
        _parameters(
            "file_path old_string new_string",
            file_path=STRING,
            old_string=STRING,
            new_string=STRING,
            expected_replacements=WHOLE,
        ),
    ),
    "search_file_content": (
        "Search in files",
        _parameters("pattern", pattern=STRING, path=STRING, include=STRING, max_matches=WHOLE),
    ),
}


def declaration(protocol: str, name: str) -> list[Wire]:
    """The value of `tools` that declares `name`, as the seed writes it."""
    description, schema = TOOLS[name]
    match protocol:
        case "anthropic":
            return [{"name": name, "description": description, "input_schema": schema}]
        case "openai-responses":
            return [{"type": "function", "name": name, "description": description, "parameters": schema}]
        case "openai-chat":
            function = {"name": name, "description": description, "parameters": schema}
            return [{"type": "function", "function": function}]
        case _:
            function = {"name": name, "description": description, "parametersJsonSchema": schema}
            return [{"functionDeclarations": [function]}]


def request(protocol: str, name: str, text: str | None = None, id: str = "") -> Wire:
    """The conversation of seed 001 about `name`: the tool, what the user asked, the call, the result.

    `text` is the text beside the call (as in the seed where it is None), `id` the call's id (likewise).
    """
    example = MATRIX[name]
    user, turn = example["user"], deepcopy(example[protocol])
    text = seed_text(protocol, name) if text is None else text
    tools, id = declaration(protocol, name), id or seed_id(protocol, name)
    match protocol:
        case "anthropic":
            blocks, answers = turn["call"]["content"], turn["result"]["content"]
            turn["call"]["content"] = [{"type": "text", "text": text}] * bool(text) + blocks[-1:]
            blocks[-1]["id"] = answers[0]["tool_use_id"] = id
            messages = [{"role": "user", "content": user}, turn["call"], turn["result"]]
            return {"model": MODELS[protocol], "max_tokens": 1024, "messages": messages, "tools": tools}
        case "openai-chat":
            turn["call"]["content"] = text or None
            turn["call"]["tool_calls"][0]["id"] = turn["result"]["tool_call_id"] = id
            messages = [{"role": "user", "content": user}, turn["call"], turn["result"]]
            return {"model": MODELS[protocol], "messages": messages, "tools": tools}
        case "openai-responses":
            turn["call"]["call_id"] = turn["result"]["call_id"] = id
            spoken = [{"role": "assistant", "content": text}] * bool(text)
            items = [{"role": "user", "content": user}, *spoken, turn["call"], turn["result"]]
            return {"model": MODELS[protocol], "input": items, "tools": tools}
        case _:
            parts, answers = turn["call"]["parts"], turn["result"]["parts"]
            turn["call"]["parts"] = [{"text": text}] * bool(text) + parts
            parts[0]["functionCall"]["id"] = answers[0]["functionResponse"]["id"] = id
            contents = [{"role": "user", "parts": [{"text": user}]}, turn["call"], turn["result"]]
            return {"contents": contents, "tools": tools}


def seed_text(protocol: str, name: str) -> str:
    """Only Anthropic's shell example speaks beside its call."""
    return "Working on it..." if (protocol, name) == ("anthropic", "run_shell_command") else ""


def seed_id(protocol: str, name: str) -> str:
    """The seed uses one id for all protocols, but for one."""
    if (protocol, name) == ("gemini", "run_shell_command"):
        return "fc1"
    return MATRIX[name]["openai-chat"]["result"]["tool_call_id"]


def arguments(name: str) -> Wire:
    return MATRIX[name]["gemini"]["call"]["parts"][0]["functionCall"]["args"]


def output(name: str) -> str:
    return MATRIX[name]["openai-chat"]["result"]["content"]
