"""Hosted tools that the gateway executes: a search of ours, requests of clients, replies of upstreams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.core import jsontext
from dragoman.core.events import unfold
from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    HostedKind,
    HostedTool,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.loop import HostedTools
from dragoman.protocols import protocol
from gateway.canned import Answer, Canned, provider
from gateway.running import running
from gateway.stands import Stand, gateway
from spoken import addressed, asking

SSE = {"content_type": "text/event-stream"}
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
NONE = '\n[providers.one.profiles."*"]\nhosted_tools = []\n'  # the server runs none, whatever its protocol
PAGE = "https://e.org/p"


class Search:
    """Finds one page, after `seconds`; `broken`: it raises."""

    kind: HostedKind = "web_search"

    def __init__(self, seconds: float = 0, broken: bool = False, text: str = "18 degrees") -> None:
        self.seconds, self.broken, self.text = seconds, broken, text
        self.queries: list[str] = []
        self.at_once = self.most_at_once = 0
        self.closed = False
        self.record: dict[str, Any] = {}  # the line of the access log
        self.cancelled = 0

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        return DeclaredFunctions((ToolDeclaration("web_search", "Search the web", QUERY),))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        query = jsontext.decode(call.arguments).get("query")
        if not query:
            return failure("invalid_input", "query: expected a text")
        self.queries.append(query)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1
        if self.broken:
            raise RuntimeError("down")
        page = FoundSource(PAGE, "Paris", self.text)
        return HostedResult((Text(f"1. Paris ({PAGE})\n{self.text}"),), (page,))

    async def close(self) -> None:
        self.closed = True


TOOL: dict[str, Any] = {
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]},
    "openai-responses": {"tools": [{"type": "web_search"}]},
    "openai-chat": {"web_search_options": {}},
    "gemini": {"tools": [{"googleSearch": {}}]},
    "gemini-interactions": {"tools": [{"type": "google_search"}]},
}
ASKED = {client: asking(client, "Weather?", "one:m") for client in TOOL}
CLIENTS = tuple(ASKED)
SEARCHED = ("web_search", '{"query": "paris weather"}')


def path_and_body(client: str, stream: bool, **more: Any) -> tuple[str, dict[str, Any]]:
    """The request of a client that declares a search."""
    _, body = ASKED[client]
    return addressed(client, {**body, **TOOL[client], **more}, "one:m", stream)


def lacking(name: str, url: str, protocol: str = "") -> str:
    """A provider that runs no hosted tool, named as its protocol unless told; `hermes` calls them in text."""
    dialect = {"dialect": '"hermes"'} if name == "hermes" else {}
    known = provider(name, url, "openai-chat" if dialect else protocol or name, **dialect)
    return known + NONE.replace("one", name)


@contextlib.contextmanager
def over_each(upstreams: Iterable[str], hosted: HostedTools) -> Iterator[tuple[Stand, dict[str, Canned]]]:
    """One gateway over a model of each upstream; a provider is called as its protocol."""
    models = {name: Canned(Answer(500)) for name in upstreams}
    with contextlib.ExitStack() as stack:
        config = "".join(lacking(name, stack.enter_context(running(model))) for name, model in models.items())
        yield stack.enter_context(gateway(config, hosted=hosted)), models


def replies(upstream: str, parts: tuple[AnyPart, ...], stream: bool) -> Answer:
    """What a server of this protocol answers: these parts, 7 tokens in and 3 out."""
    upstream = "openai-chat" if upstream == "hermes" else upstream
    codec, framing = protocol(upstream).codec, protocol(upstream).framing
    stop = Stop("tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "end")
    response = Response("r", "m", parts, stop, Usage(7, 3), 1)
    if not stream:
        return Answer(200, jsontext.encode(codec.encode_response(response, Losses())))
    encoder, printer = codec.stream_encoder(Losses()), framing.encoder()
    frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
    pieces = [piece for frame in (*frames, *encoder.close()) for piece in printer.feed(frame)]
    kind = framing.content_type or SSE["content_type"]
    return Answer(200, *pieces, *printer.close(), content_type=kind)


def calls_of(upstream: str, *named: tuple[str, str], stream: bool = False) -> Answer:
    made = (ToolCall(f"call_{i}", name, arguments) for i, (name, arguments) in enumerate(named))
    return replies(upstream, (Text("Let me look. "), *made), stream)


def text_of(upstream: str, text: str, stream: bool = False) -> Answer:
    return replies(upstream, (Text(text),), stream)


WEATHER = {"type": "object", "properties": {}}
MINE: dict[str, Any] = {
    "anthropic": {"name": "mine", "input_schema": WEATHER},
    "openai-responses": {"type": "function", "name": "mine", "parameters": WEATHER},
    "openai-chat": {"type": "function", "function": {"name": "mine", "parameters": WEATHER}},
    "gemini": {
        "functionDeclarations": [{"name": "mine", "parameters": {"type": "OBJECT", "properties": {}}}]
    },
    "gemini-interactions": {"type": "function", "name": "mine", "parameters": WEATHER},
}


def following(client: str, body: dict[str, Any], got: Any, stream: bool) -> dict[str, Any]:
    """The client's next request: the reply echoed, and the result of its own call."""
    match client:
        case "anthropic":
            content = anthropic_blocks(got.body) if stream else got.json["content"]
            (call,) = [block for block in content if block["type"] == "tool_use"]
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "mine says"}
            turns = [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
            return {**body, "messages": [*body["messages"], *turns]}
        case "openai-responses":
            output = frames_of(got.body)[-1]["response"]["output"] if stream else got.json["output"]
            (call,) = [item for item in output if item["type"] == "function_call"]
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "mine says"}
            return {**body, "input": [{"role": "user", "content": "Weather?"}, *output, result]}
        case "openai-chat":
            message = _chat_message(frames_of(got.body)) if stream else got.json["choices"][0]["message"]
            (call,) = message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": "mine says"}
            return {**body, "messages": [*body["messages"], message, result]}
        case "gemini-interactions":
            steps = _interaction_steps(frames_of(got.body)) if stream else got.json["steps"]
            (call,) = [step for step in steps if step["type"] == "function_call"]
            result = {"type": "function_result", "call_id": call["id"], "result": "mine says"}
            asked = {"type": "user_input", "content": [{"type": "text", "text": "Weather?"}]}
            return {**body, "input": [asked, *steps, result]}
        case _:
            replies = frames_of(got.body) if stream else [got.json]
            parts = [part for reply in replies for part in reply["candidates"][0]["content"].get("parts", ())]
            (call,) = [part["functionCall"] for part in parts if "functionCall" in part]
            answer = {"functionResponse": {**call, "response": {"output": "mine says"}}}
            answer["functionResponse"].pop("args", None)
            turns = [{"role": "model", "parts": parts}, {"role": "user", "parts": [answer]}]
            return {**body, "contents": [*body["contents"], *turns]}


def frames_of(data: bytes) -> list[Any]:
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [jsontext.decode(line) for line in lines]


def _chat_message(frames: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [], "reasoning_details": []}
    for frame in frames:
        for choice in frame["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["reasoning_details"] += delta.get("reasoning_details") or []
            for call in delta.get("tool_calls") or ():
                if call.get("id"):
                    message["tool_calls"].append(call)
                else:
                    message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
    return message


def _interaction_steps(frames: list[Any]) -> list[Any]:
    steps: list[Any] = []
    for frame in frames:
        match frame:
            case {"event_type": "step.start", "step": step}:
                steps.append({**step, "_": ""})
            case {"delta": {"type": "text", "text": text}}:
                steps[-1]["content"] = [{"type": "text", "text": text}]
            case {"delta": {"type": "arguments_delta", "arguments": text}}:
                steps[-1]["_"] += text
            case {"delta": {"type": "thought_signature", "signature": text}}:
                steps[-1]["signature"] = text
            case _:
                pass
    for step in steps:
        if text := step.pop("_"):
            step["arguments"] = jsontext.decode(text)
    return steps


def anthropic_blocks(data: bytes) -> list[Any]:
    blocks: list[Any] = []
    for frame in frames_of(data):
        match frame["type"]:
            case "content_block_start":
                blocks.append({**frame["content_block"], "_": ""})
            case "content_block_delta":
                delta = frame["delta"]
                blocks[-1]["_"] += delta.get("text") or delta.get("partial_json") or ""
            case _:
                pass
    for block in blocks:
        text = block.pop("_")
        if block["type"] == "text":
            block["text"] = text
        elif "input" in block:
            block["input"] = jsontext.decode(text or "{}")
    return blocks


class Shelf:
    """A search of SearXNG that finds a page of this same server."""

    def __init__(self) -> None:
        self.url = ""
        self.fetched: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        found = {"results": [{"url": f"{self.url}/rivers", "title": "Rivers", "content": "short"}]}
        answer = Answer(200, jsontext.encode(found))
        if scope.get("path", "/search") != "/search":
            self.fetched.append(scope["path"])
            answer = Answer(200, b"<h1>Rivers</h1><p>The Aare is long.</p>", content_type="text/html")
        await Canned(answer)(scope, receive, give)


FETCHES: dict[str, Any] = {
    "anthropic": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "gemini": {"urlContext": {}},
    "gemini-interactions": {"type": "url_context"},
}
