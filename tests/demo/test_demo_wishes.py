"""A prompt and some tools -> the calls that fit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from demo.wires import WEATHER, asking
from dragoman.core.model import HostedTool, Message, Request, Text, ToolCall, ToolChoice, ToolDeclaration
from dragoman.demo import reply


def tool(name: str, *required: str) -> ToolDeclaration:
    properties = {field: {"type": "string"} for field in required}
    return ToolDeclaration(name, "", {"type": "object", "properties": properties, "required": list(required)})


CLAUDE = (
    tool("Bash", "command"),
    tool("Read", "file_path"),
    tool("Write", "file_path", "content"),
    tool("TodoWrite", "todos"),
    tool("Glob", "pattern"),
    tool("Grep", "pattern"),
    tool("Edit", "file_path"),
    tool("WebFetch", "url"),
)
GEMINI = (
    tool("list_directory", "path"),
    tool("read_file", "path"),
    tool("run_shell_command", "command"),
    tool("write_file", "file_path", "content"),
    tool("search_file_content", "pattern"),
)
CODEX = (
    ToolDeclaration(
        "shell",
        "",
        {
            "type": "object",
            "properties": {"command": {"type": "array", "items": {"type": "string"}}},
            "required": ["command"],
        },
    ),
    ToolDeclaration("apply_patch", kind="custom"),
)

WISHES = {
    "a listing": ("List the files here.", CLAUDE, [("Bash", '{"command":"ls"}')]),
    "a command": ("Run: echo cycle-42", GEMINI, [("run_shell_command", '{"command":"echo cycle-42"}')]),
    "a command in backticks": ("Please run `make test` now", CLAUDE, [("Bash", '{"command":"make test"}')]),
    "a command as words": ("list files", CODEX, [("shell", '{"command":["bash","-lc","ls"]}')]),
    "a file": ("What is in src/main.py?", GEMINI, [("read_file", '{"path":"src/main.py"}')]),
    "two files": (
        "Read a.txt and b.txt.",
        CLAUDE,
        [("Read", '{"file_path":"a.txt"}'), ("Read", '{"file_path":"b.txt"}')],
    ),
    "two things": (
        "Read notes.md and list the files",
        CLAUDE,
        [("Read", '{"file_path":"notes.md"}'), ("Bash", '{"command":"ls"}')],
    ),
    "two places": (
        "What is the weather in Oslo and Rome?",
        (WEATHER,),
        [("get_weather", '{"city":"Oslo"}'), ("get_weather", '{"city":"Rome"}')],
    ),
    "three places": (
        "weather in Oslo, New York and Rome",
        (WEATHER,),
        [
            ("get_weather", '{"city":"Oslo"}'),
            ("get_weather", '{"city":"New York"}'),
            ("get_weather", '{"city":"Rome"}'),
        ],
    ),
    "write, not TodoWrite": (
        "Write x.txt",
        CLAUDE,
        [("Write", '{"file_path":"x.txt","content":"Write x.txt"}')],
    ),
    "a tool by its own words": ("book a flight for me", (tool("book_flight"),), [("book_flight", "{}")]),
    "a tool by its name": ("use mcp__db__query now", (tool("mcp__db__query"),), [("mcp__db__query", "{}")]),
    "no tool": ("Tell me a joke.", CLAUDE, []),
    "no tools at all": ("List the files here.", (), []),
    "a deferred tool is not there": ("weather in Oslo", (ToolDeclaration("get_weather", deferred=True),), []),
    "a hosted tool is not ours": ("search the web", (HostedTool("web_search", "web_search"),), []),
    "half a word is no word": ("read it", (tool("list_threads"),), []),
    "reminders are no orders": (
        "<system-reminder>\nlist files and read x.py\n</system-reminder>\nhello",
        CLAUDE,
        [],
    ),
    "what is only quoted is not run": (
        "`ls -l | grep openai` lists the files",
        CLAUDE,
        [("Bash", '{"command":"ls"}')],
    ),
    "context has no commands": (
        "read x.py; list files\n" * 100 + "\n\nTo list files, run `grep -rE 'openai' .`",
        CLAUDE,
        [("Bash", '{"command":"ls"}')],
    ),
    "context is no order": ("read x.py; list files\n" * 100 + "\n\nhello", CLAUDE, []),
}


def called(request: Request) -> list[tuple[str, str]]:
    response = reply(request, "anthropic")
    return [(part.name, part.arguments) for part in response.parts if isinstance(part, ToolCall)]  # type: ignore[union-attr]


def test_a_long_text_behind_the_prompt_is_context() -> None:
    """Of Claude Code over a protocol without system messages in the middle, it is a message of the user."""
    context = Message("user", (Text("Agents:\n\n" + "- `Launch`: run `grep -rE 'openai' .` first\n" * 30),))
    request = asking("list the files", *CLAUDE)
    request = replace(request, messages=(*request.messages, context))
    assert called(request) == [("Bash", '{"command":"ls"}')]


@pytest.mark.parametrize("name", WISHES)
def test_a_wish(name: str) -> None:
    prompt, tools, expected = WISHES[name]
    assert called(asking(prompt, *tools)) == expected  # type: ignore[arg-type]


TWO = "What is the weather in Oslo and Rome?"
OTHER = tool("other")
CHOICES = {
    "none": (TWO, {"tool_choice": ToolChoice("none")}, []),
    "auto": (TWO, {"tool_choice": ToolChoice("auto")}, ["get_weather", "get_weather"]),
    "required": ("hello", {"tool_choice": ToolChoice("required")}, ["get_weather"]),
    "a name": ("hello", {"tool_choice": ToolChoice("required", ("other",))}, ["other"]),
    "only other tools": (TWO, {"tool_choice": ToolChoice("auto", ("other",))}, []),
    "one at a time": (TWO, {"parallel": False}, ["get_weather"]),
    "several": (TWO, {"parallel": True}, ["get_weather", "get_weather"]),
    "no end of them": ("weather in A, B, C, D, E, F", {}, ["get_weather"] * 4),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice(name: str) -> None:
    prompt, fields, expected = CHOICES[name]
    assert [tool for tool, _ in called(asking(prompt, WEATHER, OTHER, **fields))] == expected
