"""`dragoman check` and `dragoman models`: what would be served, and what can be asked for."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman.cli import main
from dragoman.profiles import known

FILE = """
[providers.near]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
dialect = "hermes"
models = ["one"]
[models]
"claude-*" = ["near:a", "groq:b"]
small = "near:c"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a command in a directory and an environment where nothing is said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for provider in known().values():
        for variable in (provider.key_env, *provider.other_key_envs):
            monkeypatch.delenv(variable, raising=False)

    def invoke(*arguments: str, file: str = "", **variables: str) -> Result:
        if file:
            Path("dragoman.toml").write_text(file)
            monkeypatch.setenv("DRAGOMAN_CONFIG", "dragoman.toml")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(main, list(arguments))

    return invoke


def test_check_without_anything(run: Any):
    result = run("check")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "no configuration file: no mistakes",
        "would listen on 127.0.0.1:8787 (loopback only: no keys are set)",
        "No API key found. The built-in demo model answers (scripted, and it does call tools).",
    ]


def test_check_says_what_would_be_served(run: Any):
    result = run("check", file=FILE, GROQ_API_KEY="gsk-hush", DRAGOMAN_SERVER__KEYS="hush")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "dragoman.toml: no mistakes",
        "would listen on 127.0.0.1:8787 (clients need a key)",
        "provider     near: openai-chat at http://127.0.0.1:9/v1, tool calls as hermes",
        "provider     groq: openai-chat at https://api.groq.com/openai/v1, key found",
        "model        claude-* → near:a, groq:b",
        "model        small → near:c",
    ]


def test_check_names_a_mistake(run: Any):
    result = run("check", file=FILE.replace("dialect", "dialekt"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "dragoman: dragoman.toml:5: providers.near.dialekt: Unknown key 'dialekt'. Did you mean 'dialect'?\n"
    )


def test_check_names_all_mistakes_at_once(run: Any):
    result = run("check", file=FILE.replace("dialect", "dialekt") + 'other = "gorq:x"\n')
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "dragoman: dragoman.toml:5: providers.near.dialekt: Unknown key 'dialekt'. Did you mean 'dialect'?",
        "dragoman: dragoman.toml:10: models.other: Unknown provider 'gorq'. Did you mean 'groq'?",
    ]


def test_check_names_a_model_that_nobody_answers_for(run: Any):
    result = run("check", file='[models]\na = "groq:x"\nb = ["groq:y", "demo:z"]\n')
    assert result.exit_code == 1
    assert result.stderr == "a cannot be served: groq:x has no key. Set GROQ_API_KEY.\n"
    assert "no mistakes" not in result.stdout


def test_check_names_models_without_a_price_for_keys_with_dollars(run: Any):
    near = '[providers.near]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    rows = (
        '[models]\na = "near:x"\nb = { to = "near:y", price = { input = 1, output = 2 } }\nc = "ollama:z"\n'
    )
    result = run("check", file=near + rows + '[keys.ann]\nkey = "k"\nusd_per_day = 1\n')
    assert result.exit_code == 1
    problem = "no key with a budget in dollars may use it, because nobody knows the price of near:x"
    assert result.stderr.startswith(f"a: {problem}. Write a = {{ to = …, price = {{ input = ")
    assert result.stderr.count("\n") == 1


LIMITED = """
[keys.ann]
key = "hush"
models = ["a", "b-*"]
usd_per_month = 20
expires = 2027-01-31
[keys.ann.budgets."b-*"]
tokens_per_day = 1000
[keys.ben]
key = "also-hush"
[hosted.web_search]
backend = "searxng"
url = "http://127.0.0.1:8888"
[hosted.web_fetch]
"""


def test_check_prints_keys_and_hosted_tools(run: Any):
    result = run("check", file=LIMITED)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[3:] == [
        "key          ann: models a b-*, $20 a month, b-*: 1000 tokens a day, until 2027-02-01 00:00 UTC",
        "key          ben: no limit",
        "hosted       web_search by searxng at http://127.0.0.1:8888",
        "hosted       web_fetch of public addresses",
    ]


# What `serve` would refuse only after it listens -> the message, without the file
AT_START = {
    "an unknown backend": (
        '[hosted.web_search]\nbackend = "serxng"',
        ":1: hosted.web_search: Unknown search backend 'serxng'. Did you mean 'searxng'?",
    ),
    "a backend without its address": (
        '[hosted.web_search]\nbackend = "searxng"',
        ':1: hosted.web_search: SearXNG needs url, its address, such as "http://127.0.0.1:8888"',
    ),
    "a backend without its key": (
        '[hosted.web_search]\nbackend = "brave"',
        ':1: hosted.web_search: Brave needs api_key, such as "env:BRAVE_API_KEY"',
    ),
    "a server that nobody describes": (
        '[hosted.web_search]\nbackend = "mcp:foo"',
        ":1: hosted.web_search: There is no MCP server 'foo'. Describe it in [hosted.mcp.servers.foo].",
    ),
    "a certificate that is not there": (
        '[server]\ntls_cert = "a.pem"\ntls_key = "b.pem"',
        ":2: server.tls_cert: tls_cert and tls_key cannot be used: no such file or directory",
    ),
    "a log in a folder that is not there": (
        '[log]\nfile = "no/x.log"',
        ":2: log.file: There is no folder no.",
    ),
    "recordings that are a folder": (
        '[inspector]\nenabled = true\nkeep = 9\npath = "."',
        ":4: inspector.path: That is a folder. Name a file.",
    ),
}


@pytest.mark.parametrize("file, problem", AT_START.values(), ids=AT_START)
def test_check_finds_what_a_start_would_refuse(run: Any, file: str, problem: str):
    result = run("check", file=file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"dragoman: dragoman.toml{problem}\n"


def test_check_names_what_a_start_refuses_all_at_once(run: Any):
    result = run("check", file='[server]\nhost = "0.0.0.0"\n[hosted.web_search]\nbackend = "brave"\n')
    assert [line.split(": ")[1:3] for line in result.stderr.splitlines()] == [
        ["dragoman.toml:2", "server.host"],
        ["dragoman.toml:3", "hosted.web_search"],
    ]


def test_check_says_that_mcp_needs_its_extra(run: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = run("check", file="[hosted.mcp]\n")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "dragoman: dragoman.toml:1: hosted.mcp: mcp is not installed: python -m pip "
    )


def test_check_fails_beside_a_file_that_is_not_trusted(run: Any):
    Path("dragoman.toml").write_text("this = is not [toml")
    result = run("check")
    assert result.exit_code == 1
    assert result.stdout.startswith("dragoman.toml is not trusted\n")
    assert "use it with `dragoman trust` or --config dragoman.toml" in result.stderr


@pytest.mark.parametrize("host, code", [("127.0.0.1", 0), ("0.0.0.0", 1)])
def test_check_names_a_key_that_strangers_can_guess(run: Any, host: str, code: int):
    keys = f'keys = ["{"k" * 32}"]\n[keys.ann]\nkey = "short-and-secret"\n[keys.ben]\nkey = "hush"\n'
    result = run("check", file=f'[server]\nhost = "{host}"\n{keys}')
    assert result.exit_code == code
    assert ("a client key has fewer than 16 characters" in result.stderr) == (code == 1)
    assert "hush" not in result.output


def test_a_file_may_begin_with_a_mark(run: Any):
    result = run("check", file="\ufeff[server]\nport = 9000\n")
    assert "127.0.0.1:9000" in result.stdout


def test_models_without_anything(run: Any):
    result = run("models")
    assert result.exit_code == 0
    local, rest = result.stdout.splitlines()
    assert local.startswith("ollama:*, ")
    assert "demo:*" in local
    assert rest == "any other name  → demo"


def test_models_of_a_configuration(run: Any):
    result = run("models", file=FILE, GROQ_API_KEY="k")
    assert result.stdout.splitlines()[:5] == [
        "claude-*  → near:a, groq:b",
        "small     → near:c",
        "near:*",
        "  near:one",
        "groq:*",
    ]
    assert "any other name" not in result.stdout


FACTS = """[providers.anthropic]
api_key = "k"
models = ["claude-sonnet-4-5"]
[models]
prod = { to = "ollama:qwen3-coder", context_window = 32_000 }
"""


def test_models_shows_window_output_and_capabilities(run: Any):
    assert run("models", file=FACTS).stdout.splitlines()[:3] == [
        "prod  → ollama:qwen3-coder  32k window, 65k output, tools, no images",
        "anthropic:*",
        "  anthropic:claude-sonnet-4-5  200k window, 64k output, $3 in, $15 out, images, tools, reasoning",
    ]


def test_models_shows_every_fact_of_one(run: Any):
    lines = run("models", "prod", file=FACTS).stdout.splitlines()
    assert lines[:3] == ["ollama:qwen3-coder", "  context_window = 32000", "  max_output = 65536"]
    assert "  images = False" in lines


def test_models_of_one_provider(run: Any):
    assert run("models", "demo").stdout == "demo:demo\n"


def test_known_prices_without_the_network(run: Any):
    assert (
        "anthropic:claude-sonnet-4-5  200k window, 64k output, $3 in, $15 out"
        in run("models", "--prices").stdout
    )
    lines = run("models", "--prices", "groq").stdout.splitlines()
    assert lines
    assert all(line.startswith("groq:") for line in lines)
    assert run("models", "--prices", OPENAI_API_KEY="k").stdout.startswith("openai:")
    assert run("models", "--prices", "nobody").exit_code == 2


def test_prices_of_the_configuration_win(run: Any):
    file = '[providers.anthropic]\napi_key = "k"\n[providers.anthropic.profiles."claude-*"]\n'
    result = run("models", "anthropic:claude-sonnet-4-5", file=file + "price = { input = 1, output = 2.5 }\n")
    assert "  price = input 1, output 2.5\n" in result.stdout


# path: (header, its value, list)
LISTS: dict[str, tuple[str, str, Any]] = {
    "/v1/models": (
        "authorization",
        "Bearer k",
        {"data": [{"id": "gpt-a"}, {"id": "gpt-b"}, {"no": "id"}]},
    ),
    "/llama/models": (  # llama.cpp says it twice, in Ollama's words and in OpenAI's
        "authorization",
        "Bearer k",
        {
            "models": [{"name": "here.gguf", "model": "here.gguf"}],
            "object": "list",
            "data": [{"id": "here.gguf"}],
        },
    ),
    "/bare/models": ("authorization", "Bearer k", [{"id": "together-a"}]),
    "/anthropic/v1/models?limit=1000": ("x-api-key", "k", {"data": [{"id": "claude-a"}]}),
    "/google/v1beta/models?pageSize=1000": (
        "x-goog-api-key",
        "k",
        {"models": [{"name": "models/gem-a"}]},
    ),
}


class Lists(BaseHTTPRequestHandler):
    """The model lists of three protocols; each wants its own key."""

    def do_GET(self) -> None:
        header, value, body = LISTS.get(self.path, ("", "", None))
        known = body is not None and self.headers.get(header) == value
        data = json.dumps(body if known else {"error": {"message": "who are you?"}}).encode()
        self.send_response(200 if known else 401)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def live(url: str) -> str:
    rows = [
        ("my-chat", "openai-chat", "/v1", "k"),
        ("my-llama", "openai-chat", "/llama", "k"),
        ("my-bare", "openai-chat", "/bare", "k"),
        ("my-responses", "openai-responses", "/v1", "k"),
        ("my-anthropic", "anthropic", "/anthropic", "k"),
        ("my-google", "gemini", "/google", "k"),
        ("my-locked", "openai-chat", "/v1", "wrong"),
    ]
    tables = [
        f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{url}{path}"\napi_key = "{key}"\n'
        for name, protocol, path, key in rows
    ]
    return "".join(tables) + '[providers.my-gone]\nprotocol = "gemini"\nbase_url = "http://127.0.0.1:1"\n'


def test_live_lists_are_asked_of_each_provider(run: Any, upstream: str):
    result = run("models", "--live", file=live(upstream))
    assert result.exit_code == 1
    ours = [line for line in result.stdout.splitlines() if line.startswith("my-")]
    assert ours == [
        "my-chat:gpt-a",
        "my-chat:gpt-b",
        "my-llama:here.gguf",
        "my-bare:together-a",
        "my-responses:gpt-a",
        "my-responses:gpt-b",
        "my-anthropic:claude-a",
        "my-google:gem-a",
    ]
    assert "my-locked: who are you?\n" in result.stderr
    assert re.search(r"^my-gone: .*127\.0\.0\.1:1", result.stderr, re.MULTILINE)
    assert result.stderr.count("\n") == 2


def test_models_of_a_provider_without_its_key(run: Any):
    result = run("models", "groq")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'groq' is a provider. Name a model of it: groq:MODEL. Set GROQ_API_KEY first." in result.stderr


def test_what_is_known_of_a_model_without_its_key(run: Any):
    result = run("models", "anthropic:claude-sonnet-4-5")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "anthropic:claude-sonnet-4-5")
    assert "  context_window = 200000" in result.stdout
    assert result.stderr == "Provider 'anthropic' has no key. Set ANTHROPIC_API_KEY to use it.\n"


def test_a_name_that_only_the_demo_answers_to(run: Any):
    assert run("models", "nope").stdout.startswith("demo:nope  (scripted model)\n")
