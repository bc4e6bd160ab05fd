"""An upstream that keeps conversations, as the `chat_id` / `parent_id` server of the seed does.

It knows what it has seen and nothing else: a request that goes on must name a reply that it gave in that
conversation, holds only what is new, and is answered from all that was said on the way to it.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from gateway.canned import Answer, Send

Wire = dict[str, Any]


class StatefulUpstream:
    """`requests`: the bodies of all requests. `faults`: how the next requests go wrong, None for well."""

    def __init__(self) -> None:
        self.requests: list[Wire] = []
        self.faults: list[int | str | None] = []
        self._replies: dict[str, dict[str, list[Wire]]] = {}  # chat -> reply -> all that was said up to it
        self._names = (f"reply-{number}" for number in count(1))

    def forget(self, chat: str, reply: str = "") -> None:
        if reply:
            del self._replies[chat][reply]
        else:
            del self._replies[chat]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            await DemoApp()(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._answer(jsontext.decode(body)).send(send)

    def _answer(self, body: Wire) -> Answer:
        self.requests.append(body)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            return _refused(fault, "as the test wished")
        if "tools" in body or "tool_choice" in body:
            return _refused(400, "this server knows no tools")
        chat, parent, new = body["chat_id"], body["parent_id"], body["messages"]
        if parent is None:
            history = []
        elif chat not in self._replies:
            return _refused(404, f"chat {chat} is not here")
        elif parent not in self._replies[chat]:
            return _refused(400, f"Invalid input chat parent_id {parent} is not exist.")
        elif any(message["role"] != "user" for message in new):
            return _refused(400, "a conversation goes on with what is new")
        else:
            history = self._replies[chat][parent]
        history = [*history, *new]
        text, name = think(history), next(self._names)
        if fault == "cut":  # a reply that did not end is not kept
            return Answer(200, *_events(name, text)[:-1], content_type="text/event-stream")
        self._replies.setdefault(chat, {})[name] = [*history, {"role": "assistant", "content": text}]
        if body.get("stream"):
            return Answer(200, *_events(name, text), content_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return Answer(200, jsontext.encode({"response_id": name, "choices": [choice], "usage": _usage(text)}))


def _refused(status: int, message: str) -> Answer:
    return Answer(status, jsontext.encode({"error": {"message": message}}))


def _events(name: str, text: str) -> list[bytes]:
    """As the seed shows it: pieces of text, no reason for the end, and [DONE]."""
    pieces = [text[start : start + 7] for start in range(0, len(text), 7)]
    events: list[Wire] = [{"response.created": {"response_id": name}}]
    events += [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    events.append({"choices": [], "usage": _usage(text)})
    return [*(b"data: %b\n\n" % jsontext.encode(each) for each in events), b"data: [DONE]\n\n"]


def _usage(text: str) -> Wire:
    return {"prompt_tokens": 1, "completion_tokens": len(text), "total_tokens": 1 + len(text)}


def think(messages: list[Wire]) -> str:
    """What the model behind it says to all of this."""
    system = next((text_of(message) for message in messages if message["role"] == "system"), "")
    if "<tool_call>" in system:
        return _scripted(messages)
    tools = re.findall(r"^## (\w+)$", system, re.MULTILINE)
    prompts = [text_of(message) for message in messages if message["role"] == "user"]
    last = prompts[-1]
    if found := re.fullmatch(r"Tool Result from (\w+):\n(.*)", last, re.DOTALL):
        return _concluded(prompts[0], found[2])
    if "package.json" in last and "read" in tools:
        path = "<filePath>/home/user/package.json</filePath>"
        return f"I'll read the package.json file.\n\n<read>\n{path}\n</read>"
    if (found := re.search(r"Install the (\w+) package", last)) and "bash" in tools:
        command = f"<command>npm install {found[1]}</command>"
        about = f"<description>Install {found[1]} utility library</description>"
        return f"I'll install {found[1]} using npm.\n\n<bash>\n{command}\n{about}\n</bash>"
    if last == "What did I say?":
        return "You said: " + " | ".join(prompts[:-1])
    return f"Number {len(prompts)}: {last}"


def _concluded(prompt: str, result: str) -> str:
    """From the result, and from what was asked before it."""
    if found := re.search(r"Install the (\w+) package", prompt):
        return f"Successfully installed {found[1]}: {result}."
    listed = jsontext.decode(result)["dependencies"]
    named = " and ".join(f"{name} version {version}" for name, version in listed.items())
    return f"The package.json file contains {len(listed)} dependencies: {named}."


def _scripted(messages: list[Wire]) -> str:
    """The demo's model without tool calling of its own."""
    body = jsontext.encode({"model": "text-model", "messages": messages})
    answered = answer("POST", "/v1/chat/completions", {}, {}, body, Memory())
    return jsontext.decode(b"".join(answered.pieces))["choices"][0]["message"]["content"]


def text_of(message: Wire) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
