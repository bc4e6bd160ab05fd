"""Backends, pages and MCP servers that misbehave: the reply holds the protocol's own error item, and goes on
to its end."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import HostedKind
from dragoman.fetch import AddressGuard
from dragoman.gateway.config import load
from dragoman.hosted.executor import CallLimits, HostedExecutor
from dragoman.hosted.loop import HostedTools
from dragoman.hosted.mcp_tools import McpExecutor
from dragoman.hosted.settings import McpSettings, WebFetchSettings, build_executors
from dragoman.hosted.web_fetch import WebFetchExecutor
from dragoman.http.client import Client
from dragoman.mcp_client.session import MOST_BYTES, MOST_TOOLS, MOST_VALUES
from dragoman.protocols import upstream
from gateway.canned import Canned, provider
from gateway.hosted_stand import ASKED, NONE, calls_of, frames_of, lacking, text_of
from gateway.hostile_servers import (
    FIND,
    Answer,
    answering,
    drip,
    flood,
    hang,
    reply,
    speaking_mcp,
)
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway
from mcp_servers import changing_server
from ports import closed_port

LIMITS = CallLimits(seconds=20)
IMPATIENT = CallLimits(seconds=3)  # where a server hangs
# client, upstream, streamed
WAYS = [
    ("anthropic", "openai-chat", False),
    ("anthropic", "anthropic", True),
    ("openai-responses", "openai-chat", True),
    ("openai-responses", "anthropic", False),
]
SPOKEN: dict[HostedKind, dict[str, Any]] = {
    "web_search": {
        "anthropic": {"type": "web_search_20250305", "name": "web_search"},
        "openai-responses": {"type": "web_search"},
    },
    "web_fetch": {"anthropic": {"type": "web_fetch_20250910", "name": "web_fetch"}},
}


def items_of(client: str, got: Any, stream: bool) -> list[Any]:
    """The blocks or items of a reply, in their final form; a stream is checked against its grammar."""
    if not stream:
        return got.json["content" if client == "anthropic" else "output"]
    got.response(client)
    frames = frames_of(got.body)
    if client == "anthropic":
        return [frame["content_block"] for frame in frames if frame["type"] == "content_block_start"]
    return frames[-1]["response"]["output"]


def errors_of(items: list[Any]) -> list[Any]:
    """What the error items say."""
    found: list[Any] = []
    for item in items:
        match item:
            case {
                "type": "web_search_tool_result" | "web_fetch_tool_result",
                "content": {"error_code": code},
            }:
                found.append(code)
            case {"type": "mcp_tool_result", "is_error": True, "content": [{"text": text}]}:
                found.append(text)
            case {"type": "web_search_call", "status": "failed"}:
                found.append("failed")
            case {"type": "mcp_call", "status": "failed", "error": error}:
                found.append(error)
            case _:
                pass
    return found


def told(
    way: tuple[str, str, bool],
    tool: Any,
    call: tuple[str, str],
    executor: HostedExecutor,
    answer: Answer | None = None,
) -> tuple[list[Any], str]:
    """The error items of a reply whose model calls a tool once, and what the model read of its result.
    `answer`: what the server of the tool does."""
    client, upstream, stream = way
    limits = IMPATIENT if answer in (hang, drip) else LIMITS
    model = Canned(calls_of(upstream, call, stream=stream), text_of(upstream, "Sorry.", stream))
    path, body = ASKED[client]
    body = {**body, **tool, "stream": stream}
    with running(model) as url:
        config, hosted = provider("one", url, upstream) + NONE, HostedTools([executor], limits)
        with gateway(config, hosted=hosted) as stand:
            got = send(stand.url, "POST", path, jsontext.encode(body))
    assert got.status == 200, got.body
    assert b"Sorry." in got.body
    return errors_of(items_of(client, got, stream)), jsontext.dumps(model.requests[-1].json["messages"])


def garbage(handler: Any, body: bytes) -> None:
    reply(handler, 200, b"<html>Sign in</html>", content_type="text/html")


def broken(handler: Any, body: bytes) -> None:
    reply(handler, 500, b"Traceback (most recent call last)")


def limiting(handler: Any, body: bytes) -> None:
    reply(handler, 429, b"")


BACKENDS: dict[str, Answer | None] = {
    "down": None,
    "hangs": hang,
    "drips": drip,
    "answers 500": broken,
    "limits": limiting,
    "answers no JSON": garbage,
    "never ends": flood("application/json", b'{"results": ["', b"x" * 65536),
}


@pytest.mark.parametrize("way", WAYS, ids=[f"{c}-{u}-{s}" for c, u, s in WAYS])
@pytest.mark.parametrize("fault", BACKENDS)
def test_a_search_backend(fault: str, way: tuple[str, str, bool]) -> None:
    answer = BACKENDS[fault]
    with answering(answer) if answer else contextlib.nullcontext(f"http://{closed_port()}") as url:
        settings = load(f'[hosted.web_search]\nbackend = "searxng"\nurl = "{url}"\n', {}).hosted
        assert settings
        executor = build_executors(settings, Client(environ={}))["web_search"]
        tool = {"tools": [SPOKEN["web_search"][way[0]]]}
        errors, read = told(way, tool, ("web_search", '{"query": "x"}'), executor, answer)
    assert len(errors) == 1
    assert errors[0] in ("unavailable", "too_many_requests", "failed")
    assert "Error: " in read
    assert "Traceback" not in read


def test_the_log_says_that_a_search_failed() -> None:
    hosted = f'[hosted.web_search]\nbackend = "searxng"\nurl = "http://{closed_port()}"\n'
    with gateway(hosted) as stand:
        tool = SPOKEN["web_search"]["anthropic"]
        body = {"model": "demo:any", "max_tokens": 99, "tools": [tool]}
        body["messages"] = [{"role": "user", "content": "Search for fjords"}]
        send(stand.url, "POST", "/v1/messages", jsontext.encode(body))
        assert stand.last()["hosted_failed"] == {"web_search: unavailable": 1}


# Pages

PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
GUARD = AddressGuard(allowed=lambda address: str(address) == PUBLIC)  # so that tests have a public address


@contextlib.contextmanager
def pages(public: Answer) -> Iterator[tuple[str, list[str]]]:
    """A public address, and what was asked at the same port of a private one."""
    asked: list[str] = []

    def secret(handler: Any, body: bytes) -> None:
        asked.append(handler.path)
        reply(handler, 200, b"the secret", content_type="text/plain")

    with answering(public, PUBLIC) as url, answering(secret, PRIVATE, int(url.rpartition(":")[2])):
        yield url, asked


def moved(to: Callable[[str], str]) -> Answer:
    def answer(handler: Any, body: bytes) -> None:
        port = handler.headers["host"].rpartition(":")[2]
        reply(handler, 302, b"", location=to(port))

    return answer


FETCHES: dict[str, tuple[Answer, str]] = {
    "a redirect to a private address": (moved(lambda port: f"http://{PRIVATE}:{port}/x"), "url_not_allowed"),
    "one to metadata of a cloud": (moved(lambda port: "http://169.254.169.254/latest"), "url_not_allowed"),
    "one to the same, written otherwise": (moved(lambda port: f"http://0x7f.1:{port}/"), "url_not_allowed"),
    "one to a file": (moved(lambda port: "file:///etc/passwd"), "invalid_tool_input"),
    "one to itself": (moved(lambda port: f"http://{PUBLIC}:{port}/"), "url_not_accessible"),
    "one with a password": (moved(lambda port: f"http://a:b@{PUBLIC}:{port}/"), "url_not_allowed"),
    "it hangs": (hang, "unavailable"),
    "it drips": (drip, "unavailable"),
    "it fails": (broken, "url_not_accessible"),
}


@pytest.mark.parametrize("way", WAYS[:2], ids=[f"{c}-{u}-{s}" for c, u, s in WAYS[:2]])
@pytest.mark.parametrize("fault", FETCHES)
def test_a_page(fault: str, way: tuple[str, str, bool]) -> None:
    answer, code = FETCHES[fault]
    with pages(answer) as (url, asked):
        errors, read = fetched(way, url, answer)
    assert errors == [code]
    assert asked == []
    assert "the secret" not in read


def fetched(way: tuple[str, str, bool], url: str, answer: Answer | None = None) -> tuple[list[Any], str]:
    executor = WebFetchExecutor(WebFetchSettings(), GUARD)
    messages = [{"role": "user", "content": f"Read {url}/"}]
    tool = {"tools": [SPOKEN["web_fetch"][way[0]]], "messages": messages}
    call = "web_fetch", jsontext.dumps({"url": f"{url}/"})
    return told(way, tool, call, executor, answer)


def test_a_page_without_an_end_is_cut() -> None:
    with pages(flood("text/plain", b"", b"word " * 10_000)) as (url, _):
        errors, read = fetched(WAYS[0], url)
    assert errors == []
    assert "word word" in read
    assert len(read) < 300 * 1024


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the name `rebound.test` has, one for each question; the last one stays."""
    answers: list[str] = []
    resolve = socket.getaddrinfo

    def answer(host: Any, port: Any, *given: Any, **more: Any) -> Any:
        if host == "rebound.test":
            host = answers.pop(0) if len(answers) > 1 else answers[0]
        return resolve(host, port, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return answers


def public_page(handler: Any, body: bytes) -> None:
    reply(handler, 200, b"the page", content_type="text/plain")


def test_a_name_that_changes_after_the_check_leads_nowhere(names: list[str]) -> None:
    """The connection uses the address that was checked; nobody resolves the name again."""
    names += [PUBLIC, PRIVATE]
    with pages(public_page) as (url, asked):
        errors, read = fetched(WAYS[0], url.replace(PUBLIC, "rebound.test"))
    assert (errors, asked) == ([], [])
    assert "the page" in read


def test_a_name_that_has_a_private_address_is_refused(names: list[str]) -> None:
    names += [PRIVATE]
    with pages(public_page) as (url, asked):
        errors, _ = fetched(WAYS[0], url.replace(PUBLIC, "rebound.test"))
    assert (errors, asked) == (["url_not_allowed"], [])


# MCP

MCP: dict[str, Callable[[str], Any]] = {
    "anthropic": lambda url: {
        "mcp_servers": [{"type": "url", "name": "far", "url": url}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "far"}],
    },
    "openai-responses": lambda url: {
        "tools": [{"type": "mcp", "server_label": "far", "server_url": url, "require_approval": "never"}]
    },
}
NOTE = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "x" * 50_000},
}
EVENT = b"data: %b\n\n" % jsontext.encode(NOTE)


def many_values(handler: Any, body: bytes, events: bool = False) -> None:
    head = b'{"jsonrpc": "2.0", "id": %d, "result": ' % jsontext.decode(body)["id"]
    lists = b"[]," * MOST_VALUES
    answer = head + b'{"content": [], "structuredContent": {"a": [%b0]}}}' % lists
    if events:
        reply(handler, 200, b"data: " + answer + b"\n\n", content_type="text/event-stream")
    else:
        reply(handler, 200, answer)


SERVERS: dict[str, tuple[Answer, str]] = {
    "hangs in a call": (hang, "longer than"),
    "drips": (drip, "longer than"),
    "floods with JSON": (flood("application/json", b'"', b"x" * 1_000_000), "Error: "),
    "floods with one event": (flood("text/event-stream", b"data: ", b"x" * 65536), "Error: "),
    "floods with events": (flood("text/event-stream", b"", EVENT), "Error: "),
    "answers very many values": (many_values, "Error: "),
    "answers very many values in an event": (partial(many_values, events=True), "Error: "),
    "answers 500": (broken, "Error: "),
    "answers a page": (garbage, "Error: "),
}


def mcp_executor(url: str, guard: AddressGuard | None = None) -> McpExecutor:
    executor = McpExecutor(McpSettings(allowed_hosts=() if guard else (url.split("/")[2],)))
    executor._guard = guard or executor._guard  # pyright: ignore[reportPrivateUsage]
    return executor


@pytest.mark.parametrize("way", WAYS, ids=[f"{c}-{u}-{s}" for c, u, s in WAYS])
@pytest.mark.parametrize("fault", SERVERS)
def test_an_mcp_server_in_a_call(fault: str, way: tuple[str, str, bool]) -> None:
    answer, why = SERVERS[fault]
    with answering(speaking_mcp(answer)) as url:
        tool = MCP[way[0]](f"{url}/mcp")
        errors, read = told(way, tool, ("find", "{}"), mcp_executor(url), answer)
    assert len(errors) == 1
    assert why in errors[0]
    assert errors[0] in jsontext.decode(jsontext.encode(read))


LISTINGS: dict[str, Answer | None] = {
    "is down": None,
    "hangs": hang,
    "answers a page": garbage,
    "fails": broken,
    "lists too many": speaking_mcp(
        hang, lambda _: [{**FIND, "name": f"t{n}"} for n in range(MOST_TOOLS + 1)]
    ),
    "lists without an end": speaking_mcp(hang, lambda _: [{**FIND, "description": "x" * MOST_BYTES}]),
}


@pytest.mark.parametrize("client", MCP)
@pytest.mark.parametrize("fault", LISTINGS)
def test_an_mcp_server_whose_tools_cannot_be_listed(fault: str, client: str) -> None:
    """The request goes on without it; Responses has an item that says so, and the losses say it to all."""
    answer = LISTINGS[fault]
    path, body = ASKED[client]
    model = Canned(text_of("openai-chat", "I have no such tool."))
    at_port = answering(answer) if answer else contextlib.nullcontext(f"http://{closed_port()}")
    with at_port as url, running(model) as at:
        hosted = HostedTools([mcp_executor(url)], CallLimits(seconds=1))
        with gateway(provider("one", at), hosted=hosted) as stand:
            data = jsontext.encode({**body, **MCP[client](f"{url}/mcp")})
            got = send(stand.url, "POST", path, data)
    assert got.status == 200
    assert b"I have no such tool." in got.body
    assert "hosted.mcp.dropped" in got.headers["x-dragoman-losses"]
    listed = [item for item in got.json.get("output", ()) if item["type"] == "mcp_list_tools"]
    assert all(item["error"] and not item["tools"] for item in listed)
    assert len(listed) == (client == "openai-responses")


def test_an_mcp_server_behind_a_name_that_changes(names: list[str]) -> None:
    """Each request checks the address that it connects to."""
    asked: list[str] = []

    def secret(handler: Any, body: bytes) -> None:
        asked.append(handler.path)
        reply(handler, 200, b"{}")

    model = Canned(text_of("openai-chat", "I have no such tool."))
    path, body = ASKED["openai-responses"]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(answering(speaking_mcp(hang), PUBLIC))
        stack.enter_context(answering(secret, PRIVATE, int(url.rpartition(":")[2])))
        names += [PUBLIC, PRIVATE]
        named = url.replace(PUBLIC, "rebound.test")
        hosted = HostedTools([mcp_executor(named, GUARD)], LIMITS)
        at = stack.enter_context(running(model))
        stand = stack.enter_context(gateway(provider("one", at), hosted=hosted))
        data = jsontext.encode({**body, **MCP["openai-responses"](f"{named}/mcp")})
        got = send(stand.url, "POST", path, data)
    assert got.status == 200
    assert asked == []


@pytest.mark.parametrize("way", WAYS, ids=[f"{c}-{u}-{s}" for c, u, s in WAYS])
@pytest.mark.parametrize("tool", ["rename", "leave"])
def test_an_mcp_server_that_changes_between_rounds(tool: str, way: tuple[str, str, bool]) -> None:
    """It takes its tool away, or ends, during the first call. The second one fails, and the next request sees
    the tools that there are then."""
    client, upstream, stream = way
    calls = [calls_of(upstream, (tool, "{}"), stream=stream)] * 2
    last = text_of(upstream, "Sorry.", stream)
    model = Canned(*calls, last)
    path, body = ASKED[client]
    with changing_server() as url, running(model) as at:
        hosted = HostedTools([mcp_executor(url)], LIMITS)
        with gateway(provider("one", at, upstream) + NONE, hosted=hosted) as stand:
            data = jsontext.encode({**body, **MCP[client](url), "stream": stream})
            got = send(stand.url, "POST", path, data)
            send(stand.url, "POST", path, data)
    assert got.status == 200
    assert b"Sorry." in got.body
    errors = errors_of(items_of(client, got, stream))
    assert len(errors) == (1 if tool == "rename" else 2)
    names = [named["name"] for named in declared(model.requests[-1].json)]
    assert names == (["leave", "renamed"] if tool == "rename" else [])


def declared(body: Any) -> list[Any]:
    return [tool.get("function", tool) for tool in body.get("tools", ())]


def told_by(schema: Any, name: Any = "find") -> list[Any]:
    return [{"name": name, "inputSchema": schema}]


def found(handler: Any, body: bytes) -> None:
    asked = jsontext.decode(body)
    result = {"content": [{"type": "text", "text": f"found by {asked['params']['name']}"}]}
    reply(handler, 200, jsontext.encode({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


ITSELF = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
LONG = "x" * 200
# what a server lists -> the tools that can be called, by their own names
ODD: dict[str, tuple[list[Any], list[str]]] = {
    "one name twice": ([FIND, FIND], ["find"]),
    "no name": (told_by(FIND["inputSchema"], ""), []),
    "names that models refuse": (
        [{**FIND, "name": name} for name in ("find.all/the things", "ünï", LONG, "a b", "a_b")],
        ["find.all/the things", "ünï", LONG, "a b", "a_b"],
    ),
    "names like ours": ([{**FIND, "name": "find_hosted"}, FIND], ["find_hosted", "find"]),
    "a schema that names itself": (told_by(ITSELF), ["find"]),
    "a pattern that takes for ever": (told_by(SLOW), ["find"]),
    "a schema that is a text": (told_by("x"), []),
    "a schema of an array": (told_by({"type": "array"}), []),
    "a schema elsewhere": (told_by({"$ref": "http://127.0.0.1:1/x"}), []),
    "a description that is an object": ([{**FIND, "description": {"a": 1}}], []),
}


class Eager(Canned):
    """A model that calls each of its tools once, and then answers."""

    def __init__(self, protocol: str) -> None:
        super().__init__(text_of(protocol, "Done."))
        self.protocol = protocol

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        if scope["type"] == "http":
            message = await receive()
            request = upstream(self.protocol).decode_request(jsontext.decode(message["body"]), Losses())
            names = [tool.name for tool in request.tools]
            if names and len(request.messages) == 1:
                self.answers = [calls_of(self.protocol, *((name, "{}") for name in names))]
            else:
                self.answers = [text_of(self.protocol, "Done.")]

            async def again() -> Any:
                return message

            receive = again
        await super().__call__(scope, receive, give)


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic", "gemini", "bedrock-converse"])
@pytest.mark.parametrize("case", ODD)
def test_an_mcp_server_that_lists_odd_tools(case: str, protocol: str) -> None:
    """Each that can be called is called by its own name; the others are left out, and nothing else breaks."""
    tools, names = ODD[case]
    path, body = ASKED["openai-responses"]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(answering(speaking_mcp(found, lambda _: tools)))
        at = stack.enter_context(running(Eager(protocol)))
        hosted = HostedTools([mcp_executor(url)], LIMITS)
        stand = stack.enter_context(gateway(lacking("one", at, protocol), hosted=hosted))
        data = jsontext.encode({**body, **MCP["openai-responses"](f"{url}/mcp")})
        got = send(stand.url, "POST", path, data)
    assert (got.status, b"Done." in got.body) == (200, True), got.body
    calls = [item for item in got.json["output"] if item["type"] == "mcp_call"]
    assert [call["name"] for call in calls] == names
    assert [call["output"] for call in calls] == [f"found by {name}" for name in names]
