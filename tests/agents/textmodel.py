"""A model without tool calling: it answers in plain text, and calls tools as the prompt taught it (hermes).

Standard library only. It reads the tools between <tools></tools>, calls the one that looks like a shell,
and answers with what the tool said. Who names a `chat_id` sends it only what is new: it keeps the rest, and
prints a line for each such request.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHELLS = ("bash", "exec_command", "shell_command", "shell", "run_shell_command", "exec")
COMMANDS = ("printf 'cycle-%d\\n' 0x2a && sleep 0.3", "printf 'second-%d\\n' 0x40 && sleep 0.3")


def reply(messages: list[dict[str, Any]]) -> str:
    """What this model says next."""
    texts = [(message["role"], text_of(message["content"])) for message in messages]
    users = "\n".join(text for role, text in texts if role == "user")
    results = [
        text
        for _, text in texts
        for text in re.findall(r"<tool_response>\n(.*?)\n</tool_response>", text, re.S)
    ]
    scenario = (re.findall(r"\[\[scenario:(\w+)\]\]", users) or ["tool"])[-1]
    tool = shell("\n".join(text for role, text in texts if role == "system"))
    if wanted := deferred(users, len(results)):
        return wanted
    if tool is None or scenario == "text":
        return "FINAL: plain answer, no tool."
    steps = 2 if scenario in ("parallel", "twostep", "toolsearch") else 1
    if len(results) >= steps:
        return "FINAL: the tool said: " + " | ".join(results[-2:])
    turn = 0 if scenario == "toolsearch" else len(results)
    calls = COMMANDS if scenario == "parallel" else COMMANDS[turn : turn + 1]
    return "Let me look.\n" + "\n".join(call(tool, command) for command in calls)


def deferred(users: str, results: int) -> str:
    """A tool that Claude Code has not loaded yet must be searched for first."""
    named = re.findall(r"\[\[load:([\w.-]+)\]\]", users)
    search = (
        {"name": "ToolSearch", "arguments": {"query": f"select:{named[-1]}", "max_results": 5}}
        if named
        else {}
    )
    return f"<tool_call>\n{json.dumps(search)}\n</tool_call>" if named and not results else ""


def shell(prompt: str) -> dict[str, Any] | None:
    block = re.search(r"<tools>\n(.*?)\n</tools>", prompt, re.S)
    tools = [json.loads(line)["function"] for line in block[1].splitlines()] if block else []
    named = {re.split(r"__|\.", tool["name"])[-1].lower(): tool for tool in tools}
    return next((named[name] for name in SHELLS if name in named), None)


def call(tool: dict[str, Any], command: str) -> str:
    schema = tool["parameters"]
    needed = [name for name in schema["properties"] if name in schema.get("required", ())]
    arguments = {
        name: command if name in ("command", "cmd") else filled(schema["properties"][name]) for name in needed
    }
    return f"<tool_call>\n{json.dumps({'name': tool['name'], 'arguments': arguments})}\n</tool_call>"


def filled(schema: dict[str, Any]) -> Any:
    """The least that a schema lets pass."""
    if "properties" in schema:
        return {
            name: filled(of)
            for name, of in schema["properties"].items()
            if name in schema.get("required", ())
        }
    kinds = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
    return schema["enum"][0] if "enum" in schema else kinds.get(schema.get("type", "string"), "check")


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


KEPT: dict[tuple[str, str | None], list[dict[str, Any]]] = {}  # (chat, reply) -> all that was said up to it


def whole(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation with what is new. KeyError: it goes on from a reply that was never given."""
    chat, parent, new = body.get("chat_id", ""), body.get("parent_id"), body["messages"]
    if chat:
        roles = " ".join(message["role"] for message in new)
        print(f"{'goes on' if parent else 'begins'} {chat} with {roles}", flush=True)
    return [*(KEPT[chat, parent] if parent else []), *new]


def kept(body: dict[str, Any], messages: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """What the reply says about the conversation."""
    if "chat_id" not in body:
        return {}
    reply = str(uuid.uuid4())
    KEPT[body["chat_id"], reply] = [*messages, {"role": "assistant", "content": text}]
    return {"response_id": reply}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("tools"):
            self.send(400, "application/json", [b'{"error":{"message":"this model takes no tools"}}'])
            return
        try:
            messages = whole(body)
        except KeyError:
            self.send(400, "application/json", [b'{"error":{"message":"parent_id is not exist"}}'])
            return
        wanted = body.get("response_format", {}).get("json_schema")
        text = json.dumps(filled(wanted["schema"])) if wanted else reply(messages)
        named = kept(body, messages, text)
        if body.get("stream"):
            pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
            events = [
                *({"delta": {"content": piece}} for piece in pieces),
                {"delta": {}, "finish_reason": "stop"},
            ]
            frames = [frame({"choices": [{"index": 0, **event}], **HEAD, **named}) for event in events]
            self.send(
                200,
                "text/event-stream",
                [*frames, frame({"choices": [], **HEAD, **USAGE}), b"data: [DONE]\n\n"],
            )
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self.send(
                200,
                "application/json",
                [json.dumps({"choices": [choice], **HEAD, **USAGE, **named}).encode()],
            )

    def send(self, status: int, kind: str, pieces: list[bytes]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in [*pieces, b""]:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


HEAD = {"object": "chat.completion", "created": 1, "model": "text-model"}
USAGE = {"usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}


def frame(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.exit(server.serve_forever())
