"""Each extra alone, as users install it: a wheel in an environment of its own runs what its page names.

The packages come from the package index, in the versions of constraints.txt. Where there is no index, the
tests are skipped with that reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from waiting import LONG, wait_until

ROOT = Path(__file__).parents[2]
REQUEST = '{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}'
TRANSLATE = ("dragoman translate request --from anthropic --to gemini -", REQUEST, '"contents"')
MODELS = ("dragoman models", "", "demo:*")
ASK = ("dragoman ask hello --model demo:any", "", "You said: hello")
AGENT = (
    "python -c",
    """
from dragoman import run, tool

@tool
def get_weather(city: str) -> str:
    "The weather of a city."
    print("asked for", city)
    return "sunny"

done = run("What is the weather in Oslo?", "demo:any", tools=[get_weather])
print(done.content)
""",
    "asked for",
)
TERMINAL = [
    ASK,
    ("dragoman ask --model demo:any --schema city", "A city?", '"city"'),
    ("dragoman chat -m demo:any", "hello\n/exit\n", "You said: hello"),
    ("dragoman many in.jsonl out.jsonl --model demo:any", "", ""),
    MODELS,
]
MCP = """
import asyncio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
import sys

async def main():
    server = StdioServerParameters(command=sys.executable, args=["-m", "dragoman", "mcp"])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        print(*(tool.name for tool in (await session.list_tools()).tools))

asyncio.run(main())
"""
STORE = (
    "python -c",
    "import asyncio\nfrom dragoman.gateway.conversations.store import StoreError\n"
    "from dragoman.gateway.conversations.store import open_store\n"
    "async def main():\n"
    "    try: await open_store('postgresql://me@127.0.0.1:9/x').get('me', 'a')\n"
    "    except StoreError as error: print('StoreError', error)\n"
    "asyncio.run(main())",
    "StoreError",
)
DATASET = (
    "dragoman dataset translate rows.jsonl out --from sharegpt --to anthropic",
    "",
    "1 row, 0 with an error",
)
REPLIES = (
    "python -c",
    "from dragoman.datasets import generate\nprint(generate([{'prompt': 'hello'}], 'demo:any')['content'])",
    "You said: hello",
)
LITELLM = "model_list: [{model_name: fast, litellm_params: {model: groq/llama-3.3-70b-versatile}}]\n"
IMPORT = ("dragoman import litellm config.yaml", "", 'fast = "groq:llama-3.3-70b-versatile"')
# A profile of AWS's own tools
AWS = (
    "python -c",
    """
import os, pathlib
pathlib.Path("aws").write_text("[default]\\naws_access_key_id = ID\\naws_secret_access_key = SECRET\\n")
os.environ.update(AWS_SHARED_CREDENTIALS_FILE="aws", AWS_EC2_METADATA_DISABLED="true")
from dragoman.protocols.aws import chain
print(chain("eu-west-1")().id)
""",
    "ID",
)
# The metadata server of a machine at Google
VERTEX = (
    "python -c",
    """
import http.server, json, os, threading

class Metadata(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = {"access_token": "TOKEN", "expires_in": 3600, "token_type": "Bearer"}
        answers = {"token": json.dumps(token), "project-id": "p"}
        path = self.path.partition("?")[0].rstrip("/").rpartition("/")[2]
        body = answers.get(path, '{"email": "me@p", "scopes": []}').encode()
        self.send_response(200)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "text/plain" if path == "project-id" else "application/json")
        self.end_headers()
        self.wfile.write(body)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"127.0.0.1:{server.server_port}"
os.environ.update(GCE_METADATA_HOST=host, GCE_METADATA_IP=host, HOME=os.getcwd())
from dragoman.core.credentials import Credential
from dragoman.protocols.google_cloud import refresh
print(refresh(Credential(), {}, {})().token)
""",
    "TOKEN",
)
RAY = (
    "python -c",
    """
import ray.data
from dragoman.datasets import ray as maps
rows = ray.data.from_items([{"messages": '[{"role": "user", "content": "hello"}]'}])
print(maps.translate(rows, "openai-chat", "anthropic", "messages").take_all()[0]["body"])
ray.shutdown()
""",
    '"content":"hello"',
)
HOSTED = ("dragoman check --config hosted.toml", "", "would listen on")
# Extras -> (words, standard input or the program, what stdout has). `SERVE` starts a gateway and asks it.
SERVE = ("dragoman serve", "", "")
EXTRAS: dict[str, list[tuple[str, str, str]]] = {
    "": [
        TRANSLATE,
        ("dragoman demo", "", "each result went back under the id of its call"),
        ("dragoman check", "", "would listen on"),
    ],
    "cli": [TRANSLATE, ("dragoman demo --all", "", "25 of 25 pairs")],
    "client": [AGENT, *TERMINAL],
    "cli,client": [AGENT, *TERMINAL],
    "datasets": [DATASET, REPLIES],
    "mcp": [AGENT, ("python -c", MCP, "read_file"), (f"{ASK[0]} --mcp x=dragoman\\ mcp", "", ASK[2])],
    "gateway": [MODELS, ("dragoman check", "", "would listen on"), SERVE],
    "gateway,import": [IMPORT, SERVE],
    "gateway,hosted": [HOSTED, SERVE],
    "gateway,postgres": [STORE, SERVE],
    "gateway,otel": [SERVE],
    "gateway,aws": [AWS, SERVE],
    "gateway,vertex": [VERTEX, SERVE],
    "ray": [DATASET, RAY],
    "all": [TRANSLATE, *TERMINAL, AGENT, SERVE],
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


class Environment:
    """A virtual environment with nothing but what was installed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder / "venv", folder / "work"
        self.work.mkdir()
        (self.work / "in.jsonl").write_text('{"prompt": "hello"}\n')
        (self.work / "rows.jsonl").write_text('{"conversations": [{"from": "human", "value": "hello"}]}\n')
        (self.work / "config.yaml").write_text(LITELLM)
        (self.work / "hosted.toml").write_text(
            '[hosted.web_search]\nbackend = "searxng"\nurl = "http://127.0.0.1:9"\n'
        )
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder], check=True)
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        places = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "XDG_CONFIG_HOME": str(folder / "config")}
        self.environ = {**kept, **places, "XDG_DATA_HOME": str(folder / "data")}
        self.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"

    def install(self, what: str) -> subprocess.CompletedProcess[str]:
        uv, python = shutil.which("uv"), str(self.folder / "bin/python")
        pip = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "--python", python, "install"]
        more = ["--python", python] if uv else ["--no-input", "--disable-pip-version-check"]
        command = [*pip, "--quiet", *more, "-c", str(ROOT / "constraints.txt"), what]
        return subprocess.run(command, cwd=self.work, capture_output=True, text=True)

    def run(self, words: str, given: str) -> subprocess.CompletedProcess[str]:
        command = [part.replace("\\ ", " ") for part in re.split(r"(?<!\\) ", words)]
        if command[0] == "python":
            command, given = [*command, given], ""
        return subprocess.run(
            command, cwd=self.work, env=self.environ, input=given, capture_output=True, text=True
        )

    def serve(self) -> str:
        """Start a gateway, and ask it once; its log."""
        log = self.work / "log"
        with log.open("w") as out:
            gateway = subprocess.Popen(
                ["dragoman", "serve", "--port", "0"], cwd=self.work, env=self.environ, stdout=out, stderr=out
            )
        try:
            wait_until(lambda: "listens on http" in log.read_text() or gateway.poll() is not None)
            found = re.search(r"listens on (\S+)", log.read_text())
            assert found, log.read_text()
            ask = urllib.request.Request(
                f"{found[1]}/v1/messages", REQUEST.encode(), {"content-type": "application/json"}
            )
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            assert b"You said: hi" in opener.open(ask, timeout=LONG).read()
            return log.read_text()
        finally:
            gateway.kill()
            gateway.wait()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    fresh = Environment(tmp_path)
    if (tried := fresh.install("click")).returncode:
        pytest.skip(f"no package index here: {tried.stderr.strip().splitlines()[-1]}")
    return fresh


@pytest.mark.parametrize("extras", EXTRAS, ids=lambda extras: extras or "none")
def test_what_its_page_names(environment: Environment, wheel: Path, extras: str) -> None:
    installed = environment.install(f"{wheel}[{extras}]" if extras else str(wheel))
    assert installed.returncode == 0, installed.stderr
    for step in EXTRAS[extras]:
        if step is SERVE:
            log = environment.serve()
            assert ("no traces are sent" in log) == (not {"otel", "all"} & {*extras.split(",")}), log
            continue
        words, given, expected = step
        ran = environment.run(words, given)
        assert ran.returncode == 0, (words, ran.stderr)
        assert expected in ran.stdout, (words, ran.stdout, ran.stderr)
