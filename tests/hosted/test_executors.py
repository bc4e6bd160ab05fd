"""Each executor against a real server on this machine: what the model reads, sources, and every failure."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.model import HostedTool, Message, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.fetch import AddressGuard
from dragoman.hosted import mcp_tools, web_fetch
from dragoman.hosted.executor import CallLimits, HostedContext, HostedExecutor
from dragoman.hosted.mcp_tools import IDLE_SECONDS, McpExecutor
from dragoman.hosted.search.backend import SearchQuery
from dragoman.hosted.settings import (
    HostedSettings,
    McpServerSettings,
    McpSettings,
    WebFetchSettings,
    WebSearchSettings,
    build_executors,
)
from dragoman.hosted.web_fetch import WebFetchExecutor
from dragoman.hosted.web_search import WebSearchExecutor
from dragoman.http.client import Client
from mcp_servers import sky_server
from waiting import StillClock

Answer = tuple[int, str, bytes]


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler, bytes], Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, kind, text = answer(self, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text)))
            if status == 302:
                self.send_header("location", text.decode())
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def execute(
    executor: HostedExecutor,
    arguments: Any,
    tool: HostedTool,
    context: HostedContext | None = None,
    name: str = "",
) -> HostedResult:
    async def once() -> HostedResult:
        try:
            call = ToolCall("c1", name or tool.kind, json.dumps(arguments))
            return await executor.execute(tool, call, context or HostedContext())
        finally:
            await executor.close()

    return asyncio.run(once())


def shown(result: HostedResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


# Web search

ROWS = [
    {"title": "Fjords", "url": "https://a.example/fjords", "text": "Deep water.", "age": "2026-11-01"},
    {"title": "Hills", "url": "https://b.example/x/hills", "text": "Green."},
    {"title": "Blocked", "url": "https://c.example/", "text": "No."},
]


def as_searxng(rows: list[dict[str, str]]) -> Any:
    return {"results": [{**row, "content": row["text"], "publishedDate": row.get("age")} for row in rows]}


def as_brave(rows: list[dict[str, str]]) -> Any:
    return {"web": {"results": [{**row, "description": row["text"]} for row in rows]}}


def as_tavily(rows: list[dict[str, str]]) -> Any:
    return {"results": [{**row, "content": row["text"], "published_date": row.get("age")} for row in rows]}


BACKENDS = {"searxng": as_searxng, "brave": as_brave, "tavily": as_tavily}


def search(
    backend: str,
    answer: Callable[[BaseHTTPRequestHandler, bytes], Answer],
    arguments: Any,
    **settings: Any,
) -> HostedResult:
    with serving(answer) as url:

        async def once() -> HostedResult:
            client = Client(environ={})
            configured = WebSearchSettings(backend, url=url, api_key="k3y")
            executor = build_executors(HostedSettings(web_search=configured), client)["web_search"]
            try:
                call = ToolCall("c1", "web_search", json.dumps(arguments))
                return await executor.execute(
                    HostedTool("web_search", settings=settings), call, HostedContext()
                )
            finally:
                await executor.close()
                await client.close()

        return asyncio.run(once())


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_backend_finds_sources(backend: str):
    asked: list[tuple[str, dict[str, str], bytes]] = []

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        asked.append((request.path, {k.lower(): v for k, v in request.headers.items()}, body))
        return 200, "application/json", json.dumps(BACKENDS[backend](ROWS)).encode()

    result = search(backend, answer, {"query": "fjords"}, blocked_domains=["c.example"])
    assert [source.url for source in result.sources] == [
        "https://a.example/fjords",
        "https://b.example/x/hills",
    ]
    assert shown(result).startswith("[1] Fjords\nhttps://a.example/fjords")
    path, headers, body = asked[0]
    said = json.loads(body)["query"] if body else parse_qs(urlsplit(path).query)["q"][0]
    assert said.startswith("fjords")
    secret = {"brave": "x-subscription-token", "tavily": "authorization"}.get(backend)
    assert secret is None or headers[secret].endswith("k3y")


DOMAINS = {
    "a domain": ({"allowed_domains": ["b.example"]}, ["https://b.example/x/hills"]),
    "a path": ({"allowed_domains": ["b.example/x"]}, ["https://b.example/x/hills"]),
    "another path": ({"allowed_domains": ["b.example/y"]}, []),
    "any path": ({"allowed_domains": ["b.example/*"]}, ["https://b.example/x/hills"]),
    "a path with a wildcard": ({"allowed_domains": ["B.example/*/hills"]}, ["https://b.example/x/hills"]),
    "another one": ({"allowed_domains": ["b.example/*/rivers"]}, []),
    "a scheme": ({"allowed_domains": ["https://b.example/"]}, ["https://b.example/x/hills"]),
    "a blocked one with a scheme": (
        {"blocked_domains": ["https://a.example"]},
        ["https://b.example/x/hills", "https://c.example/"],
    ),
    "all below": ({"allowed_domains": ["*.b.example"]}, ["https://b.example/x/hills"]),
    "a path in capitals": ({"allowed_domains": ["b.example/X"]}, []),
    "the end of a name": ({"allowed_domains": ["example"]}, [row["url"] for row in ROWS]),
    "half a name": ({"allowed_domains": ["ample"]}, []),
}


@pytest.mark.parametrize("settings, urls", DOMAINS.values(), ids=DOMAINS)
def test_domains_hold_whatever_the_backend_answers(settings: dict[str, Any], urls: list[str]):
    def answer(request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        return 200, "application/json", json.dumps(as_searxng(ROWS)).encode()

    assert [source.url for source in search("searxng", answer, {"query": "x"}, **settings).sources] == urls


FAILURES: dict[str, tuple[Answer, Any, str]] = {
    "limited": ((429, "text/plain", b"slow down"), {"query": "x"}, "too_many_requests"),
    "down": ((503, "text/plain", b"no"), {"query": "x"}, "unavailable"),
    "not JSON": ((200, "text/html", b"<html>"), {"query": "x"}, "unavailable"),
    "an array": ((200, "application/json", b"[]"), {"query": "x"}, "unavailable"),
    "no query": ((200, "application/json", b"{}"), {}, "invalid_input"),
    "a query of another type": ((200, "application/json", b"{}"), {"query": 5}, "invalid_input"),
    "a long query": ((200, "application/json", b"{}"), {"query": "x" * 1001}, "query_too_long"),
}


@pytest.mark.parametrize("answered, arguments, error", FAILURES.values(), ids=FAILURES)
def test_failures_of_a_search(answered: Answer, arguments: Any, error: str):
    result = search("searxng", lambda *_: answered, arguments)
    assert result.error == error
    assert shown(result).startswith("Error: ")


def test_rows_of_odd_shapes_are_left_out():
    rows = [None, 5, {"url": 7}, {"title": "no address"}, {"url": "https://d.example", "title": 3}]
    body = json.dumps({"results": rows}).encode()
    result = search("searxng", lambda *_: (200, "application/json", body), {"query": "x"})
    assert [source.url for source in result.sources] == ["https://d.example"]


LIES: dict[str, tuple[str, dict[str, Any]]] = {
    "a script": ("javascript:alert(1)//a.example", {}),
    "a file": ("file:///etc/passwd", {}),
    "an address that nobody can read": ("http://[::1", {}),
    "a name in front of another": ("https://a.example@evil.example/", {"allowed_domains": ["a.example"]}),
    "a backslash, which browsers take for a slash": (
        "https://evil.example\\@a.example/",
        {"allowed_domains": ["a.example"]},
    ),
    "a name behind a tab": ("https://a.example\t.evil.example/", {"allowed_domains": ["a.example"]}),
    "a blocked name in capitals": ("https://EVIL.example./", {"blocked_domains": ["evil.example"]}),
    "a blocked name behind another": ("https://x@evil.example:1/", {"blocked_domains": ["evil.example"]}),
}


@pytest.mark.parametrize("url, settings", LIES.values(), ids=LIES)
def test_addresses_of_a_backend_that_lies_are_left_out(url: str, settings: dict[str, Any]):
    rows = [{"url": url, "title": "Lie"}, {"url": "https://a.example/", "title": "True"}]
    body = json.dumps({"results": rows}).encode()
    result = search("searxng", lambda *_: (200, "application/json", body), {"query": "x"}, **settings)
    assert [source.url for source in result.sources] == ["https://a.example/"]


ADDED = """
from dragoman.core.hosted import FoundSource

class Found:
    def __init__(self, settings):
        self.key = settings.api_key

    async def search(self, query):
        return [FoundSource("https://e.org/" + self.key, query.text)]

def make(settings, transport):
    return Found(settings)
"""


def test_a_package_adds_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "found_backend.py").write_text(ADDED)
    facts = tmp_path / "found_backend-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: found-backend\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[dragoman.search_backends]\nfound = found_backend:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = HostedSettings(web_search=WebSearchSettings("found", api_key="k"))
    executor = build_executors(settings, Client(environ={}))["web_search"]
    (source,) = execute(executor, {"query": "x"}, HostedTool("web_search")).sources
    assert (source.url, source.title) == ("https://e.org/k", "x")


def test_a_search_knows_where_the_user_is():
    settings = HostedSettings(web_search=WebSearchSettings("searxng", url="http://127.0.0.1:1"))
    executor = build_executors(settings, Client(environ={}))["web_search"]
    place = {"city": "Bern", "country": "CH", "timezone": "Europe/Zurich"}
    for location, told in ((place, "The user is in Bern, CH."), ({}, "Cite the addresses that you use.")):
        tool = HostedTool("web_search", settings={"location": location})
        (function,) = asyncio.run(executor.declare(tool, HostedContext())).functions
        assert function.description.endswith(told)


@pytest.mark.parametrize("backend", ["nobody", "searxng", "brave", "tavily"])
def test_a_backend_that_lacks_something_says_what(backend: str):
    with pytest.raises(ConfigError, match=r"Unknown search backend|needs (url|api_key), "):
        build_executors(HostedSettings(web_search=WebSearchSettings(backend)), Client(environ={}))


# Web fetch

PAGES: dict[str, Answer] = {
    "/page": (
        200,
        "text/html; charset=utf-8",
        "<title>T</title><h1>Fjörds</h1><p>Deep <b>water</b>.</p>".encode(),
    ),
    "/plain": (200, "text/plain", b"just text"),
    "/image": (200, "image/png", b"\x89PNG"),
    "/gone": (404, "text/plain", b"gone"),
    "/pdf": (200, "application/pdf", b"not a PDF"),
}


def fetch(
    path: str, *, named: bool = True, guard: AddressGuard | None = None, **settings: Any
) -> HostedResult:
    with serving(lambda request, _: PAGES[request.path]) as url:
        host = url.removeprefix("http://")
        executor = WebFetchExecutor(WebFetchSettings(), guard or AddressGuard(frozenset((host,))))
        said = Text(f"Please read {url}{path} now") if named else Text("Please read it")
        context = HostedContext(messages=(Message("user", (said,)),), limits=CallLimits(seconds=20))
        return execute(executor, {"url": url + path}, HostedTool("web_fetch", settings=settings), context)


def test_html_becomes_markdown():
    result = fetch("/page")
    assert "# Fjörds" in shown(result)
    assert "**water**" in shown(result)
    assert result.sources[0].url.endswith("/page")


def test_text_stays_as_it_is_and_is_cut():
    assert shown(fetch("/plain")) == "just text"
    assert shown(fetch("/plain", max_content_tokens=1)) == "just"


def test_a_long_text_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(web_fetch, "LARGEST_TEXT", 4)
    assert shown(fetch("/plain")) == "just\n[the page goes on]"


def test_slow_pages_of_one_caller_leave_threads_for_others():
    """Also those that it no longer waits for: their threads are still at work."""
    ends = threading.Event()

    def answer(request: Any, _: bytes) -> Answer:
        if request.path == "/slow":
            ends.wait(60)
        return 200, "text/plain", b"read"

    async def ask(executor: WebFetchExecutor, caller: str, url: str) -> HostedResult:
        said = Message("user", (Text(url),))
        context = HostedContext(caller, (said,), limits=CallLimits(seconds=60))
        call = ToolCall("c1", "web_fetch", jsontext.dumps({"url": url}))
        return await executor.execute(HostedTool("web_fetch"), call, context)

    async def both(url: str) -> HostedResult:
        executor = WebFetchExecutor(WebFetchSettings(), AddressGuard(frozenset((url[7:],))))
        for _ in range(3):
            slow = [asyncio.create_task(ask(executor, "a", f"{url}/slow")) for _ in range(30)]
            await asyncio.sleep(0.01)
            for each in slow:
                each.cancel()
        slow = [asyncio.create_task(ask(executor, "a", f"{url}/slow")) for _ in range(30)]
        async with asyncio.timeout(60):
            result = await ask(executor, "b", f"{url}/page")
        ends.set()
        assert [shown(each) for each in await asyncio.gather(*slow)] == ["read"] * 30
        return result

    with serving(answer) as url:
        assert shown(asyncio.run(both(url))) == "read"


FETCH_FAILURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "an image": ("/image", {}, "unsupported_type"),
    "a broken PDF": ("/pdf", {}, "unsupported_type"),
    "not there": ("/gone", {}, "not_accessible"),
    "an address that nobody named": ("/plain", {"named": False}, "not_in_conversation"),
    "another domain": ("/plain", {"allowed_domains": ["a.example"]}, "not_allowed"),
    "a blocked domain": ("/plain", {"blocked_domains": ["127.0.0.1"]}, "not_allowed"),
    "a private address": ("/plain", {"guard": AddressGuard()}, "not_allowed"),
}


@pytest.mark.parametrize("path, settings, error", FETCH_FAILURES.values(), ids=FETCH_FAILURES)
def test_failures_of_a_fetch(path: str, settings: dict[str, Any], error: str):
    assert fetch(path, **settings).error == error


def test_a_redirect_is_checked_again():
    """From an allowed host to one that is not: nothing is read there."""
    with (
        serving(lambda *_: (200, "text/plain", b"secret")) as inside,
        serving(lambda *_: (302, "text/plain", inside.encode())) as outside,
    ):
        guard = AddressGuard(frozenset((outside.removeprefix("http://"),)))
        context = HostedContext(messages=(Message("user", (Text(outside),)),), limits=CallLimits(seconds=20))
        executor = WebFetchExecutor(WebFetchSettings(), guard)
        result = execute(executor, {"url": outside}, HostedTool("web_fetch"), context)
    assert result.error == "not_allowed"
    assert "secret" not in shown(result)


@pytest.mark.parametrize("field, named", [("allowed_domains", "127.0.0.1"), ("blocked_domains", "localhost")])
def test_a_redirect_keeps_to_the_domains_of_the_client(field: str, named: str):
    asked: list[str] = []

    def answered(request: BaseHTTPRequestHandler, _: bytes) -> Answer:
        asked.append(request.path)
        port = request.connection.getsockname()[1]
        return (302, "text/plain", f"http://localhost:{port}/inside".encode())

    with serving(answered) as url:
        port = url.rpartition(":")[2]
        guard = AddressGuard(frozenset((f"127.0.0.1:{port}", f"localhost:{port}")))
        context = HostedContext(messages=(Message("user", (Text(url),)),), limits=CallLimits(seconds=20))
        tool = HostedTool("web_fetch", settings={field: [named]})
        result = execute(WebFetchExecutor(WebFetchSettings(), guard), {"url": url}, tool, context)
    assert (result.error, asked) == ("not_allowed", ["/"])


def test_what_the_model_wrote_itself_is_no_source_of_addresses():
    executor = WebFetchExecutor(WebFetchSettings())
    url = "https://collect.example/?data=1"
    written = Message("assistant", (Text(url),))
    asked = HostedContext(messages=(written,))
    assert execute(executor, {"url": url}, HostedTool("web_fetch"), asked).error == "not_in_conversation"
    found = Message("user", (ToolResult("c0", content=(Text(f"[1] {url}"),)),))
    refused = execute(
        WebFetchExecutor(WebFetchSettings(), AddressGuard(frozenset(("nowhere.example",)))),
        {"url": url},
        HostedTool("web_fetch"),
        HostedContext(messages=(written, found)),
    )
    assert refused.error == "not_allowed"  # it was found, and only then is the host looked at


# MCP


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with sky_server() as url:
        yield url


def mcp_executor(server: str, **settings: Any) -> HostedExecutor:
    host = server.split("/")[2]
    configured = McpSettings(allowed_hosts=(host,), **settings)
    return build_executors(HostedSettings(mcp=configured), Client(environ={}))["mcp"]


OFFERED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "everything": ({}, ["get_weather", "set_weather", "search"]),
    "a list": ({"allowed": ["search"]}, ["search"]),
    "an empty list": ({"allowed": []}, []),
    "all but one": ({"denied": ["search"]}, ["get_weather", "set_weather"]),
    "what only reads": ({"filter": {"read_only": True}}, ["get_weather"]),
    "a filter of the future": ({"filter": {"colour": "red"}}, []),
    "a filter without a condition": ({"filter": "without a condition"}, []),
}


@pytest.mark.parametrize("settings, names", OFFERED.values(), ids=OFFERED)
def test_restrictions_hold(server: str, settings: dict[str, Any], names: list[str]):
    tool = HostedTool("mcp", settings={"url": server, "label": "sky", **settings})

    async def once() -> tuple[list[str], list[str | None]]:
        executor = mcp_executor(server)
        declared = await executor.declare(tool, HostedContext())
        hidden = [name for name in ("get_weather", "set_weather", "search") if name not in names]
        calls = [ToolCall("c", name, '{"city": "x", "query": "x"}') for name in hidden]
        refused = [(await executor.execute(tool, call, HostedContext())).error for call in calls]
        await executor.close()
        return [function.name for function in declared.functions], refused

    offered, refused = asyncio.run(once())
    assert offered == names
    assert set(refused) <= {"not_allowed"}


APPROVALS: dict[str, tuple[Any, set[str]]] = {
    "never": ("never", set()),
    "always": ("always", {"get_weather", "set_weather", "search"}),
    "some never": ({"never": {"tool_names": ["search"]}}, {"get_weather", "set_weather"}),
}


@pytest.mark.parametrize("approval, names", APPROVALS.values(), ids=APPROVALS)
def test_approval(server: str, approval: Any, names: set[str]):
    tool = HostedTool("mcp", settings={"url": server, "approval": approval})

    async def once() -> frozenset[str]:
        executor = mcp_executor(server)
        declared = await executor.declare(tool, HostedContext())
        await executor.close()
        return declared.approval

    assert asyncio.run(once()) == names


def test_a_call_and_a_tool_that_fails(server: str):
    tool = HostedTool("mcp", settings={"url": server})
    got = execute(mcp_executor(server), {"city": "Oslo"}, tool, name="get_weather")
    assert (shown(got), got.error) == ("72°F in Oslo", None)
    failed = execute(mcp_executor(server), {"city": "Oslo"}, tool, name="set_weather")
    assert failed.error == "tool_failed"
    assert "set_weather" in shown(failed)


REFUSED = {
    "a private address": {"url": "http://127.0.0.1:1/mcp"},
    "a program": {"url": "stdio:rm -rf"},
    "a file": {"url": "file:///etc/passwd"},
    "nothing": {},
    "a server that is not configured": {"url": "mcp:nobody"},
}


@pytest.mark.parametrize("settings", REFUSED.values(), ids=REFUSED)
def test_what_a_client_may_not_name(settings: dict[str, Any]):
    executor = build_executors(HostedSettings(), Client(environ={}))["mcp"]

    async def once() -> str | None:
        declared = await executor.declare(HostedTool("mcp", settings=settings), HostedContext())
        await executor.close()
        assert not declared.functions
        return declared.error

    assert asyncio.run(once()) == "unavailable"


def test_sessions_are_kept_apart_by_caller_and_headers(server: str):
    async def once() -> int:
        executor = mcp_executor(server)
        for caller, token in (("alice", "a"), ("bob", "a"), ("alice", "b"), ("alice", "a")):
            settings = {"url": server, "headers": {"Authorization": token}}
            await executor.declare(HostedTool("mcp", settings=settings), HostedContext(caller=caller))
        kept = len(executor._sessions)  # pyright: ignore[reportAttributeAccessIssue]
        await executor.close()
        return kept

    assert asyncio.run(once()) == 3


def test_sessions_are_bounded_and_the_oldest_are_closed(server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mcp_tools, "SESSIONS", 2)
    clock = StillClock()

    async def once() -> list[list[str]]:
        executor, kept = (
            McpExecutor(McpSettings(allowed_hosts=(server.split("/")[2],)), clock),
            list[list[str]](),
        )
        for caller in ("alice", "bob", "carol"):
            await executor.declare(HostedTool("mcp", settings={"url": server}), HostedContext(caller=caller))
            kept.append([who for who, *_ in executor._sessions])
            clock.now += 1
        clock.now += IDLE_SECONDS
        await executor.declare(HostedTool("mcp", settings={"url": server}), HostedContext(caller="dave"))
        kept.append([who for who, *_ in executor._sessions])
        await executor.close()
        return kept

    assert asyncio.run(once()) == [["alice"], ["alice", "bob"], ["bob", "carol"], ["dave"]]


def test_the_search_of_a_configured_server(server: str):
    async def once() -> HostedResult:
        servers = McpSettings(servers={"sky": McpServerSettings(url=server)})
        settings = HostedSettings(web_search=WebSearchSettings("mcp:sky"), mcp=servers)
        executors = build_executors(settings, Client(environ={}))
        call = ToolCall("c", "web_search", '{"query": "fjords"}')
        result = await executors["web_search"].execute(HostedTool("web_search"), call, HostedContext())
        await executors["mcp"].close()
        return result

    (source,) = asyncio.run(once()).sources
    assert (source.url, source.title, source.text) == ("https://a.example/", "fjords", "found")


class Texts:
    """A backend that knows no addresses, such as a tool of an MCP server."""

    async def search(self, query: SearchQuery) -> list[FoundSource]:
        return [FoundSource("", text="from somewhere")]


@pytest.mark.parametrize("named", ["allowed_domains", "blocked_domains", ""])
def test_a_text_without_an_address_is_left_out_where_domains_are_named(named: str):
    executor = WebSearchExecutor(WebSearchSettings("texts"), Texts())
    tool = HostedTool("web_search", settings={named: ["a.example"]} if named else {})
    assert ("from somewhere" in shown(execute(executor, {"query": "x"}, tool))) is not bool(named)


# Tool search


def declared(name: str, description: str = "", **arguments: str) -> ToolDeclaration:
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    return ToolDeclaration(name, description, {"type": "object", "properties": properties}, deferred=True)


DEFERRED = (
    declared("getWeather", "Tells the weather", city="name of a city"),
    declared("send_mail", "Sends a mail", to="address", body="text"),
    declared("list_issues", "Lists open issues of a repository"),
    declared("create_issue", "Creates an issue in a repository", title="its title"),
)
SEARCHES: dict[str, tuple[str, str, list[str]]] = {
    "a word of a camelCase name": ("", "weather", ["getWeather"]),
    "best first": ("", "create an issue", ["create_issue", "list_issues"]),
    "an argument": ("", "address", ["send_mail"]),
    "nothing": ("", "zebra", []),
    "a pattern": ("tool_search_tool_regex", "(?i)ISSUE", ["list_issues", "create_issue"]),
    "a pattern over arguments": ("tool_search_tool_regex", "city", ["getWeather"]),
}


@pytest.mark.parametrize("name, query, names", SEARCHES.values(), ids=SEARCHES)
def test_tools_are_found(name: str, query: str, names: list[str]):
    executor = build_executors(HostedSettings(), Client(environ={}))["tool_search"]
    tool, context = HostedTool("tool_search", name), HostedContext(deferred=DEFERRED)
    result = execute(executor, {"pattern" if name else "query": query}, tool, context)
    assert [found.name for found in result.loaded][: len(names)] == names
    assert bool(result.loaded) == bool(names)


BAD_PATTERNS = {
    "broken": ("((", "invalid_input"),
    "too long": ("x" * 201, "query_too_long"),
    "none": ("", "invalid_input"),
}


@pytest.mark.parametrize("pattern, error", BAD_PATTERNS.values(), ids=BAD_PATTERNS)
def test_patterns_that_are_refused(pattern: str, error: str):
    executor = build_executors(HostedSettings(), Client(environ={}))["tool_search"]
    tool = HostedTool("tool_search", "tool_search_tool_regex")
    assert execute(executor, {"pattern": pattern}, tool, HostedContext(deferred=DEFERRED)).error == error


def test_a_pattern_cannot_hold_the_process():
    """`re` would take longer than the age of the universe for this one."""
    executor = build_executors(HostedSettings(), Client(environ={}))["tool_search"]
    hard = (declared("x", "a" * 5000 + "!"),)
    tool, context = HostedTool("tool_search", "tool_search_tool_regex"), HostedContext(deferred=hard)
    assert execute(executor, {"pattern": "(a+)+$"}, tool, context).loaded == ()
