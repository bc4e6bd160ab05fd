"""`python tools/tool_call_matrix.py`: writes the examples of docs/reference/tool-call-matrix.md.

One conversation, written as an Anthropic client has it, is translated into every protocol by the library:
declarations, calls, results, images, streams. The text of the page before the marker is written by hand.
A test checks that the page is up to date.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dragoman
from dragoman.cli.demo.show import lay_out

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tool-call-matrix.md"
MARK = "<!-- generated: everything below -->\n"
TITLES = {
    "openai-chat": "OpenAI Chat",
    "openai-responses": "OpenAI Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "gemini-interactions": "Gemini Interactions",
}
WIDE = 220  # characters of a line of a stream
PNG = "iVBORw0KGgo="
Wire = dict[str, Any]


def tool(name: str, description: str, required: list[str], **properties: Wire) -> Wire:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "input_schema": schema}


TEXT: Wire = {"type": "string"}
TOOLS: dict[str, tuple[Wire, Wire, str | list[Wire]]] = {  # declaration, arguments, result
    "A shell command": (
        tool("run_shell_command", "Execute a shell command", ["command"], command=TEXT),
        {"command": "ls"},
        "README.md\nsrc",
    ),
    "Reading files": (
        tool("read_many_files", "Read several files", ["paths"], paths={"type": "array", "items": TEXT}),
        {"paths": ["README.md", "src/*.py"]},
        "--- README.md ---\n# Title",
    ),
    "An image as result": (
        tool("view_image", "Show an image", ["path"], path=TEXT),
        {"path": "plot.png"},
        [
            {"type": "text", "text": "plot.png"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ],
    ),
}


def generated() -> str:
    parts = [example(title, *row) for title, row in TOOLS.items()]
    return "\n".join([*parts, parallel(), failed(), streamed()])


def example(title: str, declared: Wire, arguments: Wire, result: str | list[Wire]) -> str:
    use, is_image = call("toolu_1", declared["name"], arguments), isinstance(result, list)
    lines = [f"## {title}: `{declared['name']}`\n"]
    for protocol, name in TITLES.items():
        request = sent(protocol, [declared], [use], [answer("toolu_1", result)])
        lines += [f"### {name}\n", "Declaration:\n", block(fields(request, "tools"))]
        lines += ["Call:\n", block(called(protocol, [use]))]
        lines += [
            "Result:\n",
            block(last(protocol, request, 2 if is_image and protocol == "openai-chat" else 1)),
        ]
    return "\n".join(lines)


def parallel() -> str:
    declared = TOOLS["A shell command"][0]
    uses = [
        call("toolu_1", declared["name"], {"command": "ls"}),
        call("toolu_2", declared["name"], {"command": "pwd"}),
    ]
    answers = [answer("toolu_1", "README.md"), answer("toolu_2", "/work")]
    lines = ["## Two calls at once\n", "The calls, then both results, in call order.\n"]
    for protocol, name in TITLES.items():
        request = sent(protocol, [declared], uses, answers)
        lines += [f"### {name}\n", block(called(protocol, uses)), block(last(protocol, request, 2))]
    return "\n".join(lines)


def failed() -> str:
    declared = TOOLS["A shell command"][0]
    use = call("toolu_1", declared["name"], {"command": "ls /x"})
    result = {**answer("toolu_1", "no such directory"), "is_error": True}
    lines = ["## A failed result\n"]
    for protocol, name in TITLES.items():
        lines += [f"### {name}\n", block(last(protocol, sent(protocol, [declared], [use], [result]), 1))]
    return "\n".join(lines)


def streamed() -> str:
    """The same reply as each client reads it."""
    events = [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": call("toolu_1", "run_shell_command", {}),
        },
        delta('{"comm'),
        delta('and": "ls"}'),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    lines = [
        "## A streamed call\n",
        "The model writes the arguments in two pieces. Each client gets the events of its protocol.\n",
    ]
    for protocol, name in TITLES.items():
        stream = dragoman.Exchange(client=protocol, upstream="anthropic").stream()
        out = (stream.feed(data) + stream.close()).decode() if protocol != "anthropic" else data.decode()
        out = re.sub(r'"(created|created_at|completed_at)": ?\d+', r'"\1":1', out.rstrip())
        out = re.sub(r'"(created|updated)":"[^"]+"', r'"\1":"2026-11-18T12:00:00Z"', out)
        shown = [line if len(line) <= WIDE else line[:WIDE] + "…" for line in out.split("\n")]
        lines += [f"### {name}\n", "\n".join(["```", *shown, "```\n"])]
    return "\n".join(lines)


def call(id: str, name: str, arguments: Wire) -> Wire:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def answer(id: str, content: str | list[Wire]) -> Wire:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def delta(text: str) -> Wire:
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": text},
    }


def sent(protocol: str, tools: list[Wire], uses: list[Wire], answers: list[Wire]) -> Wire:
    """The next request of the conversation, as an upstream of `protocol` gets it."""
    messages = [
        {"role": "user", "content": "Go ahead."},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": answers},
    ]
    body = {"model": "m", "max_tokens": 500, "messages": messages, "tools": tools}
    return dragoman.Exchange(client="anthropic", upstream=protocol).request(body)


def called(protocol: str, uses: list[Wire]) -> Any:
    """The part of a reply that holds the calls, as a client of `protocol` gets it."""
    reply: Wire = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": uses}
    reply |= {
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }
    body = dragoman.Exchange(client=protocol, upstream="anthropic").response(reply)
    match protocol:
        case "openai-chat":
            return fields(body["choices"][0], "finish_reason", "message")
        case "openai-responses":
            return fields(body, "status", "output")
        case "anthropic":
            return fields(body, "stop_reason", "content")
        case "gemini-interactions":
            return fields(body, "status", "steps")
        case _:
            return fields(body["candidates"][0], "finishReason", "content")


def last(protocol: str, request: Wire, count: int) -> Any:
    """What the request ends with: the results."""
    turns = next(request[field] for field in ("messages", "input", "contents") if field in request)
    return turns[-1:] if protocol in ("anthropic", "gemini") else turns[-count:]


def fields(body: Wire, *names: str) -> Wire:
    return {name: body[name] for name in names}


def block(value: Any) -> str:
    return "```json\n" + "\n".join(lay_out(value, 100)) + "\n```\n"


def page() -> str:
    """The page as it should be."""
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return written + MARK + "\n" + generated()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
