"""The translation examples that roo-xml was made from: both directions, whole and streamed, to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dialects.parsing import in_short, parse
from dragoman.core.events import PartDelta, PartEnd, PartStart, ResponseEnd, ResponseStart
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Stop, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.dialects import dialect

ROO = dialect("roo-xml")


def tool(name: str, about: str, required: list[str], /, **properties: tuple[str, str]) -> ToolDeclaration:
    shown = {key: {"type": kind, "description": text} for key, (kind, text) in properties.items()}
    return ToolDeclaration(name, about, {"type": "object", "properties": shown, "required": required})


READ = tool(
    "read",
    "Read a file from the filesystem with line numbers",
    ["filePath"],
    filePath=("string", "Absolute path to the file"),
    offset=("number", "Line number to start reading from"),
    limit=("number", "Number of lines to read"),
)
BASH = tool(
    "bash",
    "Execute a bash command in a persistent shell session",
    ["command", "description"],
    command=("string", "The command to execute"),
    description=("string", "Clear description of what this command does"),
    timeout=("number", "Timeout in milliseconds"),
)
WRITE = tool(
    "write",
    "Write content to a file, creating it if it doesn't exist",
    ["file_path", "content"],
    file_path=("string", "Absolute path to the file"),
    content=("string", "Content to write to the file"),
)
SHORT_READ = tool("read", "Read a file", ["filePath"], filePath=("string", "File path"))
SHORT_BASH = tool(
    "bash",
    "Execute command",
    ["command", "description"],
    command=("string", "Command"),
    description=("string", "Description"),
)
TOOLS = (READ, BASH, WRITE)

# Direction 1: declarations into the system text

SECTIONS = {
    "1 read": (
        READ,
        """\
## read
Description: Read a file from the filesystem with line numbers
Parameters:
- filePath: (required) string - Absolute path to the file
- offset: (optional) number - Line number to start reading from
- limit: (optional) number - Number of lines to read

Usage:
<read>
<filePath>/path/to/file.js</filePath>
<offset>10</offset>
<limit>50</limit>
</read>""",
    ),
    "2 bash": (
        BASH,
        """\
## bash
Description: Execute a bash command in a persistent shell session
Parameters:
- command: (required) string - The command to execute
- description: (required) string - Clear description of what this command does
- timeout: (optional) number - Timeout in milliseconds

Usage:
<bash>
<command>npm install axios</command>
<description>Install axios package for HTTP requests</description>
<timeout>30000</timeout>
</bash>""",
    ),
    "3 write": (
        WRITE,
        """\
## write
Description: Write content to a file, creating it if it doesn't exist
Parameters:
- file_path: (required) string - Absolute path to the file
- content: (required) string - Content to write to the file

Usage:
<write>
<file_path>/src/app.js</file_path>
<content>
console.log('Hello World');
</content>
</write>""",
    ),
}
HEADER = """\
You have access to tools that help you accomplish tasks. Use tools by outputting XML-formatted tool calls.

## Tool Use Rules
1. Use exactly one tool per message
2. Format tool calls using XML with the tool name as the tag
3. Include all required parameters within parameter tags

## Tool Call Format
<tool_name>
<parameter1>value1</parameter1>
<parameter2>value2</parameter2>
</tool_name>

## Available Tools

"""
SEVERAL = """\
## read
Description: Read a file
Parameters:
- filePath: (required) string - File path

Usage:
<read>
<filePath>/path/to/file</filePath>
</read>

## bash
Description: Execute command
Parameters:
- command: (required) string - Command
- description: (required) string - Description

Usage:
<bash>
<command>npm install</command>
<description>Install dependencies</description>
</bash>"""


def rendered(
    *messages: Message, tools: tuple[ToolDeclaration, ...] = (), dialect: Any = ROO, **rest: Any
) -> Request:
    return dialect.render(Request("m", messages, tools=tools, **rest), Losses())


ASKED = Message("user", (Text("Read package.json and install dependencies"),))


@pytest.mark.parametrize("name", SECTIONS)
def test_declares_one_tool(name: str) -> None:
    declared, section = SECTIONS[name]
    assert rendered(ASKED, tools=(declared,)).system == (Text(HEADER + section),)


def test_4_declares_several_tools() -> None:
    request = rendered(ASKED, tools=(SHORT_READ, SHORT_BASH))
    assert request.system == (Text(HEADER + SEVERAL),)
    assert (request.tools, request.messages) == ((), (ASKED,))


def test_the_wrapper_of_the_checklist_is_an_option() -> None:
    request = rendered(ASKED, tools=(SHORT_READ, SHORT_BASH), dialect=replace(ROO, wrapped=True))
    assert request.system == (Text(f"{HEADER}<tools>\n{SEVERAL}\n</tools>"),)


# Direction 2: replies

SETTINGS = """\
{
  "api": {
    "endpoint": "https://api.example.com",
    "timeout": 5000
  },
  "logging": {
    "level": "debug"
  }
}"""
REPLIES: dict[str, tuple[str, list[Any], str]] = {
    "1 a simple call": (
        "I'll read the package.json file to see the dependencies.\n\n"
        "<read>\n<filePath>/home/user/project/package.json</filePath>\n</read>",
        [
            "I'll read the package.json file to see the dependencies.",
            ("read", r'{"filePath":"/home/user/project/package.json"}'),
        ],
        "tool_calls",
    ),
    "2 several parameters": (
        "I'll install the axios package using npm.\n\n<bash>\n<command>npm install axios</command>\n"
        "<description>Install axios HTTP client library</description>\n<timeout>60000</timeout>\n</bash>",
        [
            "I'll install the axios package using npm.",
            (
                "bash",
                '{"command":"npm install axios","description":"Install axios HTTP client library",'
                '"timeout":60000}',
            ),
        ],
        "tool_calls",
    ),
    "3 content on several lines": (
        "I'll create a new configuration file with the settings.\n\n<write>\n"
        f"<file_path>/config/settings.json</file_path>\n<content>\n{SETTINGS}\n</content>\n</write>",
        [
            "I'll create a new configuration file with the settings.",
            (
                "write",
                '{"file_path":"/config/settings.json","content":"{\\n  \\"api\\": {\\n    \\"endpoint\\": '
                '\\"https://api.example.com\\",\\n    \\"timeout\\": 5000\\n  },\\n  \\"logging\\": {\\n    '
                '\\"level\\": \\"debug\\"\\n  }\\n}"}',
            ),
        ],
        "tool_calls",
    ),
    "4 no call": (
        "The package.json file contains 5 dependencies: express, axios, lodash, moment, and dotenv.",
        ["The package.json file contains 5 dependencies: express, axios, lodash, moment, and dotenv."],
        "end",
    ),
    "cycle 2": (
        "I'll install lodash using npm.\n\n<bash>\n<command>npm install lodash</command>\n"
        "<description>Install lodash utility library</description>\n</bash>",
        [
            "I'll install lodash using npm.",
            ("bash", '{"command":"npm install lodash","description":"Install lodash utility library"}'),
        ],
        "tool_calls",
    ),
    "edge 1 a missing closing tag": (
        "I'll read the file.\n\n<read>\n<filePath>/path/to/file\n</read>",
        ["I'll read the file.\n\n<read>\n<filePath>/path/to/file\n</read>"],
        "end",
    ),
    "edge 3 several calls": (
        "<read>\n<filePath>/file1.js</filePath>\n</read>\n\n<read>\n<filePath>/file2.js</filePath>\n</read>",
        [("read", '{"filePath":"/file1.js"}')],
        "tool_calls",
    ),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("size", [0, 1, 7])
def test_reads_a_reply(name: str, size: int) -> None:
    text, expected, reason = REPLIES[name]
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    parts, stop, _ = parse(ROO, TOOLS, *pieces)
    assert (in_short(*parts), stop) == (expected, reason)


def test_5_the_streamed_reply_piece_by_piece() -> None:
    """Each piece gives at once what is certain; the text ends at "file.", the call comes with its end."""
    pieces = [
        "I'll ",
        "read ",
        "the ",
        "file.\n\n<read",
        ">\n<file",
        "Path>/src/app.js</filePath>\n</read>",
    ]
    stage = ROO.parser((SHORT_READ,), Losses())
    stage.feed(ResponseStart("r", "m"))
    stage.feed(PartStart(0, Text()))
    assert [list(stage.feed(PartDelta(0, piece))) for piece in pieces] == [
        [PartStart(0, Text()), PartDelta(0, "I'll ")],
        [PartDelta(0, "read ")],
        [PartDelta(0, "the ")],
        [PartDelta(0, "file.")],
        [],
        [],
    ]
    # a </think> may still follow: then the call was only considered
    assert list(stage.feed(PartEnd(0))) == [
        PartEnd(0),
        PartStart(1, ToolCall("", "read")),
        PartDelta(1, '{"filePath":"/src/app.js"}'),
        PartEnd(1),
    ]
    end = stage.feed(ResponseEnd(Stop("end", "stop")))
    assert list(end) == [ResponseEnd(Stop("tool_calls", "stop"))]


def test_edge_1_is_reported() -> None:
    _, _, losses = parse(ROO, TOOLS, REPLIES["edge 1 a missing closing tag"][0])
    assert [loss.kind for loss in losses] == ["changed"]
    assert "</filePath> is missing" in losses[0].why


def test_edge_2_an_undeclared_tool_passes() -> None:
    parts, stop, losses = parse(ROO, (READ, WRITE), "<bash>\n<command>ls -la</command>\n</bash>")
    assert (in_short(*parts), stop, losses) == ([("bash", '{"command":"ls -la"}')], "tool_calls", [])


def test_edge_3_the_rest_is_reported_and_all_calls_are_an_option() -> None:
    text = REPLIES["edge 3 several calls"][0]
    _, _, losses = parse(ROO, TOOLS, text)
    assert [loss.kind for loss in losses] == ["dropped"]
    parts, _, losses = parse(replace(ROO, only_first=False), TOOLS, text)
    assert in_short(*parts) == [("read", '{"filePath":"/file1.js"}'), ("read", '{"filePath":"/file2.js"}')]
    assert losses == []


# Types

TYPED = ToolDeclaration(
    "typed",
    "",
    {
        "type": "object",
        "properties": {
            "filePath": {"type": "string"},
            "timeout": {"type": "number"},
            "offset": {"type": "number"},
            "recursive": {"type": "boolean"},
            "force": {"type": "boolean"},
            "files": {"type": "array", "items": {"type": "string"}},
            "options": {
                "type": "object",
                "properties": {"timeout": {"type": "number"}, "retries": {"type": "integer"}},
            },
        },
    },
)
TYPES = {
    "string": ("<filePath>/path/to/file</filePath>", '{"filePath":"/path/to/file"}'),
    "number": ("<timeout>5000</timeout>\n<offset>10</offset>", '{"timeout":5000,"offset":10}'),
    "boolean": ("<recursive>true</recursive>\n<force>false</force>", '{"recursive":true,"force":false}'),
    "array": (
        "<files>\n  <item>file1.js</item>\n  <item>file2.js</item>\n</files>",
        '{"files":["file1.js","file2.js"]}',
    ),
    "object": (
        "<options>\n  <timeout>5000</timeout>\n  <retries>3</retries>\n</options>",
        '{"options":{"timeout":5000,"retries":3}}',
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    inside, arguments = TYPES[name]
    parts, _, _ = parse(ROO, (TYPED,), f"<typed>\n{inside}\n</typed>")
    assert in_short(*parts) == [("typed", arguments)]


# Results

CALL = ToolCall("call_1", "read", '{"filePath":"/home/user/package.json"}')
RESULT = '{"dependencies":{"express":"^4.18.0","axios":"^1.4.0"}}'


def test_the_history_of_cycle_1() -> None:
    request = rendered(
        Message("user", (Text("What's in the package.json file?"),)),
        Message("assistant", (Text("I'll read the package.json file."), CALL)),
        Message("user", (ToolResult("call_1", content=(Text(RESULT),)),)),
        tools=(SHORT_READ,),
    )
    assert [message.parts for message in request.messages[1:]] == [
        (
            Text(
                "I'll read the package.json file.\n\n"
                "<read>\n<filePath>/home/user/package.json</filePath>\n</read>"
            ),
        ),
        (Text(f"Tool Result from read:\n{RESULT}"),),
    ]
