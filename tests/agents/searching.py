"""Real agents that search and read the web, over models of each protocol that have no such tools.

    python tests/agents/searching.py FOLDER [NAME…]    FOLDER/claude-code, codex, gemini-cli: installed by npm

A model that follows a script, a search that speaks the API of SearXNG, and a page, on loopback. Each agent
has a home of its own, and has passed only if what the search found stands in what it prints. Node 22 is taken
from FOLDER/node22.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Request, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.protocols import upstream
from gateway.canned import Answer, Canned
from gateway.hosted_stand import lacking, replies
from gateway.running import running
from gateway.stands import Stand, gateway

UPSTREAMS = ("openai-chat", "anthropic", "openai-responses", "gemini")
FOUND = "18-degrees-and-dry"
PROMPT = "Search the web for the weather in Paris."
SEARCH = {"query": "paris weather"}
IN_JAVASCRIPT = 'const r = await tools.web__run({search_query: [{q: "paris weather"}]}); text(r);'


Command = tuple[list[str], dict[str, str]]  # arguments, and what it needs in its environment


class Model:
    """Calls the tool for what the prompt wants, and then says what came of it."""

    def __init__(self, protocol: str, page: str) -> None:
        self.protocol, self.page, self.wanted = protocol, page, "WebSearch"
        self.secure = ""  # the page with TLS
        self.requests: list[Request] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        if scope["type"] != "http":
            await Canned(Answer(200))(scope, receive, give)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        wire = jsontext.decode(body)
        request = upstream(self.protocol).decode_request(wire, Losses())
        self.requests.append(request)
        stream = bool(wire.get("stream")) or "stream" in scope["path"]
        await replies(self.protocol, self.parts(request), stream).send(give)

    def parts(self, request: Request) -> tuple[AnyPart, ...]:
        said = max((i for i, each in enumerate(request.messages) if each.role == "assistant"), default=-1)
        parts = [part for message in request.messages[said + 1 :] for part in message.parts]
        results = [_text(part) for part in parts if isinstance(part, ToolResult)]
        called = [
            part.name for message in request.messages for part in message.parts if type(part) is ToolCall
        ]
        if results and called[-1] != "ToolSearch":
            return (Text(f"FINAL: {' '.join(results)[:2000]} [page]({self.page})"),)
        for tool in request.tools:
            if isinstance(tool, ToolDeclaration) and (call := self._call(tool)):
                return (Text("Let me look. "), call)
        if any(tool.name == "ToolSearch" for tool in request.tools):
            return (
                ToolCall(
                    f"call_{len(request.messages)}",
                    "ToolSearch",
                    jsontext.dumps({"query": f"select:{self.wanted}"}),
                ),
            )
        read = FOUND in jsontext.dumps([part.text for part in parts if isinstance(part, Text)])
        return (Text(f"FINAL: {FOUND}" if read else "FINAL: nothing"),)

    def _call(self, tool: ToolDeclaration) -> ToolCall | None:
        match tool.name.rpartition("__")[2]:
            case "web_search" | "WebSearch" | "google_web_search" if self.wanted == "WebSearch":
                return ToolCall("call_s", tool.name, jsontext.dumps(SEARCH))
            case "run" if "web" in tool.name + tool.namespace:
                asked = {"search_query": [{"q": SEARCH["query"]}]}
                return ToolCall("call_s", tool.name, jsontext.dumps(asked), namespace=tool.namespace)
            case "WebFetch" if self.wanted == "WebFetch":
                asked = {"url": self.secure, "prompt": "How warm is it?"}
                return ToolCall("call_s", tool.name, jsontext.dumps(asked))
            case "exec":
                return ToolCall("call_s", tool.name, jsontext.dumps({"input": IN_JAVASCRIPT}))
            case _:
                return None


def _text(result: ToolResult) -> str:
    return " ".join(part.text for part in result.content if isinstance(part, Text))


class Site:
    """Speaks the API of SearXNG, and has one page."""

    def __init__(self) -> None:
        self.url, self.queries, self.read = "", 0, 0

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        answer = Answer(200, b"<h1>Paris</h1><p>" + FOUND.encode() + b"</p>", content_type="text/html")
        if scope.get("path") == "/search":
            self.queries += 1
            row = {"url": f"{self.url}/paris", "title": "Paris", "content": FOUND}
            answer = Answer(200, jsontext.encode({"results": [row]}))
        await Canned(answer)(scope, receive, give)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"<h1>Paris</h1><p>{FOUND}</p>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def https(folder: Path) -> Iterator[str]:
    """A page at an address with TLS: agents that read pages themselves ask for no other."""
    made = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *made.split(), *names], cwd=folder, check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextmanager
def stands(protocol: str, folder: Path) -> Iterator[tuple[Stand, Model, Site]]:
    site = Site()
    with running(site) as site.url, https(folder) as secure:
        model = Model(protocol, f"{site.url}/paris")
        model.secure = f"{secure}/paris"
        tables = f"""
[models]
"*" = "{protocol}:m"
[hosted.web_search]
backend = "searxng"
url = "{site.url}"
"""
        with running(model) as url, gateway(lacking(protocol, url) + tables) as stand:
            yield stand, model, site


def claude(url: str, home: Path) -> Command:
    quiet = [f"DISABLE_{what}" for what in ("TELEMETRY", "AUTOUPDATER", "ERROR_REPORTING")]
    quiet += ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "IS_SANDBOX"]
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"skipWebFetchPreflight": true}')
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "claude-sonnet-4-5"}
    asked = ["-p", PROMPT, "--dangerously-skip-permissions"]
    return ["claude-code/node_modules/.bin/claude", *asked], {**environ, **dict.fromkeys(quiet, "1")}


def codex(url: str, home: Path, model: str = "mock-model", *switches: str) -> Command:
    provider = "model_providers.dragoman"
    given = (
        "model_provider=dragoman",
        f"{provider}.name=dragoman",
        f"{provider}.base_url={url}/v1",
        f"{provider}.env_key=CODEX_API_KEY",
        f"{provider}.wire_api=responses",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
        *switches,
    )
    (home / ".codex").mkdir()
    program = ["codex/node_modules/.bin/codex", "exec", "--skip-git-repo-check", "-m", model]
    program += [
        "--dangerously-bypass-approvals-and-sandbox",
        *(word for each in given for word in ("-c", each)),
    ]
    environ = {"CODEX_API_KEY": "k", "CODEX_HOME": str(home / ".codex")}
    return [*program, PROMPT], environ


def gemini(url: str, home: Path) -> Command:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(jsontext.dumps(settings))
    asked = ["--yolo", "-m", "gemini-3-pro-preview", "-p", PROMPT]
    return ["gemini-cli/node_modules/.bin/gemini", *asked], {
        "GEMINI_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": url,
    }


STANDALONE = "model_providers.dragoman.supports_standalone_web_search=true"
AGENTS: dict[str, Any] = {
    "claude": claude,
    "codex": codex,
    "codex-standalone": lambda url, home: codex(
        url, home, "mock-model", STANDALONE, "features.standalone_web_search=true"
    ),
    "codex-gpt-5.6": lambda url, home: codex(url, home, "gpt-5.6", STANDALONE),
    "gemini": gemini,
    "claude-fetch": claude,
}


def run(folder: Path, name: str, protocol: str) -> bool:
    with tempfile.TemporaryDirectory() as home, stands(protocol, Path(home)) as (stand, model, site):
        command, environ = AGENTS[name](stand.url, Path(home))
        model.wanted = "WebFetch" if name.endswith("-fetch") else "WebSearch"
        environ["NODE_EXTRA_CA_CERTS"] = f"{home}/cert.pem"
        node = folder / "node22" / "node_modules" / "node" / "bin"
        environ |= {"PATH": f"{node}{os.pathsep}/usr/local/bin:/usr/bin:/bin", "HOME": home, "TERM": "dumb"}
        environ |= {"NO_COLOR": "1", "NO_PROXY": "*", "no_proxy": "*", "LANG": "C.UTF-8"}
        limited = ["timeout", "60", str(folder / command[0]), *command[1:]]
        options: Any = {"env": environ, "cwd": home, "stdin": subprocess.DEVNULL, "check": False}
        done = subprocess.run(limited, capture_output=True, text=True, **options)
        print(f"{name} over {protocol}: ", end="")
        if done.returncode == 0 and "FINAL" in done.stdout and FOUND in done.stdout:
            print(f"ok, {site.queries} searches, {len(model.requests)} requests of the model")
            return True
        print(f"FAILED ({done.returncode})\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        for request in model.requests:
            print(
                [tool.name for tool in request.tools], [type(p).__name__ for p in request.messages[-1].parts]
            )
        for line in stand.lines[-10:]:
            print(line[:600])
        return False


def main() -> int:
    folder, names = Path(sys.argv[1]).absolute(), sys.argv[2:] or [*AGENTS]
    if not folder.exists():
        print(f"searching: no agents in {folder}; nothing was run")
        return 0
    done = [run(folder, name, protocol) for name in names for protocol in UPSTREAMS]
    print(f"{sum(done)} of {len(done)} cycles")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
